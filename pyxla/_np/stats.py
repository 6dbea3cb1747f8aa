"""Reductions and scans: NumPy's rules of dtype, axis, keepdims, initial and where over `_core.reduce` and `_core.scan`."""
from operator import index

import numpy as np

from .. import _core
from ._args import (
    ALL,
    BOOL,
    FLOAT,
    INT,
    UINT,
    NoValue,
    array,
    axis_index,
    axis_tuple,
    count,
    dtype_of,
    inexact,
    is_none,
    is_weak,
    numpys,
    out_array,
    scalar,
    to_out,
)
from .extents import Number, is_dynamic
from .host import whole
from .into import accumulated_into, narrow, reduced_into
from .manip import broadcast_to, ravel

implements, method = _core.implements, _core.method
UFUNC = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "any": "logical_or", "all": "logical_and"}
COUNTS_BY_INT = type(np.count_nonzero([0])) is int             # before NumPy 2.3


def refuses_empty_results():
    """Whether this NumPy refuses to reduce an axis without elements where the result has none either."""
    try:
        np.maximum.reduce(np.zeros((0, 0)), axis=1)
    except ValueError:
        return True
    return False


EMPTY_RESULTS_TOO = refuses_empty_results()


def reduced_axes(axis, ndim):
    """The axes of a ufunc's reduce, sorted: all for None; a 0-d array takes 0 and -1."""
    if axis is None:
        return tuple(range(ndim))
    if ndim == 0 and axis in (0, -1, (0,), (-1,)):
        return ()
    return tuple(sorted(axis_tuple(axis, ndim, None, "duplicate value in 'axis'")))


def reduce(op, x, axis, keepdims, ddof=0.0):
    """A monoid over axes of x, which has the accumulator's dtype already."""
    axes = reduced_axes(axis, x.ndim)
    if all(isinstance(x.shape[k], int) and x.shape[k] == 1 for k in axes):
        x = joined_to_identity(op, x)
    if not axes:
        return scalar(_core.copy(x))
    out = _core.reduce(op, x, axes, float(ddof))
    return kept(out, x.shape, axes) if keepdims is not NoValue and keepdims else out


def joined_to_identity(op, x):
    """NumPy adds an only element to 0 and multiplies it with 1: -0.0 becomes 0.0, nan + 0j becomes nan + nanj."""
    if op == "sum" and x.dtype.kind in "fc":
        return np.add(x, x.dtype.type(0))
    return np.multiply(x, x.dtype.type(1)) if op == "prod" and x.dtype.kind == "c" else x


def kept(x, shape, axes):
    """x with the reduced axes back, of extent 1."""
    return _core.reshape(x, tuple(1 if k in axes else n for k, n in enumerate(shape)))


def masked(x, where, identity):
    """x, with the identity where `where` is false."""
    if where is NoValue or where is True:
        return x
    mask = broadcast_to(array(where, BOOL), x.shape)
    return _core.where(mask, x, _core.broadcast(_core.as_tracer(identity, x.dtype), x.shape))


def given(v):
    return v is not NoValue and v is not None


# ---- sum, prod, max, min, any, all ----

def accumulator(dtype, x, out):
    """The dtype that sum and prod work in: as NumPy's, no narrower than int64 unless asked for."""
    if dtype is not None:
        return dtype_of(dtype)
    if out_array(out) is not None:
        return np.result_type(x.dtype, out_array(out).dtype)
    if x.dtype.kind in "bi":
        return INT
    return UINT if x.dtype.kind == "u" else x.dtype


def add_up(op, a, axis, dtype, out, keepdims, initial, where):
    x, wanted = array(a), dtype
    dtype = accumulator(dtype, x, out)
    if narrow(dtype, out):
        return reduced_into(getattr(np, UFUNC[op]), x, out, axis, wanted, keepdims, initial, where)
    if dtype == BOOL:
        op, x, initial = {"sum": "any", "prod": "all"}[op], array(x, BOOL), initial
        identity, combine = op == "all", np.logical_or if op == "any" else np.logical_and
    else:
        x, identity, combine = array(x, dtype), int(op == "prod"), np.add if op == "sum" else np.multiply
    r = reduce(op, masked(x, where, identity), axis, keepdims)
    if given(initial):
        r = combine(start(initial, dtype), r)
    return to_out(r, out, "unsafe")


