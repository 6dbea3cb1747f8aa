"""np.linalg's decompositions: NumPy's own Python over its LAPACK gufuncs, which are host calls.

A borrowed function sees `Gufuncs` in the place of numpy.linalg's module of gufuncs. What its `errstate` asks for when it calls one (the
`LinAlgError` to raise) goes along by number. Where NumPy's Python asks for values, the function is written out here."""
import functools
import re
import sys

import numpy as np
from numpy.linalg import _linalg, _umath_linalg

from .. import _core
from . import small
from ._args import FLOAT, array, is_none, scalar
from .borrow import borrow
from .extents import Number, as_value, broadcast_shapes, greatest, is_dynamic, least, meets
from .host import host

implements = _core.implements
LinAlgError = np.linalg.LinAlgError
NAMES = [k for k, v in sorted(vars(_umath_linalg).items()) if isinstance(v, np.ufunc)]
HANDLERS = [None] + [v for k, v in sorted(vars(_linalg).items()) if k.startswith("_raise_linalgerror")]


def raising(handler):
    """The floating-point state in which a gufunc that fails calls HANDLERS[handler]."""
    return np.errstate(call=HANDLERS[handler], invalid="call") if handler else np.errstate(invalid="ignore")


@host
def run(results, *args):
    """One gufunc; the last two arguments are its number and that of the handler."""
    *inputs, gufunc, handler = args
    with raising(handler):
        getattr(_umath_linalg, NAMES[gufunc])(*inputs, out=results)


@host
def run_finite(results, x, gufunc, handler):
    """One gufunc on a matrix that has to be finite."""
    if not np.isfinite(x).all():
        raise LinAlgError("Array must not contain infs or NaNs")
    with raising(handler):
        getattr(_umath_linalg, NAMES[gufunc])(x, out=results)


@host
def run_qr(results, x, gufunc, handler):
    """qr_r_raw works in place."""
    a, tau = results
    a = np.empty_like(x) if a is None else a
    a[...] = x
    with raising(handler):
        getattr(_umath_linalg, NAMES[gufunc])(a, out=(tau,))


def cores(text):
    """The core dimensions in one side of a gufunc's signature."""
    return [[d for d in core.replace(" ", "").split(",") if d] for core in re.findall(r"\(([^)]*)\)", text)]


def result_types(name, arrays, dtypes):
    """(dtype, shape) of a gufunc's results, by its signature; NumPy's errors."""
    signature = getattr(_umath_linalg, name).signature
    ins, outs = map(cores, signature.split("->"))
    size = {}
    for k, (a, core) in enumerate(zip(arrays, ins)):
        if a.ndim < len(core):
            raise ValueError(f"{name}: Input operand {k} does not have enough dimensions (has {a.ndim}, gufunc core with signature "
                             f"{signature} requires {len(core)})")
        for i, (d, n) in enumerate(zip(core, a.shape[a.ndim - len(core):])):
            size[d] = n if isinstance(size.get(d), Number) else size.get(d, n)     # what is known while tracing
            if not meets(size[d], n):
                raise ValueError(f"{name}: Input operand {k} has a mismatch in its core dimension {i}, with gufunc signature "
                                 f"{signature} (size {n} is different from {size[d]})")
    if "p" not in size and "n" in size:
        size["p"] = least(size["m"], size["n"])
    batch = broadcast_shapes(*[a.shape[:a.ndim - len(core)] for a, core in zip(arrays, ins)])
    return [(dtype, (*batch, *(size[d] for d in core))) for dtype, core in zip(dtypes, outs)]


def call(name, inputs, signature):
    """A gufunc on tracers, as arrays of the dtypes that `signature` names."""
    takes, gives = signature.split("->")
    arrays = [array(x, np.dtype(c)) for x, c in zip(inputs, takes)]
    results = result_types(name, arrays, gives)
    handler = np.geterrcall() if np.geterr()["invalid"] == "call" else None
    numbers = NAMES.index(name), HANDLERS.index(handler)
    if name.startswith("qr_r_raw"):         # _m, _n before NumPy 2.2
        a, tau = run_qr(arrays, ((takes, arrays[0].shape), *results), *numbers)
        inputs[0][...] = a
        return tau
    out = (run_finite if name in ("eig", "eigvals") else run)(arrays, results, *numbers)
    ins, outs = map(cores, getattr(_umath_linalg, name).signature.split("->"))
    out = tuple(scalar(_core.stacked(r, tuple(arrays), tuple(map(len, ins)), len(core))) for r, core in zip(out, outs))
    return out if len(out) > 1 else out[0]


class Gufuncs:
    """numpy.linalg's module of gufuncs, on tracers."""

    def __getattr__(self, name):
        return lambda *inputs, signature: call(name, inputs, signature)


def make_array(a):
    return array(a), lambda x: x


OWN = {"_umath_linalg": Gufuncs(), "_makearray": make_array, "_assert_finite": lambda *arrays: None}
for function in (np.linalg.tensorinv, np.linalg.qr, np.linalg.eigvalsh, np.linalg.eigh, np.linalg.slogdet, np.linalg.svdvals):
    borrow(function, **OWN)
