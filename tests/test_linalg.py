"""np.linalg's decompositions: over dtypes, stacks, layouts and argument forms, between fused operations, and their errors."""
import numpy as np
import pytest
from checking import check, check_error, layouts, sample

import pyxla

LA = np.linalg
S4 = sample((4, 4), "float64", 1)
F4 = sample((4, 4), "float32", 2)
I4 = sample((4, 4), "int32", 3)
ST = sample((2, 3, 4, 4), "float64", 4)
T53 = sample((5, 3), "float64", 5)
W35 = sample((3, 5), "float32", 6)
TS = sample((2, 5, 3), "float64", 7)
V4 = sample(4, "float64", 8)
V5 = sample(5, "float64", 9)
R = np.outer(V5, V4)
E = np.zeros((0, 0))
E03 = np.zeros((2, 0, 3))
T4 = sample((2, 3, 6), "float64", 10)
Q = sample((6, 4, 2, 3, 4), "float64", 11)


def sym(a):
    return a @ np.swapaxes(a, -1, -2) + np.eye(a.shape[-1], dtype=a.dtype)


SQUARE = {
    "inv": LA.inv, "det": LA.det, "slogdet": LA.slogdet, "solve-vector": lambda a: LA.solve(a, a[0] if a.ndim == 2 else a[0, 0, 0]),
    "solve-matrix": lambda a: LA.solve(a, a[..., :2]), "cholesky": lambda a: LA.cholesky(sym(a)), "cholesky-upper": lambda a: LA.cholesky(sym(a), upper=True),
    "eigh": lambda a: LA.eigh(sym(a))[0], "eigh-u": lambda a: LA.eigh(sym(a), "U").eigenvalues, "eigvalsh": lambda a: LA.eigvalsh(sym(a), UPLO="U"),
    "eigh-back": lambda a: (lambda w, v: (v * w[..., None, :]) @ np.swapaxes(v, -1, -2))(*LA.eigh(sym(a))),
    "power": lambda a: LA.matrix_power(a, -3), "cond-1": lambda a: LA.cond(a, 1), "cond-fro": lambda a: LA.cond(a, "fro"), "cond-inf": lambda a: LA.cond(a, np.inf),
    "svd-h": lambda a: LA.svd(sym(a), hermitian=True).S, "svd-hs": lambda a: LA.svd(sym(a), compute_uv=False, hermitian=True),
    "rank-h": lambda a: LA.matrix_rank(sym(a), hermitian=True), "pinv-h": lambda a: LA.pinv(sym(a), hermitian=True),
}
ANY = {
    "svd": lambda a: LA.svd(a)[1], "svdvals": LA.svdvals, "svd-s": lambda a: LA.svd(a, compute_uv=False),
    "svd-back": lambda a: (lambda u, s, v: (u * s[..., None, :]) @ v)(*LA.svd(a, full_matrices=False)),
    "svd-shapes": lambda a: tuple(abs(x) for x in LA.svd(a)) if a.shape[-1] == a.shape[-2] else [x.shape for x in LA.svd(a)],
    "qr": lambda a: LA.qr(a), "qr-complete": lambda a: LA.qr(a, mode="complete"), "qr-r": lambda a: LA.qr(a, "r"), "qr-raw": lambda a: LA.qr(a, mode="raw"),
    "pinv": LA.pinv, "pinv-rcond": lambda a: LA.pinv(a, 0.1), "pinv-rtol": lambda a: LA.pinv(a, rtol=None),
    "rank": LA.matrix_rank, "rank-tol": lambda a: LA.matrix_rank(a, 0.5), "rank-rtol": lambda a: LA.matrix_rank(a, rtol=1e-3),
    "cond": LA.cond, "cond-2": lambda a: LA.cond(a, -2), "norm-2": lambda a: LA.norm(a, 2, axis=(-2, -1)), "norm-m2": lambda a: LA.norm(a, -2, (-1, -2)),
    "norm-nuc": lambda a: LA.norm(a, "nuc", (-2, -1), keepdims=True), "matrix-norm": lambda a: LA.matrix_norm(a, ord=2),
    "matrix-norm-kept": lambda a: LA.matrix_norm(a, ord="nuc", keepdims=True),
}
OTHER = {
    "lstsq": lambda T53, V5: LA.lstsq(T53, V5), "lstsq-matrix": lambda T53: LA.lstsq(T53, T53[:, :2]), "lstsq-wide": lambda W35: LA.lstsq(W35, W35[:, 0], rcond=None),
    "lstsq-rcond": lambda T53, V5: LA.lstsq(T53, V5, rcond=0.3)[0::2], "lstsq-no-columns": lambda T53: LA.lstsq(T53, T53[:, :0]), "lstsq-float32": lambda W35: LA.lstsq(W35.T, W35[0]),
    "lstsq-traced-rcond": lambda T53, V5: LA.lstsq(T53, V5, rcond=abs(V5[0]) * 1e-3)[0], "lstsq-no-rows": lambda E03: LA.lstsq(E03[0], E03[0])[0],
    "tensorsolve": lambda T4, S4: LA.tensorsolve(T4.reshape(2, 3, 6), S4[:2, :3]), "tensorsolve-axes": lambda Q: LA.tensorsolve(Q.transpose(2, 3, 4, 0, 1), Q[:, :, 0, 0, 0], axes=(0, 1, 2)),
    "tensorinv": lambda Q: LA.tensorinv(Q.reshape(4, 6, 24)), "tensorinv-1": lambda S4: LA.tensorinv(S4.reshape(4, 2, 2), 1),
    "empty-inv": lambda E: LA.inv(E), "empty-det": lambda E: LA.det(E), "empty-svd": lambda E03: LA.svd(E03)[1], "empty-qr": lambda E03: LA.qr(E03), "empty-pinv": lambda E03: LA.pinv(E03),
    "solve-stack": lambda ST, S4: LA.solve(ST, S4), "solve-broadcast": lambda S4, ST: LA.solve(S4, ST), "solve-mixed": lambda F4, I4: LA.solve(F4, I4),
    "rank-vector": lambda V4: np.int64(0) + LA.matrix_rank(V4), "rank-of-one": lambda R: LA.matrix_rank(R), "singular-cond": lambda R: LA.cond(R[:4], 1), "nan-cond": lambda S4: LA.cond(S4 / (S4 > 0), 1),
    "det-of-nan": lambda S4: LA.det(S4 * np.nan), "multi": lambda S4, F4: LA.multi_dot([S4, LA.inv(F4), S4]),
}


