"""np.delete and np.insert: at places known while tracing slices are joined, at places of the run elements are gathered."""
import numpy as np

from .. import _core
from ._args import ALL, BOOL, INT, array, axis_index, is_array, known_ints
from .extents import Number, as_value, is_dynamic, meets, run_integer, slice_indices
from .fancy import drop_leading
from .join import take_static
from .manip import broadcast_to, fortran_or_c, moveaxis, ravel

implements = _core.implements


# ---- where ----

def is_mask(obj):
    if isinstance(obj, (list, tuple)):
        return len(obj) > 0 and all(isinstance(v, (bool, np.bool)) for v in obj)
    return isinstance(obj, bool) or getattr(obj, "dtype", None) == BOOL


def known_places(obj):
    """Places given as ints or as a mask, known while tracing: an int or a list."""
    mask = _core.concrete(obj) if _core.is_tracer(obj) else obj
    if is_mask(mask) and not isinstance(mask, bool):
        return np.flatnonzero(mask).tolist()
    return known_ints(mask)


def of_the_run(obj, n):
    """Whether the run alone knows the places, or the extent n of their axis."""
    if isinstance(obj, slice):
        return isinstance(n, Number) or any(map(run_integer, (obj.start, obj.stop)))
    if isinstance(obj, (list, tuple)):
        return any(of_the_run(v, 0) for v in obj) or isinstance(n, Number) and len(obj) != 1
    return is_array(obj) and not _core.is_concrete(obj) or isinstance(obj, Number) or isinstance(n, Number) and np.ndim(obj) > 0


def single(obj):
    """An integer of the run, or the only one of an array of them, as a 0-d int64; None: there are several, or they are no integers."""
    x = array(obj)
    return _core.cast(_core.reshape(x, ()), INT) if not is_dynamic(x) and x.size == 1 and x.dtype.kind in "iu" else None


def places(obj, n):
    """Places of the run as a vector of int64 in -n ... n, negative ones counted from the front."""
    if isinstance(obj, slice):
        return slice_indices(obj, n)[0]
    x = array(obj)
    if x.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    x, n = _core.cast(x, INT), as_value(n)
    x = x if x.ndim else x[None]
    _core.check(np.logical_and(np.less_equal(-n, x), np.less_equal(x, n)), "index")
    return _core.where(np.less(x, 0), x + n, x)


def taken(a, at, axis):
    """The elements of a at indices of the run, which are inside."""
    return np.take(a, at, axis, mode="clip")


# ---- delete ----

