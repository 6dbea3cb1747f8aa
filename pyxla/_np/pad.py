"""`np.pad`: every mode is made of slices of the array, one axis after the other."""
from operator import index

import numpy as np

from .. import _core
from ._args import (
    ALL,
    array,
    unsupported,
)
from .join import take_static
from .manip import flip

implements = _core.implements
LIMIT = 1000                        # rows that a function given as mode is called for


@implements(np.pad)
def pad(array_, pad_width, mode="constant", **kwargs):
    a = array(array_)
    widths = pad_pairs(pad_width, a.ndim)
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError("index can't contain negative values")
    if callable(mode):
        return pad_by(mode, a, widths, kwargs)
    allowed = PAD_ARGUMENTS.get(mode)
    if allowed is None:
        raise ValueError(f"mode '{mode}' is not supported")
    if wrong := kwargs.keys() - allowed:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {wrong}")
    if mode in ("constant", "empty"):
        return pad_constant(a, widths, kwargs.get("constant_values", 0))
    for axis, width in enumerate(widths):
        if any(width):
            if not _core.is_extent(a.shape[axis]) and a.shape[axis] == 0:
                raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
            a = PAD_AXIS[mode](a, axis, width, mode, **kwargs)
    return _core.copy(a[...])


def pad_pairs(width, rank, number=index):
    """(before, after) per axis, of any of NumPy's forms: n, (n,), (before, after), ((before, after),), a row per axis, a dict."""
    if isinstance(width, dict):
        pairs = [(0, 0)] * rank
        for k, v in width.items():
            pairs[k] = tuple(map(number, v)) if isinstance(v, (tuple, list)) else (number(v),) * 2
        return pairs
    if isinstance(width, np.ndarray):
        width = width.tolist()
    if not isinstance(width, (tuple, list)):
        return [(number(width),) * 2] * rank
    rows = [r if isinstance(r, (tuple, list)) else None for r in width]
    if all(r is None for r in rows) and len(rows) in (1, 2):
        return [(number(width[0]), number(width[-1]))] * rank
    if all(r is not None and len(r) in (1, 2) for r in rows) and len(rows) in (1, rank):
        pairs = [(number(r[0]), number(r[-1])) for r in rows]
        return pairs * rank if len(pairs) == 1 else pairs
    raise ValueError(f"operands could not be broadcast together with remapped shapes [original->remapped]: "
                     f"({len(rows)},)  and requested shape ({rank},2)")


def pad_value(value, dtype):
    """A fill value as an element of dtype, converted as an assignment would."""
    value = _core.as_tracer(value, dtype) if isinstance(value, (bool, int)) else array(value, dtype)
    return value if value.ndim == 0 else _core.reshape(value, ())


def pad_constant(a, widths, values):
    pairs = pad_pairs(values, a.ndim, lambda v: v)
    first = pairs[0][0] if pairs else 0
    if all(v is first for pair in pairs for v in pair):
        before, after = zip(*widths) if widths else ((), ())
        return _core.pad(a, pad_value(first, a.dtype), before, after)
    for axis, (width, pair) in enumerate(zip(widths, pairs)):      # a corner gets the value of the later axis
        for side in (0, 1):
            margin = [0] * a.ndim
            margin[axis] = width[side]
            none = (0,) * a.ndim
            a = _core.pad(a, pad_value(pair[side], a.dtype), *((tuple(margin), none) if side == 0 else (none, tuple(margin))))
    return a


def pad_edge(a, axis, width, mode):
    n, at = a.shape[axis], (ALL,) * axis
    if _core.is_extent(n):
        _core.check(np.greater(n, 0), "value",
                    "can't extend empty axis using modes other than 'constant' or 'empty'; select at least one element")
        ends = [_core.reshape(array(a[(*at, k)]), (*a.shape[:axis], 1, *a.shape[axis + 1:])) for k in (0, -1)]
    else:
        ends = [a[(*at, slice(0, 1))], a[(*at, slice(n - 1, n))]]
    return pad_join(a, axis, width, ends)


