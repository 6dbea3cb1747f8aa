"""Basic indexing and views: values, aliasing among results and arguments, writes seen through views."""
import numpy as np
import pytest
from checking import DTYPES, check, check_error, clone, layouts, sample

import pyxla

strided = np.lib.stride_tricks.as_strided

X = sample((5, 6, 7), "float64", 1)
INDEXES = [
    "0", "-1", "2, 3", "2, 3, -1", "...", "..., 0", "0, ...", "()", "None", "None, ..., None", ":", "1:3", "::2", "::-1", "3:0:-1", "-2:", ":-2", "10:20", "4:1",
    ":, 1", ":, :, 2", ":, None, 1", "1:4, ::2, ::-3", "..., ::2", "0, ..., 1:", "::-1, ::-1, ::-1", ":, -3:-1", "1:2, 0", "None, 0, None, :, 1:2", "np.newaxis, 3",
    "slice(None, None, 2)", "slice(1, 2), Ellipsis", "True is None or 1", "np.int64(2)", "-5", "2:2", "..., None", "::7, ::-7",
]


@pytest.mark.parametrize("index", INDEXES)
def test_read(index):
    check(eval(f"lambda x: x[{index}]"), X)
    check(eval(f"lambda x: x[{index}] + 1"), X)


@pytest.mark.parametrize("index", INDEXES)
def test_write(index):
    store = make_store(index)
    check(lambda x, v: store(x * 1, v), X, 2.5)


def make_store(index):
    space = {"np": np}
    exec(f"def store(y, v):\n    z = y + 0\n    y[{index}] = v\n    z[{index}] += v\n    return y, z", space)
    return space["store"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["c", "strided", "reversed", "fortran", "unaligned"])
def test_layouts(dtype, layout):
    x = dict(layouts(sample((6, 8), dtype, 2)))[layout]
    check(lambda x: (x[::-1, 1:], x.T[2], x[1:4, ::-2], x[:, None, 3:5], x.reshape(-1)[::5]), x)


@pytest.mark.parametrize("index", ["5", "-6", "0, 6", "0, 0, 0, 0", "..., ..., 0", "1.5", "'a'"])
def test_bad_index(index):
    check_error(eval(f"lambda x: x[{index}]"), X)
    check_error(eval(f"lambda x: (x * 1)[{index}]"), X)


def sharing(trees):
    """Which pairs of the arrays share memory."""
    arrays = [a for a in trees if isinstance(a, np.ndarray)]
    return [(i, j) for i in range(len(arrays)) for j in range(i) if np.shares_memory(arrays[i], arrays[j])]


ALIASING = [
    lambda x: x, lambda x: (x, x), lambda x: x[1:], lambda x: x.T, lambda x: (x[0], x[1]), lambda x: x[::-2], lambda x: x.reshape(-1), lambda x: x[None], lambda x: x.copy(),
    lambda x: x + 0, lambda x: (lambda y: (y, y[1:], y.T))(x * 2), lambda x: np.broadcast_to(x[0], x.shape), lambda x: x.ravel(), lambda x: x.flatten(), lambda x: np.expand_dims(x, 0),
    lambda x: np.split(x, 3), lambda x: x.squeeze(), lambda x: [x, {"a": x[:2]}][0], lambda x: x.astype(x.dtype), lambda x: x.astype(x.dtype, copy=False), lambda x: np.moveaxis(x, 0, 1),
]


@pytest.mark.parametrize("f", ALIASING, ids=range(len(ALIASING)))
def test_results_alias_as_in_numpy(f):
    x = sample((3, 4), "float64", 1)
    flat = lambda r: list(r) if isinstance(r, (tuple, list)) else [r]
    want, got = flat(f(x)), flat(pyxla.jit(f)(x))
    assert sharing([x, *want]) == sharing([x, *got])
    assert [w is x for w in want] == [g is x for g in got]
    assert [w.flags.writeable for w in want] == [g.flags.writeable for g in got]
    for w, g in zip(want, got):
        np.testing.assert_array_equal(w, g)


