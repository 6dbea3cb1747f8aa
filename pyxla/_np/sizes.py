"""Functions whose results have a size that depends on data: nonzero, compress, unique, bincount and their kin.

Masks become positions (fancy.py), and the size is an extent of the run (extents.py)."""
import math
from operator import index
from typing import NamedTuple

import numpy as np

from .. import _core
from ._args import BOOL, FLOAT, INT, array, axis_index, axis_tuple, common, to_out, unsupported
from .extents import Number, as_value, is_dynamic
from .fancy import from_front, positions, to_front, unravelled
from .histogram import tally
from .host import host
from .manip import ravel

implements, method = _core.implements, _core.method


def truth(x):
    return x if x.dtype == BOOL else np.not_equal(x, 0)


def nowhere(a):
    """An empty index array per axis."""
    return tuple(_core.full((0,), INT, 0) for _ in range(a.ndim))


def repeated_cyclically(x, size):
    """The elements of a vector over and over, `size` of them; zeros if it has none."""
    more = _core.concatenate([x, _core.full((1,), x.dtype, 0)], 0)
    n = np.maximum(as_value(x.shape[0]), 1)
    return _core.gather(more, (np.remainder(_core.iota(size), n),))


# ---- where a condition holds ----

@implements(np.nonzero)
@method("nonzero")
def nonzero(a):
    a = array(a)
    if a.ndim == 0:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead. "
                         "If the context of this error is of the form `arr[nonzero(cond)]`, just use `arr[cond]`.")
    if not is_dynamic(a) and a.size == 0:
        return nowhere(a)
    return tuple(_core.copy(p) for p in unravelled(positions(truth(a)), a.shape))


@implements(np.ix_)
def ix_(*args):
    out = []
    for k, values in enumerate(args):
        x = array(values, INT) if isinstance(values, (list, tuple)) and not len(values) else array(values)
        if x.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        x = nonzero(x)[0] if x.dtype == BOOL else x
        out.append(_core.reshape(x, (1,) * k + (x.shape[0],) + (1,) * (len(args) - k - 1)))
    return tuple(out)


@implements(np.flatnonzero)
def flatnonzero(a):
    return nonzero(ravel(array(a)))[0]


@implements(np.argwhere)
def argwhere(a):
    a = array(a)
    if a.ndim == 0:
        return argwhere(a[None])[:, :0]
    parts = nonzero(a)
    return _core.concatenate([_core.reshape(p, (p.shape[0], 1)) for p in parts], 1)


@implements(np.compress)
def compress(condition, a, axis=None, out=None):
    condition, a = truth(array(condition)), array(a)
    if condition.ndim != 1:
        raise ValueError("condition must be a 1-d array")
    a, axis = (ravel(a), 0) if axis is None else (a, axis_index(axis, a.ndim))
    if not is_dynamic(condition) and not is_dynamic(a) and condition.size > a.shape[axis]:
        _core.check(np.logical_not(condition[a.shape[axis]:]), "index")
        condition = condition[:a.shape[axis]]
    r = from_front(_core.gather(to_front(a, [axis]), (positions(condition),)), 1, axis)
    return to_out(r, out)


@method("compress")
def compress_method(a, condition, axis=None, out=None):
    return compress(condition, a, axis, out)


@implements(np.extract)
def extract(condition, arr):
    condition = ravel(truth(array(condition)))
    return _core.gather(ravel(array(arr)), (positions(condition),))


@implements(np.trim_zeros)
def trim_zeros(filt, trim="fb", axis=None):
    if isinstance(filt, (list, tuple)):
        raise unsupported("trim_zeros of a list, which gives a list of a length that depends on data", "give it np.array(list)")
    x, trim = array(filt), trim.lower()
    if trim not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    there = np.not_equal(x, 0)
    for d in range(x.ndim) if axis is None else axis_tuple(axis, x.ndim, "axis"):
        x = trimmed(x, d, np.any(there, axis=tuple(k for k in range(x.ndim) if k != d)), trim)
    return x


