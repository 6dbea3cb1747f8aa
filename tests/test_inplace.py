"""Writes to arguments, out=, aliases of arguments, creation functions and captured state."""
import numpy as np
import pytest
from checking import DTYPES, check, check_error, clone, layouts, sample

import pyxla

X, Y = sample((4, 5), "float64", 1), sample((4, 5), "float64", 2)

ARGUMENT_WRITES = """
x += y
x[...] = y
x[1:-1] += y[2:] - y[:-2]
x[0] = 3
x[:, 1] = y[:, 2]
x[::2] *= 2; return x.sum()
x -= x.mean(0); x /= x.std(0); return x
x += 1; y += x
x, y = y, x; x += 1
x = x + 1; x += y; return x
v = x[1]; v += 1; return v
np.add(x, y, out=x)
np.multiply(x, 2, x); return x
np.exp(y, out=x[:])
x[:] = x[::-1]
x.fill(0); return x + y
x.T[0] = 9
x.reshape(-1)[3:7] = -1
x.reshape(-1)[::3] = y.reshape(-1)[::3]; x.reshape(-1)[1:4] += x[0, :3]; return x.sum(0)
x.ravel()[:6] = x.ravel()[5:11]; return x * 2, x.reshape(10, 2)[3]
x.reshape(2, 10)[1] = y[2, 0]; x[0] += 1
x.reshape(2, 2, 5)[:, 1] *= y[0]; return x[1:, ::2] + x[:-1, ::2]
x.reshape(-1)[np.argsort(y.reshape(-1))[:7]] = -1; return x.max()
x.flat[::6] = 0; np.put(x, [1, 2], 5); return y.ravel() + x.ravel()
x.reshape(-1)[3] = y.sum(); y.reshape(5, 4)[2] = x.reshape(5, 4)[0]
np.copyto(x, y)
np.copyto(x, y, where=y > 0)
np.putmask(x, y > 0, 5.0)
x **= 2
x //= 0.5; x %= 2
x[1, 2] = y[0, 0] * 2; x[1, 3] = x[1, 2]
x[0], x[1] = y[1], y[0]
np.clip(x, -0.5, 0.5, out=x)
np.sum(x, axis=0, out=y[0])
np.cumsum(x, axis=1, out=y)
x[np.newaxis] += 1
pass
return x
return y, x, x + y
""".strip().splitlines()


@pytest.mark.parametrize("body", ARGUMENT_WRITES)
@pytest.mark.parametrize("layout", ["c", "strided", "reversed", "fortran", "unaligned"])
def test_argument_is_written(body, layout):
    space = {"np": np}
    exec("def f(x, y):\n" + "\n".join("    " + line for line in body.split("; ")), space)
    x = dict(layouts(X))[layout]
    check(space["f"], x, Y, rtol=1e-14)
    y = dict(layouts(Y))[layout]
    check(space["f"], X, y, rtol=1e-14)


STORES_IN_ANOTHER_SHAPE = [
    lambda x: np.add(x.reshape(-1)[::7], 1, out=x.reshape(-1)[::7]), lambda x: x.ravel().__setitem__(slice(0, 9), 1), lambda x: x.flat.__setitem__(slice(None, None, 9), 1),
    lambda x: x.reshape(4, -1)[2].fill(3), lambda x: x.reshape(4, 25, 2, 25)[:, 1, 1].fill(3), lambda x: x.reshape(-1).__setitem__([5, 7, 9], 2)]


@pytest.mark.parametrize("f", STORES_IN_ANOTHER_SHAPE)
def test_a_store_in_another_shape_copies_nothing(f):
    """A plan copied the whole argument there and back."""
    compiled = pyxla.jit(f).lower(pyxla.ShapeDtype((50, 100), "float64")).compile()
    assert compiled.launches == 1 and compiled.peak_bytes == 0
    check(f, np.arange(5000.0).reshape(50, 100))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_dtypes(dtype):
    def f(x, s):
        x += 1
        x[1:] *= 2
        x[0] = s
        return x.sum()

    check(f, sample(7, dtype, 1), 3, rtol=1e-6)


def test_empty_store_through_an_added_axis():
    def f(x, y):
        x.ravel()[1:] = 2
        y[None][:-1] = 2
        y[..., None][..., 1:] = 5
        return x, y

    check(f, np.array(3.0), np.ones(3))


