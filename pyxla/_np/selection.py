"""Choosing, placing and counting elements by indices: take, put, choose, ufunc.at, searchsorted and their kin."""
from functools import cache
from operator import index

import numpy as np

from .. import _core
from ._args import (
    ALL,
    BOOL,
    FLOAT,
    FLOAT32,
    INT,
    array,
    axis_index,
    common,
    count,
    is_array,
    is_weak,
    result_type,
    scalar,
    stored_into,
    to_out,
)
from .extents import as_value, broadcast_shapes, meets
from .fancy import Key, axis_bits, from_front, in_range, to_front, unravelled
from .host import host, whole
from .manip import broadcast_to, ravel

implements, method = _core.implements, _core.method

ADDRESS_BITS = 48                                       # no array has more elements than these count


def integers(x, what="indices"):
    """An array of integers as a tracer; NumPy's error for others."""
    x = array(x, INT) if isinstance(x, (list, tuple)) and not len(x) else array(x)
    if x.dtype.kind not in "iub":
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to {INT!r} according to the rule 'safe'")
    return _core.cast(x, INT) if x.dtype == BOOL else x


def bounded(indices, n, mode):
    """Indices of an axis of extent n by NumPy's `mode`."""
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if not _core.is_extent(n) and n == 0 and indices.size:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    if not _core.is_extent(n) and n == 0 or mode == "raise":
        return in_range(indices, n, 0)
    indices = _core.cast(indices, INT)
    return np.remainder(indices, n) if mode == "wrap" else np.clip(indices, 0, n - 1)


# ---- take, put ----

@implements(np.take)
@method("take")
def take(a, indices, axis=None, out=None, mode="raise"):
    a = array(a)
    a, axis = (ravel(a), 0) if axis is None else (a, axis_index(axis, max(a.ndim, 1)))
    a = a if a.ndim else a[None]
    if mode == "raise" and isinstance(indices, (list, tuple)) and indices and all(type(k) is int for k in indices):
        return to_out(_core.copy(a[(slice(None),) * axis + (list(indices),)], True), out, "same_kind")     # checked now, not in the run
    indices = integers(indices)
    r = _core.gather(to_front(a, [axis]), (bounded(indices, a.shape[axis], mode),))
    return to_out(scalar(_core.copy(from_front(r, indices.ndim, axis), True)), out, "unsafe" if mode != "raise" else "same_kind")


@implements(np.put)
@method("put")
def put(a, ind, v, mode="raise"):
    if isinstance(a, np.generic) or _core.is_numpy_scalar(a):
        a = _core.copy(array(a)[...])                      # NumPy stores into an array of the scalar, which nobody sees
    a = stored_into("np.put", a)
    ind = ravel(integers(ind))
    v = ravel(array(v)) if not is_weak(v) else v
    if ind.size == 0 or (not is_weak(v) and v.size == 0):
        return
    v = array(v, a.dtype) if is_weak(v) else v
    if v.ndim and v.size != 1:
        v = _core.gather(v, (np.remainder(_core.iota(ind.size), v.size),)) if v.size < ind.size else v[:ind.size]
    flat = bounded(ind, a.size, mode)
    if a.ndim == 0:
        a[...] = v if v.size == 1 and not v.ndim else v[-1]
        return
    _core.scatter(a, _core.full(ind.shape, a.dtype, v), None, axis_bits(range(a.ndim)), unravelled(flat, a.shape))


def along(shape, indices, axis):
    """Index arrays for every axis: `indices` along one, each position for itself along the others."""
    for d, (n, m) in enumerate(zip(shape, indices.shape)):
        if d != axis and n != m and n != 1 and m != 1:
            raise IndexError(f"shape mismatch: indexing arrays could not be broadcast together with shapes {shape} and {indices.shape}")
    own = [_core.reshape(_core.iota(n), (1,) * d + (n,) + (1,) * (len(shape) - d - 1)) for d, n in enumerate(shape)]
    own[axis] = in_range(indices, shape[axis], axis)
    return tuple(own)


def along_operands(name, arr, indices, axis):
    indices = array(indices)
    if indices.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        if indices.ndim != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        return _core.reshape(arr, (arr.size,)), indices, 0
    if arr.ndim != indices.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    return arr, indices, axis_index(axis, arr.ndim)


@implements(np.take_along_axis)
def take_along_axis(arr, indices, axis=-1):
    arr, indices, axis = along_operands("take_along_axis", array(arr), indices, axis)
    return _core.follow(_core.gather(arr, along(arr.shape, indices, axis)), arr)


