"""Every way in which a function cannot be traced says what, where and what to do instead."""
import ast
import functools
import inspect
import math
import random
import threading
from pathlib import Path

import numpy as np
import pytest

import pyxla
from pyxla._cures import OTHERWISE, cure_of

X = np.arange(12.0).reshape(3, 4)
G = np.ones((3, 4))


def branch(x):
    return x if x[0, 0] > 0 else -x


def store_captured(x):
    G[0] = x[0]
    return x


def store_captured_by_numpy(x):
    G[0] = 5.0
    return x


def add_captured(x):
    global G
    G += x
    return x


DATA = [
    (branch, "bool() needs a value", "np.where"),
    (lambda x: not (x > 0), "bool() needs a value", "np.logical_not"),
    (lambda x: float(x[0, 0]), "float() needs a value", "astype(float)"),
    (lambda x: int(x.sum()), "int() needs a value", "the result of reduce_sum(float64(3,4))"),
    (lambda x: math.gamma(x[0, 0]), "float() needs a value", "np functions"),
    (lambda x: list(range(x[0, 0].astype(int))), "a range", "Python int argument"),
    (lambda x: [1, 2][x[0, 0].astype(int)], "an index", "int64()"),
    (lambda x: complex(x[0, 0]), "complex() needs a value", "astype(complex)"),
    (lambda x: f"{x[0, 0]:.3f}", "a format", "outside"),
    (lambda x: {x[0, 0]: 1}, "a hash", "Python number"),
    (lambda x: x.tolist(), "needs a value", "outside"),
    (store_captured, "a store into a captured array", "pass the array as an argument"),
    (store_captured_by_numpy, "a store into a captured array", "pass the array as an argument"),
    (add_captured, "a store into a captured array", "pass the array as an argument"),
    (lambda x: np.add(x, 1, out=G), "a store into a captured array", "pass the array as an argument"),
]
UNSUPPORTED = [
    (lambda x: np.array2string(x), "numpy.array2string", "format it outside"),
    (lambda x: np.may_share_memory(x, x), "numpy.may_share_memory", "ask outside"),
    (lambda x: x.flags, "ndarray.flags", "any memory layout"),
    (lambda x: np.add(x, 1, where=x > 1), "where= of a ufunc without out=", "np.where"),
]


@pytest.mark.parametrize(("f", "what", "cure"), DATA, ids=range(len(DATA)))
def test_data(f, what, cure):
    with pytest.raises(pyxla.TraceError) as e:
        pyxla.jit(f)(X)
    assert what in str(e.value)
    assert cure in str(e.value)
    line = inspect.getsourcelines(f)[1] + (len(inspect.getsourcelines(f)[0]) > 1)       # the functions above fail in their first line
    assert f"(at {__file__}:{line + (f is add_captured)}, in {f.__name__})" in str(e.value)
    assert np.array_equal(G, np.ones((3, 4)))


@pytest.mark.parametrize(("f", "what", "cure"), UNSUPPORTED, ids=range(len(UNSUPPORTED)))
def test_unsupported(f, what, cure):
    with pytest.raises(pyxla.UnsupportedError) as e:
        pyxla.jit(f)(X)
    assert what in str(e.value)
    assert cure in str(e.value)
    assert f"{__file__}:{f.__code__.co_firstlineno}" in str(e.value)


NUMPY = [
    (lambda x: x + np.ones(5), ValueError, "operands could not be broadcast together with shapes (3,4) (5,)"),
    (lambda x: x[5], IndexError, "index 5 is out of bounds for axis 0 with size 3"),
    (lambda x: x[0, 0, 0], IndexError, "too many indices for array: array is 2-dimensional, but 3 were indexed"),
    (lambda x: x.__setitem__(0, np.ones(3)), ValueError, "could not broadcast input array from shape (3,) into shape (4,)"),
    (lambda x: x.__iadd__(np.ones((2, 3, 4))), ValueError, "non-broadcastable output operand with shape (3,4) doesn't match the broadcast shape (2,3,4)"),
    (lambda x: (x > 0) - (x < 0), TypeError, "numpy boolean subtract"),
    (lambda x: x.astype(int).__iadd__(1.5), TypeError, "Cannot cast ufunc 'add' output from dtype('float64') to dtype('int64')"),
    (lambda x: x.astype(np.uint8) + 300, OverflowError, "Python integer 300 out of bounds for uint8"),
    (lambda x: x.astype(int) ** -1, ValueError, "Integers to negative integer powers are not allowed."),
    (lambda x: np.broadcast_to(x[0], (3, 4)).__setitem__(0, 1), ValueError, "read-only"),
    (lambda x: len(x.sum()), TypeError, ""),
    (lambda x: list(x.sum()), TypeError, ""),
    (lambda x: {x: 1}, TypeError, "unhashable type"),
    (lambda x: x.nonsense, AttributeError, "nonsense"),
    (lambda x: x.reshape(5, -1), ValueError, "cannot reshape array of size 12 into shape (5,"),
]


