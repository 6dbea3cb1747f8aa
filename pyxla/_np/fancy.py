"""Indexing by arrays, read and written: NumPy's rules for keys with index arrays and masks, as gathers, scatters and selections.

A key is read into *parts*, one per axis of the array and one per new axis. Slices, integers and new axes make a basic view; the index
arrays stand for axes of that view. Integers count as index arrays where NumPy decides whether the arrays stand together, and so
where the result has their axes."""
import numpy as np

from .. import _core
from ._args import ALL, INT, array, is_array, is_weak, scalar, unsupported
from .extents import Number, as_value, is_dynamic, slice_indices
from .host import host

method = _core.method

INVALID = "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"


class Mask:
    """A mask among the items of a key: a bool tracer for `ndim` axes."""

    def __init__(self, values):
        self.values, self.ndim = values, values.ndim


# ---- items ----

def integer(item):
    """Whether an item stands for one index: a Python or NumPy integer, or a traced one."""
    if _core.is_tracer(item):
        return _core.is_scalar_tracer(item) or (item.ndim == 0 and item.dtype.kind in "iu")
    return not isinstance(item, (bool, np.bool, np.ndarray)) and hasattr(item, "__index__")


def traced(item):
    """Whether a sequence has tracers or arrays inside, whose values are not known."""
    if isinstance(item, (list, tuple)):
        return any(map(traced, item))
    return _core.is_tracer(item) or isinstance(item, np.ndarray)


def as_index(item):
    """An index array: an ndarray where the values are known now, a tracer of integers, or a Mask."""
    if not is_array(item) and isinstance(item, (bool, np.bool)):
        return np.array(item)
    if isinstance(item, (list, tuple)) and not traced(item):
        a = np.array(item)
        a = a.astype(np.intp) if a.size == 0 else a
    elif not is_array(item) and not isinstance(item, (list, tuple, np.ndarray)):
        raise IndexError(INVALID)
    else:
        a = array(item)
    if a.dtype.kind not in "biu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    if not is_array(a) or a.dtype != np.bool:
        return a
    return Mask(a)


def expand(x, key):
    """The items of a key; arrays, masks and integers told apart, the ellipsis written out."""
    items = [item if item is None or item is Ellipsis or isinstance(item, slice) or integer(item) else as_index(item)
             for item in (key if isinstance(key, tuple) else (key,))]
    used = sum(axes_of(item) for item in items)
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > x.ndim:
        raise IndexError(f"too many indices for array: array is {x.ndim}-dimensional, but {used} were indexed")
    if not any(item is Ellipsis for item in items):
        items.append(Ellipsis)
    return items, x.ndim - used