CAST_ERRORS = [("int32", "x += 0.5"), ("int32", "x /= 2"), ("bool", "x += 1"), ("uint8", "x -= 300"), ("int64", "np.exp(x, out=x)"), ("uint8", "x[0] = -1")]


@pytest.mark.parametrize(("dtype", "line"), CAST_ERRORS)
def test_casting_errors(dtype, line):
    space = {"np": np}
    exec(f"def f(x):\n    {line}", space)
    check_error(space["f"], sample(5, dtype, 1))


def test_stores_cast_as_numpy():
    def f(x, i):
        i[...] = x * 10
        x[...] = i
        i[0] = 2.7
        return i

    check(f, sample(6, "float32", 1), sample(6, "int16", 2))


def test_same_array_twice():
    def f(x, y):
        x += 1
        y *= 2
        return x - y

    check(f, *(X,) * 2)


def test_overlap_is_refused_by_name():
    f = pyxla.jit(lambda left, right: left.__setitem__(..., right))
    x = np.arange(10.0)
    with pytest.raises(Exception, match="left") as e:
        f(x[:-1], x[1:])
    assert "right" in str(e.value)
    f(x[:5], x[5:])
    np.testing.assert_array_equal(x[:5], x[5:])


def test_read_only_argument_is_refused_by_name():
    @pyxla.jit
    def f(target):
        target += 1

    x = np.arange(3.0)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        f(x)
    x.flags.writeable = True
    f(x)
    assert x[0] == 1


def test_an_error_leaves_the_argument_alone():
    def f(x):
        x += 1
        raise RuntimeError("stop")

    x = np.zeros(3)
    with pytest.raises(RuntimeError, match="stop"):
        pyxla.jit(f)(x)
    assert (x == 0).all()


def helper(n):
    out = np.zeros(n)
    out[0] = 1
    return out


class Scaler:
    def __init__(self, factor, table):
        self.factor, self.table = factor, table

    def __call__(self, x):
        out = np.empty_like(x)
        out[...] = x * self.factor + self.table
        return out


CREATION = """
z = np.zeros(5); z[1:] = x[:4]; return z
z = np.ones((2, 5)); z[0] *= x; return z
z = np.empty(5); z[...] = x; return z
z = np.full(5, 2.5); z[2] = x[0]; return z
z = np.arange(5); return z * x, z.sum()
z = np.arange(2, 12, 2) * x; return z
z = np.arange(0.0, 1.0, 0.2); return z + x
z = np.eye(5); z[0] = x; return z
z = np.array([1.0, 2.0, 3.0, 4.0, 5.0]); z[0] = x[1]; return z
z = np.array([x[0], x[1], 2.0]); return z
z = np.array([x, x * 2]); return z
z = np.asarray(x); z[0] = 1; return x
z = np.array(x); z[0] = 1; return x, z
z = np.zeros_like(x); z += x; return z
z = np.full_like(x, x[0]); return z
z = [np.zeros(5) for _ in range(3)]; z[1][:] = x; return z
z = helper(5); z += x; return z
z = np.zeros(5, dtype=int); z[0] = 3; return z + x
z = np.identity(5) @ x; return z
z = np.linspace(0, 1, 5) * x; return z
z = np.asarray([1, 2, 3, 4, 5]) + x; return z
z = np.ascontiguousarray(x[::-1]); z[0] = 9; return z, x
z = np.float64(2) * x + np.float32(1); return z
z = np.tri(5) @ x; return z
z = np.stack([np.zeros(5), x]); z[0, 0] = 1; return z
z = np.ones(5, np.float32); z[:] = x; return z
z = np.full((2, 5), x); z[0] = 0; return z
z = np.zeros(()); z[...] = x[0]; return z
z = np.hanning(5); z[0] = x[0]; return z
z = np.fft.fftfreq(5); z += x; return z
z = np.sort([3.0, 1.0, 2.0]); z[:2] = x[:2]; return z
z = np.convolve([3.0, 1.0], [1.0, 2.0, 1.0]); z[:2] *= x[:2]; return z
""".strip().splitlines()