@pytest.mark.parametrize(("f", "kind", "text"), NUMPY, ids=range(len(NUMPY)))
def test_as_numpy(f, kind, text):
    with pytest.raises(kind):
        f(X.copy())
    with pytest.raises(kind) as e:
        pyxla.jit(f)(X.copy())
    assert text in str(e.value)


OPERATIONS = [
    (lambda x: x + np.ones(5), "in add(float64(3,4), float64(5,))"),
    (lambda x: x & 1, "in bitwise_and(float64(3,4), 1)"),
    (lambda x: x @ np.ones((3, 3), "f4"), "in matmul(float64(3,4), float32(3,3))"),
    (lambda x: np.concatenate([x, x[0]]), "in numpy.concatenate([float64(3,4), float64(4,)], 0)"),
    (lambda x: x.reshape(5, 5), "in ndarray.reshape(float64(3,4), 5, 5)"),
    (lambda x: x.sum(axis=5), "in ndarray.sum(float64(3,4), 5)"),
    (lambda x: np.linalg.inv(x), "in numpy.linalg.inv(float64(3,4))"),
    (lambda x: np.fft.fft(x, 0), "in numpy.fft.fft(float64(3,4), 0)"),
    (lambda x: np.where(x > 0, x, np.ones(7)), "in numpy.where(bool(3,4), float64(3,4), float64(7,))"),
    (lambda x: x[[0, 7]], "in ndarray.__getitem__(float64(3,4), [0, 7])"),
    (lambda x: np.zeros(-1), "in numpy.zeros(-1, dtype('float64'), 'C')"),
    (lambda x: x.astype("S3"), "in ndarray.astype(float64(3,4), dtype('S3')"),
    (lambda x: np.add(x, x, casting="no", dtype="f4"), "Cannot cast ufunc 'add' input 0 from dtype('float64') to dtype('float32')"),
    (lambda x: x + None, "unsupported operand type(s) for +"),
    (lambda x: x[x > 0][0] if len(x[x > 0]) else 0, "use x.shape[0]"),
    (lambda x: setattr(x, "shape", (4, 3)), "write x = x.reshape(...)"),
    (lambda x: setattr(x, "dtype", "i8"), "x.astype(dtype)"),
]


I, N, S = np.array([0, 7]), np.array([-1, 2]), np.zeros((8, 8))
IN_THE_RUN = [
    (lambda x, i: x[i], X, I, "ndarray.__getitem__(float64(3,4), int64(2,)); indices of an axis of n"),
    (lambda x, i: x[:, i[1]], X, I, "ndarray.__getitem__(float64(3,4), (:, int64())); indices"),
    (lambda x, i: x[x > 3][i], X, I + 90, "ndarray.__getitem__(float64(?,), int64(2,)); indices"),
    (lambda x, i: G[i], X, I, "ndarray.__getitem__(float64(3,4), int64(2,)); indices"),
    (lambda x, i: x.__setitem__(i, 1.0), X, I, "ndarray.__setitem__(float64(3,4), int64(2,), 1.0); indices"),
    (lambda x, i: np.take(x, i, axis=1), X, I, "ndarray.take(float64(3,4), int64(2,), 1, None, 'raise'); indices"),
    (lambda x, i: np.add.at(x, i, 1.0), X, I, "add.at(float64(3,4), int64(2,), 1.0); indices"),
    (lambda x, i: np.add.reduceat(x, i), X, I, "add.reduceat(float64(3,4), int64(2,)); indices"),
    (lambda x, i: 2 ** i, X, N, "power(2, int64(2,)); cast the base"),
    (lambda x, i: x[x > 3] + x[x > 4], X, I, "add(float64(?,), float64(?,)); make the sizes agree"),
    (lambda x, i: np.vstack([x[x > 3], x[x > 4]]), X, I, "numpy.vstack([float64(?,), float64(?,)]); make"),
    (lambda x, i: np.einsum("i,i", x[x > 3], x[x > 4]), X, I, "numpy.einsum(float64(?,), float64(?,)); make"),
    (lambda x, i: x[x > 99].max(), X, I, "(`reduce_max` of float64(0,))"),
    (lambda x, i: np.argmin(x[x > 99]), X, I, "(`reduce_argmin` of float64(0,))"),
    (lambda x, i: np.linalg.inv(x), S, I, "numpy.linalg.inv(float64(8,8)); use np.linalg.lstsq"),
    (lambda x, i: np.linalg.inv(x[:3, :3]), S, I, "numpy.linalg.inv(float64(3,3)); use np.linalg.lstsq"),
    (lambda x, i: np.linalg.cholesky(x), S, I, "numpy.linalg.cholesky(float64(8,8)); add"),
    (lambda x, i: np.linalg.svd(x), np.full((8, 8), np.nan), I, "numpy.linalg.svd(float64(8,8), True, True); look for NaN"),
    (lambda x, i: np.bincount(i), X, N, "'list' argument must have no negative elements in numpy.bincount(int64(2,), None, 0); bound them"),
    (lambda x, i: np.repeat(i, i), X, N, "repeats may not contain negative values. in ndarray.repeat(int64(2,), int64(2,), 0); bound"),
    (lambda x, i: np.nanargmax(x), np.full((3, 4), np.nan), I, "numpy.nanargmax(float64(3,4)); fill"),
    (lambda x, i: np.histogram(x, 4), np.full((3, 4), np.nan), I, "autodetected range is not finite in numpy.histogram(float64(12,), 4); give range="),
    (lambda x, i: np.zeros(i[0]), X, N, "numpy.zeros(int64(), dtype('float64'), 'C'); bound"),
    (lambda x, i: np.quantile(x, i), X, I, "numpy.quantile(float64(3,4), int64(2,)); bound it"),
]


