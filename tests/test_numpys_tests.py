"""NumPy's own tests as a judge (numpys_judge.py), and calls of theirs that once gave something else when they were jitted, each reduced to a line."""
import importlib.util
import json
import operator
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from checking import OLD, check, check_error

import pyxla

A = np.array([[1, 1], [2, 2], [3, 3]])
X = A * 1.0
ROW = np.ones((1, 3))
BYTES = np.array([1, 1, 2, 3, 4, 4, 4, 5])
SINGLE = BYTES.astype("f4")
SMALL = np.zeros(3, "i1")
ODD = np.array([complex(0, np.inf), complex(np.inf, 1), complex(1, -0.0), 0, -1j])


def stored(a, v, at=0):
    a[at] = v
    return a


CALLS = [
    # one place given as a list: the values' own axis is what is inserted
    (lambda a: np.insert(a, [1], [1, 2, 3], axis=1), A), (lambda a: np.insert(a, 1, [1, 2, 3], axis=1), A), (lambda a: np.insert(a, [1], [[7, 8]], axis=0), A),
    # variances in a complex dtype are complex
    *((lambda a, f=f: (f(a, dtype="c8", axis=1), f(a, dtype="c16")), x) for f in (np.var, np.std) for x in (X, X * 1j)),
    # a single row is turned, but not that of the second operand
    (lambda m: np.cov(m, rowvar=False, ddof=0), ROW), (lambda m: np.cov(m, m[:, :1], rowvar=False, ddof=0), ROW), (lambda m: np.cov(m, rowvar=False, ddof=0), ROW.T),
    # no equations, no right sides
    (lambda a, b: np.linalg.lstsq(a, b, rcond=None)[0], np.zeros((0, 0)), np.zeros((0, 0))),
    # tolerances that are Python's numbers yield
    (lambda x, b: np.isclose(x, b, atol=0, rtol=0.4999999999999999), np.float32(1), 2),
    # ranges of histograms that are arguments, or are so in part
    (lambda x, lo, hi: np.histogram(x, 5, range=(lo, hi)), BYTES, 0, 6), (lambda x, lo, hi: np.histogram(x, 5, range=[lo, hi], density=True), BYTES, 0.5, 6),
    (lambda x: np.histogram(x, 5, range=(0, x.max())), BYTES), (lambda x, lo: np.histogram(x, 5, range=(lo, x.max() + 1)), SINGLE, 1),
    (lambda x, lo, hi: np.histogram(x, 5, range=(lo, hi)), SINGLE, 2, 2), (lambda x, lo, hi: np.histogram(x, 5, (lo, hi)), SINGLE, np.float32(2), np.float64(3)),
    (lambda x, r: np.histogram2d(x, x, (6, 5), range=r), BYTES, [[0, 6], [0, 5]]), (lambda x, n: np.histogram2d(x, x, n), BYTES, 4),
    # a power of 0 with a complex exponent
    (lambda z, w: (z ** w, np.float_power(z, w)), np.zeros(4), np.array([1 + 2j, -1 + 2j, 2j, 0])),
    # no other casts than of the ufunc's own loops, with Python numbers
    (lambda a, b: np.add(a, b, casting="equiv"), 3.0, 4.0), (lambda x: np.add(x, 3, casting="safe"), X), (lambda x, s: np.add(x, 3, subok=s), X, True),
    # whole powers of complex numbers are products, 1, 2 and 3 by themselves
    *((lambda z, e: (z ** e, np.power(z, e)), ODD, e) for e in (1, 2, 3, 4, -2, 1.0, 2.0, 5 + 0j, np.array([1, 2, 3, -1, 6]))),
    *((lambda z, e=e: z ** e, ODD) for e in (1, 3, 4, 5, -3)),
    # shifts and places that are arguments
    (lambda x, s: (np.roll(x, s), np.roll(x, -s, 1), np.roll(x[x > 1], s), np.roll(x, (s, 1), (0, 1))), X, np.uint16(2)), (lambda x: np.roll(x, x[:, 0].argmax()), X),
    (lambda x, s: np.roll(x, s, (0, 1)), X, np.array([1, -1])),
    # lists of numbers, casts, names
    (lambda x: np.trace(x), [[1, 2], [3, 4]]), (lambda x, i, o: i.choose((x, 2.0, 3.0), out=o), np.array([5, 6, 7], "i4"), np.array([0, 1, 2]), np.zeros(3, "i4")),
    (lambda a, b: np.logspace(a, b, 4, base=np.array([2.0, 3]), axis=1), 1, 2), (lambda x: np.fft.rfftn(x, (10, 20, 40), (0, 0, 1)), X),
    (lambda x: np.fft.rfftn(x, (10, 20), (0, 0)), X), (lambda x: np.fft.irfftn(x, (10, 20, 40), (0, 0, 1)), X), (lambda x: (OLD or x[0] == "a", OLD or x[0] != "a", x[0] == None, x == "a"), X[0]), (lambda x: (OLD or x == "a", x != None), np.array(1)),  # noqa: E711
    (lambda x: np.add(x, 1, where=[1, 0, 1], out=np.zeros(3)), X[:, 0]),
    (operator.imatmul, X, X[:2]), (operator.imatmul, X[0], X[:2]), (operator.imatmul, np.ones((2, 2, 2)), np.ones((2, 2))), (lambda i, x: i.choose(x, -x, x * 2), A % 3, X),
    (lambda x: (np.percentile(x, []), np.quantile(x * 1.0, [], axis=0)), A),
    # numbers into integers
    *((stored, SMALL, v) for v in (np.float64(3.7), np.int64(-128), np.float32(127.5), np.array(300), np.uint8(127), -3.7)),
    (lambda a, v: stored(a, v, [0, 1]), SMALL, np.int64(300)), (lambda a, v: np.full(2, v, "i1") + a[:2], SMALL, np.int64(300)),
    (lambda a, v: np.array([v, 2], "i2") + a[:2], SMALL, np.int64(300)), (lambda a, v: np.copyto(a, v, casting="unsafe") or a, SMALL, np.int64(300)),
    # comparisons of two Python ints
    *((lambda a, b, f=f: (f(a, b), f(a, 3)), 3, 4) for f in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)),
]


