"""Sorting, partitioning and order statistics: NumPy's bits, over axes, dtypes, layouts and argument forms."""
import numpy as np
import pytest
from checking import DTYPES, check, check_error, extremes, layouts, sample

import pyxla

X = sample((5, 7), "float64", 1)
C = sample((3, 4, 5), "float32", 2)
I = sample((4, 9), "int16", 3)
B = sample((3, 6), "bool", 4)
V = sample(11, "float64", 5)
Z = np.array(2.5)
S = np.float64(2.5)
E = np.zeros((0, 3))
N = np.array([[1.0, np.nan, 3.0, -0.0, 0.0], [np.nan, 5.0, -np.inf, np.inf, 2.0], [np.nan] * 5, [4.0, 3.0, 2.0, 1.0, 0.0]])

SORT = [
    lambda X: np.sort(X), lambda X: np.sort(X, 0), lambda C: np.sort(C, axis=1), lambda C: np.sort(C, None), lambda I: np.sort(I, kind="stable"), lambda X: np.sort(X, kind="heapsort"),
    lambda X: np.sort(X, stable=True), lambda X: np.sort(X.T, 1), lambda B: np.sort(B), lambda N: np.sort(N), lambda E: np.sort(E, 0), lambda E: np.sort(E), lambda Z: np.sort(Z, None),
    lambda V: np.sort(V)[::-1], lambda V: V.sort(), lambda N: np.argsort(N), lambda X: np.argsort(X, 0), lambda C: np.argsort(C, None), lambda I: np.argsort(I, kind="stable"),
    lambda X: np.argsort(X, axis=1, stable=True), lambda B: B.argsort(), lambda Z: np.argsort(Z), lambda S: np.argsort(S), lambda E: np.argsort(E, 0), lambda X: X.argsort(0, kind="mergesort"),
    lambda X: np.partition(X, 3), lambda X: np.partition(X, (1, -2), axis=0), lambda V: np.partition(V, 5, None), lambda I: np.partition(I, [0, 1, 2]), lambda N: np.partition(N, 2), lambda V: np.partition(V, range(11)),
    lambda V: np.argpartition(V, 4), lambda X: np.argpartition(X, (1, 2), axis=0), lambda C: np.argpartition(C, 7, None), lambda X: X.argpartition(-1), lambda Z: np.argpartition(Z, 0),
    lambda X: np.lexsort(X), lambda X: np.lexsort((X[0], X[1] > 0)), lambda I, X: np.lexsort((X[:4, :4], I[:, :4]), 0), lambda I: np.lexsort((I,)), lambda V: np.lexsort((V, np.round(V), V > 0)),
]
STATISTICS = [
    lambda X: np.median(X), lambda X: np.median(X, 0), lambda C: np.median(C, (0, 2)), lambda I: np.median(I, -1, keepdims=True), lambda B: np.median(B, 1), lambda N: np.median(N, 1), lambda V: np.median(V), lambda Z: np.median(Z), lambda S: np.median(S),
    lambda S: np.quantile(S, 0.3, keepdims=True), lambda Z: np.median(Z, keepdims=True), lambda E: np.median(E), lambda E: np.median(E, 0), lambda E: np.median(E, 1, keepdims=True),
    lambda N: np.nanmedian(N[:2]), lambda N: np.nanmedian(N[:2], 1), lambda I: np.nanmedian(I, 0), lambda C: np.nanmedian(C, axis=(1, 2), keepdims=True),
    lambda X: np.quantile(X, 0.3), lambda X: np.quantile(X, [0.1, 0.9], axis=0), lambda C: np.quantile(C, 0.25, (0, 1), keepdims=True), lambda I: np.quantile(I, 1), lambda I: np.quantile(I, np.float32(0.5), 1), lambda N: np.quantile(N, 0.5, 1),
    lambda X: np.percentile(X, 30), lambda X: np.percentile(X, [[10], [50.0]], axis=1), lambda C: np.percentile(C, np.array([5, 95]), axis=-1), lambda I: np.percentile(I, 100), lambda V: np.percentile(V, (25, 50, 75)), lambda C: np.percentile(C, np.float64(40)),
    lambda N: np.nanquantile(N[:2], 0.5), lambda N: np.nanquantile(N[:2], [0.2, 0.5], axis=1), lambda N: np.nanpercentile(N[:2], 50, axis=1, keepdims=True), lambda I: np.nanpercentile(I, 20.0, 0), lambda C: np.nanquantile(C, 0.7, axis=1),
    lambda V: np.quantile(V, 0.4, weights=np.abs(V), method="inverted_cdf"), lambda X: np.percentile(X, [20, 80], weights=X * X, method="inverted_cdf", axis=1), lambda Z: np.quantile(Z, 0.5), lambda X: np.quantile(X, X[0, :3] * 0 + 0.5),
]