COMPLEX = {
    "inv": LA.inv, "det": LA.det, "slogdet": LA.slogdet, "solve": lambda a: LA.solve(a, a[0]), "cholesky": lambda a: LA.cholesky(a @ a.conj().T + np.eye(4, dtype=a.dtype)), "eig": lambda a: LA.eig(a)[0], "eigvals": LA.eigvals,
    "eigh": lambda a: LA.eigh(a + a.conj().T)[0], "eigvalsh": LA.eigvalsh, "svd": lambda a: LA.svd(a)[1], "svd-back": lambda a: (lambda u, s, v: (u * s) @ v)(*LA.svd(a)), "qr": LA.qr, "pinv": LA.pinv, "cond": LA.cond, "cond-1": lambda a: LA.cond(a, 1),
    "rank": LA.matrix_rank, "lstsq": lambda a: LA.lstsq(a[:, :3], a[:, 0]), "norm": LA.norm, "norm-1": lambda a: LA.norm(a, 1), "norm-axis": lambda a: LA.norm(a, axis=0), "norm-2": lambda a: LA.norm(a, 2), "norm-3": lambda a: LA.norm(a[0], 3),
    "power": lambda a: LA.matrix_power(a, -2), "tensorinv": lambda a: LA.tensorinv(a.reshape(2, 2, 4)), "svd-h": lambda a: LA.svd(a + a.conj().T, hermitian=True)[1], "multi": lambda a: LA.multi_dot([a, a, a]), "polyfit": lambda a: np.polyfit(np.arange(4.0), a[1], 1),
}


