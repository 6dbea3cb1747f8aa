"""The strides of results are NumPy's: the order of the axes follows the arguments where NumPy's does."""
import numpy as np
import pytest

import pyxla

C = np.arange(24.0).reshape(2, 3, 4)
F = np.asfortranarray(C)
M = C.transpose(1, 0, 2)                                    # neither: the axes in the order 1, 0, 2
P = np.asfortranarray(np.arange(30.0).reshape(5, 6))
Q = np.arange(30.0).reshape(5, 6)

EXPRESSIONS = {
    "transpose": lambda C, F, M, P, Q: (P.T * 2, Q.T * 2 + 1, C.T + C.T, C.swapaxes(0, 1) * 2, np.moveaxis(C, 0, -1) - 1),
    "one order": lambda C, F, M, P, Q: (F * 2, M * 2, F + F, np.exp(M) / (M + 1), F > 1, np.divmod(F, 2)[1], np.sqrt(P), -M),
    "two orders": lambda C, F, M, P, Q: (F + C, C + F, P + Q, P * Q, Q[:5, :5].T + Q[:5, :5], np.logaddexp(F, C)),
    "broadcast": lambda C, F, M, P, Q: (F + np.ones(4), np.ones((3, 1)) + F, P[:, None, :] * np.ones((2, 1)), P[None] * 2, P[:, None] + 1,
                                        np.broadcast_to(Q[0][:, None], (6, 4)) * 2, P[:, :1] * Q[:1]),
    "steps": lambda C, F, M, P, Q: (F[:, ::2] * 2, F[:, ::-1] * 2, C[:, ::-1] * 2, M[::-1, ::-1] + 1, P[1:4, ::-2] * 2),
    "casts": lambda C, F, M, P, Q: (F.astype("float32"), M.astype("int64"), F.copy(), np.copy(F), np.clip(M, 0, 1)),
    "where": lambda C, F, M, P, Q: (np.where(F > 2, F, 0), np.where(F > 2, C, 0), np.where(M > 1, M, -M)),
    "reductions": lambda C, F, M, P, Q: (F.sum(0), F.sum(1), F.sum(2), M.sum(1), M.max(2), F.mean(0), F.var(0), F.std(2), (F > 1).any(0),
                                         F.sum(0, keepdims=True), M.sum(1, keepdims=True), F.sum((0, 2)), F.argmax(0), F.argmax(2)),
    "scans": lambda C, F, M, P, Q: (F.cumsum(0), F.cumsum(2), np.cumprod(M, 1)),
    "joins": lambda C, F, M, P, Q: (np.concatenate([F, F], 1), np.concatenate([F, C], 1), np.concatenate([M, M], 0), np.stack([F, F]),
                                    np.stack([F, F], -1), np.pad(F, 1), np.pad(M, 1), np.pad(Q[:1], 1).T * 2, np.pad(P[:, :1], 1).T * 2),
    "moves": lambda C, F, M, P, Q: (np.flip(F, 0) * 1, np.roll(F, 1, 1), np.tile(P, (2, 2)), np.repeat(P, 2, 0), np.diff(F, axis=0)),
    "reshapes": lambda C, F, M, P, Q: (F.reshape(6, 4) * 1, C.reshape(6, 4) * 1, P.reshape(5, 1, 6) * 2, (F * 2)[None], (F * 3).reshape(2, 12)),
    "products": lambda C, F, M, P, Q: (P.T @ Q, P @ Q.T, F.swapaxes(1, 2) @ F, np.outer(P[0], Q[0])),
    "read flat": lambda C, F, M, P, Q: (np.cos(F), np.cos(F).reshape(-1).sum(), np.sin(M), np.diff(np.sin(M).ravel()), P.T * 2, (P.T * 2).ravel().max()),
    "views of results": lambda C, F, M, P, Q: ((P * 2).T, (Q * 2).T, (M + 1).transpose(1, 0, 2)),
    "of older functions": lambda C, F, M, P, Q: (
        *[np.round(x, d) for x in (F, M, C) for d in (2, -1)], *[np.delete(x, i, a) for x in (F, M, C) for a in (0, 1, 2) for i in (1, [1], [1, 1], [], slice(0, 1))],
        *[np.insert(x, i, 5, a) for x in (F, M, C) for a in (0, 1, 2) for i in (1, [1], [1, 0])],
        *[np.percentile(x, q, a) for x in (F, M, C) for a in (0, 1, 2) for q in (30, [20, 40])],
        *[f(x.astype("u1"), a) for x in (F, M, C) for a in (0, 1, 2) for f in (np.packbits, np.unpackbits)]),
    "rows": lambda C, F, M, P, Q: (np.exp(P - P.max(1, keepdims=True)), P / P.sum(0), P.var(1, keepdims=True) * np.ones((1, 6))),
}


def strides(a):
    return tuple(s for s, n in zip(a.strides, a.shape) if n > 1)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_strides_are_numpys(name):
    f = EXPRESSIONS[name]
    jitted = pyxla.jit(f)
    for k, (w, g) in enumerate(zip(f(C, F, M, P, Q), jitted(C, F, M, P, Q))):
        np.testing.assert_allclose(g, w, rtol=1e-12, err_msg=f"result {k}")
        assert strides(g) == strides(w), f"result {k}: {g.strides}, NumPy's are {w.strides}"


def test_results_own_their_memory_in_any_order():
    y = pyxla.jit(lambda x: x.T * 2)(Q)
    assert y.flags.owndata and y.flags.writeable and y.flags.f_contiguous and not y.flags.c_contiguous and y.base is None
    y = pyxla.jit(lambda x: x.T * 2)(P)
    assert y.flags.owndata and y.flags.c_contiguous


