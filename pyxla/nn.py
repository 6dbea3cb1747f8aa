"""Convolutions and pooling, written in plain NumPy: jitted, they are products over windows that are never in memory.

Every function also works outside of `pyxla.jit`, on arrays, as NumPy runs it. Images have one to three spatial axes; `layout` says where
the channels are: ``"NCHW"`` (before the spatial axes, whatever their number) or ``"NHWC"`` (after them).
"""
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

__all__ = ["avg_pool", "conv", "conv_transpose", "max_pool"]


def conv(x, w, *, stride=1, padding=0, dilation=1, groups=1, layout="NCHW"):
    """A convolution as networks have it: the cross-correlation of x with w.

    Parameters
    ----------
    x : array, shape (batch, channels, *spatial), or (batch, *spatial, channels) in layout "NHWC"
    w : array, shape (out, channels / groups, *window), or (*window, channels / groups, out) in layout "NHWC"
    stride, dilation : int, or one per spatial axis
        Steps between windows, and between the elements of a window.
    padding : int, one per spatial axis, a pair per spatial axis, "valid" or "same"
        Zeros around x. "same" gives ceil(extent / stride) windows.
    groups : int
        Channels and outputs are cut into so many parts, which do not see each other.
    layout : "NCHW" or "NHWC"

    Returns
    -------
    array, shape (batch, out, *spatial), or (batch, *spatial, out) in layout "NHWC"

    Examples
    --------
    >>> import numpy as np, pyxla
    >>> edges = pyxla.jit(lambda x: pyxla.nn.conv(x, np.array([[[-1.0, 0.0, 1.0]]]), padding=1))
    >>> edges(np.array([[[0.0, 1.0, 3.0, 6.0]]]))
    array([[[ 1.,  3.,  5., -3.]]])
    """
    last = is_last(layout)
    n = x.ndim - 2
    check_rank(x, w, n)
    window = w.shape[:n] if last else w.shape[2:]
    stride, dilation = per_axis(stride, n, "stride"), per_axis(dilation, n, "dilation")
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation)]
    channels, per_group, out = x.shape[-1 if last else 1], w.shape[-2 if last else 1], w.shape[-1 if last else 0]
    if channels != per_group * groups or out % groups:
        raise ValueError(f"conv: {channels} channels and {out} outputs do not make {groups} groups of windows over {per_group} channels")
    x = padded(x, margins(padding, x, reach, stride, last), 0, last)
    return (conv_last if last else conv_first)(x, w, reach, stride, dilation, groups)