def accuracy(*arrays):
    return {"rtol": 3e-4 if any(a.dtype.char in "fF" for a in arrays) else 1e-9, "signs": False}


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_complex(name, dtype):
    a = (S4 + 1j * S4.T + np.eye(4)).astype(dtype)
    if name == "cond-1" and np.lib.NumpyVersion(np.__version__) < "2.3.0":
        pytest.skip("was complex")
    check(COMPLEX[name], a, **accuracy(a))
    check(lambda a: COMPLEX[name](a * 2 - 1j), a, **accuracy(a))


def test_a_real_matrix_cast_to_complex():
    check(lambda a: LA.eigvals(a.astype(complex)), S4, **accuracy(S4))


@pytest.mark.parametrize("name", SQUARE)
@pytest.mark.parametrize("a", [S4, F4, I4, ST], ids=["f64", "f32", "i32", "stack"])
def test_square(name, a):
    check(lambda a: SQUARE[name](a * 2 + np.eye(4, dtype=a.dtype)), a, **accuracy(a))


@pytest.mark.parametrize("name", ANY)
@pytest.mark.parametrize("a", [S4, T53, W35, TS, I4], ids=["square", "tall", "wide-f32", "stack", "i32"])
def test_any(name, a):
    if name == "pinv-rtol" and a.dtype.kind == "i":
        pytest.skip("NumPy asks for the precision of an integer")
    check(lambda a: ANY[name](a + 1), a, **accuracy(a))


@pytest.mark.parametrize("name", OTHER)
def test_other(name):
    f = OTHER[name]
    args = [globals()[n] for n in f.__code__.co_varnames[:f.__code__.co_argcount]]
    check(f, *args, **accuracy(*args))


@pytest.mark.parametrize("name", ["inv", "qr-complete", "solve-matrix", "svd-s", "cholesky"])
@pytest.mark.parametrize("layout", ["c", "strided", "reversed", "fortran", "unaligned", "byte-swapped"])
def test_layouts(name, layout):
    f = {**SQUARE, **ANY}[name]
    check(f, dict(layouts(S4))[layout], **accuracy(S4))
    check(lambda a: f(a.T), dict(layouts(S4))[layout], **accuracy(S4))


def test_between_fused_operations():
    def f(X, y, ridge):
        A = X.T @ X / len(X) + ridge * np.eye(X.shape[1])
        w = LA.solve(A, X.T @ y / len(X))
        r = y - X @ w
        return w, r.std(), LA.slogdet(A)[1] - np.log(r * r + 1).sum()

    jitted = check(f, sample((50, 6), "float64", 1), sample(50, "float64", 2), 0.1, rtol=1e-11, signs=False)
    plan = jitted.lower(sample((50, 6), "float64", 1), sample(50, "float64", 2), 0.1).compile()
    assert plan.as_text().count("host function") == 2


def test_written_in_place():
    def f(a, out):
        a[:2] = LA.inv(a)[:2]
        out[...] = LA.cholesky(sym(a))
        return a

    check(f, S4.copy(), np.zeros((4, 4), "float32"), rtol=1e-6, signs=False)


