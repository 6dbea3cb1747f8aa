"""Polynomials by their coefficients, in functions whose results have a size that depends on sizes alone."""
import numpy as np
from numpy._core.getlimits import finfo
from numpy.lib._type_check_impl import mintypecode

from .. import _core
from ._args import array, unsupported
from .borrow import borrow
from .manip import ravel

implements = _core.implements

for function in (np.polyadd, np.polysub, np.polyder, np.polyint):
    borrow(function)


@implements(np.poly)
def poly(seq_of_zeros):
    r = array(seq_of_zeros)
    r = ravel(r) if r.ndim == 0 else r
    if r.ndim != 1 or r.dtype.kind == "c":
        if r.ndim not in (1, 2):
            raise ValueError("input must be 1d or non-empty square 2d array.")
        raise unsupported("np.poly of a matrix or of complex roots", "whether NumPy's result is complex depends on the roots; multiply "
                          "the factors with np.convolve")
    if not r.size:
        return 1.0
    dtype = np.dtype(mintypecode(r.dtype.char))
    r, a, zero = array(r, dtype), _core.full((1,), dtype, 1), _core.full((1,), dtype, 0)
    for k in range(r.size):
        a = _core.concatenate([a, zero], 0) + _core.concatenate([zero, a], 0) * -r[k]
    return a


def weighted(x, y, w):
    """A weight per sample, or NumPy's error."""
    w = array(w) + 0.0
    if w.ndim != 1:
        raise TypeError("expected a 1-d array for weights")
    if w.shape[0] != y.shape[0]:
        raise TypeError("expected w and y to have the same length")
    return w


@implements(np.polyfit)
def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    order = int(deg) + 1
    x, y = array(x) + 0.0, array(y) + 0.0
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if x.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if x.size == 0:
        raise TypeError("expected non-empty vector for x")
    if y.ndim < 1 or y.ndim > 2:
        raise TypeError("expected 1D or 2D array for y")
    if x.shape[0] != y.shape[0]:
        raise TypeError("expected x and y to have same length")
    rcond = len(x) * finfo(x.dtype).eps if rcond is None else rcond
    left, right = np.vander(x, order), y
    if w is not None:
        w = weighted(x, y, w)
        left, right = left * w[:, None], right * (w[:, None] if right.ndim == 2 else w)
    scale = np.sqrt((left * left).sum(axis=0))
    left = left / scale
    c, residuals, rank, s = np.linalg.lstsq(left, right, rcond)
    c = (c.T / scale).T
    if full:
        return c, residuals, rank, s, rcond
    return (c, covariance(left, residuals, scale, len(x), order, y.ndim, cov)) if cov else c


def covariance(left, residuals, scale, n, order, ndim, cov):
    """Of the coefficients, scaled by the residuals unless cov is "unscaled"."""
    base = np.linalg.inv(np.dot(left.T, left)) / np.outer(scale, scale)
    factor = 1
    if not (isinstance(cov, str) and cov == "unscaled"):
        if n <= order:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = residuals / (n - order)
    return base * factor if ndim == 1 else base[:, :, None] * factor