def test_a_layout_is_planned_not_traced():
    f = pyxla.jit(lambda x, y: x * 2 + y)
    for x in (Q, P, Q[::-1], P[:, ::-1]):
        for y in (Q + 1, P + 1):
            got = f(x, y)
            np.testing.assert_array_equal(got, x * 2 + y)
            assert strides(got) == strides(x * 2 + y)
    assert f.cache_info().traces == 1


def test_results_that_share_a_base():
    @pyxla.jit
    def f(x):
        y = x * 2
        return y, y.T, y[1:], y.reshape(-1)

    for x in (Q, P):
        whole, turned, part, flat = f(x)
        np.testing.assert_array_equal(whole, x * 2)
        np.testing.assert_array_equal(turned, whole.T)
        np.testing.assert_array_equal(part, whole[1:])
        np.testing.assert_array_equal(flat, (x * 2).reshape(-1))
        assert np.shares_memory(whole, turned) and np.shares_memory(whole, part)
        y = x * 2
        assert np.shares_memory(whole, flat) == np.shares_memory(y, y.reshape(-1))


def test_written_arguments_keep_their_layout():
    @pyxla.jit
    def f(x, y):
        x += y
        x[1:] *= 2
        return x + 1

    for x in (Q, P, M[0]):
        a, b = x.copy("K"), x.copy("K")
        got, want = f(a, x), f.__wrapped__(b, x)
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(got, want)
        assert strides(a) == strides(b) and strides(got) == strides(want)


def test_donated_in_fortran_order():
    f = pyxla.jit(lambda x, y: x + y, donate_argnums=0)
    x = P.copy("K")
    got = f(x, P)
    assert np.shares_memory(got, x)
    np.testing.assert_array_equal(got, P * 2)
    x = P.copy("K")
    got = f(x, Q)                                           # C order wins: another layout
    assert not np.shares_memory(got, x)
    np.testing.assert_array_equal(got, P + Q)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float32", "int64", "float64"])
@pytest.mark.parametrize("shape", [(70, 45), (130, 67), (33, 200), (4, 90, 50)])
def test_arrays_along_different_axes(shape, dtype):
    def f(x, y):
        z = np.where(y, x.T, y)
        return z, x.T != y, np.ascontiguousarray(x.T), x[::-1].T | y if x.dtype.kind in "biu" else x[::-1].T * 2 + y

    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=shape) * 9).astype(dtype), (rng.normal(size=shape[::-1]) * 9).astype(dtype)
    jitted = pyxla.jit(f)
    for a, b in ((x, y), (np.asfortranarray(x), np.asfortranarray(y)), (x[..., ::-1], y), (x.astype(x.dtype.newbyteorder()), y)):
        for got, want in zip(jitted(a, b), f(a, b)):
            np.testing.assert_array_equal(got, want)
            assert strides(got) == strides(want)


def test_what_is_reduced_of_arrays_along_different_axes_is_stored_by_tiles_where_rows_conflict():
    """Rows a power of two apart evict each other from the caches: the value goes by tiles first, and is reduced in order."""
    rng = np.random.default_rng(5)
    cases = {
        "whole": lambda x, y: (x.T * y).sum(),
        "rows": lambda x, y: (x.T * y).sum(axis=1),
        "columns": lambda x, y: np.max(x.T - y, axis=0),
        "var": lambda x, y: np.var(x.T + y, axis=0),
        "softmax": lambda x, y: np.exp(x.T - y) / np.exp(x.T - y).sum(axis=1, keepdims=True),
        "two": lambda x, y: ((x.T * y).sum(1), (x.T * y).argmax(), x.T * y),
        "after": lambda x, y: (x.T * y).sum(1, keepdims=True) + x,
    }
    for shape in ((256, 256), (128, 300), (300, 128)):
        x, y = rng.standard_normal(shape[::-1]), rng.standard_normal(shape)
        for name, fn in cases.items():
            if name == "after" and shape[0] != shape[1]:
                continue
            jitted = pyxla.jit(fn)
            for got, want in zip(jitted(x, y), fn(x, y)) if name == "two" else [(jitted(x, y), fn(x, y))]:
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12, err_msg=name)
    plan = pyxla.jit(cases["rows"]).lower(np.ones((256, 256)), np.ones((256, 256))).compile().plan
    assert "transpose" in plan
    assert "transpose" not in pyxla.jit(cases["rows"]).lower(np.ones((250, 250)), np.ones((250, 250))).compile().plan


def test_ufuncs_that_are_host_calls():
    """Their results lie in the order of their operands, read by kernels and returned."""
    a, b, t = np.random.default_rng(0).random((30, 40)).T, np.random.default_rng(1).random((40, 30)), np.random.default_rng(2).random((4, 5, 6)).transpose(1, 2, 0)

    def f(x, y):
        return (np.ldexp(x, (y * 4).astype("i4")), *np.frexp(x), np.frexp(x * 2)[1], np.nextafter(x + 1, y * 2), np.spacing(x)[::-1] + y,
                np.nextafter(x.reshape(-1), y.reshape(-1)[0]), np.nextafter(x, y).max(0), np.nextafter(x[:1], y))
    for x, y in ((a, a), (a, b), (b, a), (t, t), (t, t[:, :1]), (t[:, :, ::-1], t[::-1])):
        for got, want in zip(pyxla.jit(f)(x, y), f(x, y)):
            np.testing.assert_array_equal(got, want)
            assert got.strides == want.strides
