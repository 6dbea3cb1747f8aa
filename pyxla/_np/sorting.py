"""Sorting, partitioning and order statistics: NumPy's own routines as host calls, so that ties and NaN come out as its do."""
import functools
import inspect

import numpy as np

from .. import _core
from . import network
from ._args import FLOAT, INT, array, axis_index, axis_tuple, inexact, is_none, is_small, scalar, to_out, unsupported
from .borrow import borrow
from .host import host, whole
from .manip import moveaxis, ravel

implements, method = _core.implements, _core.method
KINDS = ("quicksort", "heapsort", "mergesort", "stable")


def sort_into(results, x, axis, kind):
    results[0][...] = x
    results[0].sort(axis, KINDS[kind])


def argsort_into(results, x, axis, kind):
    results[0][...] = np.argsort(x, axis, KINDS[kind])


run_sort = host(sort_into, lambda number: _core.host_sort(number, False))
run_argsort = host(argsort_into, lambda number: _core.host_sort(number, True), c_order=True)


def partition_into(results, x, axis, *kth):
    results[0][...] = x
    results[0].partition(kth, axis)


run_partition = host(partition_into, lambda number: _core.host_partition(number, False))


def argpartition_into(results, x, axis, *kth):
    results[0][...] = np.argpartition(x, kth, axis)


run_argpartition = host(argpartition_into, lambda number: _core.host_partition(number, True), c_order=True)


@host
def run_lexsort(results, *args):
    *keys, axis = args
    results[0][...] = np.lexsort(keys, axis)


def kind_number(kind, stable, order):
    """The number of a sorting algorithm; NumPy's errors."""
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    if stable is not None:
        if kind is not None:
            raise ValueError("`kind` and `stable` parameters can't be provided at the same time. Use only one of them.")
        return 3 if stable else 0
    kind = "quicksort" if kind is None else kind
    if not isinstance(kind, str):
        raise TypeError(f"sort kind must be str, not {type(kind).__name__}")
    for k, name in enumerate(KINDS):
        if kind and kind[0].lower() == name[0]:
            return k
    raise ValueError(f"sort kind must be one of 'quick', 'heap', or 'stable' (got '{kind}')")


def positions(kth, n):
    """Where a partition puts the element that belongs there, in 0 .. n - 1; traced numbers are asked for."""
    values = np.asarray(_core.concrete(kth)) if _core.is_tracer(kth) else np.array(kth)
    if values.dtype.kind not in "iu":
        raise TypeError("Partition index must be integer")
    if values.ndim > 1:
        raise ValueError("kth array must have dimension <= 1")
    if _core.is_extent(n):
        return sorted({int(k) for k in values.ravel()})       # NumPy checks them in the run
    out = [int(k) + n if k < 0 else int(k) for k in values.ravel()]
    if any(k < 0 or k >= n for k in out) and n:
        raise ValueError(f"kth(={out[0]}) out of bounds ({n})")
    return sorted(set(out))


def flat_or(a, axis):
    """(array, axis): the elements in C order for axis None."""
    x = array(a)
    return (ravel(x), 0) if axis is None else (x, axis_index(axis, x.ndim))


def sorted_values(x, axis, kind):
    if network.fits(x, axis):
        return network.sort(x, axis)
    return _core.follow(run_sort((x,), ((x.dtype, x.shape),), axis, kind)[0], x)


def partitioned(x, kth, axis, kind):
    if kind != "introselect":
        raise ValueError(f"select kind must be 'introselect' (got '{kind}')")
    kth = positions(kth, x.shape[axis])
    if len(kth) > 16:
        raise unsupported("np.partition at more than 16 places", "use np.sort")
    return _core.follow(run_partition((x,), ((x.dtype, x.shape),), axis, *kth)[0], x)


@implements(np.sort)
def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    x, axis = flat_or(a, axis)
    x = _core.copy(x)                                   # with x's layout
    x[...] = sorted_values(x, axis, kind_number(kind, stable, order))
    return x


@method("sort")
def sort_in_place(a, axis=-1, kind=None, order=None, *, stable=None):
    a[...] = sorted_values(a, axis_index(axis, a.ndim), kind_number(kind, stable, order))


@implements(np.argsort)
@method("argsort")
def argsort(a, axis=-1, kind=None, order=None, *, stable=None):
    x = array(a)
    if x.ndim == 0 and axis is not None:
        axis_index(axis, 1)
        x, axis = ravel(x), 0
    x, axis = flat_or(x, axis)
    return run_argsort((x,), ((INT, x.shape),), axis, kind_number(kind, stable, order))[0]


@implements(np.partition)
def partition(a, kth, axis=-1, kind="introselect", order=None):
    x, axis = flat_or(a, axis)
    x = _core.copy(x)
    x[...] = partitioned(x, kth, axis, kind)
    return x


