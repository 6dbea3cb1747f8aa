"""`np.gradient` and `np.cov`: NumPy's formulas, where NumPy looks at values and a trace cannot."""
import numpy as np

from .. import _core
from ._args import ALL, BOOL, FLOAT, array, axis_tuple, inexact, is_array, is_none, unsupported
from .extents import as_value, greatest, meets

implements = _core.implements
TOO_SMALL = "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are required."


@implements(np.gradient)
def gradient(f, *varargs, axis=None, edge_order=1):
    f = array(f)
    axes = tuple(range(f.ndim)) if axis is None else axis_tuple(axis, f.ndim)
    if len(varargs) == 0:
        spacing = [1.0] * len(axes)
    elif len(varargs) == 1 and np.ndim(varargs[0]) == 0:
        spacing = list(varargs) * len(axes)
    elif len(varargs) == len(axes):
        spacing = [coordinates(v, f.shape[k]) for v, k in zip(varargs, axes)]
    else:
        raise TypeError("invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    if f.dtype == BOOL:
        np.subtract(f, f)                               # NumPy's error
    if f.dtype.kind in "iu":
        f = array(f, FLOAT)
    dtype = f.dtype if inexact(f.dtype) else FLOAT
    for k in axes:
        if _core.is_extent(f.shape[k]):
            _core.check(np.greater(as_value(f.shape[k]), edge_order), "value", f"{TOO_SMALL}; select more")
        elif f.shape[k] < edge_order + 1:
            raise ValueError(TOO_SMALL)
    out = tuple(_core.follow(along(f, d, k, edge_order, dtype), f) for d, k in zip(spacing, axes))
    return out[0] if len(axes) == 1 else out


def coordinates(v, n):
    """A step as it is, coordinates as their differences."""
    if np.ndim(v) == 0:
        return v
    v = array(v)
    if v.ndim != 1:
        raise ValueError("distances must be either scalars or 1d")
    if not meets(v.shape[0], n):
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    return np.diff(array(v, FLOAT) if v.dtype.kind in "iu" else v)


def along(f, d, axis, edge_order, dtype):
    """The gradient along one axis, stored in `dtype`: d is a step, or steps, which NumPy takes as one if they are equal."""
    if not is_array(d) or d.ndim == 0:
        return even(f, d, axis, edge_order, dtype)
    steps = even(f, d[0], axis, edge_order, dtype)
    return np.where(np.all(np.equal(d, d[0])), steps, uneven(f, d, axis, edge_order, dtype))


def cut(f, axis, *bounds):
    return f[(ALL,) * axis + (slice(*bounds),)]


def even(f, d, axis, edge_order, dtype):
    at = lambda k: cut(f, axis, k, k + 1 or None)  # noqa: E731
    inner = (cut(f, axis, 2, None) - cut(f, axis, None, -2)) / (2. * d)
    if edge_order == 1:
        first, last = (at(1) - at(0)) / d, (at(-1) - at(-2)) / d
    else:
        first = -1.5 / d * at(0) + 2. / d * at(1) + -0.5 / d * at(2)
        last = 0.5 / d * at(-3) + -2. / d * at(-2) + 1.5 / d * at(-1)
    return _core.concatenate([array(v, dtype) for v in (first, inner, last)], axis)


def uneven(f, d, axis, edge_order, dtype):
    at = lambda k: cut(f, axis, k, k + 1 or None)  # noqa: E731
    one, two = d[:-1], d[1:]
    shape = (1,) * axis + (-1,) + (1,) * (f.ndim - axis - 1)
    a, b, c = (np.reshape(v, shape) for v in (-two / (one * (one + two)), (two - one) / (one * two), one / (two * (one + two))))
    inner = a * cut(f, axis, None, -2) + b * cut(f, axis, 1, -1) + c * cut(f, axis, 2, None)
    if edge_order == 1:
        first, last = (at(1) - at(0)) / d[0], (at(-1) - at(-2)) / d[-1]
    else:
        one, two = d[0], d[1]
        first = -(2. * one + two) / (one * (one + two)) * at(0) + (one + two) / (one * two) * at(1) + -one / (two * (one + two)) * at(2)
        one, two = d[-2], d[-1]
        last = two / (one * (one + two)) * at(-3) + -(two + one) / (one * two) * at(-2) + (2. * two + one) / (two * (one + two)) * at(-1)
    return _core.concatenate([array(v, dtype) for v in (first, inner, last)], axis)


# ---- covariance ----

@implements(np.cov)
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    m = array(m)
    if m.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    y = None if y is None else array(y)
    if y is not None and y.ndim > 2:
        raise ValueError("y has more than 2 dimensions")
    if dtype is None:
        dtype = np.result_type(m.dtype, FLOAT, *([] if y is None else [y.dtype]))
    x = rows(m, rowvar, dtype, m.ndim != 1, True)
    if is_none(x.shape[0]):
        return _core.full((0, 0), FLOAT, 0)                   # of whatever dtype x is, as NumPy does
    if y is not None:
        x = np.concatenate((x, rows(y, rowvar, dtype, True, False)), 0)
    ddof = int(bias == 0) if ddof is None else ddof
    w = None if fweights is None else weights(fweights, "fweights", x.shape[1])
    if aweights is not None:
        a = weights(array(aweights, FLOAT), "aweights", x.shape[1])
        w = a if w is None else w * a
    avg, total = np.average(x, 1, w, returned=True)
    total = total[0]
    if w is None:
        factor = greatest(x.shape[1] - ddof, 0)
    elif ddof == 0:
        factor = total
    elif aweights is None:
        factor = total - ddof
    else:
        factor = total - ddof * np.sum(w * a) / total
    if w is not None:
        factor = np.where(np.less_equal(factor, 0), 0.0, factor)
    x = x - avg[:, None]
    c = np.dot(x, np.conj((x if w is None else x * w).T))
    with np.errstate(all="ignore"):
        c = array(c * np.true_divide(1, factor), c.dtype)
    return np.squeeze(c)


def rows(m, rowvar, dtype, turn, single):
    """The variables of m as rows; single: whether a single row is turned, too (NumPy does so with its first operand only)."""
    x = array(m, dtype)
    x = x if x.ndim == 2 else x[(None,) * (2 - x.ndim) + (...,)]
    if rowvar or not turn:
        return x
    if single:
        return x.T
    if _core.is_extent(x.shape[0]):
        _core.check(np.not_equal(as_value(x.shape[0]), 1), "value",
                    "a single row whose number only the run knows: NumPy does not turn it; give rowvar=True and the transpose")
    return x.T if _core.is_extent(x.shape[0]) or x.shape[0] != 1 else x


def weights(w, name, n):
    """Weights of n observations, checked as NumPy does."""
    w = array(w)
    if w.dtype.kind not in "iu" and name == "fweights":
        raise unsupported("cov with fweights that are not integers", "pass them as an array of integers")
    if w.ndim > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if not meets(w.shape[0], n):
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    _core.check(np.all(np.greater_equal(w, 0)), "weights")
    return array(w, FLOAT)