def start(initial, dtype):
    """An `initial=` as a 0-d value of the accumulator's dtype."""
    first = _core.as_tracer(initial, dtype) if isinstance(initial, (bool, int)) else array(initial, dtype)
    if first.ndim:
        raise ValueError("setting an array element with a sequence.")
    return first


@implements(np.sum)
@method("sum")
def sum(a, axis=None, dtype=None, out=None, keepdims=NoValue, initial=NoValue, where=NoValue):
    return add_up("sum", a, axis, dtype, out, keepdims, initial, where)


@implements(np.prod)
@method("prod")
def prod(a, axis=None, dtype=None, out=None, keepdims=NoValue, initial=NoValue, where=NoValue):
    return add_up("prod", a, axis, dtype, out, keepdims, initial, where)


def extreme(op, a, axis, out, keepdims, initial, where):
    x = array(a)
    has_where = where is not NoValue and where is not True
    if has_where and not given(initial):
        raise ValueError(f"reduction operation '{UFUNC[op]}' does not have an identity, "
                         "so to use a where mask one has to specify 'initial'")
    if narrow(x.dtype, out):
        return reduced_into(getattr(np, UFUNC[op]), x, out, axis, None, keepdims, initial, where)
    axes = reduced_axes(axis, x.ndim)
    if given(initial):
        first = start(initial, x.dtype)
        x = masked(x, where, initial if is_weak(initial) and not has_where else first) if has_where else x
    if given(initial) and len(axes) == 1 and _core.is_extent(x.shape[axes[0]]):     # it may be empty
        one = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
        x = _core.concatenate([x, _core.full(one, x.dtype, first)], axes[0])
    if any(is_none(x.shape[k]) for k in axes):
        if not given(initial):
            if EMPTY_RESULTS_TOO or not any(is_none(n) for k, n in enumerate(x.shape) if k not in axes):
                raise ValueError(f"zero-size array to reduction operation {UFUNC[op]} which has no identity")
            first = _core.full((), x.dtype, 0)
        shape = tuple(n for k, n in enumerate(x.shape) if k not in axes)
        r = _core.broadcast(first, shape)
        r = scalar(_core.copy(r)) if not keepdims or keepdims is NoValue else kept(_core.copy(r), x.shape, axes)
        return to_out(r, out, "unsafe")
    r = reduce(op, x, axis, keepdims)
    if given(initial):
        r = (np.maximum if op == "max" else np.minimum)(first, r)
    return to_out(r, out)


@implements(np.max, np.amax)
@method("max")
def max(a, axis=None, out=None, keepdims=NoValue, initial=NoValue, where=NoValue):
    return extreme("max", a, axis, out, keepdims, initial, where)


@implements(np.min, np.amin)
@method("min")
def min(a, axis=None, out=None, keepdims=NoValue, initial=NoValue, where=NoValue):
    return extreme("min", a, axis, out, keepdims, initial, where)


@implements(np.any)
@method("any")
def any_(a, axis=None, out=None, keepdims=NoValue, *, where=NoValue):
    return to_out(reduce("any", masked(array(a, BOOL), where, False), axis, keepdims), out, "unsafe")


@implements(np.all)
@method("all")
def all_(a, axis=None, out=None, keepdims=NoValue, *, where=NoValue):
    return to_out(reduce("all", masked(array(a, BOOL), where, True), axis, keepdims), out, "unsafe")


@implements(np.ptp)
def ptp(a, axis=None, out=None, keepdims=NoValue):
    return to_out(np.subtract(max(a, axis, None, keepdims), min(a, axis, None, keepdims)), out)


@implements(np.count_nonzero)
def count_nonzero(a, axis=None, *, keepdims=False):
    total = sum(array(a, BOOL), axis, INT, None, keepdims)
    return Number(total) if COUNTS_BY_INT and axis is None and not keepdims else total