def trimmed(x, axis, there, trim):
    """x without the ends of an axis where `there` is false; without all of it where that is false everywhere."""
    n, k = as_value(there.shape[0]), _core.iota(there.shape[0])
    first = np.min(_core.where(there, k, n), initial=n) if "f" in trim else as_value(0)
    last = np.max(_core.where(there, k + 1, 0), initial=0) if "b" in trim else n
    size = Number(_core.where(np.any(there), last - first, 0))
    return from_front(_core.gather(to_front(x, [axis]), (_core.iota(size) + first,)), 1, axis)


@implements(np.piecewise)
def piecewise(x, condlist, funclist, *args, **kw):
    x = array(x)
    several = isinstance(condlist, (list, tuple)) and x.ndim and np.ndim(condlist[0]) or np.ndim(condlist) > x.ndim
    conditions = [array(condlist[k], BOOL) for k in range(len(condlist))] if several else [array(condlist, BOOL)]
    if len(funclist) == len(conditions) + 1:
        rest = conditions[0]
        for c in conditions[1:]:
            rest = np.logical_or(rest, c)
        conditions.append(np.logical_not(rest))
    elif len(funclist) != len(conditions):
        n = len(conditions)
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    y = np.zeros_like(x)
    for condition, f in zip(conditions, funclist):
        y[condition] = f(x[condition], *args, **kw) if callable(f) else f
    return y


# ---- repeats ----

def repeats_into(results, counts):
    results[0][...] = np.repeat(np.arange(counts.size), counts)


run_repeats = host(repeats_into, lambda number: _core.host_own(number, "repeats"))


def repeat_by(a, counts, axis):
    """Each part of a along an axis as often as the array of counts says."""
    a, counts = array(a), array(counts)
    a, axis = (ravel(a), 0) if axis is None else (a, axis_index(axis, a.ndim))
    if counts.dtype.kind not in "biu":
        raise TypeError(f"Cannot cast array data from {counts.dtype!r} to {INT!r} according to the rule 'safe'")
    counts = _core.cast(ravel(counts), INT)
    if not is_dynamic(counts) and counts.shape[0] == 1:
        return repeat_each(a, counts[0], axis)
    if counts.shape[0] != a.shape[axis]:
        raise ValueError(f"operands could not be broadcast together with shape ({a.shape[axis]},) ({counts.shape[0]},)")
    _core.check(np.less_equal(0, counts), "value", "repeats may not contain negative values.; bound them by np.maximum(counts, 0)")
    total = Number(_core.reduce("sum", counts, (0,)))
    (which,) = run_repeats((counts,), ((INT, (total,)),))
    return from_front(_core.gather(to_front(a, [axis]), (which,)), 1, axis)


def repeat_each(a, count, axis):
    """Each part of a along an axis `count` times."""
    _core.check(np.less_equal(0, count), "value", "repeats may not contain negative values.; bound them by np.maximum(counts, 0)")
    total = np.multiply(as_value(a.shape[axis]), np.maximum(count, 0))
    which = np.floor_divide(_core.iota(Number(total)), np.maximum(count, 1))
    return from_front(_core.gather(to_front(a, [axis]), (which,)), 1, axis)


# ---- counts ----

@implements(np.bincount)
def bincount(x, /, weights=None, minlength=0):
    x = array(x)
    if x.ndim != 1:
        raise ValueError("object of too small depth for desired array" if x.ndim == 0 else "object too deep for desired array")
    if x.dtype == np.uint64:
        np.bincount(np.ones(1, np.uint64))              # NumPy before 2.4 refuses it
    elif not np.can_cast(x.dtype, INT, "safe") and not (not is_dynamic(x) and x.size == 0):
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to {INT!r} according to the rule 'safe'")
    if minlength is None:
        raise TypeError("'NoneType' object cannot be interpreted as an integer")
    minlength = minlength if isinstance(minlength, Number) else index(_core.concrete(minlength))
    if not isinstance(minlength, Number) and minlength < 0:
        raise ValueError("'minlength' must not be negative")
    if weights is not None:
        if array(weights).dtype.kind == "c":
            raise TypeError(f"Cannot cast array data from {array(weights).dtype!r} to {FLOAT!r} according to the rule 'safe'")
        weights = _core.cast(array(weights), FLOAT)
        if not is_dynamic(x) and not is_dynamic(weights) and weights.shape != x.shape:
            raise ValueError("The weights and list don't have the same length.")
    x = _core.cast(x, INT)
    if not is_dynamic(x) and x.size == 0:
        return _core.full((minlength,), INT if weights is None else FLOAT, 0)
    _core.check(np.less_equal(0, x), "value", "'list' argument must have no negative elements; bound them by np.maximum(x, 0)")
    known = _core.bounds(x)
    if known is not None and known[0] >= 0 and not isinstance(minlength, Number) and known[1] < minlength:
        return tally(x, minlength, weights)
    top = x if not is_dynamic(x) else _core.concatenate([x, _core.full((1,), INT, -1)], 0)
    n = Number(np.maximum(_core.reduce("max", top, (0,)) + 1, as_value(minlength)))
    return tally(np.maximum(x, 0), n, weights)


