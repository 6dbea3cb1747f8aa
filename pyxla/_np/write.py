"""Functions that write into an array, and those that answer from shapes and dtypes alone."""

import numpy as np

from .. import _core
from ._args import BOOL, array, assign, axis_tuple, count, is_array, result_type, stored_into, type_of, unsupported
from .manip import broadcast_to

implements, method = _core.implements, _core.method


# ---- writing ----

@implements(np.copyto)
def copyto(dst, src, casting="same_kind", where=True):
    dst = stored_into("np.copyto", dst)
    kind = type_of(src) if not isinstance(src, (list, tuple)) else array(src).dtype
    weak_ok = not isinstance(kind, np.dtype) and np.result_type(dst.dtype, kind) == dst.dtype
    if not weak_ok and not np.can_cast(kind if isinstance(kind, np.dtype) else np.dtype(type(kind)), dst.dtype, casting):
        raise TypeError(f"Cannot cast array data from {array(src).dtype!r} to {dst.dtype!r} according to the rule '{casting}'")
    if where is True:
        assign(dst, src)
    elif where is not False:
        src = _core.as_tracer(src, dst.dtype) if weak_ok else array(src, dst.dtype)
        dst[...] = _core.where(broadcast_to(array(where, BOOL), dst.shape), _core.full(dst.shape, dst.dtype, src), dst)


@method("fill")
def fill(a, value):
    a = _core.copy(a[...]) if _core.is_numpy_scalar(a) else a       # NumPy fills an array of the scalar, which nobody sees
    a[...] = value


# ---- not an array function of values: what shapes and dtypes answer ----

@implements(np.shape)
def shape(a):
    return a.shape if is_array(a) else array(a).shape


@implements(np.ndim)
def ndim(a):
    return a.ndim if is_array(a) else array(a).ndim


@implements(np.size)
def size(a, axis=None):
    a = array(a)
    return a.size if axis is None else count(a.shape[k] for k in axis_tuple(axis, a.ndim))


implements(np.result_type)(result_type)


@implements(np.can_cast)
def can_cast(from_, to, casting="safe"):
    return np.can_cast(array(from_).dtype, to, casting)


@implements(np.min_scalar_type)
def min_scalar_type(a, /):
    if array(a).ndim == 0:
        raise unsupported("min_scalar_type of a number that is data", "use its dtype")
    return a.dtype


@implements(np.common_type)
def common_type(*arrays):
    return np.result_type(*[np.result_type(a.dtype, FLOAT_FLOOR.get(a.dtype.kind, a.dtype)) for a in map(array, arrays)]).type


FLOAT_FLOOR = {"i": np.dtype(np.float64), "u": np.dtype(np.float64)}


@implements(np.iscomplexobj)
def iscomplexobj(x):
    return array(x).dtype.kind == "c"


@implements(np.isrealobj)
def isrealobj(x):
    return array(x).dtype.kind != "c"