# ---- argmax, argmin ----

def arg_extreme(op, a, axis, out, keepdims):
    x = array(a)
    if axis is None or x.ndim == 0:
        if axis is not None:
            axis_index(axis, 1)
        flat, at = ravel(x), 0
    else:
        flat, at = x, axis_index(axis, x.ndim)
    if is_none(flat.shape[at]) and (EMPTY_RESULTS_TOO or not any(map(is_none, (*flat.shape[:at], *flat.shape[at + 1:])))):
        raise ValueError(f"attempt to get {op} of an empty sequence")
    if any(map(is_none, flat.shape)):
        r = _core.full((*flat.shape[:at], *flat.shape[at + 1:]), INT, 0)
    else:
        r = _core.reduce(op, flat, (at,))
    if keepdims is not NoValue and keepdims:
        r = kept(r, x.shape, range(x.ndim) if axis is None else (at,))
        r = scalar(r)
    if out_array(out) is not None and not np.can_cast(out_array(out).dtype, INT, "safe"):
        raise TypeError(f"Cannot cast array data from {out_array(out).dtype!r} to {INT!r} according to the rule 'safe'")
    return to_out(r, out)


@implements(np.argmax)
@method("argmax")
def argmax(a, axis=None, out=None, *, keepdims=NoValue):
    return arg_extreme("argmax", a, axis, out, keepdims)


@implements(np.argmin)
@method("argmin")
def argmin(a, axis=None, out=None, *, keepdims=NoValue):
    return arg_extreme("argmin", a, axis, out, keepdims)


# ---- mean, var, std, average ----

def divided(total, n):
    """total / n in total's dtype. A count past float32's integers divides in float64, as in NumPy."""
    if isinstance(n, int) and total.dtype.kind == "f" and (n <= 1 << 24 or total.dtype == FLOAT):
        return total / n
    return as_dtype(total / _core.as_tracer(n, INT), total.dtype)


def as_dtype(x, dtype):
    return x if x.dtype == dtype else _core.cast(x, dtype)


def float_type(dtype, x):
    if dtype is not None:
        return dtype_of(dtype)
    return FLOAT if x.dtype.kind in "biu" else x.dtype


def item_count(x, axis, keepdims, where):
    """The number of elements that a reduction joins: a number, or with where= an array."""
    if where is NoValue or where is True:
        return count(x.shape[k] for k in reduced_axes(axis, x.ndim))
    return sum(broadcast_to(array(where, BOOL), x.shape), axis, INT, None, keepdims)


@implements(np.mean)
@method("mean")
def mean(a, axis=None, dtype=None, out=None, keepdims=NoValue, *, where=NoValue):
    x = array(a)
    if dtype is None and x.dtype == np.float16:         # NumPy adds and divides in float32
        r = mean(x, axis, np.dtype(np.float32), None, keepdims, where=where)
        return as_dtype(r, x.dtype) if out_array(out) is None else to_out(r, out, "unsafe")
    dtype = float_type(dtype, x) if dtype is not None or out_array(out) is None else accumulator(None, x, out)
    total = sum(x, axis, dtype, None, keepdims, NoValue, where)
    n = item_count(x, axis, keepdims, where)
    return to_out(divided(total, n) if isinstance(n, int) else as_dtype(total / n, total.dtype), out, "unsafe")


@implements(np.var)
@method("var")
def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=NoValue, *, where=NoValue, mean=NoValue, correction=NoValue):
    if given(correction):
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    ddof = _core.concrete(ddof) if _core.is_tracer(ddof) else ddof
    x = array(a)
    asked, dtype = dtype, float_type(dtype, x)
    n = item_count(x, axis, keepdims, where)
    axes = reduced_axes(axis, x.ndim)
    if isinstance(n, int) and not given(mean) and axes and dtype.kind in "fc":
        r = reduce("var", array(x, dtype), axis, keepdims, n if ddof > n else ddof)
    else:
        r = var_about(x, axis, dtype, ddof, keepdims, where, mean, n)
    if asked is not None and dtype.kind == "c":
        r = as_dtype(r, dtype)                          # NumPy adds up the squares, which are real, in that dtype
    return to_out(r, out, "unsafe")