WRITES = r"""
y = x * 1; v = y[1:]; v += 1; return y, v
y = x * 1; v = y[1]; y[1, 2] = 9; return v, y
y = x * 1; v = y.T; v[0] = 5; return y
y = x * 1; v = y.reshape(-1); v[::3] = 0; return y, v
y = x * 1; v = y[::-1]; y[0] = 7; v[0] = 8; return y, v
y = x * 1; a = y[:2]; b = y[1:3]; a += b; return y
y = x * 1; y[1:] = y[:-1]; return y
y = x * 1; y[:-1] = y[1:]; return y
y = x * 1; y[:, ::-1] = y; return y
y = x * 1; y += y.T[:, :].T; return y
y = x * 1; y[1:] += y[:-1]; return y
y = x * 1; v = y[None, :, 1]; v *= 2; return y
y = x * 1; v = y[1:][1:]; v[...] = -1; return y
y = x * 1; z = y; z += 1; return y is z, y
y = x * 1; w = y + 1; y[0] = 0; return w, y
y = x * 1; v = y[0]; w = v + 1; v[:] = 0; return w, y
y = x.copy(); y[0], y[1] = y[1].copy(), y[0].copy(); return y
y = x * 1; v = y.ravel(); v[0] = 3; return y, v
y = x * 1; v = y.T.ravel(); v[0] = 3; return y, v
y = x * 1; v = y.flatten(); v[0] = 3; return y
y = x * 1; d = np.diagonal(y); y[0, 0] = 4; return d + 0
y = x * 1; v = np.moveaxis(y, 0, 1)[1]; v -= 1; return y
y = x * 1; a, b = np.split(y, [1]); b[:] = 2; a[:] = 3; return y
y = x * 1; v = y[1:, 1:]; u = v[1:, 1:]; u += 10; v += 100; return y, v, u
y = x * 1; v = y.swapaxes(0, 1)[::2]; v /= 2; return y
y = np.zeros((4, 4)); y[1:3, 1:3] = x[:2, :2]; return y
y = np.zeros(4); y[:] = x[0]; y[1] += y[0]; return y
y = np.empty((2, 3, 4)); y[0] = x[:3]; y[1] = 1; return y
y = x[1]; z = y + 0; z[0] = 1; return y, z
y = np.zeros(5)\nfor i in range(5):\n    y[i] = x[i % 3, i % 4]\nreturn y
y = x * 1\nfor i in range(1, 3):\n    y[i] = y[i - 1] * 0.5 + y[i]\nreturn y
y = x * 1\nfor row in y:\n    row += 1\nreturn y
y = x * 1\nfor row in y:\n    row[0] = 0\nreturn y
""".strip().splitlines()


@pytest.mark.parametrize("body", WRITES)
def test_writes_through_views(body):
    body = body.replace("\\n", "\n")
    lines = body.split("\n") if "\n" in body else body.split("; ")
    space = {"np": np}
    exec("def f(x):\n" + "\n".join("    " + line for line in lines), space)
    check(space["f"], sample((4, 4), "float64", 1))


def test_result_view_of_written_argument():
    def f(x):
        x[0] = 1
        return x[0], x

    x, y = clone((sample((3, 4), "float64", 1),) * 2)
    x = x.copy()
    want, got = f(y), pyxla.jit(f)(x)
    np.testing.assert_array_equal(want[0], got[0])
    assert got[1] is x and np.shares_memory(got[0], x)


def test_reading_a_large_view_costs_no_copy():
    x = np.zeros((1000, 1000))
    f = pyxla.jit(lambda x: x[::2, ::-1].T[3:])
    assert np.shares_memory(f(x), x) and f(x).base is not None


@pytest.mark.parametrize("k", [0, 1])
def test_index_that_is_data_through_reshapes(k):
    def f(g, k):
        v = np.stack((g, g + 1))
        return np.outer(v, v[..., 0])[0, k], v[:, :1].T[0, k], v[:, 2:].reshape(-1)[k], v.reshape(4, 2)[k], (v[:, ::2] * 2).ravel()[k], v.reshape(2, 1, 2, 2)[k, 0]

    check(f, np.array([0.3, -0.4, 1.0, 2.0]), k)


