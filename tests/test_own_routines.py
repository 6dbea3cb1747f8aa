"""What is code of our own where NumPy has a routine: interpolation, searches, repeats, reduceat, quantiles, membership; NumPy's bits, whatever the data."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pyxla

R = np.random.default_rng(1)


def same(got, want):
    assert type(got) is type(want)
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("points", [1, 2, 3, 5, 8, 50, 1000])
def test_interp(points):
    """Keys in order, backwards and in none, at points, beyond them, not finite; points that repeat or are infinite."""
    plain = pyxla.jit(lambda x, xp, fp: np.interp(x, xp, fp))
    ends = pyxla.jit(lambda x, xp, fp: np.interp(x, xp, fp, left=-7, right=9.5))
    xp, fp = np.sort(R.standard_normal(points).round(1 if points > 5 else 3)), R.standard_normal(points)
    if points > 4:
        fp[points // 2], fp[points // 3] = np.inf, -np.inf
    for n in (0, 1, 7, 8, 9, 63, 65, 1000):
        x = R.standard_normal(n) * 2
        if n > 8:
            x[:7] = xp[0], xp[-1], np.inf, np.nan, xp[points // 2], -np.inf, xp[0] - 1e-12
        for keys in (x, np.sort(x), np.sort(x)[::-1], np.repeat(x, 2)[::2], x.astype("f4")):
            same(plain(keys, xp, fp), np.interp(keys, xp, fp))
            same(ends(keys, xp, fp), np.interp(keys, xp, fp, left=-7, right=9.5))
    many = R.standard_normal((50, 60))
    for keys in (many, many.T, many[::2], many[0, 0]):
        same(plain(keys, xp, fp), np.interp(keys, xp, fp))
    same(plain(many, xp, fp + 1j), np.interp(many, xp, fp + 1j))
    same(pyxla.jit(lambda x, xp, fp: np.interp(x, xp, fp, period=3.))(many, xp, fp), np.interp(many, xp, fp, period=3.))


@pytest.mark.parametrize("dtype", "f8 f4 f2 i8 i4 i2 u1 u4 u8 ?".split())
def test_search(dtype):
    """Keys in every order, few of them different, NaN among keys and table; 64 keys are a block."""
    left, right = (pyxla.jit(lambda t, x, side=side: np.searchsorted(t, x, side)) for side in ("left", "right"))
    for m in (0, 1, 2, 3, 10, 100, 3000):
        table, x = np.sort((R.standard_normal(m) * 40).astype(dtype)), (R.standard_normal(300) * 40).astype(dtype)
        if x.dtype.kind == "f":
            x[::17], x[5:9], table[-2 * (m > 5):] = np.nan, (np.inf, -np.inf, -0.0, 0.0), np.nan
        for keys in (x, np.sort(x), np.sort(x)[::-1], (x / 20).astype(dtype), x[:65], x[::3], x.reshape(15, 20).T, x.reshape(3, 5, 20)[:, ::2]):
            same(left(table, keys), np.searchsorted(table, keys))
            same(right(table, keys), np.searchsorted(table, keys, "right"))
        same(left(table[::-1][::-1], x), np.searchsorted(table, x))
        same(left(np.repeat(table, 2)[::2], x), np.searchsorted(table, x))
    of_the_run = pyxla.jit(lambda t, x: (np.searchsorted(t[t > 0], x), np.searchsorted(t, x[x > 0]) + 1))
    for got, want in zip(of_the_run(table, x), (np.searchsorted(table[table > 0], x), np.searchsorted(table, x[x > 0]) + 1)):
        same(got, want)


@pytest.mark.parametrize("setting", [{"PYXLA_CPU": "sse2"}, {"PYXLA_CPU": "avx2"}, {"PYXLA_CHECK": "1"}], ids=str)
def test_search_at_other_levels(setting):
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(pyxla.__file__).parent.parent)])
    subprocess.run([sys.executable, "-c", "from test_own_routines import *\nfor d in 'f8', 'f4', 'i8', 'u4': test_search(d)"],
                   env=os.environ | setting | {"PYTHONPATH": path}, check=True)


def test_many_keys_are_searched_in_several_threads():
    x, table = R.standard_normal(30_000), np.sort(R.standard_normal(500))
    f = pyxla.jit(lambda t, x: np.searchsorted(t, x))
    for keys in (x, np.sort(x), x[::2]):
        same(f(table, keys), np.searchsorted(table, keys))


@pytest.mark.parametrize("n", [1, 7, 8, 9, 300])
def test_repeat_by_counts(n):
    f, columns = pyxla.jit(lambda x, c: np.repeat(x, c)), pyxla.jit(lambda x, c: np.repeat(x, c, axis=1))
    x, rows = R.standard_normal(n), R.standard_normal((3, n))
    for high in (1, 2, 10, 100):
        c = R.integers(0, high, n)
        same(f(x, c), np.repeat(x, c))
        same(f(x[::-1], c[::-1]), np.repeat(x[::-1], c[::-1]))
        same(f(x, c.astype("i1")), np.repeat(x, c))
        same(columns(rows, c), np.repeat(rows, c, axis=1))
    with pytest.raises(ValueError, match="negative"):
        f(x, np.full(n, -1))


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.logical_and, np.bitwise_xor, np.hypot])
def test_reduceat(ufunc):
    f = pyxla.jit(lambda x, at: ufunc.reduceat(x, at))
    for dtype in "f8 f4 f2 i8 i2 u1 c16 ?".split():
        x = (R.standard_normal(1000) * 5).astype(dtype)
        for at in (np.arange(0, 1000, 10), R.integers(0, 1000, 77), np.array([999]), np.array([0, 5, 5, 3, 999, 0])):
            try:
                want = ufunc.reduceat(x, at)
            except TypeError:
                continue
            same(f(x, at), want)
            same(f(x[::-1], at[::-1]), ufunc.reduceat(x[::-1], at[::-1]))
    with pytest.raises(IndexError):
        f(np.arange(5), np.array([0, 5]))


@pytest.mark.parametrize("dtype", "f8 f4 f2 i8 i2 u1".split())
def test_quantiles(dtype):
    for shape in ((1,), (2,), (7,), (501,), (4, 5), (30, 40)):
        x = (R.standard_normal(shape) * 50).astype(dtype)
        with_nan = x.copy()
        if x.dtype.kind == "f" and x.ndim > 1:
            with_nan[0, 1], with_nan[1, 2], with_nan[2, 0] = np.nan, np.inf, -0.0
        for q in (0, 50, 100, 33.3, [25, 50, 75], [[10, 20.], [30, 70]], np.float64(40), list(range(0, 90, 10))):
            for axis in (None, 0, -1) if x.ndim > 1 else (None,):
                for a in (x, with_nan):
                    f = pyxla.jit(lambda a: np.percentile(a, q, axis=axis))
                    want = np.percentile(a, q, axis=axis)
                    if axis is None and np.isnan(want).any():
                        continue                            # NumPy's dtype depends on the data
                    same(f(a), want)
                    same(pyxla.jit(lambda a: np.quantile(a, np.divide(q, 100), axis=axis, keepdims=True))(a),
                         np.quantile(a, np.divide(q, 100), axis=axis, keepdims=True))
    f = pyxla.jit(lambda x, q: np.percentile(x, q))
    for q in (10, 20.5, 99):
        same(f(np.arange(10.) ** 2, q), np.percentile(np.arange(10.) ** 2, q))
    with pytest.raises(ValueError, match="range"):
        pyxla.jit(lambda x: np.percentile(x, 101))(np.arange(3.))


@pytest.mark.parametrize("dtypes", [("f8", "f8"), ("f4", "f8"), ("f8", "i8"), ("f2", "f2"), ("f4", "u1"), ("i8", "i4"), ("u1", "i2"), ("i1", "i1"), ("i8", "u8")])
def test_membership(dtypes):
    for shape in ((0,), (5,), (1000,), (20, 30)):
        x = (np.abs(R.standard_normal(shape)) * 5).round(1).astype(dtypes[0])
        if x.dtype.kind == "f":
            x.flat[:3] = (np.nan, -0.0, np.inf)[:x.size]
        for n in (11, 40, 500):
            tests = (np.abs(R.standard_normal(n)) * 5).round(1).astype(dtypes[1])
            if tests.dtype.kind == "f":
                tests[:3] = np.nan, 0, np.inf
            for invert in (False, True):
                same(pyxla.jit(lambda x, t: np.isin(x, t, invert=invert))(x, tests), np.isin(x, tests, invert=invert))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("m", [1, 2, 15, 16, 17, 18, 31, 33, 34, 50, 51, 101, 300])
def test_tables_of_all_sizes(dtype, m):
    """The first steps of a search are counts of pivots; the last interval between these may be a short one."""
    rng = np.random.default_rng(m)
    table = np.sort(rng.integers(0, 2 * m, m)).astype(dtype)
    keys = rng.permutation(np.concatenate([table, table + 1, np.arange(-3 if table.dtype.kind != "u" else 0, 2 * m + 3)]).astype(dtype))
    if table.dtype.kind == "f":
        keys[::7] = np.nan
    for side in ("left", "right"):
        f = pyxla.jit(lambda t, x, side=side: np.searchsorted(t, x, side))
        same(f(table, keys), np.searchsorted(table, keys, side))
        same(f(table, np.sort(keys)[::-1]), np.searchsorted(table, np.sort(keys)[::-1], side))


@pytest.mark.parametrize("edges", [[0.0, 1, 1], [1.0, 1, 1], [0, 0, 2.5, 3], [2.0], [-np.inf, 0, np.inf], np.linspace(-2, 2, 40), [2, 3]])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "u2", "?"])
@pytest.mark.parametrize("n", [0, 1, 500])
def test_counts_between_edges(edges, dtype, n):
    x = np.random.default_rng(3).integers(-3, 5, n).astype(dtype)
    if x.dtype.kind == "f":
        x[::5] = np.nan
    for density in (False, True) if len(edges) > 1 and n > 1 and x.dtype != bool else (False,):
        f = pyxla.jit(lambda x, e, density=density: np.histogram(x, e, density=density))
        with np.errstate(all="ignore"):
            for got, want in zip(f(x, np.array(edges)), np.histogram(x, np.array(edges), density=density)):
                np.testing.assert_array_equal(got, want, strict=True)