@pytest.mark.parametrize(("f", "x", "i", "text"), IN_THE_RUN, ids=range(len(IN_THE_RUN)))
def test_what_fails_in_the_run_names_line_operation_operands_and_cure(f, x, i, text):
    with pytest.raises((IndexError, ValueError, np.linalg.LinAlgError)) as e:
        pyxla.jit(f)(x.copy(), i)
    assert text in str(e.value)
    assert str(e.value).endswith(f"(at {__file__}:{f.__code__.co_firstlineno}, in <lambda>)")
    assert "; " in str(e.value)


NANS = [(lambda x: np.sqrt(x - 5), X, "sqrt(float64(3,4))"), (lambda x: x @ np.zeros((4, 2)), np.full((3, 4), np.inf), "(float64(3,4), float64(4,2))"),
        (lambda x: np.cumsum(x), np.array([np.inf, -np.inf]), "cumsum(float64(2,))"), (lambda x: np.linalg.inv(x), S + np.inf, "numpy.linalg.inv(float64(8,8))")]


@pytest.mark.parametrize(("f", "x", "text"), NANS, ids=range(len(NANS)))
@pytest.mark.filterwarnings("ignore:invalid value")
def test_the_operation_that_made_a_nan(f, x, text):
    with pytest.raises(FloatingPointError) as e:
        pyxla.jit(f, check_nan=True)(x)
    assert f"{text}; mask such operands" in str(e.value) and f"(at {__file__}:{f.__code__.co_firstlineno}, in <lambda>)" in str(e.value)


WHILE_TRACED = [
    (lambda x: x[5], "in ndarray.__getitem__(float64(3,4), 5); indices of n"),
    (lambda x: x[0, 0, 0], "in ndarray.__getitem__(float64(3,4), (0, 0, 0)); give an index for each axis"),
    (lambda x: x.__setitem__(0, np.ones(3)), "in ndarray.__setitem__(float64(3,4), 0, float64(3,)); make the shapes agree"),
    (lambda x: x + np.ones(5), "in add(float64(3,4), float64(5,)); make the shapes agree"),
    (lambda x: x - "a", "'numpy.ndarray' and 'str' in subtract(float64(3,4), 'a'); cast the operand"),
    (lambda x: np.subtract.accumulate(x.sum()), "in subtract.accumulate(float64()); give it another number of axes"),
    (lambda x: x.astype("u1") + 300, "in add(uint8(3,4), 300); cast the array to a wider dtype"),
    (lambda x: x.reshape(5, 5), "in ndarray.reshape(float64(3,4), 5, 5); keep the number of elements"),
    (lambda x: np.concatenate([x, x[0]]), "in numpy.concatenate([float64(3,4), float64(4,)], 0); make the shapes agree"),
    (lambda x: np.fft.fft(x, 0), "in numpy.fft.fft(float64(3,4), 0); "),
    (lambda x: np.save("q", x), "numpy.save is not supported in a jitted function: numpy.save('q', float64(3,4)); return the array"),
    (lambda x: x.resize(3), "ndarray.resize is not supported in a jitted function: ndarray.resize(float64(3,4), 3); use np.resize"),
    (lambda x: x.nonsense, "in ndarray.nonsense(float64(3,4)); use an attribute"),
    (lambda x: x.sort(axis=9), "in ndarray.sort(float64(3,4), 9) (at "),
    (lambda x: len(x[0, 0]), "in len(float64()); give it"),
    (lambda x: np.tile(x, -1), "in numpy.tile(float64(3,4), (-1,)); give a number that is not below 0"),
    (lambda x: iter([x]), "a result of the jitted function is a list_iterator"),
]