@method("partition")
def partition_in_place(a, kth, axis=-1, kind="introselect", order=None):
    a[...] = partitioned(a, kth, axis_index(axis, a.ndim), kind)


@implements(np.argpartition)
@method("argpartition")
def argpartition(a, kth, axis=-1, kind="introselect", order=None):
    x = array(a)
    if x.ndim == 0 and axis is not None:
        axis_index(axis, 1)
        x, axis = ravel(x), 0
    x, axis = flat_or(x, axis)
    if kind != "introselect":
        raise ValueError(f"select kind must be 'introselect' (got '{kind}')")
    kth = positions(kth, x.shape[axis])
    if len(kth) > 16:
        raise unsupported("np.argpartition at more than 16 places", "use np.argsort")
    return run_argpartition((x,), ((INT, x.shape),), axis, *kth)[0]


@implements(np.lexsort)
def lexsort(keys, axis=-1):
    keys = [array(k) for k in (keys if isinstance(keys, (tuple, list)) else array(keys))]
    if not keys:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if len(keys) > 16:
        raise unsupported("np.lexsort of more than 16 keys", "sort by some of them first")
    if any(k.shape != keys[0].shape for k in keys):
        raise ValueError("all keys need to be the same shape")
    if keys[0].ndim == 0:
        axis_index(axis, 1)
        return scalar(_core.full((), INT, 0))
    return run_lexsort(keys, ((INT, keys[0].shape),), axis_index(axis, keys[0].ndim))[0]


borrow(np.sort_complex)


# ---- order statistics ----

def reduced(shape, axis, keepdims):
    """(shape, axes) of a reduction over axis (None: all)."""
    ndim = len(shape)
    axes = None if axis is None else axis_tuple(axis, ndim, "axis")
    over = range(ndim) if axes is None else axes
    if keepdims:
        return tuple(1 if k in over else n for k, n in enumerate(shape)), axes
    return tuple(n for k, n in enumerate(shape) if k not in over), axes


def statistic(function, a, axis, out, keepdims):
    x = array(a)
    if function is np.nanmedian and is_small(x.dtype) and axis is not None and x.ndim > 1:
        raise unsupported(f"np.nanmedian of {x.dtype} along an axis", "cast to float32 first (NumPy's dtype depends on the data)")
    keepdims = bool(keepdims) and keepdims is not np._NoValue
    shape, axes = reduced(x.shape, axis, keepdims)
    dtype = x.dtype if x.dtype.kind in "fcV" else FLOAT     # V: floats of ml_dtypes
    if is_none(x.size):
        r = _core.full(shape, dtype, np.nan)
    else:
        (r,) = whole(function, (("axis", axes), ("keepdims", keepdims)))((x,), ((dtype, shape),))
    return to_out(r if keepdims else scalar(r), out, "unsafe")


@implements(np.median)
def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    x = given = array(a)
    if x.dtype.kind not in "biuf" or any(map(_core.is_extent, x.shape)) or x.size == 0 or x.ndim == 0:
        return statistic(np.median, x, axis, out, keepdims)
    shape, axes = reduced(x.shape, axis, bool(keepdims))
    axes = tuple(range(x.ndim)) if axes is None else axes
    if len(axes) != 1:
        x = _core.reshape(moveaxis(x, axes, tuple(range(-len(axes), 0))), (*reduced(x.shape, axes, False)[0], -1))
    r = middle(x, axes[0] if len(axes) == 1 else x.ndim - 1)
    r = _core.follow(r, given).reshape(shape)
    return to_out(r if keepdims else scalar(r), out, "unsafe")


def middle(x, axis):
    """The mean of the one or two elements in the middle of a sorted axis; NaN where there is one."""
    n, before = x.shape[axis], (slice(None),) * axis
    low, high, floats = (n - 1) // 2, n // 2, inexact(x.dtype)
    part = partly_sorted(x, axis, [low, high])
    r = np.mean(part[(*before, slice(low, high + 1))], axis=axis)
    last = part[(*before, n - 1)]
    return _core.where(np.isnan(last), last, r) if floats else r


@implements(np.nanmedian)
def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=np._NoValue):
    return statistic(np.nanmedian, a, axis, out, keepdims)


@host
def run_quantile(results, *args):
    """The last three numbers: which function, which keywords (of SETTINGS), whether q is a Python number."""
    x, q, *weights, function, settings, weak = args
    keywords = dict(SETTINGS[settings], **({"weights": weights[0]} if weights else {}))
    results[0][...] = QUANTILES[function](x, q.item() if weak else q, **keywords)


