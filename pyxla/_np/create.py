"""Creation functions: `*_like`, which NumPy dispatches, and `_core._creators`, which the hooks call in place of NumPy's."""
from operator import index

import numpy as np

from .. import _core
from ._args import FLOAT, common, default_type, is_weak, leaves, result_type, shape_tuple, unsupported
from ._args import array as to_array
from .manip import band

implements = _core.implements


def creator(f):
    """Registers what a user's call of np.<name> does while a function is traced."""
    _core._creators[f.__name__] = f
    return f


def filled(shape, dtype, value):
    """A new array of a number, an array or a tracer broadcast to shape."""
    dtype = np.dtype(dtype)
    if isinstance(value, (bool, int, float)):
        return _core.full(shape, dtype, value)
    return _core.copy(_core.broadcast(to_array(value, dtype), shape))


def like(a, dtype, shape, value):
    a = to_array(a)
    return filled(a.shape if shape is None else shape_tuple(shape), a.dtype if dtype is None else dtype, value)


@creator
def array(object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0, like=None):
    x = as_array(object, dtype)
    x = x[(None,) * (ndmin - x.ndim) + (...,)] if x.ndim < ndmin else x
    if not copy or x is not object and not isinstance(object, np.ndarray):
        return x
    return _core.copy(x)


def as_array(a, dtype):
    """a as an array tracer of a dtype; a plain sequence is read as that dtype."""
    if isinstance(a, (list, tuple)) and not any(_core.is_tracer(v) or isinstance(v, np.ndarray) for v in leaves(a)):
        return _core.constant(np.array(a, dtype))
    x = to_array(a, dtype)
    return _core.reshape(x, ()) if _core.is_numpy_scalar(x) else x


@creator
def asarray(a, dtype=None, order=None, *, device=None, copy=None, like=None):
    return array(a, dtype, copy=bool(copy))


@creator
def asanyarray(a, dtype=None, order=None, *, device=None, copy=None, like=None):
    return array(a, dtype, copy=bool(copy))


@creator
def ascontiguousarray(a, dtype=None, *, like=None):
    return array(a, dtype, copy=True, ndmin=1)


@creator
def asfortranarray(a, dtype=None, *, like=None):
    return array(a, dtype, copy=True, ndmin=1)


@creator
def zeros(shape, dtype=float, order="C", *, device=None, like=None):
    return _core.full(shape_tuple(shape), np.dtype(dtype), 0)


@creator
def empty(shape, dtype=float, order="C", *, device=None, like=None):
    return _core.full(shape_tuple(shape), np.dtype(dtype), 0)


@creator
def arange(*args, dtype=None, device=None, like=None, **named):
    values = [_core.concrete(v) if _core.is_scalar_tracer(v) else v for v in (*args, *named.values())]
    if any(_core.is_tracer(v) for v in values):
        raise unsupported("arange up to a number that is data", "its length must be known: pass a Python number")
    named = dict(zip(named, values[len(args):]))
    return _core.constant(np.arange(*values[:len(args)], dtype=dtype, **named))


@creator
def fromiter(iter, dtype, count=-1, *, like=None):
    items = list(iter)
    return array(items if count < 0 else items[:count], dtype)


@implements(np.zeros_like, np.empty_like)
def zeros_like(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return like(a, dtype, shape, 0)


@implements(np.ones_like)
def ones_like(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return like(a, dtype, shape, 1)


@implements(np.full_like)
def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None):
    return like(a, dtype, shape, fill_value)


@implements(np.ones)
@creator
def ones(shape, dtype=None, order="C", *, device=None, like=None):
    return _core.full(shape_tuple(shape), np.dtype(dtype or FLOAT), 1)


@implements(np.full)
@creator
def full(shape, fill_value, dtype=None, order="C", *, device=None, like=None):
    return filled(shape_tuple(shape), default_type(fill_value) if dtype is None else dtype, fill_value)


@implements(np.eye)
@creator
def eye(N, M=None, k=0, dtype=float, order="C", *, device=None, like=None):
    n = index(N)
    return _core.cast(band(n, n if M is None else index(M), k, np.equal), np.dtype(dtype))


@implements(np.identity)
@creator
def identity(n, dtype=None, *, like=None):
    return eye(n, dtype=dtype or FLOAT)


@implements(np.tri)
@creator
def tri(N, M=None, k=0, dtype=float, *, like=None):
    n = index(N)
    return _core.cast(band(n, n if M is None else index(M), k, np.less_equal), np.dtype(dtype))


@implements(np.linspace)
@creator
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    num = index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    div = num - 1 if endpoint else num
    integer = dtype is not None and np.dtype(dtype).kind in "iu"
    wanted = result_type(start, stop, float(num))
    wanted = np.dtype(type(wanted)) if is_weak(wanted) else wanted
    first, last = (to_array(v, wanted) for v in common(np.multiply(start, 1.0), np.multiply(stop, 1.0)))
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
    y = _core.cast(y, wanted if dtype is None else np.dtype(dtype))
    return (y, step) if retstep else y


@implements(np.meshgrid)
def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    n = len(xi)
    out = [_core.reshape(to_array(x), (1,) * k + (to_array(x).size,) + (1,) * (n - k - 1)) for k, x in enumerate(xi)]
    if indexing == "xy" and n > 1:
        out = [np.swapaxes(x, 0, 1) for x in out]
    if not sparse:
        shape = np.broadcast_shapes(*[x.shape for x in out]) if out else ()
        out = [_core.broadcast(x, shape) for x in out]
    return tuple(_core.copy(x) for x in out) if copy else tuple(out)


@implements(np.asarray_chkfinite)
def asarray_chkfinite(a, dtype=None, order=None):
    raise unsupported("asarray_chkfinite", "use np.asarray")
