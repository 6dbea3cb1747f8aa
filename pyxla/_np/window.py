"""Views with strides of the user's: `sliding_window_view` and `as_strided`.

Where elements repeat no basic view says so; they are windows and broadcasts, which kernels address without a copy, and may not be
written to."""
import numpy as np
from numpy.lib import stride_tricks

from .. import _core
from ._args import ALL, array, shape_tuple, unsupported

implements = _core.implements


def strided(flat, shape, strides):
    """Elements sum(i_k strides_k) of a 1-d array, for strides >= 0 in elements that stay inside."""
    x = flat
    for n, s in zip(shape, strides):
        x = spread(x, n, s)                             # (..., n, left): the elements from each start on
    return x[..., 0]


def spread(x, n, s):
    """x[..., i s + j] for i < n and all j that stay inside for every i."""
    lead, m = x.shape[:-1], x.shape[-1]
    left = m - (n - 1) * s
    if s == 0:
        return _core.broadcast(_core.reshape(x, (*lead, 1, m)), (*lead, n, m))
    return _core.window(x, (len(lead), left, s, 1))


def as_strided(x, shape=None, strides=None, subok=False, writeable=True):
    x = array(x)
    own, memory = _core.strides(x), _core.memory(x)
    if memory is None:
        raise unsupported("as_strided of an array whose memory layout is not known", "take it of np.ascontiguousarray(x)")
    shape = x.shape if shape is None else shape_tuple(shape)
    strides = own if strides is None else shape_tuple(strides)
    if len(shape) != len(strides):
        raise ValueError("strides is incompatible with shape of requested array and size of buffer")
    if any(s % x.dtype.itemsize for s in strides):
        raise unsupported("as_strided with strides that are no multiples of the item size", "view the array as bytes first")
    if 0 in shape:
        return _core.full(shape, x.dtype, 0)
    whole, start = memory
    reach = [(n - 1) * (s // x.dtype.itemsize) for n, s in zip(shape, strides)]
    first = start + sum(r for r in reach if r < 0)
    if first < 0 or start + sum(r for r in reach if r > 0) >= whole.size:
        raise unsupported("as_strided past the end of the array", "make the array longer (np.pad): memory outside of one is not read")
    steps = [abs(s) // x.dtype.itemsize for s in strides]
    r = strided(_core.reshape(whole, (whole.size,))[first:], shape, steps)
    wide = [s for n, s in zip(shape, steps) if n > 1]
    return _core.snapshot(r[tuple(slice(None, None, -1 if s < 0 else 1) for s in strides)], x, wide == sorted(wide, reverse=True))


@implements(stride_tricks.sliding_window_view)
def sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False):
    if writeable:
        raise unsupported("sliding_window_view with writeable=True", "write through slices of the array")
    x = array(x)
    window = tuple(window_shape) if np.iterable(window_shape) else (window_shape,)
    if any(w < 0 for w in window):
        raise ValueError("`window_shape` cannot contain negative values")
    if axis is None:
        axes = tuple(range(x.ndim))
        if len(window) != len(axes):
            raise ValueError("Since axis is `None`, must provide window_shape for all dimensions of `x`; "
                             f"got {len(window)} window_shape elements and `x.ndim` is {x.ndim}.")
    else:
        axes = tuple(np.lib.array_utils.normalize_axis_tuple(axis, x.ndim, allow_duplicate=True))
        if len(window) != len(axes):
            raise ValueError(f"Must provide matching length window_shape and axis; got {len(window)} window_shape elements "
                             f"and {len(axes)} axes elements.")
    r, overlaps = x, False
    for k, w in zip(axes, window):
        if r.shape[k] < w:
            raise ValueError("window shape cannot be larger than input array shape")
        n = r.shape[k] - w + 1
        if n == 1 or w == 1:                            # nothing repeats: views
            r = r[..., None] if w == 1 else np.moveaxis(r[(ALL,) * k + (None, ...)], k + 1, -1)
            continue
        overlaps = True
        r = _core.window(r, (k, w, 1, 1)) if w else _core.full((*r.shape[:k], n, *r.shape[k + 1:], 0), r.dtype, 0)
    return _core.snapshot(r, x, set(axes) == {x.ndim - 1}) if overlaps else _core.broadcast(r, r.shape) if r is not x else x[...]