@pytest.mark.parametrize("call", CALLS)
def test_call(call):
    f, *args = call
    check(f, *args, rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "complex64"])
def test_sinc(dtype):
    check(np.sinc, np.array([0, 1, 2, 3, -4]).astype(dtype), rtol=1e-6, atol=1e-3 if dtype == "float16" else 1e-6)


@pytest.mark.parametrize("method", ["averaged_inverted_cdf", "linear", "weibull", "hazen", "lower", "interpolated_inverted_cdf", "median_unbiased"])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float16"])
def test_dtypes_of_quantiles(method, dtype):
    x = np.arange(8).reshape(4, 2).astype(dtype)
    for q in (1, 0.5, np.float32(0.5), np.array([0.25, 0.5], "f4"), [0, 1], np.array([0, 1], "i4")):
        check(lambda x: (np.quantile(x, q, method=method), np.nanpercentile(x, q, method=method, axis=0)), x, rtol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("terms", ["i,i", "i->", "i,i,i", "i,j->", "i,j,ij"])
@pytest.mark.parametrize("optimize", [False, True, "optimal"])
def test_einsum_without_axes(n, terms, optimize):
    """NumPy gives an array without axes where it multiplies matrices, else a number."""
    operands = [np.ones((n, n) if "ij" in t else n) for t in terms.partition("->")[0].split(",")]
    check(lambda *x: np.einsum(terms, *x, optimize=optimize), *operands)


@pytest.mark.parametrize("f", [
    lambda x: np.nanvar(x, ddof=1, correction=1), lambda x: np.nanmean(x, 1, out=np.zeros(3, bool)), lambda x: np.nanstd(x, dtype=int),
    lambda x: np.unravel_index(1, (2**32, 2**31 + 1)), lambda x: np.ravel_multi_index(([0], [0]), (2**62, 2)), lambda x: np.unravel_index([0], ()),
    lambda x: np.unravel_index([], (3, 2)), lambda x: np.ravel_multi_index(([], []), (3, 2)), lambda x: np.histogram(1 + x * 1e-16, 10), lambda x: np.delete(x, True, 0), lambda x: np.delete(x, [False, True], 0),
    lambda x: np.histogram(x, 5, range=(x.max(), 1)), lambda x: np.histogram(x, 5, range=(1, np.inf * x.max()))])
def test_error(f):
    check_error(f, X)


@pytest.mark.parametrize("f", [stored, lambda a, v: stored(a, v, slice(1, 3)), lambda a, v: stored(a, v, ...), lambda a, v: stored(a, [v, 1, 2], ...),
                               lambda a, v: np.array([v, 2], "i1"), lambda a, v: a.fill(v)])
def test_numbers_that_are_no_integers_of_the_dtype(f):
    """NumPy stores a number as int() makes it; arrays are cast."""
    for v in (np.float64(np.nan), np.float64(np.inf), np.float32(300), np.int64(128), np.int16(-129), np.uint64(2**63), 300, np.nan):
        check_error(f, SMALL, v)


@pytest.mark.parametrize("at", [0, slice(1, 3), ...])
def test_scalars_are_cast_to_unsigned_integers(at):
    """And what is stored into signed ones is checked: as NumPy has it."""
    for v in (np.int64(300), np.int8(-1), np.uint64(2**40), np.float32(77.7)):
        for dtype in ("u1", "u2", "u4", "u8"):
            check(lambda a, v: stored(a, v, at), np.zeros(4, dtype), v)


@pytest.mark.parametrize("at", [[0, 1], np.array([True, False, True])])
def test_python_numbers_at_places(at):
    check_error(lambda a, v: stored(a, v, at), SMALL, np.nan)


@pytest.mark.parametrize("f, args", [
    (lambda x: np.zeros(True) + x, (X,)), (lambda x: np.reshape(x, (True, -1)), (X,)),
    (lambda x: np.vecdot(x, x, axis=[0]), (X,)), (operator.imatmul, (X, X.T[:, :1])), (operator.imatmul, (X[0], X[0])), (operator.imatmul, (X[:2], X[0])), (operator.imatmul, (np.ones((2, 2, 2)), np.ones((1, 2, 1)))),
    (lambda x: stored(x.copy(), [1.0], (0, 0)), (X,)), (lambda x, k: np.searchsorted(x, 1, sorter=k), (X[:, 0], np.array([-1, 0, 1]))),
    (lambda x, k: np.searchsorted(x, 1, sorter=k), (X[:, 0], np.array([0, 1]))), (lambda x: np.array(x[0, 0], copy=False), (X,)),
    (lambda x: np.array(x, copy=False, order="F"), (X,)), (lambda x: np.asarray(x[:, 1:], copy=False, order="C"), (X,)), (lambda x: np.array((x + 1).T, copy=False, order="C"), (X,)),
    (lambda x: np.astype([1, 2], float) + x[0, 0], (X,)), (lambda x: np.lexsort((x[0, 0],), axis=3), (X,)),
    (lambda a, b: np.add(a, b, dtype="f4", casting="equiv"), (3.0, 4.0))])
def test_refused_by_numpy(f, args):
    check_error(f, *args)


@pytest.mark.parametrize("f", [lambda x: x.max(1), lambda x: x.argmax(1), lambda x: x.max(0), lambda x: np.maximum.reduce(x, axis=(0, 1)), lambda x: np.nanmin(x, 1)])
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_nothing_to_reduce(f, shape):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both(f, np.zeros(shape))


@pytest.mark.parametrize("f", [lambda x: [1, 2] * x.argmax(), lambda x: x.view(np.matrix), lambda x: np.trim_zeros([x[0, 0], 0])])
def test_refused(f):
    """A list of a length that depends on data, a subclass: never an array in its place."""
    with pytest.raises((pyxla.TraceError, pyxla.UnsupportedError)):
        pyxla.jit(f)(X)


def test_the_determinant_of_one_element_is_new():
    x = np.ones((3, 1, 1))
    assert not np.shares_memory(pyxla.jit(np.linalg.det)(x), x)


PLACES = [1, -1, np.array(1), np.array(-2), np.array([1]), np.array([0, 2]), np.array([-1, 0, 0]), np.array([7]), np.int32(2), [1, np.array(0)], np.array([], int),
          np.array([1.0]), slice(0, 2), np.array([True, False, True])]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_delete_and_insert_at_arguments(place):
    for x, axis in ((X, 0), (X, None), (X.T, 1)):
        for f in (np.delete, lambda x, p, axis: np.insert(x, p, x[:1] * 7, axis)):
            both(lambda x, p, f=f, axis=axis: f(x, p, axis), x, place)


def both(f, *args):
    try:
        f(*args)
    except Exception:
        with pytest.raises(Exception):          # noqa: B017
            pyxla.jit(f)(*args)
    else:
        check(f, *args)


def test_places_of_the_run():
    v = np.arange(5.0)
    check(lambda x: (np.delete(x, x.argmax()), np.insert(x, np.searchsorted(x, 2.5), 2.5), np.delete(x, np.flatnonzero(x > 2)), np.delete(x, x > 2)), v)
    check(lambda x, i: (np.delete(x[x > 1], i), np.insert(x[x > 1], i, 7), np.insert(x[x > 1], [0, 1], 7), np.delete(x[x > 1], slice(0, 2)), np.insert(x, x[x > 9].astype(int), 1)),
          v, np.array([0, 1, 1]))


@pytest.mark.parametrize("number", [3, 2.5, True, 1j])
def test_a_number_is_no_container(number):
    """Code that asks `len(x)` or `hasattr(x, "__len__")` to tell numbers from arrays gets Python's answers."""
    for f in (len, lambda x: 2 in x, lambda x: x[0], iter, reversed):
        with pytest.raises(TypeError, match=f"'{type(number).__name__}'"):
            pyxla.jit(lambda x: f(x))(number)
    assert pyxla.jit(lambda x: hasattr(x, "__len__") or hasattr(x, "__iter__"))(number) is False


HERE = Path(__file__).resolve().parent
FILES = ["lib/tests/test_" + n for n in ("function_base", "nanfunctions", "shape_base", "twodim_base", "arraysetops", "histograms", "index_tricks", "ufunclike", "type_check",
                                         "stride_tricks", "polynomial", "arraypad", "packbits", "regression", "mixins")]
FILES += ["_core/tests/test_" + n for n in ("numeric", "item_selection", "shape_base", "function_base", "indexing", "umath", "ufunc", "umath_complex", "scalarmath", "scalar_methods",
                                            "nep50_promotions", "half", "einsum", "array_coercion", "regression", "multiarray")]
FILES += ["linalg/tests/test_linalg", "linalg/tests/test_regression", "fft/tests/test_pocketfft", "fft/tests/test_helper", "polynomial/tests/test_polynomial"]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("hypothesis") is None, reason="NumPy's tests need hypothesis")
@pytest.mark.parametrize("name", FILES)
def test_numpys_own(name, tmp_path):
    """What NumPy's tests do to arrays gives the same when it is jitted."""
    path, out = Path(np.__file__).parent / f"{name}.py", tmp_path / "differences"
    if not path.exists():
        pytest.skip("this NumPy came without its tests")
    packages = [str(Path(pyxla.__file__).resolve().parent.parent), str(HERE)]
    env = os.environ | {"JUDGE_OUT": str(out), "PYXLA_BACKEND": "interp", "PYTHONPATH": os.pathsep.join(packages)}
    subprocess.run([sys.executable, "-W", "ignore", "-m", "pytest", "-q", "-p", "numpys_judge", "--assert=plain", "-p", "no:cacheprovider", "-c", os.devnull, str(path)],
                   env=env, stdout=subprocess.DEVNULL, check=False, timeout=1800)
    *found, last = map(json.loads, out.read_text().splitlines())
    assert last["calls"] > 0 and not found, json.dumps(found[:10], indent=1)
