"""Variances of arrays past the second cache: read once, as accurate as NumPy's two passes or better."""
import numpy as np
import pytest

import pyxla

R = np.random.default_rng(0)
SHAPES = [(1000, 1200), (1_000_003,), (300_000, 7), (3, 700, 900), (2, 600_000), (1 << 20,), (70, 1, 16411)]


def plan(f, *args):
    return str(pyxla.jit(f).lower(*args).compile().plan).split("\nkernel 0")[0]


def reads(f, *args):
    return sum(line.startswith("launch") and " in0" in line for line in plan(f, *args).splitlines())


def exact(x, axis=None, ddof=0):
    x = x.astype(np.longdouble)
    d = x - x.mean(axis, keepdims=True)
    return (d * d).sum(axis) / (x.size / np.size(d.sum(axis)) - ddof)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_of_an_array_is_read_once(shape):
    x = R.random(shape).astype("float32")
    left = 2 if shape in ((1_000_003,), (70, 1, 16411)) else 1       # blocks do not come out even: the rest is a launch of its own
    assert reads(lambda x: x.var(), x) <= left
    assert reads(lambda x: (x.mean(), x.std(), x.max(), x.min()), x) <= left
    assert reads(lambda x: (x - x.mean()) / x.std(), x) <= left + 1


def test_few_long_rows_are_read_once():
    x = R.random((3, 700, 900)).astype("float32")
    assert reads(lambda x: x.var((1, 2)), x) == 1 and reads(lambda x: x.std(-1), x.reshape(3, -1)) == 1
    assert reads(lambda x: np.exp(x).std(), x.reshape(-1, 1800)) == 1


def test_normalized_columns_are_read_twice():
    x = R.random((2000, 300)).astype("float32")
    assert reads(lambda x: (x - x.mean(0)) / x.std(0), x) == 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("mean", [0, 1, 1e4, 1e6])
def test_is_as_accurate_as_two_passes(shape, dtype, mean):
    x = (R.standard_normal(shape) + mean).astype(dtype)
    axis = tuple(range(1, x.ndim)) if shape[0] < 10 else None
    want = exact(x, axis)
    error, numpys = (np.max(np.abs(v.astype(np.longdouble) - want) / want) / np.finfo(dtype).eps for v in (pyxla.jit(lambda x: x.var(axis))(x), x.var(axis)))
    assert error <= max(2, numpys)


def test_trends_and_steps_cancel_nothing():
    n = 1 << 20
    for x in (np.arange(n) * 1e3 + 1e9, np.where(np.arange(n) < 5000, 1e9, R.standard_normal(n)), np.repeat(R.standard_normal(64) * 1e6, n // 64)):
        assert abs(pyxla.jit(np.var)(x) - exact(x)) / exact(x) < 1e-15


@pytest.mark.parametrize("ddof", [0, 1, 2_000_000])
def test_ddof_and_keepdims(ddof):
    x = R.random((1000, 1201))
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning) if ddof > x.size else np.errstate():
        want = np.var(x, ddof=ddof, keepdims=True)
    np.testing.assert_allclose(pyxla.jit(lambda x: np.var(x, ddof=ddof, keepdims=True))(x), want, rtol=1e-14)


def test_equal_elements_have_no_variance():
    for v in (0.1, 1e-300, 3e7, 1 / 3):
        x = np.full(600_000, v)
        assert 0 <= pyxla.jit(np.std)(x) <= abs(v) * 1e-15


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 999_999, 500_000])
def test_what_is_not_finite(value, at):
    x = R.random(1_000_000).astype("float32")
    x[at] = value
    with np.errstate(all="ignore"):
        for got, want in zip(pyxla.jit(lambda x: (x.var(), x.mean(), x.max(), x.min()))(x), (x.var(), x.mean(), x.max(), x.min())):
            np.testing.assert_allclose(got, want, rtol=1e-5)


def test_overflow_is_infinite():
    x = np.where(np.arange(600_000) % 2, 1e200, -1e200)
    assert pyxla.jit(np.var)(x) == np.inf


@pytest.mark.parametrize("view", [lambda x: x[::-1], lambda x: x.T, lambda x: x[:, ::2], lambda x: x * 3, lambda x: x.ravel(), lambda x: (x * 2).ravel()], ids=range(6))
def test_views_and_computed_values(view):
    x = R.random((1100, 1300))
    np.testing.assert_allclose(pyxla.jit(lambda x: view(x).var())(x), view(x).var(), rtol=1e-13)
    np.testing.assert_allclose(pyxla.jit(np.var)(view(x)), view(x).var(), rtol=1e-13)


def test_threads_do_not_change_a_bit():
    x = R.random(1_000_003)
    assert pyxla.jit(np.var, threads=1)(x) == pyxla.jit(np.var, threads=2)(x)


def test_several_results_per_row_keep_the_vectors_along_it():
    text = str(pyxla.jit(lambda x: (x.sum(1), x.max(1), x.min(1))).lower(R.random((1000, 1000)).astype("float32")).compile().plan)
    assert "[a0:arg" in text.split("access x0 = A0")[1].splitlines()[0] and "for a0 whole grid" in text


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [2, 10, 1000])
@pytest.mark.parametrize("f", [lambda x: x.var(0), lambda x: x.reshape(2, -1, 64).var((0, 1)), lambda x: (x * 2).var(0), lambda x: np.abs(-x).var(axis=0, ddof=1), lambda x: np.square(x.std(0))])
def test_variance_down_columns_does_not_know_the_mean(dtype, n, f):
    """Deviations are from a first element, so that the single pass errs by a few eps whatever the mean is."""
    x = (np.random.default_rng(n).normal(size=(n, 64)) + 1e4).astype(dtype)
    true = f(x.astype(np.longdouble))
    assert (np.abs((pyxla.jit(f)(x) - true) / true) <= 12 * np.finfo(dtype).eps).all()


def test_variance_down_columns_that_are_not_finite():
    x = np.random.default_rng(0).normal(size=(50, 6))
    x[0, 1], x[7, 2], x[0, 3], x[9, 4] = np.inf, -np.inf, np.nan, np.nan
    x[:, 5] = 1e150
    with np.errstate(all="ignore"):
        want = x.var(0)
    got = pyxla.jit(lambda x: x.var(0))(x)
    assert np.allclose(got[:5], want[:5], rtol=1e-13, equal_nan=True) and got[5] == 0          # (NumPy's mean is rounded)


@pytest.mark.parametrize("f", [lambda x: x.var(), lambda x: (x.std(ddof=1), x.mean())])
def test_lengths_share_kernels(f):
    """Of arrays that the second cache does not hold, too: block lengths and numbers of blocks are arguments of the kernels."""
    g = pyxla.jit(f)
    for n in range(400_000, 500_000, 2_500):
        x = np.arange(n) % 7.0
        np.testing.assert_allclose(g(x), f(x), rtol=1e-12)
    launches = g.lower(x).compile().launches
    assert g.cache_info().compiled <= 4 * launches                # (others of this process may have compiled them before)