for function in (np.linalg.eig, np.linalg.eigvals):                      # whose results are real if all imaginary parts are 0
    borrow(function, all=lambda x: _core.assume(np.all(x), "whether all eigenvalues are real"), **OWN)
borrowed = {f: borrow(f, **OWN) for f in (np.linalg.svd, np.linalg.matrix_rank,
                                         np.linalg.solve, np.linalg.inv, np.linalg.cholesky, np.linalg.det)}


# ---- small matrices: code of their own ----

def is_small(a):
    """Whether a holds real square matrices that small.py writes out."""
    return a.ndim >= 2 and not is_dynamic(a) and a.shape[-1] == a.shape[-2] and small.fits(a)


def result_type(*arrays):
    return _linalg._commonType(*arrays)[1]


@implements(np.linalg.solve)
def solve(a, b):
    a, b = array(a), array(b)
    columns = b.shape[-1] if b.ndim > 1 else 1
    if not is_small(a) or is_dynamic(b) or not b.ndim or b.dtype.kind not in "biuf" or not 0 < columns <= small.LARGEST:
        return borrowed[np.linalg.solve](a, b)
    core = b[:, None] if b.ndim == 1 else b
    ((_, shape),) = result_types("solve" if b.ndim > 1 else "solve1", (a, b), (FLOAT,))
    batch = shape[:-1] if b.ndim == 1 else shape[:-2]
    x = small.solve(*(_core.broadcast(array(m, FLOAT), (*batch, *m.shape[-2:])) for m in (a, core)))
    x = _core.stacked(x, (a, b), (2, min(b.ndim, 2)), 2)
    return (x[..., 0] if b.ndim == 1 else x).astype(result_type(a, b), copy=False)


@implements(np.linalg.inv)
def inv(a):
    a = array(a)
    if not is_small(a):
        return borrowed[np.linalg.inv](a)
    return _core.stacked(small.inv(array(a, FLOAT)), (a,), (2,), 2).astype(result_type(a), copy=False)


@implements(np.linalg.det)
def det(a):
    a = array(a)
    return small.det(array(a, FLOAT)).astype(result_type(a), copy=False) if is_small(a) else borrowed[np.linalg.det](a)


@implements(np.linalg.cholesky)
def cholesky(a, /, *, upper=False):
    a = array(a)
    if not is_small(a):
        return borrowed[np.linalg.cholesky](a, upper=upper)
    return _core.stacked(small.cholesky(array(a, FLOAT), upper), (a,), (2,), 2).astype(result_type(a), copy=False)


@host
def run_svd_hermitian(results, a):
    for result, value in zip(results, np.linalg.svd(a, hermitian=True)):
        if result is not None:
            result[...] = value


@implements(np.linalg.svd)
def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    if not hermitian or not compute_uv:
        return borrowed[np.linalg.svd](a, full_matrices, compute_uv, hermitian)
    a = array(a)
    _linalg._assert_stacked_square(a)
    t = _linalg._commonType(a)[1]
    a = array(a, t)
    u, s, vh = run_svd_hermitian((a,), ((t, a.shape), (_linalg._realType(t), a.shape[:-1]), (t, a.shape)))
    return np.linalg._linalg.SVDResult(u, s, vh)


@implements(np.linalg.tensorsolve)
def tensorsolve(a, b, axes=None):
    a, b = array(a), array(b)
    if axes is not None:
        rest = [k for k in range(a.ndim) if k not in axes]
        if len(rest) + len(axes) != a.ndim:
            raise ValueError("list.remove(x): x not in list")
        a = a.transpose([*rest, *axes])
    shape = a.shape[-(a.ndim - b.ndim):]
    n = int(np.prod(shape))
    if a.size != n ** 2:
        raise LinAlgError("Input arrays must satisfy the requirement             prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])")
    return np.linalg.solve(a.reshape(n, n), b.ravel()).reshape(shape)


@functools.cache
def cond_is_complex():
    """Whether NumPy's condition numbers of complex matrices are complex, as before 2.3."""
    return np.linalg.cond(np.eye(1, dtype=complex), 1).dtype.kind == "c"


def singular_values(x):
    """As np.linalg.cond wants them: from NumPy 2.5 on NaN for a matrix that is not finite, an error before."""
    if not hasattr(_linalg, "_cond_svdvals"):
        return np.linalg.svd(x, compute_uv=False)
    t, result = _linalg._commonType(x)
    return call("svd", (x,), "D->d" if np.dtype(t).kind == "c" else "d->d").astype(_linalg._realType(result), copy=False)