SMALL = {
    "inv": LA.inv, "det": LA.det, "solve": lambda a: LA.solve(a, a[..., :1] + 1), "solve-vector": lambda a: LA.solve(a, np.arange(a.shape[-1])), "cholesky": lambda a: LA.cholesky(sym(a)), "upper": lambda a: LA.cholesky(sym(a), upper=True),
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("batch", [(), (9,), (2, 3), (0,)])
def test_small_matrices(name, n, batch):
    """Up to 4 x 4 they are code of their own, without a host call."""
    a = sample((*batch, n, n), "float64", n) + 3 * np.eye(n)
    jitted = check(SMALL[name], a, rtol=1e-13, signs=False)
    check(SMALL[name], a.astype("float32"), rtol=1e-6, signs=False)
    assert ("host function" in jitted.lower(a).compile().as_text()) == (n == 5)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_small_matrices_need_pivots(n):
    a = np.eye(n)[::-1] * np.array([1e-200, 1e-3, 1.0, 1e200])[:n]
    a = a + np.triu(sample((n, n), "float64", 1) * 1e-210)[::-1]
    for f in (LA.inv, lambda a: LA.solve(a, np.ones(n)), LA.det, LA.slogdet):
        want, got = f(a), pyxla.jit(f)(a)
        np.testing.assert_allclose(got[0] if isinstance(got, tuple) else got, want[0] if isinstance(want, tuple) else want, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_one_singular_matrix_of_a_stack(n):
    a = np.stack([np.eye(n)] * 6)
    a[4] = 0
    for f, message in ((LA.inv, "Singular"), (lambda a: LA.solve(a, a[0]), "Singular"), (LA.cholesky, "positive definite")):
        with pytest.raises(LA.LinAlgError, match=message):
            pyxla.jit(f)(a)
        with pytest.raises(LA.LinAlgError):
            f(a)
    np.testing.assert_array_equal(pyxla.jit(LA.det)(a), LA.det(a))


@pytest.mark.parametrize("f, message", [
    (lambda a: LA.inv(a), "Singular matrix"), (lambda a: LA.solve(a, a), "Singular matrix"), (lambda a: LA.cholesky(-sym(a)), "positive definite"),
    (lambda a: LA.svd(a * np.nan), "SVD did not converge"), (lambda a: LA.matrix_power(a, -1), "Singular matrix"), (lambda a: LA.eigh(a * np.nan), "Eigenvalues did not converge"),
    (lambda a: LA.lstsq(a * np.nan, a)[0], "Linear Least Squares"),
], ids=["inv", "solve", "cholesky", "svd", "power", "eigh", "lstsq"])
@pytest.mark.parametrize("n", [3, 6])
def test_errors_at_run_time(f, message, n):
    a = np.ones((n, n))
    if "converge" in message or "Squares" in message:
        try:
            f(a)
        except LA.LinAlgError:
            pass
        else:
            pytest.skip("this LAPACK converges")

    def g(a):
        r = f(a)
        a += 1
        return r

    with pytest.raises(LA.LinAlgError, match=message):
        pyxla.jit(g)(a)
    np.testing.assert_array_equal(a, np.ones((n, n)))


@pytest.mark.parametrize("f", [
    lambda a: LA.inv(a), lambda a: LA.det(a[0]), lambda a: LA.solve(a[:, :2], a), lambda a: LA.solve(a[:, :2], np.ones(3)), lambda a: LA.cholesky(a), lambda a: LA.qr(a[0]), lambda a: LA.qr(a, "nonsense"),
    lambda a: LA.eigh(a[:, :2], "X"), lambda a: LA.svd(a[0]), lambda a: LA.cond(a, 1), lambda a: LA.cond(a[:0]), lambda a: LA.pinv(a, 1e-3, rtol=1e-3), lambda a: LA.lstsq(a, np.ones(3)), lambda a: LA.lstsq(a[0], a[0]),
    lambda a: LA.tensorinv(a, 0), lambda a: LA.tensorsolve(a, a[0]), lambda a: LA.matrix_rank(a, 1, rtol=1),
])
def test_errors_at_trace_time(f):
    check_error(f, np.ones((2, 3)))


def test_residuals_of_a_deficient_matrix():
    f = pyxla.jit(LA.lstsq)
    for a in (R, R + np.eye(*R.shape), R):
        for got, want in zip(f(a, V5), LA.lstsq(a, V5)):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("p", [None, 2, -2, 1, "fro", "nuc", np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_cond_of_matrices_that_are_not_finite(p, dtype):
    """NaN from NumPy 2.5 on, an error before."""
    x = (np.arange(18.0).reshape(2, 3, 3) + 9 * np.eye(3)).astype(dtype)
    x[1, 0, 0] = np.nan
    with np.errstate(all="ignore"):
        try:
            want = np.linalg.cond(x, p)
        except np.linalg.LinAlgError:
            with pytest.raises(np.linalg.LinAlgError):
                pyxla.jit(np.linalg.cond, static_argnums=1)(x, p)
            return
        got = pyxla.jit(np.linalg.cond, static_argnums=1)(x, p)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-4)