def axes_of(item):
    """The number of the array's axes that an item stands for."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, Mask):
        return item.ndim
    return item.ndim if is_known_mask(item) else 1


def is_known_mask(item):
    return not is_array(item) and isinstance(item, np.ndarray) and item.dtype == np.bool


# ---- keys ----

class Key:
    """A key with arrays: `basic`, the key of the view with whole axes where the arrays stand, `at`, these axes of the view, `arrays`,
    one per such axis (masks: one for all of their axes), `place`, where the result has the axes of the arrays."""

    def __init__(self, x, key):
        items, rest = expand(x, key)
        self.x, self.basic, self.at, self.arrays = x, [], [], []
        self.axis = self.out = 0                                     # axes of x, and of the view, so far
        advanced, before = [], 0
        for k, item in enumerate(items):
            if item is None or item is Ellipsis or isinstance(item, slice):
                n = rest if item is Ellipsis else 1
                self.basic += [ALL] * n if item is Ellipsis else [item]
                self.axis += 0 if item is None else n
                self.out += n
                continue
            if not advanced:
                before = self.out
            advanced.append(k)
            self.add(item)
        together = not advanced or advanced[-1] - advanced[0] + 1 == len(advanced)
        self.place = before if together else 0

    def add(self, item):
        if isinstance(item, Mask):
            self.add_mask(item)
        elif integer(item):
            self.basic.append(item[()] if is_array(item) else item)   # a 0-d array would make the view a copy
            self.axis += 1
        elif is_known_mask(item):
            self.add_known_mask(item)
        else:
            self.basic.append(ALL)
            self.add_axis(in_range(item, self.x.shape[self.axis], self.axis))
            self.axis += 1

    def add_axis(self, values):
        self.at.append(self.out)
        self.arrays.append(values)
        self.out += 1

    def check_mask(self, shape):
        for k, n in enumerate(shape):
            have = self.x.shape[self.axis + k]
            if isinstance(n, Number) or isinstance(have, Number):
                _core.check(np.equal(as_value(n), as_value(have)), "index")
            elif n != have:
                raise IndexError(f"boolean index did not match indexed array along axis {self.axis + k}; size of axis is "
                                 f"{have} but size of corresponding boolean axis is {n}")

    def add_mask(self, mask):
        if mask.ndim == 0:                                            # a mask over a new axis of extent 1
            self.basic.append(None)
            self.add_axis(Mask(_core.reshape(mask.values, (1,))))
            return
        self.check_mask(mask.values.shape)
        self.basic += [ALL] * mask.ndim
        self.at.append(self.out)
        self.arrays.append(mask)
        self.axis += mask.ndim
        self.out += mask.ndim

    def add_known_mask(self, mask):
        self.check_mask(mask.shape)
        if mask.ndim == 0:                                            # x[True] is x[None], x[False] has no element of it
            self.basic.append(None)
            self.add_axis(np.zeros(int(mask), np.int64))
            return
        for k, values in enumerate(np.nonzero(mask)):
            self.basic.append(ALL)
            self.add_axis(in_range(values, self.x.shape[self.axis + k], self.axis + k))
        self.axis += mask.ndim

    def view(self):
        if is_dynamic(self.x):
            if any(item != ALL for item in self.basic):
                raise unsupported("an index array beside other indices of an array whose size depends on data", "index one after the other")
            return self.x
        return self.x[tuple(self.basic)]

    def mask(self):
        """The mask, if that is the only array of the key."""
        return self.arrays[0] if len(self.arrays) == 1 and isinstance(self.arrays[0], Mask) else None

    def indices(self):
        """The axes of the view that index arrays stand for, these arrays as tracers, and the shape of them together."""
        at, arrays = [], []
        for d, a in zip(self.at, self.arrays):
            parts = unravelled(positions(a.values), a.values.shape) if isinstance(a, Mask) else (a,)
            at += range(d, d + len(parts))
            arrays += [a if is_array(a) else _core.constant(np.ascontiguousarray(a, np.int64)) for a in parts]
        if any(map(is_dynamic, arrays)):
            arrays = _core.aligned(tuple(arrays))
            return at, arrays, arrays[0].shape
        return at, tuple(arrays), broadcast_shape([a.shape for a in arrays])


# ---- masks ----

def flatnonzero(results, mask):
    results[0][...] = np.flatnonzero(mask)


def selected(results, x, mask):
    results[0][...] = x[mask]


# x[positions(mask)] of an x in memory becomes a call of `selected` when it is planned
run_flatnonzero = host(flatnonzero, lambda number: _core.host_selection(number, _core.host_function(selected)))


def true_count(mask):
    """How many elements of a mask are true."""
    flat = _core.reshape(mask, (mask.size,))
    return Number(_core.reduce("sum", _core.cast(flat, INT), (0,)))


def positions(mask):
    """Where a mask is true: indices into the flattened mask, as many as there are when the function runs."""
    flat = _core.reshape(mask, (mask.size,))
    return run_flatnonzero((flat,), ((INT, (true_count(mask),)),))[0]


def unravelled(flat, shape):
    """Indices per axis of indices into a flattened array, all in range."""
    out, n = [], 1
    for k in reversed(range(len(shape))):
        part = flat if k == len(shape) - 1 else np.floor_divide(flat, n)
        out.append(np.remainder(part, shape[k]) if k else part)
        n = n * shape[k]
    return tuple(out[::-1])


def broadcast_shape(shapes):
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        text = " ".join(str(s).replace(" ", "") for s in shapes)
        raise IndexError(f"shape mismatch: indexing arrays could not be broadcast together with shapes {text}") from None


def in_range(values, n, axis):
    """Indices of an axis of extent n as int64 in 0 .. n - 1: checked now if they are known, else in the run."""
    if isinstance(n, Number):
        return _core.index(values if is_array(values) else _core.constant(np.ascontiguousarray(values, np.int64)), n)
    if is_array(values):
        if n == 0 and not is_dynamic(values) and values.size:
            raise IndexError(f"index is out of bounds for axis {axis} with size 0")
        return _core.index(values, n)
    wrong = (values < -n) | (values >= n)
    if wrong.any():
        raise IndexError(f"index {values[wrong].flat[0]} is out of bounds for axis {axis} with size {n}")
    values = values.astype(np.int64)
    return np.where(values < 0, values + n, values)


# ---- reading ----

def to_front(x, at):
    """x with these axes first."""
    rest = [d for d in range(x.ndim) if d not in at]
    return _core.transpose(x, (*at, *rest)) if at != list(range(len(at))) else x


def from_front(x, n, place):
    """x with its first n axes moved to `place` among the others."""
    if place == 0 or n == 0:
        return x
    return _core.transpose(x, (*range(n, n + place), *range(n), *range(n + place, x.ndim)))


@method("__getitem__")
def getitem(x, key):
    items = key if isinstance(key, tuple) else (key,)
    if all(basic(item) for item in items):
        part = part_of(x, items)
        if _core.is_numpy_scalar(part):
            return part
        if is_dynamic(x):
            return _core.freeze(_core.snapshot(part, x, True, True))
        return _core.snapshot(part, x, True, True, PartOf(x, items))
    k = Key(x, tuple(plain_number(item) for item in items))
    if not k.arrays:                                                  # 0-d arrays as integers: a copy
        return _core.copy(k.view()) if np.ndim(k.view()) else k.view()
    mask = k.mask()
    if mask is not None:                                              # one index into the axes of the mask together
        view = k.view()
        front = to_front(view, list(range(k.at[0], k.at[0] + mask.ndim)))
        front = _core.reshape(front, (mask.values.size, *front.shape[mask.ndim:]))
        return fresh(from_front(_core.follow(_core.gather(front, (positions(mask.values),)), view, False), 1, k.place))
    at, indices, shape = k.indices()
    view = k.view()
    return fresh(from_front(_core.follow(_core.gather(to_front(view, at), indices), view, False), len(shape), k.place))


def fresh(x):
    """A result as an array of its own, where its size depends on data: a view of one may not be stored into."""
    return _core.copy(x) if is_dynamic(x) else x


class PartOf:
    """A store into x[items], where bounds of slices are known only in the run, through what was read there."""

    def __init__(self, x, items):
        self.x, self.items = x, items

    def __call__(self, value):
        store_part(self.x, self.items, value)

    def is_at(self, x, items):
        """Whether this is x[items]: the last step of x[i:j] += v stores what is stored already."""
        bounds = lambda items: [id(v) for k in items for v in ((k.start, k.stop, k.step) if isinstance(k, slice) else (k,))]  # noqa: E731
        return x is self.x and len(items) == len(self.items) and bounds(items) == bounds(self.items)


def basic(item):
    return item is None or item is Ellipsis or isinstance(item, (slice, Number)) or integer(item)


def plain_number(item):
    return item.value if isinstance(item, Number) else item


def part_of(x, items):
    """Basic indexing where an extent depends on data: what it reads is read at once."""
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > x.ndim:
        raise IndexError(f"too many indices for array: array is {x.ndim}-dimensional, but {used} were indexed")
    at = next((k for k, item in enumerate(items) if item is Ellipsis), len(items))
    new, d = [], 0
    for item in [*items[:at], *[ALL] * (x.ndim - used), *items[at + 1:]]:
        if item is None:
            new.append(d)
            continue
        n = x.shape[d]
        if isinstance(item, slice) and item != ALL:
            x = along_axis(x, d, slice_indices(item, n if isinstance(n, Number) else Number(as_value(n)))[0])
        elif not isinstance(item, slice):
            check_known(item, n, d)
            x = along_axis(x, d, _core.index(_core.reshape(array(plain_number(item)), ()), n))
            continue
        d += 1
    for k, d in enumerate(new):
        x = _core.reshape(x, (*x.shape[:d + k], 1, *x.shape[d + k:]))
    return x if x.ndim or any(item is Ellipsis for item in items) else scalar(x)


def check_known(item, n, axis):
    """Raises where an index that is a number lies outside of an axis of known extent: iterations end there."""
    if not (_core.is_tracer(item) or isinstance(item, Number) or isinstance(n, Number) or -n <= item < n):
        raise IndexError(f"index {item} is out of bounds for axis {axis} with size {n}")


def along_axis(x, axis, indices):
    """x with an axis replaced by those of an index array."""
    if is_dynamic(x):
        _core.freeze(x)                                               # no writes from here on, as of the part
    return from_front(_core.gather(to_front(x, [axis]), (indices,)), indices.ndim, axis)


# ---- writing ----

def axis_bits(axes):
    return sum(1 << d for d in axes)


@method("__setitem__")
def setitem(x, key, value):
    items = key if isinstance(key, tuple) else (key,)
    if all(basic(item) for item in items):
        through = _core.through(value)
        if not (isinstance(through, PartOf) and through.is_at(x, items)):
            _core.element(value, x.dtype)
            store_part(x, items, value)
        return
    k = Key(x, tuple(plain_number(item) for item in items))
    if not k.arrays:
        x[tuple(k.basic)] = value
        return
    if is_weak(value):
        _core.element(value, x.dtype)
    mask = k.mask()
    if mask is not None and mask.ndim == x.ndim and len(items) == 1 and None not in k.basic and np.ndim(value) > 1:
        raise TypeError("NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, "
                        f"input has {np.ndim(value)} dimensions")
    if mask is not None and not (is_array(value) and is_dynamic(value)):
        return store_masked(k.view(), mask.values, k.at[0], k.place, value)
    at, indices, shape = k.indices()
    view = k.view()
    if all(item is None or is_whole(item, n) for item, n in zip(k.basic, x.shape)) and None not in k.basic:
        view = x
    rest = tuple(n for d, n in enumerate(view.shape) if d not in at)
    target = rest[:k.place] + shape + rest[k.place:]
    v = _core.full(target, x.dtype, 0 if fits_nothing(value, target) else value)
    v = to_front(v, list(range(k.place, k.place + len(shape))))
    known = mask is not None and k.at[0] == 0 and not _core.is_extent(mask.values.size)
    whole = _core.spread(v, positions(mask.values), mask.values.size) if known else None
    if whole is not None:                                             # x[m] += 1: every element is decided on its own
        view[...] = _core.where(over(mask.values, view, 0), _core.reshape(whole, view.shape), view)
        return
    _core.scatter(view, v, None, axis_bits(at), indices)


def store_part(x, items, value):
    """x[items] = value where the bounds of a slice are known only in the run: at indices for every axis."""
    along = [(1,) * k + (n,) + (1,) * (x.ndim - k - 1) for k, n in enumerate(x.shape)]
    grid = [_core.broadcast(_core.reshape(_core.iota(n), shape), x.shape) for n, shape in zip(x.shape, along)]
    indices = tuple(part_of(axis, items) for axis in grid)
    shape = indices[0].shape
    _core.scatter(x, _core.full(shape, x.dtype, value), None, axis_bits(range(x.ndim)), indices)


def fits_nothing(value, shape):
    """Whether an assignment has no elements to write, and the value fits but for leading axes: NumPy allows any of those then."""
    extra = np.ndim(value) - len(shape)
    if extra <= 0 or not any(not isinstance(n, Number) and n == 0 for n in shape):
        return False
    return all(m in (1, n) for m, n in zip(np.shape(value)[extra:], shape))


def is_whole(item, n):
    return isinstance(item, slice) and item == ALL


def store_masked(view, mask, at, place, value):
    """view[..., mask, ...] = value, with the mask over axes `at` and following: every element is decided on its own."""
    if isinstance(value, (list, tuple)):
        value = array(value)
    if np.ndim(value):
        value = spread(drop_leading(array(value), view.ndim - mask.ndim + 1), view, mask, at, place)
    v = _core.full(view.shape, view.dtype, value)
    view[...] = _core.where(over(mask, view, at), v, view)


def over(mask, view, at):
    """A mask of the axes `at` and following, broadcast to all of a view."""
    return _core.broadcast(_core.reshape(mask, (1,) * at + mask.shape + (1,) * (view.ndim - at - mask.ndim)), view.shape)


def drop_leading(value, ndim):
    """An assigned value without axes of extent 1 that its target does not have."""
    while value.ndim > ndim and value.shape[0] == 1:
        value = _core.reshape(value, value.shape[1:])
    if value.ndim > ndim:
        raise ValueError(f"could not broadcast input array of shape {value.shape} to an indexing result of {ndim} dimensions")
    return value


def spread(value, view, mask, at, place):
    """What is assigned to view[..., mask, ...], whose axis of selected elements is `place`, laid out over the axes of the view."""
    rest = view.ndim - mask.ndim
    value = _core.reshape(value, (1,) * (rest + 1 - value.ndim) + value.shape)
    value = to_front(value, [place])                                  # selected, then the axes of the view that the mask has not
    n, others = value.shape[0], value.shape[1:]
    if n == 1:
        return _core.reshape(value, others[:at] + (1,) * mask.ndim + others[at:])
    flat = _core.cast(_core.reshape(mask, (mask.size,)), np.int64)
    _core.check(np.equal(_core.reduce("sum", flat, (0,)), n), "extent")
    if n == 0 or mask.size == 0:
        return 0
    position = np.clip(_core.scan("cumsum", flat, 0) - 1, 0, n - 1)
    return from_front(_core.gather(value, (_core.reshape(position, mask.shape),)), mask.ndim, at)