@pytest.mark.parametrize(("f", "text"), OPERATIONS + WHILE_TRACED, ids=range(len(OPERATIONS) + len(WHILE_TRACED)))
def test_what_ends_a_trace_names_line_operation_operands_and_cure(f, text):
    """Also where NumPy's own message has none of them."""
    with pytest.raises(Exception) as e:
        pyxla.jit(f)(X)
    assert text in str(e.value)
    assert f"(at {__file__}:{f.__code__.co_firstlineno}, in <lambda>)" in str(e.value)


def test_a_line_of_a_helper_is_named_and_not_the_function_that_calls_it():
    def row(r):
        return np.take(r, r.astype(int) * 9)

    with pytest.raises(IndexError) as e:
        pyxla.jit(lambda x: np.apply_along_axis(row, 1, x))(X)
    assert f"(at {__file__}:{row.__code__.co_firstlineno + 1}, in row)" in str(e.value) and "ndarray.take(float64(" in str(e.value)


def test_exceptions_of_the_users_own_are_left_alone():
    @pyxla.jit
    def f(x, what):
        if what == "raised":
            raise ValueError("mine")
        if what == "assert":
            raise AssertionError
        return {}[what]

    for what, kind, text in (("raised", ValueError, "mine"), ("assert", AssertionError, ""), ("key", KeyError, "'key'")):
        with pytest.raises(kind) as e:
            f(X, what)
        assert str(e.value) == text and e.traceback[-1].name == "f"


def test_a_caught_error_does_not_end_the_trace():
    @pyxla.jit
    def f(x):
        try:
            x = x + np.ones(5)
        except ValueError:
            x = x + 1
        return x

    assert np.array_equal(f(X), X + 1)


@pytest.mark.parametrize("change", [lambda a: a.flat.__setitem__(0, 1), lambda a: np.add.at(a, 0, 1), lambda a: memoryview(a).__setitem__((0, 0), 9.0),
                                    lambda a: setattr(a, "shape", (4, 3))], ids=range(4))
@pytest.mark.filterwarnings("ignore:Setting the shape")
def test_captured_array_is_changed_by_numpy(change):
    held = [np.zeros((3, 4))]

    def f(x):
        change(held[0])
        return x

    seen = r"not an argument, float64\((3,4|4,3)\), was changed by NumPy|a store into a captured array"
    with pytest.raises(pyxla.TraceError, match=seen):
        pyxla.jit(f)(X)


@pytest.mark.parametrize("draw", [lambda d: d["np"].random(), lambda d: d["py"].random(), lambda d: d["method"](), lambda d: functools.partial(d["py"].random)(),
                                  lambda d: __import__("random").random()], ids=range(5))
def test_random_numbers_of_a_container(draw):
    held = {"np": np.random.default_rng(1), "py": random.Random(1), "k": 2.0, "method": np.random.default_rng(1).random}
    with pytest.raises(pyxla.TraceError, match="drawn once, while tracing"):
        pyxla.jit(lambda x: x * draw(held))(X)
    assert np.array_equal(pyxla.jit(lambda x: x * held["k"])(X), X * 2)
    with pytest.raises(pyxla.TraceError, match="drawn once, while tracing"):
        pyxla.jit(held["method"])()


def test_a_store_into_what_numpy_made_of_numbers():
    def f(x):
        z = np.fromiter([1.0, 2.0], float)
        z[0] = x[0, 0]

    def g(x):
        z = np.fromiter([1.0, 2.0], float)
        z -= x[0, 0]

    for each in (f, g):
        with pytest.raises(pyxla.TraceError, match=r"an array that NumPy made of numbers alone: make it np.array\(...\) of that.*\(at .*test_trace_errors"):
            pyxla.jit(each)(X)


