"""Polynomials by their coefficients."""
import numpy as np
from numpy._core.getlimits import finfo
from numpy.lib._type_check_impl import mintypecode

from .. import _core
from ._args import array, is_none
from .borrow import borrow
from .extents import Number, is_dynamic, meets, settled
from .lapack import least_squares
from .library import few_taps, run_convolve, slid
from .manip import ravel

implements = _core.implements
COMPLEX_EIGENVALUES = np.lib.NumpyVersion(np.__version__) >= "2.5.0"     # whatever the matrix

for function in (np.polyadd, np.polysub, np.polyder, np.polyint):
    borrow(function)


@implements(np.poly)
def poly(seq_of_zeros):
    r = array(seq_of_zeros)
    r = ravel(r) if r.ndim == 0 else r
    if r.ndim == 2 and r.shape[0] == r.shape[1] != 0:
        r = np.linalg.eigvals(r)
    elif r.ndim != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    r = settled(r)
    if not r.size:
        return 1.0
    dtype = np.dtype(mintypecode(r.dtype.char))
    r, a, zero = array(r, dtype), _core.full((1,), dtype, 1), _core.full((1,), dtype, 0)
    for k in range(r.size):
        a = _core.concatenate([a, zero], 0) + _core.concatenate([zero, a], 0) * -r[k]
    if dtype.kind == "c":
        roots = array(r, np.dtype(complex))
        if _core.assume(np.all(np.sort(roots) == np.sort(roots.conjugate())), "whether all complex roots are in pairs of conjugates"):
            return a.real.copy()
    return a


# ---- products and quotients, whose leading zeros are dropped ----

def without_leading_zeros(x):
    """The coefficients from the first that is not 0 on, as many as there are when the function runs; [0] where all are."""
    there, n = np.not_equal(x, 0), x.shape[0]
    first = np.argmax(there)
    size = Number(_core.where(np.any(there), n - first, 1))
    values = _core.gather(x, (_core.iota(size) + first,))
    return _core.where(np.any(there), values, _core.full((), x.dtype, 0))


def coefficients(x):
    x = array(x)
    x = _core.reshape(x, (1,)) if x.ndim == 0 else x
    if x.ndim != 1:
        raise ValueError("Polynomial must be 1d only.")
    if not x.size:
        x = _core.full((1,), x.dtype, 0)
    return x


@implements(np.polymul)
def polymul(a1, a2):
    a, b = (without_leading_zeros(coefficients(x)) for x in (a1, a2))
    n = a.shape[0] + b.shape[0] - 1
    return slid(run_convolve, a, b, 2) if few_taps(a, b) else run_convolve((a, b), ((np.result_type(a.dtype, b.dtype), (n,)),), 2)[0]


@implements(np.polydiv)
def polydiv(u, v):
    u, v = coefficients(u) + 0.0, coefficients(v) + 0.0
    dtype = np.result_type(u.dtype, v.dtype)
    m, n = u.size - 1, v.size - 1
    scale = 1. / v[0]
    q, r = _core.full((max(m - n + 1, 1),), dtype, 0), _core.copy(array(u, dtype))
    for k in range(m - n + 1):
        d = scale * r[k]
        q[k] = d
        r[k:k + n + 1] -= d * v
    gone = np.isclose(r, 0, rtol=1e-14)
    first = np.argmin(np.concatenate([gone[:-1], [False]]))
    return q, _core.gather(r, (_core.iota(Number(r.size - first)) + first,))


@implements(np.roots)
def roots(p):
    p = array(p)
    p = _core.reshape(p, (1,)) if p.ndim == 0 else p
    if p.ndim != 1:
        raise ValueError("Input must be a rank-1 array.")
    p, none = settled(p), _core.full((0,), np.dtype(float), 0)
    there = np.not_equal(p, 0)
    if not p.size or not _core.assume(np.any(there), "whether a coefficient is not 0"):
        return none
    first, zeros = (_core.assume(np.argmax(t), "how many coefficients at an end are 0") for t in (there, there[::-1]))
    p = p[first:p.size - zeros]
    p = p if p.dtype.kind in "fc" else p.astype(float)
    roots = none
    if p.size > 1:
        a = np.diag(_core.full((p.size - 2,), p.dtype, 1), -1)
        a[0, :] = -p[1:] / p[0]
        roots = np.linalg.eigvals(a)
        if COMPLEX_EIGENVALUES and a.dtype.kind == "f" and _core.assume(np.all(roots.imag == 0), "whether all roots are real"):
            roots = roots.real
    return _core.concatenate([roots, _core.full((zeros,), roots.dtype, 0)], 0)


# ---- fits ----

def weighted(x, y, w):
    """A weight per sample, or NumPy's error."""
    w = array(w) + 0.0
    if w.ndim != 1:
        raise TypeError("expected a 1-d array for weights")
    if w.shape[0] != y.shape[0]:
        raise TypeError("expected w and y to have the same length")
    return w


def powers(x, order):
    """np.vander(x, order), also of a vector whose size depends on data."""
    if not is_dynamic(x):
        return np.vander(x, order)
    columns = [_core.full(x.shape, x.dtype, 1)]
    for _ in range(order - 1):
        columns.append(columns[-1] * x)
    return np.stack(columns[::-1], 1)


@implements(np.polyfit)
def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    order = int(deg) + 1
    x, y = array(x) + 0.0, array(y) + 0.0
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if x.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if is_none(x.size):
        raise TypeError("expected non-empty vector for x")
    if y.ndim < 1 or y.ndim > 2:
        raise TypeError("expected 1D or 2D array for y")
    if not meets(x.shape[0], y.shape[0]):
        raise TypeError("expected x and y to have same length")
    eps = finfo(x.dtype).eps
    rcond = (x.shape[0] * float(eps) if is_dynamic(x) else len(x) * eps) if rcond is None else rcond
    left, right = powers(x, order), y
    if w is not None:
        w = weighted(x, y, w)
        left, right = left * w[:, None], right * (w[:, None] if right.ndim == 2 else w)
    scale = np.sqrt((left * left).sum(axis=0))
    left = left / scale
    c, residuals, rank, s = least_squares(left, right, rcond, bool(full or cov))
    c = (c.T / scale).T
    if full:
        return c, residuals, rank, s, rcond
    return (c, covariance(left, residuals, scale, x.shape[0], order, y.ndim, cov)) if cov else c


def covariance(left, residuals, scale, n, order, ndim, cov):
    """Of the coefficients, scaled by the residuals unless cov is "unscaled"."""
    base = np.linalg.inv(np.dot(left.T, left)) / np.outer(scale, scale)
    factor = 1
    if not (isinstance(cov, str) and cov == "unscaled"):
        if n <= order:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = residuals / (n - order)
    return base * factor if ndim == 1 else base[:, :, None] * factor