def squares(x):
    """|x|^2."""
    return x.real * x.real + x.imag * x.imag if x.dtype.kind == "c" else x * x


def var_about(x, axis, dtype, ddof, keepdims, where, mean, n):
    """var by its definition, for where=, mean= and no axes."""
    if not given(mean):
        total = sum(x, axis, dtype, None, True, NoValue, where)
        m = item_count(x, axis, True, where)
        mean = divided(total, m) if isinstance(m, int) else as_dtype(total / m, total.dtype)
    deviation = np.subtract(x, mean)
    square = squares(deviation)
    total = sum(square, axis, square.dtype if dtype.kind == "c" else dtype, None, keepdims, NoValue, where)
    if isinstance(n, int):
        left = n - ddof
        return as_dtype(total / (left if left > 0 else 0), total.dtype)
    return as_dtype(total / np.maximum(n - ddof, 0), total.dtype)


@implements(np.std)
@method("std")
def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=NoValue, *, where=NoValue, mean=NoValue, correction=NoValue):
    v = var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    if v.ndim and v.dtype.kind in "biu":
        np.sqrt(v, out=v)                               # refused, as by NumPy: integers hold no roots
    return to_out(as_dtype(np.sqrt(v), v.dtype), out, "unsafe")


@implements(np.average)
def average(a, axis=None, weights=None, returned=False, *, keepdims=NoValue):
    a = array(a)
    axes = None if axis is None else axis_tuple(axis, a.ndim, "axis")
    if weights is None:
        avg = mean(a, axes, keepdims=keepdims)
        total = _core.full(avg.shape, avg.dtype, a.size / avg.size)
    else:
        w = average_weights(a, axes, array(weights))
        dtype = np.result_type(a.dtype, w.dtype, *([FLOAT] if a.dtype.kind in "biu" else []))
        total = sum(w, axes, dtype, None, keepdims)
        avg = sum(np.multiply(as_dtype(a, dtype), as_dtype(w, dtype)), axes, None, None, keepdims) / total
        _core.check(np.all(total != 0), "zero_division")
    if not returned:
        return avg
    return avg, scalar(_core.copy(broadcast_to(total, avg.shape)))


def average_weights(a, axes, w):
    """The weights in a's shape, or NumPy's error."""
    if a.shape == w.shape:
        return w
    if axes is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    if w.shape != tuple(a.shape[k] for k in axes):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    w = _core.transpose(w, tuple(sorted(range(len(axes)), key=axes.__getitem__)))
    w = _core.reshape(w, tuple(n if k in axes else 1 for k, n in enumerate(a.shape)))
    return _core.broadcast(w, a.shape)


# ---- scans ----

def scan(op, a, axis, dtype, out):
    x, wanted = array(a), dtype
    dtype = accumulator(dtype, x, out)
    if axis is None:
        x, axis = ravel(x), 0
    elif x.ndim == 0:
        x = _core.reshape(x, (1,))
    axis = axis_index(axis, x.ndim)
    if narrow(dtype, out):
        return accumulated_into(np.add if op == "cumsum" else np.multiply, x, out, axis, wanted)
    if dtype == BOOL:                                   # a running or, a running and
        return to_out(_core.cast(_core.scan(op, array(array(x, BOOL), INT), axis), BOOL), out, "unsafe")
    x = array(x, dtype)
    if op == "cumprod" and x.dtype.kind == "c" and is_dynamic(x):          # (expanded into slices where the extents are known)
        return to_out(whole(np.cumprod, (("axis", axis),))((x,), ((x.dtype, x.shape),))[0], out, "unsafe")
    return to_out(_core.scan(op, x, axis), out, "unsafe")


@implements(np.cumsum)
@method("cumsum")
def cumsum(a, axis=None, dtype=None, out=None):
    return scan("cumsum", a, axis, dtype, out)