QUANTILES = (np.quantile, np.percentile, np.nanquantile, np.nanpercentile)
SETTINGS = []                                           # distinct keywords met so far; a plan knows its own by number


def setting(**keywords):
    if keywords not in SETTINGS:
        SETTINGS.append(keywords)
    return SETTINGS.index(keywords)


def quantile_of(function):
    """Registers one of the four."""

    def f(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=np._NoValue, *, weights=None):
        x = array(a)
        if x.dtype.kind == "c":
            raise TypeError("a must be an array of real numbers")
        weak = type(q) in (int, float) or (_core.is_scalar_tracer(q) and array(q).dtype.kind in "if")
        weak = weak or (not OWN_DTYPE and function is np.quantile and type(q) is np.float64)
        q = array(q)
        if q.ndim > 2:
            raise ValueError("q must be a scalar or 1d")
        keepdims = bool(keepdims) and keepdims is not np._NoValue
        shape, axes = reduced(x.shape, axis, keepdims)
        inputs = [x, q] if weights is None else [x, q, array(weights)]
        if weights is not None and method != "inverted_cdf":
            raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
        dtype = quantile_dtype(function, x.dtype, q.dtype, weak, method) if weights is None else x.dtype
        if weights is None and method == "linear" and function in QUANTILES[:2] and _core.is_concrete(q):
            value = np.asarray(_core.concrete(q))
            r = linear_quantile(x, np.asarray(np.true_divide(value, 100)) if function is np.percentile else value, weak, axes)
            if r is not None:
                r = _core.reshape(r, (*q.shape, *shape))
                return to_out(r if keepdims else scalar(r), out, "unsafe")
        number = setting(axis=axes, method=method, keepdims=keepdims)
        (r,) = run_quantile(inputs, ((dtype, (*q.shape, *shape)),), QUANTILES.index(function), number, int(weak))
        return to_out(r if weights is not None or keepdims else scalar(r), out, "unsafe")
    return implements(function)(f)


# NumPy since 2.4 computes with q in its own dtype; before, in the array's.
OWN_DTYPE = "weak_q" in inspect.signature(np.lib._function_base_impl._quantile).parameters
MOST_QUANTILES = 7                                      # two places each, and the last one


def linear_quantile(x, q, weak, axes):
    """NumPy's 'linear' quantiles over axes (None: all), those of q first, each between two elements of a partition. None: not here."""
    usual = x.dtype.kind in "iuf" and x.ndim and not any(map(_core.is_extent, x.shape)) and x.size
    if not (OWN_DTYPE and usual) or q.dtype != FLOAT or not 0 < q.size <= MOST_QUANTILES or not np.all((q >= 0) & (q <= 1)):
        return None
    axes = tuple(range(x.ndim)) if axes is None else axes
    if len(axes) != 1:
        x = _core.reshape(moveaxis(x, axes, tuple(range(-len(axes), 0))), (*reduced(x.shape, axes, False)[0], -1))
    axis = axes[0] if len(axes) == 1 else x.ndim - 1
    n = x.shape[axis]
    places, weights = [], []
    for at in ((n - 1) * q).ravel():
        low = -1 if at >= n - 1 else int(np.floor(at))
        places += [low % n, low + 1 if low >= 0 else n - 1]
        weights.append(float(at - low) if weak else at - low)
    part, before = partly_sorted(x, axis, places), (slice(None),) * axis
    values = [part[(*before, k)] for k in places]
    results = [between(a, b, t) for a, b, t in zip(values[::2], values[1::2], weights)]
    if x.dtype.kind == "f":
        last = part[(*before, n - 1)]
        results = [_core.where(np.isnan(last), _core.cast(last, r.dtype), r) for r in results]
    r = _core.concatenate([_core.reshape(r, (1, *r.shape)) for r in results], 0) if q.ndim else results[0]
    return _core.follow(r, _core.full(r.shape, r.dtype, 0))     # NumPy sorts a copy in C order


def between(a, b, t):
    """NumPy's steps from a to b."""
    step = b - a
    return b - step * (1 - t) if t >= 0.5 else a + step * t


def partly_sorted(x, axis, places):
    """An axis with the right elements at these places and, of floats, at the end."""
    if network.fits(x, axis) or x.dtype.itemsize == 1:
        return sorted_values(x, axis, 0)
    return partitioned(x, places + [x.shape[axis] - 1] * inexact(x.dtype), axis, "introselect")


@functools.cache
def quantile_dtype(function, dtype, q, weak, method):
    """The dtype of quantiles, which differs by method and dtype of q (weak: a Python number): asked of NumPy, for two elements."""
    q = np.ones((), q)
    return function(np.ones(2, dtype), q.item() if weak else q, method=method).dtype


for function in QUANTILES:
    quantile_of(function)