@pytest.mark.parametrize(("dtype", "shape"), [("u1", (15,)), ("u1", (300,)), ("i1", (9, 40)), ("?", (130, 33))])
def test_fields_of_records_of_three_bytes(dtype, shape):
    """All three bytes of a record are loaded at once; some of them, more of them and those of a part are not."""
    x = np.random.default_rng(3).integers(0, 2 if dtype == "?" else 127, (*shape, 3)).astype(dtype)
    wide = np.random.default_rng(4).integers(0, 2 if dtype == "?" else 127, (*shape, 4)).astype(dtype)

    def grey(x):
        return x[..., 0] * 0.25 + x[..., 1] * 0.5 + x[..., 2] * 0.125

    def narrow(x):
        return (x[..., 2] | x[..., 0]) & x[..., 1]

    def next_to(x):
        return x[1:, ..., 0] * 2.0 + x[:-1, ..., 1] - x[1:, ..., 2] + x[:-1, ..., 2]

    def swapped(x):
        x[..., 0], x[..., 2] = x[..., 2] & x[..., 1], x[..., 0].copy()
        return x

    for f in grey, narrow, next_to:
        for a in (x, wide[..., :3], x[..., ::-1]):
            got, want = pyxla.jit(f)(a), f(a)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(pyxla.jit(swapped)(x.copy()), swapped(x.copy()))


@pytest.mark.parametrize("line", ["y = x[i:]; x[i:j] += 1; return y * 2", "y, z = x[i:], x[j:]; y += 1; return z.sum()",
                                  "v, w = x.view('i4'), x.view('i2'); v[0] = 1; return w * 1"])
def test_stores_past_what_was_read(line):
    """What NumPy shows of the stored array would have changed; here it was read before: never an old value."""
    space = {}
    exec("def f(x, i, j):\n    " + "\n    ".join(line.split("; ")), space)
    with pytest.raises(pyxla.UnsupportedError, match="store"):
        pyxla.jit(space["f"])(np.arange(5.0), np.int64(1), np.int64(3))


BYTES = {
    "all": ("f8", lambda v: v.__setitem__(..., 7), "u4"),
    "every other": ("f8", lambda v: v.__setitem__(slice(None, None, 2), 1), "u4"),
    "one": ("f8", lambda v: v.__setitem__(3, 9), "u1"),
    "a slice": ("f8", lambda v: v.__setitem__(slice(1, 5), 2.5), "f4"),
    "larger": ("f4", lambda v: v.__setitem__(0, 1.5), "f8"),
    "complex": ("f8", lambda v: v.__setitem__(slice(1, None), 1 + 2j), "c16"),
    "of complex": ("c16", lambda v: v.__setitem__(slice(1, None, 2), 3.0), "f8"),
    "fancy": ("f8", lambda v: v.__setitem__(np.array([0, 3, 0]), np.array([1, 2, 3], "u4")), "u4"),
    "in place": ("i8", lambda v: v.__iadd__(1), "i2"),
    "masked": ("i8", lambda v: v.__setitem__(v > 5, 0), "u1"),
}


@pytest.mark.parametrize("name", BYTES)
def test_stores_through_views_of_another_size(name):
    dtype, store, other = BYTES[name]

    def local(x):
        y = x.copy()
        v = y.view(other)
        store(v)
        return y, v.copy(), y[::2]

    def argument(x):
        store(x.view(other))
        return x.sum()

    x = np.arange(24).astype(dtype)
    for f in (local, argument):
        mine, theirs = x.copy(), x.copy()
        got, want = pyxla.jit(f)(mine), f(theirs)
        for g, w in zip(got, want) if isinstance(want, tuple) else [(got, want)]:
            np.testing.assert_array_equal(np.atleast_1d(g).copy().view("u1"), np.atleast_1d(w).copy().view("u1"))
        np.testing.assert_array_equal(mine.view("u1"), theirs.view("u1"))