def test_deleted_elements():
    def f(x):
        del x[0]

    for g in (f, lambda x: x.__delitem__(0)):
        with pytest.raises(ValueError, match="cannot delete array elements"):
            pyxla.jit(g)(X)


def test_printing(capsys):
    @pyxla.jit
    def f(x, n):
        print(x, x[0, 0], x[0, 0, None], x[...], n, f"{x}", repr(x.T))
        return x

    f(X, 3)
    assert capsys.readouterr().out == "Tracer(float64[3, 4]) Tracer(float64) Tracer(float64[1]) Tracer(float64[3, 4]) 3 Tracer(float64[3, 4]) Tracer(float64[4, 3])\n"


LEAKS = [lambda x: x + 1, lambda x: np.exp(x), lambda x: x[0], lambda x: x.shape, lambda x: x.sum(), lambda x: bool(x), lambda x: x.__setitem__(0, 1),
         lambda x: pyxla.jit(lambda y: y + x)(X)]


@pytest.mark.parametrize("use", LEAKS, ids=range(len(LEAKS)))
def test_leak(use):
    kept = []
    pyxla.jit(lambda x: (kept.append(x), x)[1])(X)
    assert repr(kept[0]) == "Tracer(of an ended trace)"
    with pytest.raises(pyxla.TraceError, match="leaked"):
        use(kept[0])


def test_other_thread():
    errors = []

    @pyxla.jit
    def f(x):
        def work():
            try:
                x + 1
            except pyxla.TraceError as e:
                errors.append(str(e))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x

    f(X)
    assert "another thread" in errors[0]


def test_op_limit():
    @pyxla.jit
    def f(x):
        for i in range(1_000_000):
            x = x * 1.5 + i
        return x

    with pytest.raises(pyxla.TraceError, match=rf"100000 operations.*{__file__}:{f.__wrapped__.__code__.co_firstlineno + 3}, in f"):
        f(X)


# ---- each of NumPy's exceptions has a cure of its own ----

def text_of(node):
    """The text of a string, with a number in the place of what is put in; None: it is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "3" for v in node.values)
    if isinstance(node, ast.BinOp):
        left, right = text_of(node.left), text_of(node.right)
        return None if left is None else left + (right or "")
    return None


def raised_in(path):
    """(line, message) of NumPy's exceptions that a file raises with a text, its constants included."""
    tree = ast.parse(path.read_text())
    named = {n.targets[0].id: text_of(n.value) for n in ast.walk(tree) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)}
    for n in ast.walk(tree):
        if isinstance(n, ast.Raise) and isinstance(n.exc, ast.Call) and n.exc.args and ast.unparse(n.exc.func).partition(".")[0] != "_core":
            first = n.exc.args[0]
            message = named.get(first.id) if isinstance(first, ast.Name) else text_of(first)
            if message and ast.unparse(n.exc.func).rpartition(".")[2] not in ("unsupported", "refused"):
                yield n.lineno, message


@pytest.mark.parametrize("path", sorted((Path(pyxla.__file__).parent / "_np").glob("*.py")), ids=lambda p: p.stem)
def test_every_message_has_a_cure_of_its_own(path):
    assert [m for m in raised_in(path) if "; " not in m[1] and cure_of(m[1]) == OTHERWISE] == []


CURED = [
    (lambda x: np.einsum("ij->k", x), "letters"), (lambda x: np.concatenate([]) + x, "at least"), (lambda x: np.split(x, 5), "np.array_split"),
    (lambda x: np.linalg.norm(x, "what"), "words"), (lambda x: np.squeeze(x, 0), "extent 1"), (lambda x: np.add.reduce(x, (0, 0)), "each once"),
    (lambda x: np.pad(x, 1, "what"), "words"), (lambda x: np.gradient(x, edge_order=3), "edge_order"), (lambda x: np.fft.fft(x, 0), "n= of 1"),
    (lambda x: np.subtract.reduce(x, (0, 1)), "one axis after the other"), (lambda x: x[..., ...], "once"), (lambda x: np.average(x, weights=x[0]), "weights"),
    (lambda x: np.histogram(x, range=(2, 1)), "low < high"), (lambda x: x + x[:2], "shapes agree"), (lambda x: np.sort(x, kind="what"), "words"),
    (lambda x: round(x), "np.round"),
]


@pytest.mark.parametrize(("f", "cure"), CURED, ids=range(len(CURED)))
def test_cures(f, cure):
    with pytest.raises(Exception) as plain:
        f(X)
    with pytest.raises(type(plain.value)) as e:
        pyxla.jit(f)(X)
    assert cure in str(e.value) and "test_trace_errors.py" in str(e.value), str(e.value)