# ---- sets ----

class Runs(NamedTuple):
    """A sorted array and where its runs of equal elements begin."""

    values: object
    order: object           # the indices that sort
    first: object           # bool
    start: object           # positions where first holds


def runs(x, equal_nan=True, kind=None):
    """The runs of equal elements of a vector; kind: of the sort of the indices, which are not needed without."""
    n = x.shape[0]
    order = np.argsort(x, kind=kind) if kind else None
    values = np.sort(x) if order is None else _core.gather(x, (order,))
    if is_dynamic(values):
        k = _core.iota(n)
        first = np.logical_or(differ(values, _core.gather(values, (np.maximum(k - 1, 0),)), equal_nan), np.equal(k, 0))
    else:
        first = _core.concatenate([_core.full((1,), BOOL, True), differ(values[1:], values[:-1], equal_nan)], 0)
    return Runs(values, order, first, positions(first))


def differ(x, y, equal_nan):
    """Where elements of runs differ."""
    apart = np.not_equal(x, y)
    if equal_nan and x.dtype.kind in "fc":
        apart = np.logical_and(apart, np.logical_not(np.logical_and(np.isnan(x), np.isnan(y))))
    return apart


@implements(np.unique)
def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, sorted=True):
    ar = array(ar)
    if axis is not None:
        axis = axis_index(axis, ar.ndim)
        if ar.ndim != 1:
            return unique_along(ar, axis, return_index, return_inverse, return_counts)
    x = ravel(ar)
    empty = not is_dynamic(x) and x.size == 0
    if empty:
        out = [_core.copy(x)]
        none = _core.full((0,), INT, 0)
        out += [none] * return_index + [_core.reshape(none, ar.shape)] * return_inverse + [none] * return_counts
        return out[0] if len(out) == 1 else tuple(out)
    kind = "stable" if return_index else "quicksort" if return_inverse else None        # (the first of equal ones has the index)
    r = runs(x, equal_nan, kind)
    return with_indices(r, _core.gather(r.values, (r.start,)), ar.shape, return_index, return_inverse, return_counts)


def with_indices(r, values, inverse_shape, return_index, return_inverse, return_counts):
    """The unique values, or a tuple of them and of what is asked for."""
    out, n = [values], r.first.shape[0]
    if return_index:
        out.append(_core.gather(r.order, (r.start,)))
    if return_inverse:
        number = _core.scan("cumsum", _core.cast(r.first, INT), 0) - 1
        inverse = _core.full((n,), INT, 0)
        _core.scatter(inverse, number, None, 1, (r.order,))
        out.append(_core.reshape(inverse, inverse_shape))
    if return_counts:
        k = _core.iota(r.start.shape[0])
        end = _core.gather(r.start, (np.minimum(k + 1, as_value(r.start.shape[0]) - 1),))
        last = np.equal(k, as_value(r.start.shape[0]) - 1)
        out.append(_core.where(last, as_value(n), end) - r.start)
    return out[0] if len(out) == 1 else tuple(out)


@host
def run_row_order(results, rows):
    results[0][...] = np.lexsort(rows.T[::-1])