def arguments(f):
    return [globals()[name] for name in f.__code__.co_varnames[:f.__code__.co_argcount]]


def bits(f, *args):
    """Order statistics are NumPy's own: bit for bit but for the sign of NaN."""
    return check(f, *args)


@pytest.mark.parametrize("f", SORT, ids=range(len(SORT)))
def test_sorting(f):
    bits(f, *arguments(f))


@pytest.mark.parametrize("f", STATISTICS, ids=range(len(STATISTICS)))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_statistics(f):
    bits(f, *arguments(f))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    x = np.concatenate([extremes(dtype), sample(40, dtype, 6)])

    def f(x):
        return np.sort(x), np.argsort(x, kind="stable"), np.sort(x.reshape(2, -1), 0), np.median(x[5:]), np.partition(x, 4)[4], np.lexsort((x, x > x[0]))

    check(f, x[: len(x) // 2 * 2])


@pytest.mark.parametrize("f", [np.sort, np.sort_complex, np.argsort, lambda z: np.partition(z, 2), lambda z: np.lexsort((z[0], z[1])), lambda z: np.sort_complex(z.real), lambda z: np.sort(z, None)])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex(f, dtype):
    check(f, (X + 1j * X[::-1]).round().astype(dtype))


SHORT = np.array([0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 3.5])


@pytest.mark.parametrize("n", [1, 2, 5, 8, 13, 16, 17])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "uint64", "bool"])
def test_short_rows(n, dtype):
    """Rows of up to 16 elements are sorted by a network, if they are many."""
    rng = np.random.default_rng(n)
    x = SHORT[rng.integers(0, 7 if dtype[0] == "f" else 3, (40, n))] if dtype[0] == "f" else rng.integers(0, 5, (40, n))
    x = x.astype(dtype)

    def f(x):
        return np.sort(x, 1), np.sort(x.T, 0), np.median(x, 1), np.median(x.reshape(4, 10, n), (0, 2)), np.partition(x, n // 2, 1)

    check(f, x)
    network = 1 < n <= 16 and dtype != "bool"
    assert ("host function" in pyxla.jit(lambda x: np.sort(x)).lower(x).compile().as_text()) == (not network)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 11, 16])
def test_the_network_sorts(n):
    """0-1 principle: what sorts all rows of 0 and 1 sorts everything."""
    if n > 12:
        x = np.random.default_rng(n).integers(0, 2, (4000, n)).astype("int16")
    else:
        x = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype("int16")
    x = np.tile(x, (8, 1)) if len(x) < 16 else x
    np.testing.assert_array_equal(pyxla.jit(lambda x: np.sort(x))(x), np.sort(x))


@pytest.mark.parametrize("layout", ["c", "strided", "reversed", "fortran", "unaligned", "byte-swapped"])
def test_layouts(layout):
    def f(x):
        return np.sort(x, 0), np.argsort(x), np.median(x, 1), np.sort(x.T)

    check(f, dict(layouts(X))[layout])


METHODS = ("inverted_cdf averaged_inverted_cdf closest_observation interpolated_inverted_cdf hazen weibull linear median_unbiased normal_unbiased "
           "lower higher midpoint nearest").split()