@implements(np.cumprod)
@method("cumprod")
def cumprod(a, axis=None, dtype=None, out=None):
    return scan("cumprod", a, axis, dtype, out)


def cumulative(op, x, axis, dtype, out, include_initial):
    x = array(x)
    x = x if x.ndim else x[None]
    if axis is None:
        if x.ndim != 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    r = scan(op, x, axis, dtype, None)
    if include_initial:
        axis = axis_index(axis, x.ndim)
        first = (*x.shape[:axis], 1, *x.shape[axis + 1:])
        r = _core.concatenate([_core.full(first, r.dtype, int(op == "cumprod")), r], axis)
    return to_out(r, out, "unsafe")


@implements(*numpys("cumulative_sum"))
def cumulative_sum(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
    return cumulative("cumsum", x, axis, dtype, out, include_initial)


@implements(*numpys("cumulative_prod"))
def cumulative_prod(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
    return cumulative("cumprod", x, axis, dtype, out, include_initial)


@implements(np.diff)
def diff(a, n=1, axis=-1, prepend=NoValue, append=NoValue):
    n = index(n)
    if n == 0:
        return a
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    a = array(a)
    if a.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = axis_index(axis, a.ndim)
    parts = [a if v is a else diff_end(v, a, axis) for v in (prepend, a, append) if v is not NoValue]
    if len(parts) > 1:
        a = np.concatenate(parts, axis)
    op = np.not_equal if a.dtype == BOOL else np.subtract
    at = (ALL,) * axis
    for _ in range(n):
        a = op(a[(*at, slice(1, None))], a[(*at, slice(None, -1))])
    return a


def diff_end(v, a, axis):
    v = array(v)
    return v if v.ndim else _core.broadcast(v, (*a.shape[:axis], 1, *a.shape[axis + 1:]))


@implements(np.ediff1d)
def ediff1d(ary, to_end=None, to_begin=None):
    a = ravel(ary)
    parts = [a[1:] - a[:-1]]
    for end, v in ((0, to_begin), (1, to_end)):
        if v is not None:
            v = ravel(v)
            if not np.can_cast(v.dtype, a.dtype, "same_kind"):
                name = "to_end" if end else "to_begin"
                raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
            parts.insert(len(parts) if end else 0, array(v, a.dtype))
    return _core.concatenate(parts, 0) if len(parts) > 1 else parts[0]


# ---- reductions that skip NaN ----

def without_nan(a, value):
    """a with NaN replaced, and the mask of NaN (None where there can be none)."""
    x = array(a)
    if not inexact(x.dtype):
        return x, None
    mask = np.isnan(x)
    return _core.follow(masked(x, np.logical_not(mask), value), x), mask


@implements(np.nansum)
def nansum(a, axis=None, dtype=None, out=None, keepdims=NoValue, initial=NoValue, where=NoValue):
    return sum(without_nan(a, 0)[0], axis, dtype, out, keepdims, initial, where)


@implements(np.nanprod)
def nanprod(a, axis=None, dtype=None, out=None, keepdims=NoValue, initial=NoValue, where=NoValue):
    return prod(without_nan(a, 1)[0], axis, dtype, out, keepdims, initial, where)


@implements(np.nancumsum)
def nancumsum(a, axis=None, dtype=None, out=None):
    return cumsum(without_nan(a, 0)[0], axis, dtype, out)


@implements(np.nancumprod)
def nancumprod(a, axis=None, dtype=None, out=None):
    return cumprod(without_nan(a, 1)[0], axis, dtype, out)


def refuse_exact(dtype, out):
    """NumPy's means of floats that skip NaN have to be floats."""
    out = out_array(out)
    if dtype is not None and dtype_of(dtype).kind not in "fcV":
        raise TypeError("If a is inexact, then dtype must be inexact")
    if out is not None and out.dtype.kind not in "fcV":
        raise TypeError("If a is inexact, then out must be inexact")


@implements(np.nanmean)
def nanmean(a, axis=None, dtype=None, out=None, keepdims=NoValue, *, where=NoValue):
    x, mask = without_nan(a, 0)
    if mask is None:
        return mean(x, axis, dtype, out, keepdims, where=where)
    refuse_exact(dtype, out)
    n = sum(np.logical_not(mask), axis, INT, None, keepdims, NoValue, where)
    total = sum(x, axis, dtype, None, keepdims, NoValue, where)
    return to_out(as_dtype(total / n, total.dtype), out, "unsafe")


@implements(np.nanvar)
def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=NoValue, *, where=NoValue, mean=NoValue, correction=NoValue):
    if given(correction) and ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    ddof = correction if given(correction) else ddof
    x, mask = without_nan(a, 0)
    if mask is None:
        return var(x, axis, dtype, out, ddof, keepdims, where=where, mean=mean)
    refuse_exact(dtype, out)
    live = np.logical_not(mask)
    if where is not NoValue and where is not True:
        live = np.logical_and(live, array(where, BOOL))
    n = sum(live, axis, INT, None, True)
    if not given(mean):
        mean = as_dtype(sum(x, axis, dtype, None, True, NoValue, where) / n, float_type(dtype, x))
    deviation = masked(np.subtract(x, mean), live, 0)
    total = sum(squares(deviation), axis, dtype, None, True)
    left = n - ddof
    r = as_dtype(total / left, total.dtype)
    r = _core.where(_core.broadcast(np.greater(left, 0), r.shape), r, _core.full(r.shape, r.dtype, float("nan")))
    if keepdims is NoValue or not keepdims:
        axes = reduced_axes(axis, x.ndim)
        r = scalar(_core.reshape(r, tuple(n for k, n in enumerate(r.shape) if k not in axes)))
    return to_out(r, out, "unsafe")


@implements(np.nanstd)
def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=NoValue, *, where=NoValue, mean=NoValue, correction=NoValue):
    if inexact(array(a).dtype):
        refuse_exact(dtype, out)
    v = nanvar(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    return to_out(as_dtype(np.sqrt(v), v.dtype), out, "unsafe")


def lowest(dtype, op):
    """What no number of a float dtype is beyond: an infinity, or the last number of a dtype without."""
    end = np.array("-inf" if op == "max" else "inf", np.float32).astype(dtype)
    if np.isnan(end):
        every = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
        end = np.array((np.nanmin if op == "max" else np.nanmax)(every)).astype(dtype)
    return array(end)


def nan_extreme(op, a, axis, out, keepdims, initial, where):
    x, mask = array(a), None
    if x.dtype.kind in "fcV":
        x, mask = np.where(np.isnan(x), lowest(x.dtype, op), x), np.isnan(x)
    r = extreme(op, x, axis, None, keepdims, initial, where)
    if mask is not None:                                # where there is nothing but NaN the result is NaN
        empty = all_(mask, axis, None, keepdims, where=where)
        r = np.where(empty, array(np.nan, r.dtype), r)
        r = scalar(r)
    return to_out(r, out)


@implements(np.nanmax)
def nanmax(a, axis=None, out=None, keepdims=NoValue, initial=NoValue, where=NoValue):
    return nan_extreme("max", a, axis, out, keepdims, initial, where)


@implements(np.nanmin)
def nanmin(a, axis=None, out=None, keepdims=NoValue, initial=NoValue, where=NoValue):
    return nan_extreme("min", a, axis, out, keepdims, initial, where)


def nan_arg_extreme(op, a, axis, out, keepdims):
    x, mask = without_nan(a, float("-inf") if op == "argmax" else float("inf"))
    if mask is not None and x.size:
        _core.check(np.logical_not(any_(all_(mask, axis))), "all_nan")
    return arg_extreme(op, x, axis, out, keepdims)


@implements(np.nanargmax)
def nanargmax(a, axis=None, out=None, *, keepdims=NoValue):
    return nan_arg_extreme("argmax", a, axis, out, keepdims)


@implements(np.nanargmin)
def nanargmin(a, axis=None, out=None, *, keepdims=NoValue):
    return nan_arg_extreme("argmin", a, axis, out, keepdims)