@implements(np.put_along_axis)
def put_along_axis(arr, indices, values, axis):
    flat, indices, axis = along_operands("put_along_axis", stored_into("np.put_along_axis", arr), indices, axis)
    if axis is None or flat.ndim != arr.ndim:
        arr[np.unravel_index(indices, arr.shape)] = values
    else:
        arr[along(arr.shape, indices, axis)] = values


@method("choose")
def choose_method(a, *choices, out=None, mode="raise"):
    return choose(a, choices[0] if len(choices) == 1 else choices, out, mode)


@implements(np.choose)
def choose(a, choices, out=None, mode="raise"):
    a = integers(a)
    if isinstance(choices, (list, tuple)):
        kind = result_type(*choices)
        choices = [_core.cast(array(c), kind) for c in choices]      # Python's integers wrap around
    n = len(choices)
    choices = [choices[k] for k in range(n)]
    shape = broadcast_shapes(a.shape, *[c.shape for c in choices])
    which = broadcast_to(checked(a, n) if mode == "raise" else bounded(a, n, mode), shape)
    r = broadcast_to(choices[-1], shape)
    for k in reversed(range(n - 1)):
        r = _core.where(np.equal(which, k), broadcast_to(choices[k], shape), r)
    return to_out(scalar(_core.copy(r, True)), out, "unsafe")


@implements(np.place)
def place(arr, mask, vals):
    arr = stored_into("np.place", arr)
    mask, vals = ravel(array(mask, BOOL)), ravel(array(vals, arr.dtype))
    if mask.size != arr.size:
        raise ValueError("place: mask and data must be the same size")
    if vals.size == 0:
        _core.check(np.logical_not(np.any(mask)), "value", "Cannot insert from an empty array!; give values, or select by np.where")
        return
    position = np.remainder(_core.scan("cumsum", _core.cast(mask, INT), 0) - 1, vals.size)
    new = _core.where(mask, _core.gather(vals, (position,)), arr if arr.ndim == 1 else ravel(arr))
    arr[...] = new if arr.ndim == 1 else _core.reshape(new, arr.shape)


@implements(np.putmask)
def putmask(a, /, mask, values):
    a = stored_into("np.putmask", a)
    values, mask = ravel(array(values, a.dtype)), array(mask, BOOL)
    if mask.size != a.size:
        raise ValueError("putmask: mask and data must be the same size")
    if values.size == 0 or a.size == 0:
        return
    if values.size == 1:
        values = _core.reshape(values, ())
    else:
        at = _core.reshape(_core.iota(a.size), a.shape)
        values = _core.gather(values, (np.remainder(at, values.size),))
    new = _core.full(a.shape, a.dtype, values)
    a[...] = _core.where(_core.reshape(mask, a.shape), new, a)


# ---- indices of flattened arrays ----

@implements(np.unravel_index)
def unravel_index(indices, shape, order="C"):
    shape = tuple(index(n) for n in shape) if isinstance(shape, (tuple, list)) else (index(shape),)
    indices = listed(indices)
    n = addressable(shape)
    if not shape and indices.ndim:
        raise ValueError("multiple indices are not supported for 0d arrays")
    if indices.size and n == 0:
        raise ValueError("indices must be integral: the provided empty sequence was inferred as float.")
    flat = checked(indices, n)
    parts = unravelled(flat, shape if order == "C" else shape[::-1])
    parts = parts if order == "C" else parts[::-1]
    return tuple(scalar(_core.copy(p)) for p in parts)


def listed(indices):
    """Indices as integers; NumPy takes an empty list for one of floats."""
    if isinstance(indices, (list, tuple)) and not indices:
        raise TypeError("indices must be integral: the provided empty sequence was inferred as float.")
    return integers(indices)


def addressable(shape):
    """The number of elements, as far as there are int64 numbers for them."""
    n = count(shape)
    if n > np.iinfo(np.int64).max:
        raise ValueError("dimensions are too large; arrays and shapes with a total size greater than 'intp' are not supported.")
    return n


def checked(indices, n):
    """Indices in 0 .. n - 1 as int64; others are a ValueError of the run."""
    indices = _core.cast(indices, INT)
    _core.check(np.logical_and(np.less_equal(0, indices), np.less(indices, n)), "value",
                "invalid entry in an index array; np.clip bounds it, % n wraps it")
    return np.clip(indices, 0, max(n - 1, 0))


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index, dims, mode="raise", order="C"):
    dims = tuple(index(n) for n in dims) if isinstance(dims, (tuple, list)) else (index(dims),)
    addressable(dims)
    parts = [listed(p) for p in multi_index]
    if len(parts) != len(dims):
        raise ValueError(f"parameter multi_index must be a sequence of length {len(dims)}")
    modes = (mode,) * len(dims) if isinstance(mode, str) else tuple(mode)
    total, step = 0, 1
    ordered = list(zip(parts, dims, modes))
    for p, n, m in reversed(ordered) if order == "C" else ordered:
        p = checked(p, n) if m == "raise" else bounded(p, n, m)
        total = np.add(np.multiply(p, step), total)
        step *= n
    return scalar(total)