def pad_join(a, axis, width, ends):
    """a between its ends (extent 1 along the axis) repeated to the widths."""
    before, after = (_core.broadcast(e, (*a.shape[:axis], w, *a.shape[axis + 1:])) for e, w in zip(ends, width))
    return _core.concatenate([before, a, after], axis)


def pad_index(a, axis, width, mode, reflect_type="even"):
    """reflect, symmetric, wrap: NumPy pads the indices."""
    n = a.shape[axis]
    if reflect_type == "odd":
        return pad_edge(a, axis, width, mode) if n == 1 else pad_odd(a, axis, width, mode == "symmetric")
    return take_static(a, np.pad(list(range(n)), width, mode=mode).tolist(), axis)


def pad_odd(a, axis, width, symmetric):
    """Reflected about the edges' values, in as many steps as NumPy: each repeats whole periods of what there is."""
    at, period, (left, right) = (ALL,) * axis, a.shape[axis] - (not symmetric), width
    cut = lambda start, stop: a[(*at, slice(start, stop))]  # noqa: E731
    while left or right:
        n, pieces = a.shape[axis], [a]
        whole = (n - (not symmetric)) // period * period
        if k := min(whole, left):
            first = 0 if symmetric else 1
            pieces.insert(0, array(2 * cut(0, 1) - flip(cut(first, first + k), axis), a.dtype))
        if m := min(whole, right):
            last = n if symmetric else n - 1
            pieces.append(array(2 * cut(n - 1, n) - flip(cut(last - m, last), axis), a.dtype))
        a, left, right = _core.concatenate(pieces, axis), left - k, right - m
    return a


def pad_ramp(a, axis, width, mode, end_values=0):
    """From an end value to the value at the edge."""
    n, at = a.shape[axis], (ALL,) * axis
    ends = pad_pairs(end_values, a.ndim, lambda v: v)[axis]
    ramps = [np.linspace(end, a[(*at, k)], w, endpoint=False, dtype=a.dtype, axis=axis) for end, k, w in zip(ends, (0, n - 1), width)]
    return _core.concatenate([ramps[0], a, flip(ramps[1], axis)], axis)


def pad_stat(a, axis, width, mode, stat_length=None):
    """maximum, minimum, mean, median of the values at each end."""
    n, at = a.shape[axis], (ALL,) * axis
    lengths = (None, None) if stat_length is None else pad_pairs(stat_length, a.ndim)[axis]
    if any(k is not None and k < (1 if mode in ("maximum", "minimum") else 0) for k in lengths):
        raise ValueError("stat_length of 0 yields no value for padding")
    left, right = (n if k is None else min(k, n) for k in lengths)
    ends = []
    for piece in (a[(*at, slice(0, left))], a[(*at, slice(n - right, n))]):
        end = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}[mode](piece, axis=axis, keepdims=True)
        ends.append(_core.cast(np.rint(end), a.dtype) if end.dtype != a.dtype and a.dtype.kind in "iu" else array(end, a.dtype))
    return pad_join(a, axis, width, ends)


def pad_by(function, a, widths, kwargs):
    """A function of the user's that writes the margins of every row."""
    a = _core.copy(pad_constant(a, widths, 0))
    if sum(a.size // n for n in a.shape if n) > LIMIT:
        raise unsupported(f"pad with a function as mode, called for more than {LIMIT} rows", "use one of NumPy's modes")
    for axis, width in enumerate(widths):
        rows = np.moveaxis(a, axis, -1)
        for at in np.ndindex(*rows.shape[:-1]):
            function(rows[(*at, ...)], width, axis, kwargs)
    return a


PAD_ARGUMENTS = {"constant": {"constant_values"}, "empty": set(), "edge": set(), "wrap": set(), "reflect": {"reflect_type"},
                 "symmetric": {"reflect_type"}, "linear_ramp": {"end_values"},
                 "maximum": {"stat_length"}, "minimum": {"stat_length"}, "mean": {"stat_length"}, "median": {"stat_length"}}
PAD_AXIS = {"edge": pad_edge, "wrap": pad_index, "reflect": pad_index, "symmetric": pad_index, "linear_ramp": pad_ramp,
            "maximum": pad_stat, "minimum": pad_stat, "mean": pad_stat, "median": pad_stat}
