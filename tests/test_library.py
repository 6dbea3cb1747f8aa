"""Functions that are one routine of NumPy's, and polynomials."""
import numpy as np
import pytest
from checking import check, check_error, sample

V = sample(9, "float64", 1)
W = sample(4, "float64", 2)
F = sample(6, "float32", 3)
I = sample(7, "int16", 4)
X = sample((3, 20), "float64", 5)
B = sample((3, 21), "bool", 6)
U = sample((2, 5), "uint8", 7)
G = np.sort(sample(9, "float64", 8))
Z = np.float64(0.3)

EXACT = [
    lambda X, G, V: np.interp(X, G, V), lambda V, G: np.interp(V, G, G * 2, left=-1), lambda V, G: np.interp(V, G, G, 5.0, 6.0), lambda X, G, V: np.interp(X, G * 3, V, period=2.5), lambda Z, G, V: np.interp(Z, G, V),
    lambda F, I: np.interp(F, np.arange(7), I), lambda V, G, Z: np.interp(V, G, G, right=Z),
    lambda V: np.i0(V), lambda F: np.i0(F * 5), lambda I: np.i0(I), lambda X: np.i0(X * 20), lambda Z: np.i0(Z),
    lambda I: np.isin(I, [1, 2, 3]), lambda U, I: np.isin(U, I, invert=True), lambda V: np.isin(V[:4], V, assume_unique=True), lambda I: np.isin(I, I[:3], kind="sort"), lambda V, I: np.isin(np.round(V), I),
    lambda B: np.packbits(B), lambda B: np.packbits(B, axis=0), lambda B: np.packbits(B, 1, "little"), lambda U: np.packbits(U, axis=-1), lambda U: np.unpackbits(U), lambda U: np.unpackbits(U, axis=1), lambda U: np.unpackbits(U, axis=0, count=5),
    lambda U: np.unpackbits(U, axis=1, count=-3, bitorder="little"), lambda U: np.unpackbits(U, count=100), lambda B: np.unpackbits(np.packbits(B, 1), 1)[:, :21] == B,
    lambda X, W: np.einsum_path("ij,ik,kl->jl", X, X, X.T)[0], lambda X: np.einsum_path("ij,ik->jk", X, X, optimize="optimal"),
]
POLYNOMIALS = [
    lambda V, W: np.convolve(V, W), lambda V, W: np.convolve(W, V, "same"), lambda V, W: np.convolve(V, W, mode="valid"), lambda I, F: np.convolve(I, F), lambda I: np.convolve(I, [1, 2]), lambda V, Z: np.convolve(V, Z),
    lambda V, W: np.correlate(V, W), lambda V, W: np.correlate(W, V, "full"), lambda I: np.correlate(I, I, "same"), lambda V: np.convolve(V, [0.25, 0.5, 0.25], "same"),
    lambda V, W: np.polyadd(V, W), lambda W, V: np.polysub(W, V), lambda V: np.polyder(V), lambda V: np.polyder(V, 3), lambda I: np.polyder(I), lambda V: np.polyint(V), lambda V: np.polyint(V, 2, [1, 2]), lambda I: np.polyint(I, m=2, k=3),
    lambda W: np.poly(W), lambda F: np.poly(F), lambda I: np.poly(I[:3]), lambda V, W: np.polyval(W, V), lambda W: np.poly(W[:0]),
    lambda G, V: np.polyfit(G, V, 2), lambda G, V: np.polyfit(G, np.stack([V, G], 1), 1), lambda G, V: np.polyfit(G, V, 3, w=np.abs(V) + 1), lambda G, V: np.polyfit(G, V, 2, full=True), lambda G, V: np.polyfit(G, V, 1, cov=True),
    lambda G, V: np.polyfit(G, V, 2, cov="unscaled"), lambda G, V: np.polyfit(G, np.stack([V, G * 2 + V], 1), 1, cov=True), lambda I: np.polyfit(np.arange(7), I, 2), lambda G, V: np.polyval(np.polyfit(G, V, 2), G) - V,
]


def arguments(f):
    return [globals()[name] for name in f.__code__.co_varnames[:f.__code__.co_argcount]]


@pytest.mark.parametrize("f", EXACT, ids=range(len(EXACT)))
def test_exact(f):
    check(f, *arguments(f))


@pytest.mark.parametrize("f", POLYNOMIALS, ids=range(len(POLYNOMIALS)))
def test_polynomials(f):
    check(f, *arguments(f), rtol=2e-6 if any(a.dtype == np.float32 for a in arguments(f)) else 1e-12, signs=False)


@pytest.mark.parametrize("f", [
    lambda X, V: np.convolve(X, V), lambda V: np.convolve(V, V[:0]), lambda V: np.correlate(V, V, "nonsense"), lambda V: np.packbits(V), lambda I: np.unpackbits(I), lambda U: np.unpackbits(U, 1, -99), lambda I: np.isin(I, I, kind="x"),
    lambda V, G: np.interp(V, G, G[:3]), lambda V, G: np.interp(V, G[:0], G[:0]), lambda G, V: np.polyfit(G, V[:3], 1), lambda G, V: np.polyfit(G, V, -1), lambda X, V: np.polyfit(X, V, 1), lambda V: np.polyint(V, -1), lambda X: np.poly(X[None]),
])
def test_errors(f):
    check_error(f, *arguments(f))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int8", "uint64", "bool", "float16"])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 3), (3, 5), (10, 10), (100, 7), (8, 100), (64, 32), (40, 33)])
def test_slid_vectors(dtype, n, m):
    """Up to 32 taps are a stencil and two ends, which leave out what NumPy leaves out: nothing is multiplied by an infinity beyond the edge."""
    a, v = sample(n, dtype, 1), sample(m, dtype, 2)
    if np.dtype(dtype).kind == "f" and n > 3:
        a[1], a[-1], v[0] = np.inf, np.nan, -0.0
    for mode in ("full", "same", "valid"):
        for f in (np.convolve, np.correlate):
            for x in (a, a[::-1]):
                check(lambda a, v, f=f, mode=mode: f(a, v, mode), x, v, rtol={"f": 1e-5 if dtype != "float64" else 1e-12, "c": 1e-4}.get(np.dtype(dtype).kind, 0), atol=1e-5 if np.dtype(dtype).kind in "fc" else 0)


@pytest.mark.parametrize("tests", [[1, 2], [], [1.5, 2, np.nan], np.uint64(3), np.arange(9), np.arange(10), [[True]]], ids=range(7))
@pytest.mark.parametrize("invert", [False, True])
def test_isin_of_few(tests, invert):
    x = np.random.default_rng(0).integers(0, 12, (5, 10))
    for a in (x, x.T, x.astype("float32"), x.astype("uint8"), x > 5, x[:0], np.array(2), np.float32(2)):
        check(lambda a: np.isin(a, tests, invert=invert), a)
        check(lambda a, t: np.isin(a, t, invert=invert), a, np.asarray(tests))