@pytest.mark.parametrize("body", CREATION)
def test_creation(body):
    space = {"np": np, "helper": helper}
    exec("def f(x):\n" + "\n".join("    " + line for line in body.split("; ")), space)
    check(space["f"], sample(5, "float64", 1), rtol=1e-15)


@pytest.mark.parametrize("f", [lambda x: x + TABLE.max(), lambda x: x + np.sum(TABLE), lambda x: x + TABLE[0], lambda x: x + np.pad(TABLE, 1)[1:-1],
                               lambda x: (x, TABLE * 2), lambda x: x * float(TABLE[1]), lambda x: x if TABLE[0] > 2 else -x], ids=range(7))
def test_captured_array_that_meets_no_tracer(f):
    TABLE[:] = 1
    g = pyxla.jit(f)
    x = np.ones(3)
    for value in (1, 5, 7):
        TABLE[0] = value
        np.testing.assert_array_equal(g(x), f(x))


TABLE = np.ones(3)


def test_captured_state_is_read_at_every_call():
    table = np.arange(4.0)
    state = {"factor": 2.0}

    def f(x):
        return x * state["factor"] + table

    g = pyxla.jit(f)
    x = np.ones(4)
    for change in (lambda: None, lambda: table.__setitem__(1, 50.0), lambda: state.update(factor=3.0), lambda: table.fill(7.0)):
        change()
        np.testing.assert_array_equal(g(x), f(x))


def test_attributes_are_read_at_every_call():
    s = Scaler(2.0, np.arange(3.0))
    g = pyxla.jit(s)
    x = np.ones(3)
    np.testing.assert_array_equal(g(x), s(x))
    s.factor = 5.0
    np.testing.assert_array_equal(g(x), s(x))
    s.table = np.zeros(3)
    np.testing.assert_array_equal(g(x), s(x))
    s.table[1] = 4
    np.testing.assert_array_equal(g(x), s(x))


def test_store_into_captured_array_is_an_error():
    table = np.zeros(3)

    @pyxla.jit
    def f(x):
        table[...] = x

    with pytest.raises(pyxla.TraceError, match="captured"):
        f(np.ones(3))
    assert (table == 0).all()


def test_momentum_step():
    def step(w, v, g, rate):
        v *= 0.9
        v += g
        w -= rate * v

    f = pyxla.jit(step)
    a, b = clone(([X.copy(), np.zeros_like(X)],) * 2)
    a = clone(a)
    for k in range(5):
        step(*a, Y * k, 0.1)
        f(*b, Y * k, 0.1)
    np.testing.assert_array_equal(a[0], b[0])
    np.testing.assert_array_equal(a[1], b[1])
    assert f.cache_info().traces == 1


@pytest.mark.parametrize("op", [np.nan_to_num, lambda x: np.array(x, copy=True), lambda x: x + 0.25])
@pytest.mark.parametrize("view", [lambda a: a.swapaxes(0, -1).reshape(-1), lambda a: a[None].ravel(), lambda a: a.T.ravel()])
def test_what_is_made_of_a_broadcast_array_may_be_in_another_order(op, view):
    """Its memory follows the strides, 0 among them: what a reshape of it shares is not known, and it is refused or right."""
    def f(g):
        a = op(np.broadcast_to(g, (2, *g.shape)))
        b = view(a)
        a[0] = 7
        return a, b
    try:
        check(f, np.arange(3.0))
    except pyxla.TraceError as e:
        assert "reshaped or flattened" in str(e)


@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_what_is_made_of_windows_may_be_in_another_order(axis):
    """An axis of windows has the strides of the axis that it moves along, which NumPy's results follow."""
    windows = np.lib.stride_tricks.sliding_window_view

    def f(x):
        a = windows(x, (2, 3) if axis == (0, 1) else 2, axis) + 0
        b = a.ravel()
        b[0] = 7
        return a, b

    for x in (np.arange(12.0).reshape(4, 3), np.arange(12.0).reshape(3, 4).T):
        try:
            check(f, x)
        except pyxla.TraceError as e:
            assert axis != 1 or x.flags.f_contiguous
            assert "reshaped or flattened" in str(e)