# ---- ufunc.at ----

@implements("ufunc.at")
def ufunc_at(ufunc, a, indices, b=None):
    if not is_array(a):
        raise TypeError("first operand must be array")
    if ufunc.nout != 1 or ufunc.nin > 2:
        raise TypeError("Only unary and binary functions with one result are supported by ufunc.at")
    if (b is None) != (ufunc.nin == 1):
        raise ValueError("second operand needed for ufunc" if b is None else "second operand provided when ufunc is unary")
    ufunc.at(np.ones(1, a.dtype), [0], *([] if b is None else [np.ones(1, array(b).dtype)]))      # NumPy's rule of casts, and its error
    k = Key(a, indices)
    if not k.arrays:
        key = tuple(k.basic)
        if b is not None and np.ndim(b) > np.ndim(a[key]):
            raise ValueError("array is not broadcastable to correct shape")
        a[key] = _core.cast(ufunc(a[key]) if b is None else ufunc(a[key], array(b)), a.dtype)
        return
    at, indices, shape = k.indices()
    view = a if all(isinstance(item, slice) and item == ALL for item in k.basic) else k.view()
    if b is None:
        loop, operand = ufunc.resolve_dtypes((a.dtype, None)), ()
    else:
        operand = array(b)                                 # a number too has the dtype it would have as an array
        loop = ufunc.resolve_dtypes((a.dtype, operand.dtype, None))
        rest = tuple(n for d, n in enumerate(view.shape) if d not in at)
        if operand.ndim > len(rest) + len(shape):
            raise ValueError("array is not broadcastable to correct shape")
        operand = _core.full(rest[:k.place] + shape + rest[k.place:], operand.dtype, operand)
        operand = (to_front(operand, list(range(k.place, k.place + len(shape)))),)
    if not combined(ufunc, view, at, indices, operand, loop):
        front = to_front(view, at)
        r, = host_at(ufunc)((front, *indices, *operand), ((a.dtype, front.shape),), len(indices))
        view[...] = _core.transpose(r, places_of(at, view.ndim))


def combined(ufunc, view, at, indices, operand, loop):
    """Does it as a scatter that combines, where there is one for the loop's dtypes; whether there was."""
    name = COMBINING.get(ufunc.__name__)
    if name is None or len(set(loop)) != 1 or name == "power" and loop[0].kind == "i":      # which checks its exponents
        return False
    if loop[0].kind == "c" and name not in ("add", "subtract"):
        return False
    wraps = loop[0].kind in "iu" and view.dtype.kind in "iu" and name in WRAPPING
    rounds_once = loop[0] == FLOAT and view.dtype == FLOAT32 and name in EXACT and is_single(operand[0])
    if loop[0] != view.dtype and not wraps and not rounds_once:
        return False
    _core.scatter(view, _core.cast(operand[0], view.dtype), name, axis_bits(at), indices)
    return True


WRAPPING = "add subtract multiply bitwise_and bitwise_or bitwise_xor".split()     # computed wider and cut after: the same bits
EXACT = "add subtract multiply divide maximum minimum".split()                    # of two float32 in float64, then rounded: the same bits


def is_single(x):
    """Whether the elements of a float64 array are known, and float32 holds them."""
    if not _core.is_concrete(x):
        return False
    known = np.asarray(_core.concrete(x))
    return bool((known.astype(np.float32) == known).all())


@cache
def host_at(ufunc):
    """NumPy's own method on a copy: of the array with its indexed axes first, by n index arrays, with a second operand or none."""
    def run(results, x, *rest):
        *arrays, n = rest
        r = x.copy()
        ufunc.at(r, tuple(arrays[:n]), *arrays[n:])
        results[0][...] = r
    return host(run)


def places_of(at, ndim):
    """The permutation that takes the axes `at` from the front back to their places."""
    order = [*at, *(d for d in range(ndim) if d not in at)]
    return tuple(order.index(d) for d in range(ndim))