@pytest.mark.parametrize("name", ["quantile", "percentile", "nanquantile", "nanpercentile"])
@pytest.mark.parametrize("method", METHODS)
def test_methods(name, method):
    g, scale = getattr(np, name), 100 if name.endswith("percentile") else 1
    for dtype in ("bool", "int8", "uint64", "float32", "float64"):
        for q in (0.3, np.float32(0.3), np.array([0.3, 0.6]), np.array([0.5], "float32"), 1):
            if np.lib.NumpyVersion(np.__version__) < "2.3.0" and method in ("averaged_inverted_cdf", "interpolated_inverted_cdf", "weibull"):
                continue                                    # rounds down what it interpolates between integers
            if dtype == "bool" and method not in ("inverted_cdf", "closest_observation", "lower", "higher", "nearest") and (q == 1) is not True:
                continue
            try:
                g(sample(9, dtype, 7), q * scale, method=method)
            except TypeError:
                continue
            check(lambda x: g(x, q * scale, method=method), sample(9, dtype, 7))


def test_traced_quantile():
    check(lambda x, q: (np.quantile(x, q), np.percentile(x.astype("float32"), q * 100)), X, 0.37)
    check(lambda x, q: (np.quantile(x, q), np.quantile(x.astype("float32"), q, axis=0)), X, np.array([0.1, 0.37]))
    f = pyxla.jit(lambda x, q: np.quantile(x, q))
    assert [f(X, q) for q in (0.1, 0.2, 0.9)] == [np.quantile(X, q) for q in (0.1, 0.2, 0.9)]
    assert f.cache_info().traces == 1


def test_between_fused_operations():
    def f(x):
        y = np.sort(np.abs(x), axis=1)
        return (y[:, ::-1] * 2 + np.median(x, axis=1, keepdims=True)).sum(0), np.argsort(x.sum(1))[::-1] + 1

    check(f, X, rtol=1e-14)


def test_in_place():
    def f(x, out):
        x.sort(axis=0)
        x[1].sort()
        x[::2, 1].partition(1)
        out[...] = np.sort(x, None)[:4]
        np.median(x, axis=0, out=x[3])
        return x[0]

    check(f, X.copy(), np.zeros(4))


@pytest.mark.parametrize("f", [
    lambda X: np.sort(X, 2), lambda Z: np.sort(Z), lambda X: np.sort(X, kind="nonsense"), lambda X: np.sort(X, kind="stable", stable=True), lambda X: np.sort(X, order="a"), lambda X: np.partition(X, 7), lambda X: np.partition(X, 1.5),
    lambda X: np.partition(X, -8), lambda X: np.lexsort((X, X[0])), lambda X: np.lexsort(()), lambda X: np.argsort(X, 5), lambda X: np.median(X, 3), lambda X: np.quantile(X, 1.5), lambda X: np.percentile(X, -1), lambda X: np.quantile(X, 0.5, method="nonsense"),
    lambda X: np.quantile(X, 0.5, weights=X), lambda B: np.quantile(B, 0.5), lambda X: np.argpartition(X, 9), lambda X: np.partition(X, 1, kind="quick"), lambda X: np.median(X, (0, 0)), lambda Z: np.argsort(Z, 1),
])
def test_errors(f):
    check_error(lambda *args: (f(*args), np.sort([1.0]))[0], *arguments(f))


def test_a_traced_place_is_guarded():
    f = pyxla.jit(lambda x, k: np.partition(x, k)[k])
    assert [f(V, k) for k in (3, 5, 3)] == [np.sort(V)[k] for k in (3, 5, 3)]


@pytest.mark.parametrize("f", [lambda x: np.argsort(x), lambda x: np.argsort(x, 0, kind="stable"), lambda x: np.argpartition(x, 2)])
def test_indices_are_in_c_order(f):
    def g(x):
        i = f(np.rot90(x))
        return i, i.ravel()

    got = pyxla.jit(g)(X := np.random.default_rng(0).random((5, 7)))
    assert got[0].strides == g(X)[0].strides and np.shares_memory(*got)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8"])
@pytest.mark.parametrize("n", [0, 1, 127, 128, 129, 1003])
def test_bytes_are_counted(dtype, n):
    x = np.random.default_rng(n).integers(-128, 128, (3, n)).astype(dtype)
    for f in (np.sort, lambda x: np.sort(x, kind="stable"), lambda x: np.sort(x, kind="heapsort")[..., ::-1], lambda x: np.sort(x.T, 0), lambda x: np.unique(x), lambda x: np.sort(x[:, ::-2], -1),
              lambda x: np.median(x, 1) if n else 0, lambda x: (np.sort(x, None), x)):
        check(f, x)