ORDERED = ["np.fft.fft(x)", "np.fft.rfft2(x)", "np.i0(x)", "np.nextafter(x, 1)", "np.frexp(x)[0]", "np.packbits(x > 0, axis=0)", "np.zeros_like(x)", "np.full_like(x, 2)", "x[[1, 0]]", "x[..., [0, 1]]",
           "x[[True, False] + [True] * (len(x) - 2)]", "np.take(x, [0, 1], -1)", "np.take_along_axis(x, np.argsort(x, 0), 0)", "np.median(x, axis=0)", "np.add.reduceat(x, [0, 1], 0)",
           "np.concatenate([x, x])", "np.stack([x, x], -1)", "np.roll(x, 1, 0)", "np.roll(x, 1, 0)[:, ::-1]", "np.gradient(x, axis=0)", "np.nancumsum(x, 1)", "np.nanmean(x, 0)", "np.piecewise(x, [x > 0], [1, 2])", "np.polyval([1, 2], x)",
           "np.subtract.accumulate(x, -1)", "np.diagonal(x) * 1", "np.sort(x, 0)", "x @ np.ones((x.shape[-1], 3))", "np.fft.fftshift(x)", "np.cumsum(x, 1)", "np.pad(x, 1)", "np.diff(x, axis=0)", "np.where(x > 0, x, 1)"]
VIEWS = {"transposed": "a.T", "moved": "np.moveaxis(a, 0, -1)", "broadcast": "np.broadcast_to(a, (2, *a.shape))", "broadcast inside": "np.broadcast_to(a[:, None], (a.shape[0], 2, *a.shape[1:]))"}


@pytest.mark.parametrize("form", ORDERED)
def test_writes_through_reshapes_of_results_in_another_order(form):
    """Results keep the order of the axes of what they are made of: whether a reshape of one is a view is known, or the write is refused."""
    for view in VIEWS.values():
        for flat in ("y.reshape(-1)", "y.T.reshape(-1)"):
            space = {"np": np}
            exec(f"def f(a):\n    x = {view}\n    y = {form}\n    z = {flat}\n    z[1] = 7\n    return y", space)
            for shape in ((3, 4), (2, 3, 4)):
                try:
                    check(space["f"], np.arange(float(np.prod(shape))).reshape(shape) - 3, calls=1, rtol=1e-12, atol=1e-12)
                except pyxla.TraceError as e:
                    assert "reshaped or flattened" in str(e)


def test_whole_store_below_a_scatter():
    """What is stored reversed is read after indices have written over some of it: not from there."""
    def f(a):
        w = a[::-1]
        w[...] = np.where(w > 1, w + 1, w)
        y = w[None] * np.ones((3, 1))
        a[[0, -1]] = 7
        return y, a
    check(f, np.arange(4.0))


@pytest.mark.parametrize("start", ["x * 2", "x"])
def test_a_part_of_an_older_version_is_read_after_its_memory_was_written_to(start):
    """The first column is read before the second update, apart from it, and stored after a third one has written there."""
    space = {"np": np}
    exec(f"""def f(x):
    v = {start}
    v[0] += 1
    v[1:, -1] -= 5
    t, u = v[:, -1].copy(), v[:, 0].copy()
    v[:, 0] = t
    v[:, -1] = u
    return v
""", space)
    for shape in ((2, 3), (3, 3), (2, 8, 4), (4, 5)):
        check(space["f"], np.arange(float(np.prod(shape))).reshape(shape))


def test_copies_of_borders_are_one_launch_beside_large_arrays():
    """What takes less time than a launch is merged with its like, however large the arrays are."""
    def heat(u):
        u = u.copy()
        for _ in range(10):
            u[1:-1, 1:-1] += 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])
        return u

    u = np.random.default_rng(0).standard_normal((128, 128))
    compiled = pyxla.jit(heat).lower(u).compile()
    assert compiled.plan.count("\nlaunch ") <= 20
    np.testing.assert_array_equal(pyxla.jit(heat)(u), heat(u))


def test_diagonal_is_filled_in_place():
    def f(a):
        np.fill_diagonal(a, 2.5)
    for shape in ((300, 300), (200, 300), (300, 200)):
        for turned in (False, True):
            a = np.random.default_rng(0).random(shape)
            a = a.T if turned else a
            b = a.copy(order="K")
            g = pyxla.jit(f)
            c = g.lower(a).compile()
            assert c.workspace_bytes == 0 and c.launches == 1
            g(a)
            f(b)
            np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError):
        pyxla.jit(f)(np.zeros(3))