COMBINING = {name: name for name in (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "power", "maximum", "minimum", "fmax", "fmin",
    "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "arctan2", "hypot", "copysign")}
COMBINING |= {"mod": "remainder", "true_divide": "divide"}


# ---- sorted tables ----

@implements(np.searchsorted)
@method("searchsorted")
def searchsorted(a, v, side="left", sorter=None):
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    a, v = comparable(a, v)
    if a.ndim != 1:
        raise ValueError("object of too small depth for desired array")
    if sorter is not None:
        a = sorted_by(a, array(sorter))
    if a.dtype.kind == "c":
        return scalar(whole(np.searchsorted, (("side", side),))((a, v), ((INT, v.shape),))[0])
    return scalar(search(a, v, side))


def sorted_by(a, sorter):
    """The table of searchsorted() in the order of its sorter."""
    if sorter.ndim != 1 or sorter.dtype.kind not in "iu":
        raise TypeError("sorter must be a vector that only contains integers")
    if not meets(sorter.shape[0], a.shape[0]):
        raise ValueError("sorter.size must equal a.size")
    _core.check(np.less_equal(0, sorter), "value", "Sorter index out of range.; give np.argsort(a)")
    return a[sorter]


def halving(a, shape, precedes):
    """How many elements of a vector, of which those that precede come first: a binary search per element, without branches."""
    found, n = _core.full(shape, INT, 0), a.shape[0]
    while n > 1:                                                      # the answer is in found ... found + n
        half = n // 2
        found = _core.where(precedes(_core.gather(a, (found + (half - 1),))), found + half, found)
        n -= half
    return found + _core.cast(precedes(_core.gather(a, (found,))), INT) if n else found


def comparable(a, v):
    """Both as arrays of a dtype that holds their values: float64 for a float of ml_dtypes and an integer, which have no common one."""
    try:
        return common(a, v)
    except np.exceptions.DTypePromotionError:
        return array(a, FLOAT), array(v, FLOAT)


SIDES = ("left", "right")                   # by number


def search_into(results, a, v, side):
    results[0][...] = np.searchsorted(a, v, SIDES[side])


run_search = host(search_into, lambda number: _core.host_own(number, "search"), c_order=True)
FEW_KEYS = 64                               # which search beside what is computed with them, without a call


def searched_as(dtype):
    """The dtype in whose order the routine of ours goes."""
    if dtype.itemsize < 4 or dtype.kind == "V":
        return np.dtype("float32" if dtype.kind in "fV" else "int32")
    return dtype


def search(a, v, side):
    """How many elements of the sorted table a are less than v (side 'right': or equal it), NaN being the greatest."""
    if any(map(_core.is_extent, v.shape)) or v.size > FEW_KEYS:
        dtype = searched_as(a.dtype)
        return run_search([_core.cast(x, dtype) for x in (a, v)], ((INT, v.shape),), SIDES.index(side))[0]
    if _core.is_extent(a.shape[0]):
        return search_extent(a, v, side)
    compare = np.less if side == "left" else np.less_equal
    found = halving(a, v.shape, lambda x: compare(x, v))
    if a.dtype.kind not in "fV":
        return found
    numbers = a.shape[0] if side == "right" else halving(a, (), lambda x: np.logical_not(np.isnan(x)))
    return _core.where(np.isnan(v), numbers, found)


def search_extent(a, v, side):
    """`search` in a table whose size n is known only in the run: the answer lies in low ... high, halved until nothing can be left."""
    n, compare = as_value(a.shape[0]), np.less if side == "left" else np.less_equal
    a = _core.concatenate([a, _core.full((1,), a.dtype, 0)], 0)       # so that there is one to read
    low, high = _core.full(v.shape, INT, 0), _core.broadcast(n, v.shape)
    for _ in range(ADDRESS_BITS):
        middle = (low + high) // 2
        there = _core.gather(a, (middle,))
        before = compare(there, v)
        if a.dtype.kind in "fV":
            before = np.logical_or(before, np.isnan(v) if side == "right" else np.logical_and(np.isnan(v), np.logical_not(np.isnan(there))))
        before = np.logical_and(before, np.less(low, high))
        low, high = _core.where(before, middle + 1, low), _core.where(before, high, middle)
    return low


@implements(np.digitize)
def digitize(x, bins, right=False):
    if "c" in array(x).dtype.kind + array(bins).dtype.kind:
        raise TypeError("x may not be complex")
    x, bins = comparable(x, bins)
    if bins.ndim != 1:
        raise ValueError("object of too small depth for desired array")
    side = "left" if right else "right"
    if bins.size < 2:
        return scalar(search(bins, x, side))
    first, last = bins[:-1], bins[1:]                   # the first two that differ decide which way they go; NaN is no step back
    rises, falls, same = np.less(first, last), np.greater(first, last), np.equal(first, last)
    up = np.logical_or(_core.gather(rises, (np.argmin(same),)), same.all())
    _core.check(np.logical_not(_core.where(up, falls.any(), rises.any())), "value",
                "bins must be monotonically increasing or decreasing; sort them by np.sort")
    found = search(_core.where(up, bins, bins[::-1]), x, side)
    return scalar(_core.where(up, found, bins.size - found))
