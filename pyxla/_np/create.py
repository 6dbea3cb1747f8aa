"""Creation functions that take arrays, and those that NumPy composes of others; `pyxla/_creation.py` has the rest."""
from operator import index

import numpy as np

from .. import _core
from ._args import FLOAT, array, common, default_type, dtype_of, is_weak, result_type, shape_tuple, unsupported
from .extents import as_value, broadcast_shapes, extent, run_integer
from .manip import band, in_order, letter

implements = _core.implements


def filled(shape, dtype, value):
    """A new array of a number, an array or a tracer broadcast to shape."""
    dtype = dtype_of(dtype)
    if type(value) in (bool, int, float):
        r = _core.full(shape, dtype, value)
        return _core.copy(r, True) if len(shape) > 1 else r
    value = value if isinstance(value, int) else array(value)           # a float is cast, an integer has to fit
    return _core.copy(_core.broadcast(array(value, dtype), shape), True)


def like(a, dtype, shape, value, order):
    a = array(a)
    r = filled(a.shape if shape is None else shape_tuple(shape), a.dtype if dtype is None else dtype, value)
    if letter(order) in "CF":
        return in_order(r, order)
    return _core.follow(r, a) if r.ndim == a.ndim else r


@implements(np.zeros_like, np.empty_like)
def zeros_like(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return like(a, dtype, shape, 0, order)


@implements(np.ones_like)
def ones_like(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return like(a, dtype, shape, 1, order)


@implements(np.full_like)
def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return like(a, dtype, shape, fill_value, order)


@implements(np.ones)
def ones(shape, dtype=None, order="C", *, device=None, like=None):
    return in_order(filled(shape_tuple(shape), dtype or FLOAT, 1), order)


@implements(np.full)
def full(shape, fill_value, dtype=None, order="C", *, device=None, like=None):
    return in_order(filled(shape_tuple(shape), default_type(fill_value) if dtype is None else dtype, fill_value), order)


def diagonal_band(N, M, k, compare):
    n, m = (extent(v) if run_integer(v) else index(v) for v in (N, N if M is None else M))
    return band(n, m, k, compare)


@implements(np.eye)
def eye(N, M=None, k=0, dtype=float, order="C", *, device=None, like=None):
    if letter(order) == "F":
        return eye(N if M is None else M, N, -index(k), dtype).T
    return _core.cast(diagonal_band(N, M, k, np.equal), dtype_of(dtype))


@implements(np.identity)
def identity(n, dtype=None, *, like=None):
    return eye(n, dtype=dtype or FLOAT)


@implements(np.tri)
def tri(N, M=None, k=0, dtype=float, *, like=None):
    return _core.cast(diagonal_band(N, M, k, np.less_equal), dtype_of(dtype))


@implements(np.linspace)
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    if run_integer(num):
        return spaced_in_the_run(start, stop, extent(num), endpoint, retstep, dtype)
    num = index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    div = num - 1 if endpoint else num
    integer = dtype is not None and dtype_of(dtype).kind in "iu"
    wanted = result_type(start, stop, float(num))
    wanted = np.dtype(type(wanted)) if is_weak(wanted) else wanted
    first, last = (array(v, wanted) for v in common(np.multiply(start, 1.0), np.multiply(stop, 1.0)))
    delta = np.subtract(last, first)
    ramp = _core.cast(_core.iota(num), delta.dtype)
    ramp = _core.reshape(ramp, (num, *(1,) * delta.ndim))
    step = float("nan")
    if div > 0:
        step = delta / div
        zero = np.equal(step, 0)                        # a step that underflows: divide first, as NumPy does
        y = np.where(zero, ramp / div * delta, ramp * step)
        y = y + first
        if endpoint and num > 1:
            y = _core.concatenate([y[:-1], _core.reshape(last, (1, *last.shape))], 0) if y.shape[1:] == last.shape else y
    else:
        y = ramp * delta + first
    if axis != 0:
        y = np.moveaxis(y, 0, axis)
    if integer:
        y = np.floor(y)
    y = _core.cast(y, wanted if dtype is None else dtype_of(dtype))
    return (y, step) if retstep else y


def spaced_in_the_run(start, stop, num, endpoint, retstep, dtype):
    """np.linspace of as many numbers as the run says, between two numbers."""
    if np.ndim(start) or np.ndim(stop) or retstep or dtype is not None:
        raise unsupported("np.linspace of a number of points that depends on data, between arrays or with retstep= or dtype=",
                          "scale np.arange(n)")
    wanted = result_type(start, stop, 1.0)
    wanted = np.dtype(type(wanted)) if is_weak(wanted) else wanted
    first, last = (array(v, wanted) for v in common(np.multiply(start, 1.0), np.multiply(stop, 1.0)))
    k, delta = _core.iota(num), np.subtract(last, first)
    div = _core.cast(np.subtract(as_value(num), int(bool(endpoint))), delta.dtype)
    ramp, step = _core.cast(k, delta.dtype), delta / np.maximum(div, 1)
    y = np.where(np.equal(step, 0), ramp / np.maximum(div, 1) * delta, ramp * step) + first
    end = np.logical_and(np.equal(k, as_value(num) - 1), np.greater(k, 0))
    return np.where(end, last, y) if endpoint else y


@implements(np.geomspace)
def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    num = index(num)
    kind = result_type(start, stop, float(num), dtype_of(dtype))
    kind = np.dtype(type(kind)) if is_weak(kind) else kind
    start, stop = array(start, kind), array(stop, kind)
    _core.check(np.all(np.not_equal(start, 0) & np.not_equal(stop, 0)), "geometric")
    sign = np.sign(start)
    start, stop = start / sign, stop / sign
    last = np.log10(stop)
    y = np.logspace(np.log10(start), last, num, endpoint, base=10.0, dtype=kind)
    ends = [start[None]] * (num > 0), [stop[None]] * (num > 1 and endpoint)
    if y.shape[1:] != start.shape or y.shape[1:] != stop.shape:
        ends = [np.broadcast_to(v, (1, *y.shape[1:])) for v in ends[0]], [np.broadcast_to(v, (1, *y.shape[1:])) for v in ends[1]]
    y = _core.concatenate([*ends[0], y[len(ends[0]):num - len(ends[1])], *ends[1]], 0) if num else y
    y = y * sign
    if axis != 0:
        y = np.moveaxis(y, 0, axis)
    return y if dtype is None else _core.cast(y, dtype_of(dtype))


SPARSE_IN_A_LIST = isinstance(np.meshgrid(0, copy=False, sparse=True), list)      # before NumPy 2.5


@implements(np.meshgrid)
def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    n = len(xi)
    out = [_core.reshape(array(x), (1,) * k + (array(x).size,) + (1,) * (n - k - 1)) for k, x in enumerate(xi)]
    if indexing == "xy" and n > 1:
        out = [np.swapaxes(x, 0, 1) for x in out]
    if not sparse:
        shape = broadcast_shapes(*[x.shape for x in out]) if out else ()
        out = [_core.broadcast(x, shape) for x in out]
    if copy:
        return tuple(_core.copy(x, True) for x in out)
    return out if sparse and SPARSE_IN_A_LIST else tuple(out)
