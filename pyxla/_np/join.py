"""Joining and splitting, and pieces of an axis at known places."""
import numpy as np

from .. import _core
from ._args import (
    ALL,
    array,
    axis_index,
    dtype_of,
    known_ints,
    numpys,
    result_type,
    to_out,
    type_of,
)
from .extents import is_dynamic, least, meets
from .manip import atleast_1d, atleast_2d, atleast_3d, moveaxis, ravel

implements, method = _core.implements, _core.method


# ---- joining ----

@implements(np.concatenate)
def concatenate(arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind"):
    arrays = list(arrays)
    if not arrays:
        raise ValueError("need at least one array to concatenate")
    wanted = result_type(*[a if axis is None and not isinstance(a, (list, tuple)) else array(a) for a in arrays])
    if dtype is not None:
        wanted = dtype_of(dtype)
        for a in arrays:
            if not np.can_cast(type_of(a if axis is None else array(a)), wanted, casting):
                raise TypeError(f"Cannot cast array data from {array(a).dtype!r} to {wanted!r} "
                                f"according to the rule '{casting}'")
    arrays = [array(a) for a in arrays]
    if axis is None:
        arrays, axis = [ravel(a) for a in arrays], 0
    rank = arrays[0].ndim
    if rank == 0:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = axis_index(axis, rank)
    arrays = [fitted(arrays[0], a, i, axis) for i, a in enumerate(arrays)]
    joined = _core.concatenate([a if a.dtype == wanted else _core.cast(a, wanted) for a in arrays], axis)
    return to_out(joined, out, casting)


implements(np.concat)(concatenate)


def fitted(first, a, i, axis):
    """a as it is joined to `first` along an axis, with its extents, which have to be equal: the run checks those it alone knows."""
    if a.ndim != first.ndim:
        raise ValueError("all the input array dimensions except for the concatenation axis must match exactly"
                         if not a.ndim else "all the input arrays must have same number of dimensions, but the array at "
                         f"index 0 has {first.ndim} dimension(s) and the array at index {i} has {a.ndim} dimension(s)")
    if is_dynamic(first) or is_dynamic(a):
        return with_extents(a, [m if k == axis else n for k, (n, m) in enumerate(zip(first.shape, a.shape))])
    for k, (n, m) in enumerate(zip(first.shape, a.shape)):
        if k != axis and n != m:
            raise ValueError("all the input array dimensions except for the concatenation axis must match exactly, but "
                             f"along dimension {k}, the array at index 0 has size {n} and the array at index {i} has size {m}")
    return a


def with_extents(a, shape):
    """a with this shape, checked to be a's own."""
    for n, m in zip(a.shape, shape):
        if not meets(n, m, "extent"):
            raise ValueError(f"arrays of extents {n} and {m} cannot be joined")
    return _core.broadcast(a, tuple(shape))


@implements(np.stack)
def stack(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    arrays = [array(a) for a in arrays]
    if not arrays:
        raise ValueError("need at least one array to stack")
    dynamic = any(map(is_dynamic, arrays))
    if any(a.ndim != arrays[0].ndim or not dynamic and a.shape != arrays[0].shape for a in arrays):
        raise ValueError("all input arrays must have the same shape")
    axis = axis_index(axis, arrays[0].ndim + 1)
    new = (ALL,) * axis + (None, ...)
    return concatenate([a[new] for a in arrays], axis, out, dtype=dtype, casting=casting)


@implements(*numpys("unstack"))
def unstack(x, /, *, axis=0):
    x = array(x)
    if x.ndim == 0:
        raise ValueError("Input array must be at least 1-d.")
    return tuple(moveaxis(x, axis, 0))


@implements(np.vstack)
def vstack(tup, *, dtype=None, casting="same_kind"):
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype, casting=casting)


@implements(np.hstack)
def hstack(tup, *, dtype=None, casting="same_kind"):
    arrays = [atleast_1d(a) for a in tup]
    return concatenate(arrays, 0 if arrays and arrays[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@implements(np.dstack)
def dstack(tup):
    return concatenate([atleast_3d(a) for a in tup], 2)


@implements(np.column_stack)
def column_stack(tup):
    arrays = [array(a) for a in tup]
    return concatenate([a if a.ndim >= 2 else atleast_2d(a).T for a in arrays], 1)


@implements(np.block)
def block(arrays):
    depth = block_depth(arrays)
    rank = max([depth, *(array(a).ndim for a in block_leaves(arrays))])
    joined = block_join(arrays, depth, rank)
    return joined if depth else _core.copy(joined)


def block_leaves(x):
    if isinstance(x, list):
        for v in x:
            yield from block_leaves(v)
    else:
        yield x


def block_depth(x):
    """The depth of nested lists, equal everywhere."""
    if isinstance(x, tuple):
        raise TypeError("arrays is a tuple. Only lists can be used to arrange blocks, and np.block does not allow "
                        "implicit conversion from tuple to ndarray.")
    if not isinstance(x, list):
        return 0
    if not x:
        raise ValueError("List at arrays cannot be empty")
    depths = {block_depth(v) for v in x}
    if len(depths) > 1:
        raise ValueError(f"List depths are mismatched. First element was at depth {min(depths) + 1}, "
                         f"but there is an element at depth {max(depths) + 1} (arrays)")
    return depths.pop() + 1


def block_join(x, depth, rank):
    if isinstance(x, list):
        return concatenate([block_join(v, depth - 1, rank) for v in x], -depth)
    a = array(x)
    return a[(None,) * (rank - a.ndim) + (...,)]


@implements(np.append)
def append(arr, values, axis=None):
    if axis is None:
        return concatenate((ravel(arr), ravel(values)), 0)
    return concatenate((arr, values), axis)


# ---- splitting ----

@implements(np.array_split)
def array_split(ary, indices_or_sections, axis=0):
    ary = array(ary)
    axis = axis_index(axis, ary.ndim)
    n = ary.shape[axis]
    sections = known_ints(indices_or_sections)
    if isinstance(sections, list):
        cuts = [0, *sections, n]
    else:
        if sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        each_, extra = divmod(n, sections)
        cuts = [i * each_ + least(i, extra) for i in range(sections + 1)]
    return [ary[(ALL,) * axis + (slice(a, b),)] for a, b in zip(cuts, cuts[1:])]


@implements(np.split)
def split(ary, indices_or_sections, axis=0):
    ary = array(ary)
    sections = known_ints(indices_or_sections)
    rest = 0 if isinstance(sections, list) else ary.shape[axis_index(axis, ary.ndim)] % sections
    if _core.is_extent(rest):
        _core.check(np.equal(rest, 0), "value", "array split does not result in an equal division; use np.array_split")
    elif rest:
        raise ValueError("array split does not result in an equal division")
    return array_split(ary, sections, axis)


@implements(np.hsplit)
def hsplit(ary, indices_or_sections):
    ary = array(ary)
    if ary.ndim == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


@implements(np.vsplit)
def vsplit(ary, indices_or_sections):
    ary = array(ary)
    if ary.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


@implements(np.dsplit)
def dsplit(ary, indices_or_sections):
    ary = array(ary)
    if ary.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


# ---- known places ----

def take_static(a, indices, axis):
    """The elements of a at known indices of an axis: slices of the runs of step 1, -1 or 0, joined."""
    at, pieces, i = (ALL,) * axis, [], 0
    while i < len(indices):
        step = indices[i + 1] - indices[i] if i + 1 < len(indices) else 1
        step = step if abs(step) == 1 else 1
        j = i + 1
        while j < len(indices) and indices[j] - indices[j - 1] == step:
            j += 1
        stop = indices[j - 1] + step
        pieces.append(a[(*at, slice(indices[i], None if stop < 0 else stop, step))])
        i = j
    return _core.concatenate(pieces, axis) if pieces else _core.copy(a[(*at, slice(0, 0))])
