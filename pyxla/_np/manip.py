"""Shapes: views, joins, splits, padding and the other functions that move elements without computing on them."""
from operator import index

import numpy as np

from .. import _core
from ._args import (
    ALL,
    INT,
    array,
    axis_index,
    axis_tuple,
    count,
    is_array,
    known_ints,
    shape_tuple,
    unsupported,
)
from .extents import Number, as_value, broadcast_shapes, greatest, is_dynamic, known_same, least, meets, with_extent

implements, method = _core.implements, _core.method


# ---- shape ----

def unknown_places(shape):
    """Where a shape has -1."""
    return [k for k, n in enumerate(shape) if not isinstance(n, Number) and n == -1]


def resolve_in_the_run(shape, a):
    """The shape with its -1 computed, of extents that the run may only know: it checks that they fit."""
    at, left = unknown_places(shape), list(a.shape)
    if len(at) > 1:
        raise ValueError("can only specify one unknown dimension")
    others = [n for n in shape if isinstance(n, Number) or n != -1]
    for n in [n for n in others if isinstance(n, Number)]:      # an extent on both sides says nothing of the others
        same = next((m for m in left if known_same(m, n)), None)
        if same is not None:
            left = [m for k, m in enumerate(left) if k != next(i for i, v in enumerate(left) if v is same)]
            others = [m for k, m in enumerate(others) if k != next(i for i, v in enumerate(others) if v is n)]
    size, known = count(left), count(others)
    if not at:
        if not meets(size, known):
            raise ValueError(f"cannot reshape array of size {size} into shape {str(shape).replace(' ', '')}")
        return shape
    numbers, p = [n for n in left if isinstance(n, Number)], count(n for n in left if not isinstance(n, Number))
    if len(numbers) == 1 and not isinstance(known, Number) and known and p % known == 0:
        new = numbers[0] * (p // known)
    elif isinstance(size, Number) or isinstance(known, Number):
        size, known = as_value(size), as_value(known)
        whole = np.equal(np.remainder(size, np.maximum(known, 1)), 0)
        _core.check(np.logical_and(np.not_equal(known, 0), whole), "value",
                    "cannot reshape array: its size, known only in the run, is no multiple of the other extents; slice it to such a size")
        new = Number(np.floor_divide(size, np.maximum(known, 1)))
    else:
        new = size // (known or 1)
        if not known or size % known:
            raise ValueError("cannot reshape an array of that size into that shape")
    return (*shape[:at[0]], new, *shape[at[0] + 1:])


def reshaped(a, shape):
    """a in a shape that fits; of extents that the run only knows to fit, by way of one axis."""
    dynamic = [any(isinstance(n, Number) for n in s) for s in (a.shape, shape)]
    if not any(dynamic):
        return _core.reshape(a, shape)
    if all(dynamic):
        try:
            return _core.reshape(a, shape)
        except (ValueError, _core.UnsupportedError):    # whether it fits shows in the run alone
            pass
    return _core.reshape(with_extent(_core.reshape(a, (a.size,)), 0, count(shape)), shape)


def resolve_shape(shape, a):
    """The shape with its -1 computed; NumPy's errors."""
    size = a.size
    shape = shape_tuple(shape)
    if any(isinstance(n, Number) for n in (*shape, size)):
        return resolve_in_the_run(shape, a)
    if -1 not in shape:
        good = count(shape) == size and not any(n < 0 for n in shape)
        resolved = shape
    elif shape.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension")
    else:
        known = count(n for n in shape if n != -1)
        good = known > 0 and size % known == 0
        resolved = tuple(size // known if n == -1 else n for n in shape) if good else shape
    if not good:
        raise ValueError(f"cannot reshape array of size {size} into shape {str(shape).replace(' ', '')}")
    return resolved


@implements(np.reshape)
def reshape(a, /, shape, order="C", *, copy=None):
    a = array(a)
    shape = resolve_shape(shape, a)
    fortran = order_of(a, order, "a reshape") == "F"
    if copy is not None and not copy:
        raise unsupported("reshape with copy=False", "leave copy out")
    if fortran:
        out = transpose(reshaped(transpose(a), shape[::-1]))
    else:
        out = as_scalar(reshaped(a, shape), a)
    return _core.copy(out) if copy else out


def as_scalar(view, a):
    """A 0-d view of a NumPy scalar as a NumPy scalar."""
    return view[()] if view.ndim == 0 and _core.is_numpy_scalar(a) else view


@method("reshape")
def reshape_method(a, *shape, order="C", copy=None):
    return reshape(a, shape[0] if len(shape) == 1 else shape, order, copy=copy)


@implements(np.ravel)
@method("ravel")
def ravel(a, order="C"):
    a = array(a)
    order = order_of(a, order, "a ravel")
    a = _core.transpose(a, axes_in_memory(a)) if order == "K" else transpose(a) if order == "F" else a
    return _core.contiguous(_core.reshape(a, (a.size,)))


@method("flatten")
def flatten(a, order="C"):
    return _core.copy(ravel(a, order))


@method("copy")
def copy_method(a, order="C"):
    return ordered(a, order)


@implements(np.copy)
def copy(a, order="K", subok=False):
    return ordered(array(a)[...], order)


def ordered(a, order):
    """A copy in the memory order 'C', 'F', 'K' (as a's axes are ordered) or 'A' (F if a is, else C)."""
    order = letter(order)
    order = order if order == "K" else order_of(a, order, "a copy")
    if order == "F" and a.ndim > 1:
        back = tuple(range(a.ndim))[::-1]
        return _core.transpose(_core.copy(_core.transpose(a, back), True), back)
    return _core.copy(a, order != "K")


@implements("in_order")
def in_order(x, order):
    """What a ufunc gives in the order asked for; 'A' is K here, which differs where operands are in no order or in several."""
    order = letter(order)
    return ordered(x, order) if order in "CF" and x.ndim > 1 and not is_dynamic(x) else x


def fortran_or_c(r, x):
    """r, new, in Fortran order if x, of as many axes, is in that order alone, else in C order, as NumPy's older functions have it."""
    if r.ndim < 2 or r.ndim != x.ndim or is_dynamic(x) or is_dynamic(r):
        return r
    larger = _core.pad(x, _core.full((), x.dtype, 0), (0,) * x.ndim, (2,) * x.ndim)       # never computed: np.pad has this rule
    return _core.follow(r, larger, True)


# ---- orders that the memory decides ----

def letter(order):
    if order is not None and not isinstance(order, str):
        raise TypeError(f"order must be str, not {type(order).__name__}")
    order = (order or "C").upper()
    if order not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got '{order}')")
    return order


def order_of(a, order, what):
    """'C', 'F' or 'K' for one of NumPy's orders: 'A' is 'F' for an array that is contiguous in that order alone."""
    order = letter(order)
    if order in "CF" or a.ndim < 2:
        return "F" if order == "F" else "C"
    if order == "K" and what == "a reshape":
        raise ValueError("order 'K' is not permitted for reshaping")
    if is_dynamic(a) or _core.strides(a) is None:
        raise unsupported(f"{what} with order={order!r} of an array whose memory layout is not known", "give 'C' or 'F'")
    return "K" if order == "K" else "F" if contiguous_from(a, range(a.ndim)) and not contiguous_from(a, range(a.ndim)[::-1]) else "C"


def contiguous_from(a, axes):
    """Whether a is contiguous with its axes in this order, from the innermost on."""
    size, strides = a.dtype.itemsize, _core.strides(a)
    for d in axes:
        if a.shape[d] != 1 and strides[d] != size and a.size:
            return False
        size *= a.shape[d]
    return True


def axes_in_memory(a):
    """The axes in the order in which NumPy's iterators go through memory, outermost first; those that memory does not tell apart stay."""
    far = [0 if n == 1 else abs(s) for n, s in zip(a.shape, _core.strides(a))]
    out = []
    for axis in reversed(range(a.ndim)):
        to = 0
        for place, other in enumerate(out):
            if far[axis] and far[other]:
                if far[other] <= far[axis]:
                    break
                to = place + 1
        out.insert(to, axis)
    return tuple(out)


@implements(np.transpose, np.permute_dims)
def transpose(a, axes=None):
    a = array(a)
    if axes is None:
        return as_scalar(_core.transpose(a, tuple(range(a.ndim))[::-1]), a)
    if len(axes) != a.ndim:
        raise ValueError("axes don't match array")
    return _core.transpose(a, axis_tuple(tuple(axes), a.ndim, None, "repeated axis in transpose"))


@method("transpose")
def transpose_method(a, *axes):
    if len(axes) == 1 and (axes[0] is None or np.ndim(axes[0])):
        return transpose(a, axes[0])
    return transpose(a, axes or None)


@implements(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x, /):
    x = array(x)
    if x.ndim < 2:
        raise ValueError(f"Input array must be at least 2-dimensional, but it is {x.ndim}")
    return swapaxes(x, -1, -2)


@implements(np.swapaxes)
@method("swapaxes")
def swapaxes(a, axis1, axis2):
    a = array(a)
    perm = list(range(a.ndim))
    i, j = axis_index(axis1, a.ndim), axis_index(axis2, a.ndim)
    perm[i], perm[j] = perm[j], perm[i]
    return _core.transpose(a, tuple(perm))


@implements(np.moveaxis)
def moveaxis(a, source, destination):
    a = array(a)
    source, destination = (tuple(axes) if np.ndim(axes) else axes for axes in (source, destination))        # arrays, too
    source, destination = axis_tuple(source, a.ndim, "source"), axis_tuple(destination, a.ndim, "destination")
    if len(source) != len(destination):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    perm = [k for k in range(a.ndim) if k not in source]
    for to, frm in sorted(zip(destination, source)):
        perm.insert(to, frm)
    return as_scalar(_core.transpose(a, tuple(perm)), a)


@implements(np.rollaxis)
def rollaxis(a, axis, start=0):
    a = array(a)
    n = a.ndim
    axis, start = axis_index(axis, n), index(start)
    if not -n <= start <= n:
        raise np.exceptions.AxisError(f"'start' arg requires {-n} <= start < {n + 1}, but {start} was passed in")
    start += n if start < 0 else 0
    perm = [k for k in range(n) if k != axis]
    perm.insert(start - (axis < start), axis)
    return _core.transpose(a, tuple(perm))


@implements(np.expand_dims)
def expand_dims(a, axis):
    a = array(a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = axis_tuple(tuple(axes), a.ndim + len(axes))
    return a[tuple(None if k in axes else ALL for k in range(a.ndim + len(axes)))]


def is_one(n):
    """Whether an extent is 1; of one that depends on data, whether it is today, which each run checks."""
    return bool(_core.assume(np.equal(n, 1), "whether an extent is 1")) if _core.is_extent(n) else n == 1


@implements(np.squeeze)
@method("squeeze")
def squeeze(a, axis=None):
    a = array(a)
    if axis is None:
        axes = tuple(k for k in range(a.ndim) if is_one(a.shape[k]))
    else:
        axes = axis_tuple(axis, a.ndim, None, "duplicate value in 'axis'") if a.ndim else ()
        for n in [a.shape[k] for k in axes if _core.is_extent(a.shape[k])]:
            _core.check(np.equal(n, 1), "value", "cannot select an axis to squeeze out which has size not equal to one; name one of size 1")
        if any(a.shape[k] != 1 for k in axes if not _core.is_extent(a.shape[k])):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return a[(*[0 if k in axes else ALL for k in range(a.ndim)], ...)] if axes else a


@implements(np.broadcast_to)
def broadcast_to(array_, shape, subok=False):
    a, shape = array(array_), shape_tuple(shape)
    if any(isinstance(n, int) and n < 0 for n in shape):
        raise ValueError("all elements of broadcast shape must be non-negative")
    known = [(n, m) for n, m in zip(a.shape[::-1], shape[::-1]) if isinstance(n, int) and isinstance(m, int)]
    if a.ndim > len(shape) or any(n not in (1, m) for n, m in known):
        if a.ndim > len(shape):
            raise ValueError("input operand has more dimensions than allowed by the axis remapping")
        raise ValueError("operands could not be broadcast together with remapped shapes [original->remapped]: "
                         f"{str(a.shape).replace(' ', '')}  and requested shape {str(shape).replace(' ', '')}")
    return _core.broadcast(a, shape)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args, subok=False):
    args = [array(a) for a in args]
    shape = broadcast_shapes(*[a.shape for a in args])
    if any(isinstance(n, Number) for n in shape):
        return tuple(_core.broadcast(a, shape) for a in args)
    return tuple(_core.broadcast(a, shape) if a.shape != shape else a[...] if _core.is_numpy_scalar(a) else a for a in args)


def at_least(a, rank, widen):
    """a, widened by an index where its rank is below."""
    a = array(a)
    return a if a.ndim >= rank else a[widen[a.ndim]]


def each(function, arys):
    return function(arys[0]) if len(arys) == 1 else tuple(function(a) for a in arys)


@implements(np.atleast_1d)
def atleast_1d(*arys):
    return each(lambda a: at_least(a, 1, [(None,)]), arys)


@implements(np.atleast_2d)
def atleast_2d(*arys):
    return each(lambda a: at_least(a, 2, [(None, None), (None, ALL)]), arys)


@implements(np.atleast_3d)
def atleast_3d(*arys):
    return each(lambda a: at_least(a, 3, [(None,) * 3, (None, ALL, None), (ALL, ALL, None)]), arys)


# ---- reordering ----

@implements(np.flip)
def flip(m, axis=None):
    m = array(m)
    axes = range(m.ndim) if axis is None else axis_tuple(axis, m.ndim)
    return m[tuple(slice(None, None, -1) if k in axes else ALL for k in range(m.ndim))]


@implements(np.fliplr)
def fliplr(m):
    m = array(m)
    if m.ndim < 2:
        raise ValueError("Input must be >= 2-d.")
    return m[:, ::-1]


@implements(np.flipud)
def flipud(m):
    m = array(m)
    if m.ndim < 1:
        raise ValueError("Input must be >= 1-d.")
    return m[::-1, ...]


@implements(np.rot90)
def rot90(m, k=1, axes=(0, 1)):
    m, k = array(m), index(k) % 4
    if len(axes) != 2:
        raise ValueError("len(axes) must be 2.")
    n = m.ndim
    if axes[0] == axes[1] or abs(axes[0] - axes[1]) == n:
        raise ValueError("Axes must be different.")
    if not all(-n <= a < n for a in axes):
        raise ValueError(f"Axes={tuple(axes)} out of range for array of ndim={n}.")
    if k == 0:
        return m[:]
    if k == 2:
        return flip(m, axes)
    if k == 1:
        return swapaxes(flip(m, axes[1]), *axes)
    return flip(swapaxes(m, *axes), axes[1])


def rolled_in_the_run(a, shift, axis):
    """np.roll along an axis whose extent, or by a shift that, the run only knows."""
    n = as_value(a.shape[axis])
    at = _core.iota(a.shape[axis]) - np.remainder(as_value(shift, INT), np.maximum(n, 1))
    at = _core.where(np.less(at, 0), at + n, at)
    back = tuple(range(1, axis + 1)) + (0,) + tuple(range(axis + 1, a.ndim))
    front = (axis, *range(axis), *range(axis + 1, a.ndim))
    return _core.transpose(_core.gather(_core.transpose(a, front), (at,)), back)


def shifts_of(shift):
    """The shifts of np.roll: ints, and 0-d arrays of int64 for what the run only knows."""
    if isinstance(shift, (list, tuple)):
        return tuple(s for v in shift for s in shifts_of(v))
    if not is_array(shift) or _core.is_concrete(shift):
        known = shift if isinstance(shift, Number) else known_ints(shift)
        return tuple(known) if isinstance(known, list) else (known,)
    if shift.dtype.kind not in "iub":
        raise TypeError("np.roll needs shifts that are integers")
    return tuple(_core.cast(s, INT) for s in (shift[k] for k in range(shift.size))) if shift.ndim else (_core.cast(shift, INT),)


@implements(np.roll)
def roll(a, shift, axis=None):
    a, shifts = array(a), shifts_of(shift)
    if axis is None:
        return _core.reshape(roll(ravel(a), sum(shifts), 0), a.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    if len(axes) != len(shifts):
        axes, shifts = axes * (len(shifts) if len(axes) == 1 else 1), shifts * (len(axes) if len(shifts) == 1 else 1)
        if len(axes) != len(shifts):
            raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    total = {}
    for s, k in zip(shifts, axes):
        k = axis_index(k, a.ndim)
        total[k] = total.get(k, 0) + s
    out = a
    for k, s in total.items():
        if isinstance(a.shape[k], Number) or not isinstance(s, int):
            out = rolled_in_the_run(out, s, k)
            continue
        s %= a.shape[k] or 1
        if s:
            at = (ALL,) * k
            out = _core.concatenate([out[(*at, slice(-s, None))], out[(*at, slice(None, -s))]], k)
    return _core.follow(_core.copy(out), a)


@implements(np.tile)
def tile(A, reps):
    a = array(A)
    reps = shape_tuple(reps)
    if any(isinstance(n, int) and n < 0 for n in reps):
        raise ValueError("negative dimensions are not allowed")
    rank = max(len(reps), a.ndim)
    reps = (1,) * (rank - len(reps)) + reps
    shape = (1,) * (rank - a.ndim) + a.shape
    a = _core.reshape(a, tuple(n for k in shape for n in (1, k)))
    a = _core.broadcast(a, tuple(n for r, k in zip(reps, shape) for n in (r, k)))
    tiled = any(not isinstance(r, int) or r != 1 for r in reps)
    return _core.copy(_core.reshape(a, tuple(r * k for r, k in zip(reps, shape))), tiled)           # what is tiled is in C order


@implements(np.repeat)
@method("repeat")
def repeat(a, repeats, axis=None):
    a = array(a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = axis_index(axis, a.ndim)
    n, at = a.shape[axis], (ALL,) * axis
    if is_array(repeats) and not _core.is_concrete(repeats) or _core.is_extent(n):
        from .sizes import repeat_by
        return repeat_by(a, repeats, axis)
    counts = known_ints(repeats)
    if isinstance(counts, list):
        counts = counts * n if len(counts) == 1 else counts
        if len(counts) != n:
            raise ValueError(f"operands could not be broadcast together with shape ({n},) ({len(counts)},)")
        if any(r < 0 for r in counts):
            raise ValueError("repeats may not contain negative values.")
        parts = [repeat(a[(*at, slice(i, i + 1))], r, axis) for i, r in enumerate(counts)]
        return _core.concatenate(parts, axis) if parts else _core.copy(a)
    r = counts
    if r < 0:
        raise ValueError("repeats may not contain negative values.")
    shape = a.shape
    wide = _core.broadcast(_core.reshape(a, (*shape[:axis + 1], 1, *shape[axis + 1:])), (*shape[:axis + 1], r, *shape[axis + 1:]))
    return _core.copy(_core.reshape(wide, (*shape[:axis], n * r, *shape[axis + 1:])))


@implements(np.resize)
def resize(a, new_shape):
    a, shape = ravel(a), shape_tuple(new_shape)
    size = count(shape)
    if any(not _core.is_extent(n) and n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    if _core.is_extent(a.size) or _core.is_extent(size):
        from .sizes import repeated_cyclically
        return _core.reshape(repeated_cyclically(a, size), shape)
    if a.size == 0 or size == 0:
        return _core.full(shape, a.dtype, 0)
    return _core.reshape(tile(a, -(-size // a.size))[:size], shape)


# ---- diagonals and triangles ----

@implements(np.diagonal)
@method("diagonal")
def diagonal(a, offset=0, axis1=0, axis2=1):
    return diagonal_view(array(a), index(offset), axis1, axis2)


def diagonal_view(a, k, axis1, axis2, readonly=True):
    if a.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    i, j = axis_index(axis1, a.ndim), axis_index(axis2, a.ndim)
    if i == j:
        raise ValueError("axis1 and axis2 cannot be the same")
    a = _core.transpose(a, (*[x for x in range(a.ndim) if x not in (i, j)], i, j))
    view = _core.diagonal(a, (k, readonly))
    if view is not None:
        return view
    m, n = a.shape[-2:]
    if _core.is_extent(m) or _core.is_extent(n):
        return diagonal_of_run(a, m, n, k)
    length = max(0, min(m, n - k) if k >= 0 else min(m + k, n))
    flat = _core.follow(_core.reshape(a, (*a.shape[:-2], m * n)), a)
    start = k if k >= 0 else -k * n
    return flat[..., start:start + (length - 1) * (n + 1) + 1:n + 1] if length else flat[..., :0]


def diagonal_of_run(a, m, n, k):
    """The diagonal of the last two axes, extents of which only the run knows."""
    steps = _core.iota(greatest(0, least(m, n - k) if k >= 0 else least(m + k, n)))
    front = _core.transpose(a, (a.ndim - 2, a.ndim - 1, *range(a.ndim - 2)))
    r = _core.gather(front, (steps + max(-k, 0), steps + max(k, 0)))
    return _core.transpose(r, (*range(1, r.ndim), 0))


@implements(np.linalg.diagonal)
def linalg_diagonal(x, /, *, offset=0):
    return diagonal(x, offset, -2, -1)


@implements(np.diag)
def diag(v, k=0):
    v, k = array(v), index(k)
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = v.shape[0] + abs(k)
    column = _core.pad(v, _core.full((), v.dtype, 0), (max(0, -k),), (max(0, k),))[:, None]
    return _core.where(band(n, n, k, np.equal), _core.broadcast(column, (n, n)), _core.full((n, n), v.dtype, 0))


@implements(np.diagflat)
def diagflat(v, k=0):
    return diag(ravel(v), k)


def band(m, n, k, compare):
    """compare(column, row + k) as an (m, n) mask."""
    return compare(_core.iota(n)[None, :], _core.iota(m)[:, None] + index(k))


@implements(np.tril)
def tril(m, k=0):
    m = atleast_1d(m)
    m = _core.broadcast(m, (m.shape[0], m.shape[0])) if m.ndim == 1 else m
    keep = _core.broadcast(band(*m.shape[-2:], k, np.less_equal), m.shape)
    return _core.where(keep, m, _core.full(m.shape, m.dtype, 0))


@implements(np.triu)
def triu(m, k=0):
    m = atleast_1d(m)
    m = _core.broadcast(m, (m.shape[0], m.shape[0])) if m.ndim == 1 else m
    keep = _core.broadcast(band(*m.shape[-2:], k, np.greater_equal), m.shape)
    return _core.where(keep, m, _core.full(m.shape, m.dtype, 0))
