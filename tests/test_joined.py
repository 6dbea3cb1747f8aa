"""Chains of concatenates and slices: every element is written once, straight to its place, however many steps and pieces there are."""
import functools
import os

import numpy as np
import pytest

import pyxla

R = np.random.default_rng(8)


def append(x, n):
    out = x[:1] * 2
    for i in range(1, n):
        out = np.concatenate((out, np.sqrt(x[i : i + 1])))
    return out


def prepend(x, n):
    out = x[:1]
    for i in range(1, n):
        out = np.concatenate((x[3 * i : 3 * i + 2], out))
    return out


def shift(x, n):
    for _ in range(n):
        x = np.concatenate([x[1:], x[:1] * 2])
    return x


def shift_columns(x, n):
    x = x[:180].reshape(60, -1)
    for i in range(n):
        x = np.concatenate([x[:, 2:], x[:, i % 3 : i % 3 + 2] + 1], axis=1)
    return x


def list_of_rows(x, n):
    rows = []
    for i in range(n):
        rows.append(x[i : i + 50] * 2 + x[i + 50 : i + 100])
    return np.stack(rows)


def list_of_columns(x, n):
    return np.stack([x[i : i + 9] - x[:9] for i in range(n)], axis=1)


def backwards(x, n):
    return np.concatenate([x[i : i + 1] for i in range(n)][::-1])


def nested(x, n):
    return np.concatenate([np.concatenate([x[i + 2 : i + 9], x[i : i + 5]])[3:-1] for i in range(n)])[5:-5]


def array_of_scalars(x, n):
    return np.array([x[i] * 2 for i in range(n)])


CHAINS = [append, prepend, shift, shift_columns, list_of_rows, list_of_columns, backwards, nested, array_of_scalars]


@pytest.mark.parametrize("f", CHAINS)
def test_there_is_no_temporary(f):
    x = R.random(2000)
    for n in (3, 70, 500):
        compiled = pyxla.jit(lambda x: f(x, n)).lower(x).compile()
        assert compiled.workspace_bytes == 0
        stores = n // 64 + 1 + (f is nested) * n // 32
        assert len(compiled.launches) <= stores + 4 if hasattr(compiled.launches, "__len__") else compiled.launches <= stores + 4
    assert len(compiled.kernels) <= 9
    np.testing.assert_array_equal(pyxla.jit(lambda x: f(x, n))(x), f(x, n))


def test_slices_that_follow_each_other_are_one():
    x = R.random((300, 7))
    for f in (lambda x: np.stack([x[i] for i in range(300)]), lambda x: np.concatenate(np.split(x, 10)), lambda x: np.concatenate([x[:100, 2:], x[100:, 2:]])):
        plan = pyxla.jit(f).lower(x).compile().plan
        assert plan.startswith("plan: 1 launches") and plan.count("  store") == 1
        np.testing.assert_array_equal(pyxla.jit(f)(x), f(x))


