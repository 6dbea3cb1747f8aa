"""Reductions that their first elements decide, comparisons with numbers of the run, whole copies between arguments: right at every place and border."""
import operator

import numpy as np
import pytest

import pyxla

EARLY = (np.any, np.all, np.argmax, np.argmin)
SIZES = (1, 65, 128, 1000, 8193, 600_001)
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


@pytest.mark.parametrize("size", SIZES)
def test_decided_by_one_element(size):
    whole = pyxla.jit(lambda m: tuple(f(m) for f in EARLY))
    each = [pyxla.jit(lambda m, f=f: f(m)) for f in EARLY]
    places = {0, size // 3, size // 2, size - 1}
    for base in (False, True):
        for place in (None, *places):
            m = np.full(size, base)
            if place is not None:
                m[place] = not base
                m[place + (size - place) // 2:] ^= place % 2 == 0 and place + 1 < size
            want = [f(m) for f in EARLY]
            assert list(whole(m)) == want and [f(m) for f in each] == want


def test_rows_and_columns_decide_for_themselves():
    rng = np.random.default_rng(0)
    m = rng.random((300, 513)) < 0.004
    x = np.where(m, np.float32(2), np.float32(0.5))
    for axis in (0, 1):
        for f in EARLY:
            np.testing.assert_array_equal(pyxla.jit(lambda m: f(m, axis=axis))(m), f(m, axis=axis))
        np.testing.assert_array_equal(pyxla.jit(lambda x: (x > 1).any(axis))(x), (x > 1).any(axis))
    y = x.ravel().copy()
    assert pyxla.jit(np.array_equal)(x.ravel(), y)
    y[-1] += 1
    assert not pyxla.jit(np.array_equal)(x.ravel(), y)


@pytest.mark.parametrize("dtype", "b B h H i I q Q".split())
def test_integers_and_numbers_of_the_run(dtype):
    """A number that the array's dtype does not hold is above or below all its elements."""
    info = np.iinfo(dtype)
    x = np.array([info.min, info.min + 1, 0, 1, 5, info.max - 1, info.max], dtype)
    numbers = {info.min, info.max, -1, 0, 5, 70_000, -70_000, 2**40, -(2**40)} | {info.min - 1, info.max + 1, info.max - 1}
    for compare in COMPARISONS:
        f = pyxla.jit(lambda x, n: (compare(x, n), compare(n, x), compare(x[2], n)))
        for n in sorted(k for k in numbers if -(2**63) <= k < 2**63):
            for got, want in zip(f(x, n), (compare(x, n), compare(n, x), compare(x[2], n))):
                np.testing.assert_array_equal(got, want, f"{compare.__name__} {n}")
        assert f.cache_info().misses <= 1


def test_argument_copied_to_another_once():
    def f(x, y):
        x[...] = y

    def swap(x, y):
        z = x.copy()
        x[...] = y
        y[...] = z
    for a, b in ((np.arange(1000.), np.ones(1000)), (np.ones((30, 40)), np.arange(1200.).reshape(40, 30).T)):
        g, s = pyxla.jit(f), pyxla.jit(swap)
        x, y = a.copy(), b.copy(order="K")
        g(x, y)
        np.testing.assert_array_equal(x, b)
        c = g.lower(x, y).compile()
        assert (c.workspace_bytes, c.launches) == (0, 1)
        x = a.copy()
        s(x, y)
        np.testing.assert_array_equal(x, b)
        np.testing.assert_array_equal(y, a)


def test_large_identity_is_no_constant():
    def f(x):
        e = np.eye(200)
        e[3] = x[0]
        return e, np.eye(300, k=-2, dtype=np.float32), np.identity(250, complex), np.eye(200) + x.T, np.eye(3) + x[:3, :3]
    x = np.random.default_rng(0).random((200, 200))
    for got, want in zip(pyxla.jit(f)(x), f(x)):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype and got.strides == want.strides