@implements(np.linalg.cond)
def cond(x, p=None):
    x = array(x)
    if is_dynamic(x):
        _core.check(np.less(0, as_value(x.size)), "value", "cond is not defined on empty arrays; select some rows")
    elif _linalg._is_empty_2d(x):
        raise LinAlgError("cond is not defined on empty arrays")
    if p is None or p in {2, -2}:
        _linalg._assert_stacked_2d(x)
        s = singular_values(x)
        r = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        _linalg._assert_stacked_square(x)
        t, result = _linalg._commonType(x)
        inverse = call("inv", (x,), "D->D" if np.dtype(t).kind == "c" else "d->d")
        if p == "nuc" and hasattr(_linalg, "_cond_svdvals"):
            r = singular_values(x).sum(-1) * singular_values(inverse).sum(-1)
        else:
            r = np.linalg.norm(x, p, axis=(-2, -1)) * np.linalg.norm(inverse, p, axis=(-2, -1))
        r = r.astype(result if cond_is_complex() else _linalg._realType(result), copy=False)
    bad = np.isnan(r) & ~np.isnan(x).any(axis=(-2, -1))
    return scalar(_core.where(bad, _core.as_tracer(np.inf, r.dtype), r))


@implements(np.linalg.matrix_rank)
def matrix_rank(A, tol=None, hermitian=False, *, rtol=None):
    if np.ndim(A) < 2 and (rtol is None or tol is None):
        return np.any(array(A) != 0).astype(np.int64)
    return borrowed[np.linalg.matrix_rank](A, tol, hermitian, rtol=rtol)


@implements(np.linalg.pinv)
def pinv(a, rcond=None, hermitian=False, *, rtol=np._NoValue):
    a = array(a)
    if rcond is None:
        rcond = 1e-15 if rtol is np._NoValue else greatest(*a.shape[-2:]) * np.finfo(a.dtype).eps if rtol is None else rtol
    elif rtol is not np._NoValue:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if not is_dynamic(a) and _linalg._is_empty_2d(a):
        return _core.full((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype, 0)
    u, s, vt = np.linalg.svd(a.conjugate(), full_matrices=False, hermitian=hermitian)
    large = s > array(rcond)[..., None] * np.max(s, axis=-1, keepdims=True, initial=0)
    s = _core.where(large, 1 / s, _core.as_tracer(0, s.dtype))
    return np.matmul(np.swapaxes(vt, -1, -2), np.multiply(s[..., None], np.swapaxes(u, -1, -2)))


def lstsq_gufunc(a):
    """Its name: before NumPy 2.2 there are two."""
    return "lstsq" if hasattr(_umath_linalg, "lstsq") else "lstsq_m" if a.shape[0] <= a.shape[1] else "lstsq_n"


@host
def run_lstsq(results, a, b, rcond):
    """Residuals that somebody reads must be there: NumPy gives none where the rank is not full."""
    x, residuals, rank, s = results
    with raising(HANDLERS.index(_linalg._raise_linalgerror_lstsq)):
        out = getattr(_umath_linalg, lstsq_gufunc(a))(a, b, rcond, out=results)
    if residuals is not None and (out[2] != a.shape[1] or a.shape[0] <= a.shape[1]):
        raise _core.UnsupportedError("the residuals of np.linalg.lstsq of a matrix that has not full rank (NumPy gives none) are not "
                                     "in a jitted function; do not use them")


@implements(np.linalg.lstsq)
def lstsq(a, b, rcond=None):
    warns = only_warns(sys._getframe(1))
    x, residuals, rank, s = least_squares(a, b, rcond, not warns)
    return x, residuals, x.shape[0] if warns else rank, s


def least_squares(a, b, rcond, exact):
    """np.linalg.lstsq; exact: the residuals are read, of which NumPy has none where the rank is not full."""
    a, b = array(a), array(b)
    exact = exact and not is_dynamic(a) and not is_dynamic(b)
    one = b.ndim == 1
    b = b[:, None] if one else b
    _linalg._assert_2d(a, b)
    (m, n), (m2, k) = a.shape, b.shape
    if not meets(m, m2):
        raise LinAlgError("Incompatible dimensions")
    t, result = _linalg._commonType(a, b)
    real = _linalg._realType(result)
    rcond = np.finfo(t).eps * greatest(n, m) if rcond is None else rcond
    b = _core.full((m, 1), b.dtype, 0) if is_none(k) else b
    arrays = [array(a, t), array(b, t), array(rcond, _linalg._realType(t))]
    if arrays[2].ndim:
        raise ValueError("only length-1 arrays can be converted to Python scalars")
    types = result_types(lstsq_gufunc(a), arrays, (t, arrays[2].dtype, np.intc, arrays[2].dtype))
    x, residuals, rank, s = run_lstsq(arrays, types)
    x = (_core.full(x.shape, x.dtype, 0) if is_none(m) else x)[..., :k]
    rank = scalar(rank)
    none = not isinstance(m, Number) and m <= n or exact and not _core.assume(np.equal(rank, n), "whether the matrix has full rank")
    residuals = _core.full((0,), real, 0) if none else residuals[..., :k].astype(real, copy=False)
    return (x.squeeze(axis=-1) if one else x).astype(result), residuals, rank, s.astype(real, copy=False)


def only_warns(frame):
    """Whether numpy.polynomial fits, and asks for the rank only to warn where it is not full."""
    return frame.f_globals.get("__name__") == "numpy.polynomial.polyutils" and frame.f_locals.get("full") is False