def test_steps_that_are_read_by_others_are_read_there():
    """A step that is in memory for its own sake is a piece of the next one: no step is as long as the chain."""
    def f(x):
        means = []
        for i in range(40):
            x = np.concatenate([x[1:], x[:1] + i])
            means.append(np.sqrt(np.cumsum(x))[-1])
        return x, np.stack(means)

    x = R.random(5000)
    for mine, numpys in zip(pyxla.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(mine, numpys, 1e-12)


def test_doubling():
    """A graph of a few nodes that ends in a million pieces is not written out."""
    def f(x):
        for _ in range(20):
            x = np.concatenate([x, x])
        return x[5:-5]

    x = R.random(3)
    compiled = pyxla.jit(f).lower(x).compile()
    assert len(compiled.plan) < 500_000
    np.testing.assert_array_equal(pyxla.jit(f)(x), f(x))


def test_long_pieces_are_computed_in_parts():
    xs = [R.random(2000) for _ in range(100)]
    f = lambda *xs: np.concatenate(xs) * 2 + 1
    assert pyxla.jit(f).lower(*xs).compile().workspace_bytes == 0
    np.testing.assert_array_equal(pyxla.jit(f)(*xs), f(*xs))


def random_chain(seed):
    """A program of concatenates, slices and a few other readers of the steps."""
    rng = np.random.default_rng(seed)
    steps = [(int(rng.integers(0, 7)), *(int(v) for v in rng.integers(0, 100, 4))) for _ in range(rng.integers(3, 40))]

    def f(x):
        values, kept = [x, x * 2], []
        for what, i, j, k, axis in steps:
            a, b = values[i % len(values)], values[-1 - j % min(3, len(values))]
            axis %= 2
            other = min(a.shape[1 - axis], b.shape[1 - axis])
            cut = (slice(None), slice(k % (a.shape[1 - axis] - other + 1), k % (a.shape[1 - axis] - other + 1) + other))
            a, b = (a[cut[:: 1 - 2 * axis]], b[(slice(None), slice(0, other))[:: 1 - 2 * axis]])
            if what < 4:
                low = k % max(a.shape[axis] // 2, 1)
                part = (slice(low, max(a.shape[axis] - j % 3, low + 1)), slice(None))[:: 1 - 2 * axis]
                values.append(np.concatenate([a[part], b] if what % 2 else [b, a[part]], axis=axis)[:60, :60])
            elif what == 4:
                values.append(a[a.shape[0] // 2 :] + 1)
            elif what == 5:
                values.append(np.concatenate([a[i : i + 1] for i in range(a.shape[0])][:: 1 - 2 * (k % 2)]))
            else:
                kept.append(b.max(axis))
        return values[-1], values[-2], kept

    return f


@pytest.mark.parametrize("part", range(4))
def test_random_chains(part):
    x = R.random((6, 5))
    for seed in range(40 * part, 40 * part + 40):
        f = random_chain(seed)
        mine, numpys = pyxla.jit(f)(x), f(x)
        for a, b in zip((*mine[:2], *mine[2]), (*numpys[:2], *numpys[2]), strict=True):
            np.testing.assert_array_equal(a, b, f"seed {seed}")


def test_thousands_of_steps():
    x = R.random(60)
    f = lambda x: functools.reduce(lambda u, i: np.concatenate([u[1:], u[:1] + i]), range(5000), x)
    np.testing.assert_allclose(pyxla.jit(f)(x), f(x), 1e-12)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "int32", "float64", "complex128"])
def test_long_copies(dtype):
    """Full blocks of a copy may go by one instruction: lengths around the blocks, places at odd addresses, parts of an array onto another part."""
    x = (R.random(70000) * 9 - 4).astype(dtype)
    join = pyxla.jit(lambda a, b: (a.copy(), np.concatenate([b, a, b[:3]])))
    move = pyxla.jit(lambda a, n: a.__setitem__(slice(0, 30000), a[35000:65000]))
    for n in (8192, 8193, 12288, 16384, 20481, 69999):
        a, b = x[1 : 1 + n], x[3 : 3 + n // 2]
        for got, want in zip(join(a, b), (a, np.concatenate([b, a, b[:3]]))):
            np.testing.assert_array_equal(got, want)
    mine, theirs = x.copy(), x.copy()
    move(mine, 1)
    theirs[:30000] = theirs[35000:65000]
    np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(pyxla.jit(lambda a: a.copy())(x[::-1]), x[::-1])
    np.testing.assert_array_equal(pyxla.jit(lambda a: a.copy())(x.astype(x.dtype.newbyteorder())), x)


@pytest.mark.skipif("erms" not in open("/proc/cpuinfo").read(), reason="the CPU has no fast copies of strings")
@pytest.mark.skipif(os.environ.get("PYXLA_BACKEND") == "interp" or os.environ.get("PYXLA_CHECK") == "1", reason="checks and the interpreter copy element by element")
def test_long_copies_go_by_one_instruction():
    def code(fn, *args):
        return pyxla.jit(fn).lower(*args).compile().assembly

    x = np.ones(100000)
    assert "rep" in code(lambda x: x.copy(), x) and "rep" not in code(lambda x: x + 1, x) and "rep" not in code(lambda x: x.copy(), x[:4000])