@implements(np.delete)
def delete(arr, obj, axis=None):
    arr = array(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = axis_index(axis, arr.ndim)
    n = arr.shape[axis]
    if is_mask(obj) and not isinstance(n, Number) and np.shape(obj) != (n,):
        raise ValueError(f"boolean array argument obj to delete must be one dimensional and match the axis length of {n}")
    if of_the_run(obj, n):
        return deleted_in_the_run(arr, obj, axis)
    if isinstance(n, Number):
        return deleted_one(arr, known_places(obj), axis)
    gone = set(range(n)[obj]) if isinstance(obj, slice) else set()
    at = known_places(obj) if not isinstance(obj, slice) else []
    masked = isinstance(at, list) and (len(at) != 1 or is_mask(obj)) and not isinstance(obj, slice)
    for i in at if isinstance(at, list) else [at]:
        if not -n <= i < n:
            raise IndexError(f"index {i} is out of bounds for axis {axis} with size {n}")
        gone.add(i % n)
    kept = [i for i in range(n) if i not in gone]
    return masked_static(arr, kept, axis) if masked else fortran_or_c(take_static(arr, kept, axis), arr)


def masked_static(arr, kept, axis):
    """arr[:, mask] for places that are known, laid out as that is: the axis of the mask outermost."""
    front = moveaxis(arr, axis, 0)
    r = take_static(front, kept, 0)
    if r.size:
        r = _core.follow(r, _core.gather(front, (_core.iota(len(kept)),)))
    return moveaxis(r, 0, axis)


def deleted_one(arr, i, axis):
    """np.delete of a known place along an axis whose extent the run only knows."""
    i = i[0] if isinstance(i, list) else i
    _core.check(np.greater(as_value(arr.shape[axis]), i if i >= 0 else -i - 1), "index")
    at = (ALL,) * axis
    rest = [arr[(*at, slice(i + 1, None))]] if i != -1 else []
    return _core.concatenate([arr[(*at, slice(None, i))], *rest], axis)


def deleted_in_the_run(arr, obj, axis):
    """np.delete of places of the run: one fewer element, or those of a mask."""
    n = arr.shape[axis]
    i = None if isinstance(obj, slice) or is_mask(obj) else single(obj)
    if i is not None:
        _core.check(np.logical_and(np.less_equal(-as_value(n), i), np.less(i, as_value(n))), "index")
        k = _core.iota(Number(np.maximum(as_value(n) - 1, 0)) if isinstance(n, Number) else max(n - 1, 0))
        return taken(arr, k + np.greater_equal(k, _core.where(np.less(i, 0), i + as_value(n), i)), axis)
    if is_mask(obj):
        mask = array(obj)
        meets(n, mask.shape[0])
        return np.compress(np.logical_not(mask), arr, axis)
    at = places(obj, n)
    _core.check(np.less(at, as_value(n)), "index")
    return np.compress(np.isin(_core.iota(n), at, invert=True), arr, axis)


# ---- insert ----

@implements(np.insert)
def insert(arr, obj, values, axis=None):
    arr = array(arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = axis_index(axis, arr.ndim)
    n = arr.shape[axis]
    if of_the_run(obj, n):
        return inserted_in_the_run(arr, obj, values, axis)
    at = list(range(n)[obj]) if isinstance(obj, slice) else known_places(obj)
    if isinstance(at, list):
        return insert_many(arr, at, values, axis) if len(at) != 1 else insert(arr, at[0], values_along(values, arr, axis), axis)
    if isinstance(n, Number):
        _core.check(np.greater_equal(as_value(n), at if at >= 0 else -at), "index")
    elif not -n <= at <= n:
        raise IndexError(f"index {obj} is out of bounds for axis {axis} with size {n}")
    at += n if at < 0 and not isinstance(n, Number) else 0
    before = (ALL,) * axis
    values = values_at_one(values, arr, axis, True)
    return fortran_or_c(_core.concatenate([arr[(*before, slice(None, at))], values, arr[(*before, slice(at, None))]], axis), arr)


def values_at_one(values, arr, axis, scalar):
    """What insert() puts at one place; scalar: where that is no list, the first axis of the values is the axis of places."""
    values = array(values, arr.dtype)
    values = values[(None,) * (arr.ndim - values.ndim) + (...,)]
    values = moveaxis(values, 0, axis) if scalar else values
    return broadcast_to(values, (*arr.shape[:axis], values.shape[axis], *arr.shape[axis + 1:]))


def values_along(values, arr, axis):
    """The values of insert() at a list of one place, as for the place alone: there a first axis is the axis of places."""
    values = array(values)
    values = values[(None,) * (arr.ndim - values.ndim) + (...,)]
    return moveaxis(values, axis, 0) if values.ndim == arr.ndim else values


def values_at_many(values, arr, axis, new):
    """What insert() assigns to `new` places."""
    values = drop_leading(array(values, arr.dtype), arr.ndim)
    return broadcast_to(values, (*arr.shape[:axis], new, *arr.shape[axis + 1:]))


def insert_many(arr, places, values, axis):
    """np.insert at several places: the places are those before any insertion."""
    n, new = arr.shape[axis], len(places)
    for i in places:
        if not -n <= i <= n:
            raise IndexError(f"index {i} is out of bounds for axis {axis} with size {n}")
    places = [i + n if i < 0 else i for i in places]
    values = values_at_many(values, arr, axis, new)
    order = sorted(range(new), key=places.__getitem__)
    sources, at = [], 0
    for k in order:
        sources += [*range(at, places[k]), n + k]
        at = places[k]
    return fortran_or_c(take_static(_core.concatenate([arr, values], axis), [*sources, *range(at, n)], axis), arr)


def inserted_in_the_run(arr, obj, values, axis):
    """np.insert at places of the run: of the k-th element of the result it is searched whether it is a new one, and which."""
    n = arr.shape[axis]
    if not isinstance(obj, slice) and not is_mask(obj):
        if not isinstance(obj, Number) and np.ndim(obj) > 1:
            raise ValueError("index array argument obj to insert must be one dimensional or scalar")
        i = single(obj)
        if i is not None:
            return inserted_one(arr, i, values_at_one(values, arr, axis, isinstance(obj, Number) or np.ndim(obj) == 0), axis)
    at = np.flatnonzero(array(obj)) if is_mask(obj) else places(obj, n)
    values = values_at_many(values, arr, axis, at.shape[0])
    order = np.argsort(at, kind="stable")
    joined = _core.concatenate([arr, np.take(values, order, axis)], axis)
    at, k = np.sort(at) + _core.iota(at.shape[0]), _core.iota(joined.shape[axis])
    before = np.searchsorted(at, k)
    return taken(joined, _core.where(np.greater(np.searchsorted(at, k, "right"), before), before + as_value(n), k - before), axis)


def inserted_one(arr, i, values, axis):
    """np.insert of values, which lie along the axis, at one place of the run."""
    n, new = as_value(arr.shape[axis]), as_value(values.shape[axis])
    _core.check(np.logical_and(np.less_equal(-n, i), np.less_equal(i, n)), "index")
    i = _core.where(np.less(i, 0), i + n, i)
    joined = _core.concatenate([arr, values], axis)
    k = _core.iota(joined.shape[axis])
    return taken(joined, _core.where(np.less(k, i), k, _core.where(np.less(k, i + new), k - i + n, k - new)), axis)