def unique_along(a, axis, return_index, return_inverse, return_counts):
    """The unique subarrays along an axis, in the order of their elements; a NaN equals none."""
    front = to_front(a, [axis])
    n, m = front.shape[0], math.prod(front.shape[1:]) if not is_dynamic(front) else 0
    if not m or not is_dynamic(front) and n == 0:
        raise unsupported("unique along an axis of subarrays that are empty, or whose size depends on data", "compute it outside")
    rows = _core.reshape(front, (n, m))
    order = run_row_order((rows,), ((INT, (n,)),))[0]
    rows, k = _core.gather(rows, (order,)), _core.iota(n)
    before = _core.gather(rows, (np.maximum(k - 1, 0),))
    first = np.logical_or(np.any(np.not_equal(rows, before), axis=1), np.equal(k, 0))
    r = Runs(rows, order, first, positions(first))
    values = _core.reshape(_core.gather(rows, (r.start,)), (r.start.shape[0], *front.shape[1:]))
    return with_indices(r, from_front(values, 1, axis), (n,), return_index, return_inverse, return_counts)


@implements(np.unique_values)
def unique_values(x):
    return unique(x, equal_nan=False)


@implements(np.unique_counts)
def unique_counts(x):
    return np.lib._arraysetops_impl.UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False))


@implements(np.unique_inverse)
def unique_inverse(x):
    return np.lib._arraysetops_impl.UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False))


@implements(np.unique_all)
def unique_all(x):
    return np.lib._arraysetops_impl.UniqueAllResult(*unique(x, True, True, True, equal_nan=False))


def joined(a, b):
    a, b = common(a, b)
    return _core.concatenate([ravel(a), ravel(b)], 0)


@implements(np.union1d)
def union1d(ar1, ar2):
    return unique(joined(ar1, ar2))


def shared(x):
    """For a sorted vector of elements that occur twice at most: the sorted vector and whether the next element is equal."""
    values = np.sort(x)
    k = _core.iota(values.shape[0])
    end = as_value(values.shape[0])
    after = _core.gather(values, (np.maximum(np.minimum(k + 1, end - 1), 0),))
    return values, np.logical_and(np.equal(values, after), np.less(k, end - 1))


@implements(np.intersect1d)
def intersect1d(ar1, ar2, assume_unique=False, return_indices=False):
    a, b = common(array(ar1), array(ar2))                             # (a Python number counts as int64, float64 or complex128)
    if return_indices:
        return intersection_indices(a, b, assume_unique)
    a, b = (ravel(v) if assume_unique else unique(v) for v in (a, b))
    values, twice = shared(joined(a, b))
    return _core.gather(values, (positions(twice),))


def intersection_indices(a, b, assume_unique):
    """The common elements and where they are in a and in b."""
    (a, i), (b, j) = [(ravel(v), None) if assume_unique else unique(v, return_index=True) for v in (a, b)]
    both = joined(a, b)
    order = np.argsort(both, kind="stable")
    values = _core.gather(both, (order,))
    twice = positions(np.equal(values[1:], values[:-1]))
    left, right = _core.gather(order, (twice,)), _core.gather(order, (twice + 1,)) - as_value(a.shape[0])
    if not assume_unique:
        left, right = _core.gather(i, (left,)), _core.gather(j, (right,))
    return _core.gather(values, (twice,)), left, right


@implements(np.setdiff1d)
def setdiff1d(ar1, ar2, assume_unique=False):
    a = ravel(array(ar1)) if assume_unique else unique(ar1)
    keep = np.isin(a, array(ar2), assume_unique=True, invert=True) if assume_unique else np.isin(a, array(ar2), invert=True)
    return _core.gather(a, (positions(keep),))


@implements(np.setxor1d)
def setxor1d(ar1, ar2, assume_unique=False):
    a, b = common(array(ar1), array(ar2))                             # (a Python number counts as int64, float64 or complex128)
    a, b = (ravel(v) if assume_unique else unique(v) for v in (a, b))
    values, twice = shared(joined(a, b))
    k = _core.iota(values.shape[0])
    before = np.logical_and(_core.gather(twice, (np.maximum(k - 1, 0),)), np.less(0, k))
    return _core.gather(values, (positions(np.logical_not(np.logical_or(twice, before))),))
