"""Indexing by arrays, read and written, compared with NumPy: random keys of all forms, and the cases a person thinks of."""
import random

import numpy as np
import pytest
from checking import check, check_error, layouts, same

import pyxla

SHAPES = [(5,), (1,), (3, 4), (4, 1, 3), (2, 3, 4), (2, 3, 2, 3), (0, 3), (3, 0, 2), ()]
DTYPES = ["float64", "float32", "int32", "uint8", "int64", "bool", "int16"]


class Keys:
    """Random keys for an array: `text` is an expression over the names x, and i0, i1, ... of index arrays in `arrays`."""

    def __init__(self, seed, shape, masks=False):
        self.random, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.shape, self.masks, self.arrays = shape, masks, []

    def name(self, array):
        self.arrays.append(array)
        return f"i{len(self.arrays) - 1}"

    def array(self, n, common):
        r = self.random
        shape = tuple(1 if r.random() < 0.25 else m for m in common)
        shape = shape[r.randint(0, len(shape)):] if r.random() < 0.3 else shape
        dtype = r.choice(["int64", "int64", "int32", "uint8", "int8", "uint64"])
        low = 0 if dtype[0] == "u" or r.random() < 0.3 else -n
        a = self.rng.integers(low, n, shape).astype(dtype)
        return a if r.random() < 0.7 else a.T.copy().T

    def item(self, n, common):
        r = self.random
        kind = r.randrange(10)
        if kind < 4 and n:
            a = self.array(n, common)
            form = r.random()
            return self.name(a) if form < 0.7 or a.dtype.kind == "u" else repr(a.tolist()) if form < 0.85 else f"({self.name(a)} + 0)"
        if kind == 4 and n:
            return str(r.randrange(-n, n))
        if kind == 5 and n:
            return f"{self.name(np.array(r.randrange(-n, n)))}[()]"
        if kind == 6 and n:
            return f"np.arange({min(n, common[-1] if common else 1)})"
        return r.choice([":", "1:", "::-1", "::2", ":-1"])

    def text(self):
        r = self.random
        common = r.choice([(3,), (2, 3), (1,), (0,), (4,), (2, 1, 3), (2,)])
        parts, d = [], 0
        for _ in range(r.randint(0, len(self.shape))):
            parts.append(self.item(self.shape[d], common))
            d += 1
        for extra in ("None", "..."):
            if r.random() < 0.25:
                parts.insert(r.randint(0, len(parts)), extra)
        if "..." in parts:                                             # what follows the ellipsis counts from the end
            parts = [p for p in parts if p in ("...", "None", ":")] if r.random() < 0.3 else [p for p in parts if p != "..."] + ["..."]
        return f"x[{', '.join(parts) or '...'}]" if len(parts) != 1 else f"x[{parts[0]}]"


def evaluate(text, x, arrays):
    return eval(text, {"np": np, "x": x, **{f"i{k}": a for k, a in enumerate(arrays)}})


def jitted(text, count):
    space = {"np": np}
    exec(f"def f(x{''.join(f', i{k}' for k in range(count))}):\n    return {text}", space)
    return pyxla.jit(space["f"])


def array(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 5).astype(dtype) if dtype[0] == "f" else rng.integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize("seed", range(60))
def test_random_reads(seed):
    r = random.Random(seed)
    shape = r.choice(SHAPES)
    keys, texts, wanted = Keys(seed, shape), [], []
    x = r.choice(list(layouts(array(shape, r.choice(DTYPES), seed))))[1]
    for _ in range(8):
        text = keys.text()
        try:
            want = evaluate(text, x, keys.arrays)
        except IndexError:
            with pytest.raises(IndexError):
                jitted(text, len(keys.arrays))(x, *keys.arrays)
            continue
        texts.append(text)
        wanted.append(np.array(want))
    got = jitted(f"({', '.join(texts)},)", len(keys.arrays))(x, *keys.arrays)
    for text, a, b in zip(texts, wanted, got):
        same(a, np.asarray(b), where=f"{text} of {shape}")


@pytest.mark.parametrize("seed", range(60))
def test_random_writes(seed):
    r = random.Random(1000 + seed)
    shape = r.choice(SHAPES)
    keys, lines = Keys(seed, shape), []
    x = r.choice(list(layouts(array(shape, r.choice(["float64", "int32", "uint8", "float32"]), seed))))[1]
    if not x.flags.writeable:
        x = x.copy()
    for k in range(4):
        text = keys.text()
        try:
            part = evaluate(text, x, keys.arrays).shape
        except IndexError:
            continue
        part = tuple(1 if r.random() < 0.2 else n for n in part)[r.choice([0, 0, 0, 1]):]
        value = f"{keys.name(array(part, r.choice(['float64', 'int32']), k))}" if r.random() < 0.7 else str(r.randrange(9))
        lines.append(f"{text} {r.choice(['=', '=', '+=', '*='])} {value}")
    source = f"def f(x{''.join(f', i{k}' for k in range(len(keys.arrays)))}):\n    " + "\n    ".join([*lines, "return x.sum(dtype='float64')"])
    space = {"np": np}
    exec(source, space)
    want_x, got_x = x.copy(), x.copy()
    try:
        want = space["f"](want_x, *keys.arrays)
    except Exception as e:                                              # a value of another shape or kind
        with pytest.raises((ValueError, TypeError)):
            pyxla.jit(space["f"])(got_x, *keys.arrays)
        assert isinstance(e, (ValueError, TypeError))
        return
    got = pyxla.jit(space["f"])(got_x, *keys.arrays)
    same(want_x, got_x, where=source)
    np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=source)