def conv_last(x, w, reach, stride, dilation, groups):
    """Rows of a product are pixels of the last spatial axis, columns are outputs; it is summed over the window."""
    n, out = len(reach), w.shape[-1]
    if max(reach) == 1 and max(stride) == 1 and groups == 1:
        return x @ w.reshape(w.shape[-2:])
    v = windows(x, reach, stride, dilation, 1)                      # (batch, *spatial, channels, *window)
    v = v.reshape(*v.shape[:n + 1], groups, -1, *v.shape[n + 2:])
    v = v.transpose(*range(n + 3, 2 * n + 3), n + 1, *range(n + 1), n + 2)       # (*window, groups, batch, *spatial, channels / groups)
    w = w.reshape(*w.shape[:n], w.shape[n], groups, out // groups)
    w = np.moveaxis(w, n + 1, n)[(..., *(None,) * n, slice(None), slice(None))]
    r = (v @ w).sum(tuple(range(n)))                                # (groups, batch, *spatial, out / groups)
    return np.moveaxis(r, 0, -2).copy().reshape(*r.shape[1:-1], out)


def conv_first(x, w, reach, stride, dilation, groups):
    """Rows of a product are outputs, columns are pixels of the last spatial axis; it is summed over the window."""
    n, batch, out = len(reach), x.shape[0], w.shape[0]
    if max(reach) == 1 and max(stride) == 1 and groups == 1:
        return (w.reshape(w.shape[:2]) @ x.reshape(*x.shape[:2], -1)).reshape(batch, out, *x.shape[2:])
    v = windows(x, reach, stride, dilation, 2)                      # (batch, channels, *spatial, *window)
    v = v.reshape(batch, groups, -1, *v.shape[2:])
    # (*window, batch, groups, *spatial[:-1], channels / groups, last)
    v = v.transpose(*range(n + 3, 2 * n + 3), 0, 1, *range(3, n + 2), 2, n + 2)
    w = w.reshape(groups, out // groups, *w.shape[1:])
    w = w.transpose(*range(3, n + 3), 0, 1, 2)[(*(slice(None),) * n, None, slice(None), *(None,) * (n - 1))]
    r = (w @ v).sum(tuple(range(n)))                                # (batch, groups, *spatial[:-1], out / groups, last)
    return np.moveaxis(r, -2, 2).copy().reshape(batch, out, *r.shape[2:-2], r.shape[-1])


def conv_transpose(x, w, *, stride=1, padding=0, dilation=1, groups=1, layout="NCHW"):
    """The transposed convolution: what `conv` of these arguments has as its gradient, extent (n - 1) stride + window's reach - padding.

    Parameters
    ----------
    x : array, shape (batch, channels, *spatial), or (batch, *spatial, channels) in layout "NHWC"
    w : array, shape (channels, out / groups, *window), or (*window, out / groups, channels) in layout "NHWC"
    stride, padding, dilation, groups, layout
        As for `conv`; padding is taken off the result, and given in numbers.

    Returns
    -------
    array, shape (batch, out, *spatial), or (batch, *spatial, out) in layout "NHWC"

    Examples
    --------
    >>> import numpy as np, pyxla
    >>> pyxla.nn.conv_transpose(np.array([[[1.0, 2.0]]]), np.array([[[1.0, 10.0, 100.0]]]), stride=2)
    array([[[  1.,  10., 102.,  20., 200.]]])
    """
    last, n = is_last(layout), x.ndim - 2
    check_rank(x, w, n)
    stride, dilation = per_axis(stride, n, "stride"), per_axis(dilation, n, "dilation")
    if isinstance(padding, str):
        raise ValueError("conv_transpose: padding in numbers")
    for k, s in enumerate(stride, 1 if last else 2):
        x = spaced(x, k, s)
    window = w.shape[:n] if last else w.shape[2:]
    off = margins(padding, x, window, stride, last)
    rest = [(k - 1) * d for k, d in zip(window, dilation)]
    if last:                                                        # (*window, out / groups, channels) -> (*window, channels / groups, out)
        w = w[(slice(None, None, -1),) * n]
        w = w.reshape(*window, w.shape[n], groups, -1)
        w = w.transpose(*range(n), n + 2, n + 1, n).reshape(*window, w.shape[-1], -1)
    else:                                                           # (channels, out / groups, *window) -> (out, channels / groups, *window)
        w = w[(slice(None), slice(None), *(slice(None, None, -1),) * n)]
        w = np.swapaxes(w.reshape(groups, -1, *w.shape[1:]), 1, 2).reshape(-1, w.shape[0] // groups, *window)
    edges = [(r - a, r - b) for r, (a, b) in zip(rest, off)]
    x = padded(x, [(max(a, 0), max(b, 0)) for a, b in edges], 0, last)
    cut = tuple(slice(max(-a, 0), -max(-b, 0) or None) for a, b in edges)
    x = x[(slice(None), *cut) if last else (slice(None), slice(None), *cut)]
    return conv(x, w, dilation=dilation, groups=groups, layout=layout)


def max_pool(x, window, *, stride=None, padding=0, dilation=1, layout="NCHW"):
    """The largest element of each window; what `padding` adds is never it.

    Parameters
    ----------
    x : array, shape (batch, channels, *spatial), or (batch, *spatial, channels) in layout "NHWC"
    window, stride, dilation : int, or one per spatial axis
        Elements of a window, steps between windows (default: the window), and inside one.
    padding, layout
        As for `conv`.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np, pyxla
    >>> pyxla.nn.max_pool(np.array([[[1, 5, 2, 0]]]), 2)
    array([[[5, 2]]])
    """
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return pool(x, window, stride, padding, dilation, layout, lowest, np.max)


def avg_pool(x, window, *, stride=None, padding=0, dilation=1, layout="NCHW"):
    """The mean of each window, the zeros of `padding` included.

    Parameters
    ----------
    x, window, stride, padding, dilation, layout
        As for `max_pool`.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np, pyxla
    >>> pyxla.nn.avg_pool(np.array([[[1.0, 5.0, 2.0, 0.0]]]), 2)
    array([[[3., 1.]]])
    """
    return pool(x, window, stride, padding, dilation, layout, 0, np.mean)


def pool(x, window, stride, padding, dilation, layout, fill, reduce):
    last, n = is_last(layout), x.ndim - 2
    window, dilation = per_axis(window, n, "window"), per_axis(dilation, n, "dilation")
    stride = window if stride is None else per_axis(stride, n, "stride")
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation)]
    x = padded(x, margins(padding, x, reach, stride, last), fill, last)
    v = windows(x, reach, stride, dilation, 1 if last else 2)
    return reduce(v, tuple(range(-n, 0)))


# ---- pieces ----

def is_last(layout):
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(f"layout is 'NCHW' or 'NHWC', not {layout!r}")
    return layout == "NHWC"


def check_rank(x, w, n):
    if not 1 <= n <= 3 or w.ndim != x.ndim:
        raise ValueError(f"conv: one to three spatial axes, and a window with as many; got arrays of {x.ndim} and {w.ndim} dimensions")


def per_axis(value, n, name):
    value = (value,) * n if np.ndim(value) == 0 else tuple(value)
    if len(value) != n or min(value) < 1:
        raise ValueError(f"{name}: a positive number, or one per spatial axis; got {value}")
    return value


def margins(padding, x, reach, stride, last):
    """(before, after) per spatial axis."""
    n = len(reach)
    extents = x.shape[1:-1] if last else x.shape[2:]
    if padding == "valid":
        padding = 0
    if padding == "same":
        whole = [max((-(-m // s) - 1) * s + r - m, 0) for m, s, r in zip(extents, stride, reach)]
        return [(p // 2, p - p // 2) for p in whole]
    if isinstance(padding, str):
        raise ValueError(f"padding: numbers, 'valid' or 'same', not {padding!r}")
    padding = (padding,) * n if np.ndim(padding) == 0 else tuple(padding)
    if len(padding) != n:
        raise ValueError(f"padding: a number, or one or a pair per spatial axis; got {padding}")
    return [(p, p) if np.ndim(p) == 0 else tuple(p) for p in padding]


def padded(x, edges, fill, last):
    if not any(a or b for a, b in edges):
        return x
    none = (0, 0)
    return np.pad(x, [none, *edges, none] if last else [none, none, *edges], constant_values=fill)


def spaced(x, axis, step):
    """x with step - 1 zeros between the elements of an axis."""
    if step == 1:
        return x
    before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1:]
    wide = np.pad(x.reshape(*before, n, 1, *after), [(0, step - 1) if k == axis + 1 else (0, 0) for k in range(x.ndim + 1)])
    return wide.reshape(*before, n * step, *after)[(slice(None),) * axis + (slice((n - 1) * step + 1),)]


def windows(x, reach, stride, dilation, first):
    """(..., windows along the spatial axes, ..., elements of a window)."""
    axes = tuple(range(first, first + len(reach)))
    v = sliding_window_view(x, tuple(reach), axes)
    at = [slice(None)] * v.ndim
    for k, axis in enumerate(axes):
        at[axis], at[x.ndim + k] = slice(None, None, stride[k]), slice(None, None, dilation[k])
    return v[tuple(at)]