@pytest.mark.parametrize(("dtype", "other", "store"), [
    ("u1", "?", lambda v: v.__setitem__(..., True)), ("u1", "?", lambda v: v.__setitem__(slice(1, 5, 2), ~v[:2])), ("i1", "?", lambda v: v.__iand__(v[::-1].copy())),
    ("i4", "?", lambda v: v.__setitem__(slice(None, None, 4), True)), ("?", "u1", lambda v: v.__setitem__(3, 1)), ("?", "i1", lambda v: v.__ixor__(1)),
    ("?", "u2", lambda v: v.__setitem__(1, 257)), ("?", "i8", lambda v: v.__setitem__(..., 0)),
])
def test_stores_through_views_as_bools_and_of_bools(dtype, other, store):
    def f(x):
        v = x.view(other)
        store(v)
        return x * 1, x.view(other) ^ x.view(other)[0]

    x = (np.arange(16) % 3 == 1).astype(dtype)
    mine, theirs = x.copy(), x.copy()
    for g, w in zip((*pyxla.jit(f)(mine), mine), (*f(theirs), theirs)):
        assert g.dtype == w.dtype and g.tobytes() == w.tobytes()


@pytest.mark.parametrize(("x", "other", "value"), [(np.arange(6, dtype="u1"), "?", True), (np.ones(4, bool), "u1", 7), (np.ones(4, bool), "u2", 3)])
def test_bytes_that_are_no_bools(x, other, value):
    """Such bytes are bools in NumPy too, of a kind that there is none of here; read they are true."""
    def f(x):
        x.view(other)[1:] = value
        return x

    mine = x.copy()
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        pyxla.jit(f)(mine)
    assert mine.tobytes() == x.tobytes()
    np.testing.assert_array_equal(pyxla.jit(lambda v: v.view("?") & True)(x), x.view("?") & True)


def toeplitz(c, r):
    values = np.concatenate((c[::-1], r[1:]))
    step = values.strides[0]
    return strided(values[len(c) - 1:], (len(c), len(r)), (-step, step)).copy()


STRIDED = [
    lambda x: toeplitz(x[0], x[1, :3]), lambda x: strided(x[1:], (3, 4), (-8, 8)), lambda x: strided(x[1:, 1:], (2, 2, 2), (32, 8, 8)).sum(1), lambda x: strided(x[::-1], (3, 4), (-32, 8)),
    lambda x: strided((x * 2)[::-1, ::-1], (3, 4), (-32, -8)), lambda x: strided(x.T, (2, 2), (8, 32)), lambda x: strided(x[1:]), lambda x: strided(x[1:2], (3,), (0,)),
    lambda x: strided(x[0, 2:], (0, 2), (-800, 8)), lambda x: strided(x.reshape(-1)[5:], (3, 2), (-16, 8)), lambda x: strided(x, (3,), (40,)),
]


@pytest.mark.parametrize("f", STRIDED)
@pytest.mark.parametrize("dtype", ["f8", "i8"])
def test_as_strided_from_within_an_array(f, dtype):
    """Strides of either sign, from a view that begins anywhere in its array: what stays inside of it is there to read."""
    x = np.arange(12, dtype=dtype).reshape(3, 4)
    np.testing.assert_array_equal(pyxla.jit(f)(x), f(x), strict=True)


@pytest.mark.parametrize(("shape", "strides"), [((3, 4), (32, 8)), ((2,), (-40,)), ((1, 2, 3), (5, 32, 8))])
def test_as_strided_outside_of_an_array(shape, strides):
    with pytest.raises(pyxla.UnsupportedError, match="past the end|multiples of the item size"):
        pyxla.jit(lambda x: strided(x[1:], shape, strides))(np.zeros((3, 4)))


def first_set(make):
    def f(x):
        v = make(x)
        v[0] = 9
        return x, v
    return f


@pytest.mark.parametrize("make", [lambda x: np.array(x.flat), lambda x: np.asarray(x.flat), lambda x: np.array(x.flat, dtype="f4"), lambda x: np.array((x + 1).flat),
                                  lambda x: np.array(x.flat, copy=True)])
def test_arrays_of_flat_iterators_share_memory_where_numpys_do(make):
    for got, want in zip(pyxla.jit(first_set(make))(np.arange(6.0).reshape(2, 3)), first_set(make)(np.arange(6.0).reshape(2, 3))):
        np.testing.assert_array_equal(got, want, strict=True)