X = np.arange(24.0).reshape(2, 3, 4)
I, J = np.array([1, 0, -1]), np.array([[0], [3]])


@pytest.mark.parametrize("bad", [3, -4, 100, -2**40])
def test_out_of_bounds_is_an_index_error_of_the_line_and_writes_nothing(bad):
    def f(x, y, i):
        x[0] = 7
        y[i] = 1.0
        return x

    x, y = np.zeros(3), np.zeros(3)
    g = pyxla.jit(f)
    g(x.copy(), y, np.array([0, 1]))
    y[:] = 0
    with pytest.raises(IndexError, match=rf"{__file__}:{f.__code__.co_firstlineno + 2}"):
        g(x, y, np.array([0, bad]))
    assert not y.any()
    with pytest.raises(IndexError, match="out of bounds"):
        pyxla.jit(lambda x: x[[0, bad]])(x)
    with pytest.raises(IndexError):
        pyxla.jit(lambda x, i: x[i].sum())(x, np.array([bad]))


@pytest.mark.parametrize("shape, key, value", [((1, 2, 0), (slice(1), [0, -1]), (2, 1, 2, 0)), ((0, 9), (slice(None), [0, 0, 1]), (33, 0, 1)), ((0, 9), (slice(None), [0, 0, 1]), (5, 3)),
                                               ((3, 9), (np.zeros(0, int),), (5, 0, 9)), ((3, 9), (np.zeros(0, int),), (5, 2, 9)), ((3, 9), ([0, 1],), (2, 2, 9)), ((3, 9), ([0, 1],), (1, 1, 2, 9))])
def test_leading_axes_of_what_is_assigned(shape, key, value):
    def f(x, v):
        x[key] = v
        return x

    try:
        f(np.zeros(shape), np.ones(value))
    except ValueError:
        check_error(f, np.zeros(shape), np.ones(value))
    else:
        check(f, np.zeros(shape), np.ones(value))


def test_empty_axes():
    with pytest.raises(IndexError):
        pyxla.jit(lambda x, i: x[i])(np.zeros((0, 2)), np.array([0]))
    assert pyxla.jit(lambda x, i: x[i])(np.zeros((0, 2)), np.array([], int)).shape == (0, 2)


def test_messages():
    with pytest.raises(IndexError, match="could not be broadcast together with shapes"):
        pyxla.jit(lambda x: x[[0, 1], [0, 1, 2]])(X)
    with pytest.raises(IndexError, match="too many indices"):
        pyxla.jit(lambda x, i: x[i, i, i, i])(X, I)
    with pytest.raises(IndexError, match="of integer"):
        pyxla.jit(lambda x: x[[0.5]])(X)
    with pytest.raises(IndexError, match="boolean index did not match"):
        pyxla.jit(lambda x: x[[True, False, True]])(X)


def test_repeated_indices_the_last_wins_and_updates_are_buffered():
    i = np.array([0, 1, 0, 0, 1])

    def f(x, y, i, v):
        x[i] = v
        y[i] += v
        return x, y

    v = np.arange(1.0, 6)
    want, got = [g(np.zeros(3), np.ones(3), i, v) for g in (f, pyxla.jit(f))]
    same(want, got)


def test_a_table_of_the_enclosing_scope():
    table = np.arange(100) ** 2
    i = np.array([[3, 5], [-1, 0]])
    f = pyxla.jit(lambda i: table[i] + 1)
    same(table[i] + 1, f(i))
    table[3] = 0
    same(table[i] + 1, f(i))


def test_what_is_gathered_may_be_computed_and_the_indices_too():
    def f(x, i):
        y = np.exp(x)[i % 3]
        return y.sum(0), (x * 2)[np.clip(i, 0, 2)], x[np.argmax(x)], x[i[i[i]]]

    x, i = np.array([0.5, 2.0, 1.0]), np.array([2, 0, 1])
    want, got = f(x, i), pyxla.jit(f)(x, i)
    same(want, got, rtol=1e-14)


def test_loops_of_gathers():
    def f(p, x):
        for _ in range(20):
            x = x[p] + 1
            p = p[p]
        return p, x

    p = np.random.default_rng(0).permutation(50)
    same(f(p, np.arange(50)), pyxla.jit(f)(p, np.arange(50)))


def test_in_place_stores_copy_nothing():
    def f(x, i, v):
        x[i] += v

    x, i = np.zeros(100_000), np.arange(0, 1000, 3)
    plan = pyxla.jit(f).lower(x, i, np.ones(i.size)).compile()
    assert plan.workspace_bytes < 20_000


@pytest.mark.parametrize("value", [7.0, [1.0], np.array(3.0), np.arange(2.0), np.arange(3.0)])
def test_masked_stores(value):
    m = np.array([True, False, True, False])

    def f(x, m, v):
        x[m] = v
        return x

    x = np.zeros(4)
    try:
        want = f(x.copy(), m, value)
    except ValueError:
        with pytest.raises(ValueError):
            pyxla.jit(f)(x.copy(), m, value)
        return
    same(want, pyxla.jit(f)(x.copy(), m, value))


@pytest.mark.parametrize("line", ["x[x < 0] = 5", "x[x < 0] = x[x < 0] + 3", "x[x < 0] += 1", "np.put(x, [0, 0], [1, 2])", "x[True] = 4",
                                  "x[...] = x[x > -9][0]"])
@pytest.mark.parametrize("value", [-2.0, 2.0])
def test_arrays_without_axes(line, value):
    space = {"np": np}
    exec(f"def f(x):\n    {line}\n    return x", space)
    same(space["f"](np.array(value)), pyxla.jit(space["f"])(np.array(value)))


def test_masks_on_some_axes():
    rng = np.random.default_rng(1)
    x, m, k = rng.standard_normal((3, 4, 5)), np.array([True, False, True, True]), rng.random((3, 4)) < 0.5
    v = rng.standard_normal((3, 3, 5))

    def f(x, m, k, v, w):
        x[:, m] = v
        x[k] = w[:1]
        x[k, 0] = 7
        x[0, m] = w[:3]
        x[0, :, x[0, 0] > 0] = 5
        x[x > 1] = 1
        return x

    w = rng.standard_normal((4, 5))
    same(f(x.copy(), m, k, v, w), pyxla.jit(f)(x.copy(), m, k, v, w))


# ---- what is computed from selected elements is computed for all ----

def grown(x, m):
    x[m] += 1
    x[m] *= x[m]
    return x * 2


def divided(x, m):
    x[m] = 1 / (x[m] - 0.5) - x[m]


def from_another(x, m, y):
    x[m] = y[m] * 2 + x[m]


def less_their_sum(x, m):
    x[m] -= x[m].sum()


def some_columns(x, m):
    x[m[:, 0], :2] *= -1


def rows(x, m):
    x[m[:, 0]] *= np.arange(4.0)


def rows_by_their_maximum(x, m):
    x[m[:, 0]] += x[m[:, 0]].max(axis=1, keepdims=True)


def of_a_view(x, m):
    x.T[m.T] *= 2


def read_before_a_store(x, m):
    y = x[m]
    x[m] = 0
    x[m] = y * 2


def of_integers(x, m):
    x = (10 * x).astype("i4")
    x[m] //= 2
    x[m] <<= 1
    return x


@pytest.mark.parametrize("f", [grown, divided, from_another, less_their_sum, some_columns, rows, rows_by_their_maximum, of_a_view, read_before_a_store,
                               of_integers], ids=lambda f: f.__name__)
def test_masked_stores_of_masked_values(f):
    x = np.random.default_rng(0).standard_normal((6, 4))
    check(f, x, x > 0.3, *[3 * x] * (f is from_another))


def test_a_masked_store_counts_nothing():
    x = np.arange(6.0)
    assert "sum" not in pyxla.jit(divided).lower(x, x > 2).compile().as_text()
    assert "sum" in pyxla.jit(less_their_sum).lower(x, x > 2).compile().as_text()


@pytest.mark.parametrize("store", ["np.put(a, [0], x[1])", "a.put(0, x[1])", "a.fill(5)", "np.put(b, [0], x[1])"])
def test_a_store_into_a_numpy_scalar_is_lost(store):
    space = {"np": np}
    exec(f"def f(x):\n    a, b = x[0], np.float64(3)\n    {store}\n    return a, b", space)
    check(space["f"], np.arange(3.0))


@pytest.mark.parametrize("store", ["np.put(a, [0], x[0])", "np.putmask(a, x > 0, x)", "np.copyto(a, x)", "np.place(a, x > 0, x)", "np.put_along_axis(a, np.argsort(x), x, 0)", "a.flat[0] = x[0]"])
def test_no_store_into_an_array_that_numpy_made_of_numbers_alone(store):
    space = {"np": np}
    exec(f"def f(x):\n    a = np.sign(1.0)[None]\n    {store}\n    return a", space)
    with pytest.raises(pyxla.UnsupportedError, match="of numbers alone"):
        pyxla.jit(space["f"])(np.ones(1))
