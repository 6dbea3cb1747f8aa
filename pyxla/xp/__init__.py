"""The Python array API standard, version 2024.12, over NumPy arrays and, in a jitted function, over traced ones.

Most names are NumPy's own functions, which follow the standard since NumPy 2.0 and are what a jitted function compiles; those
whose arguments or names differ are written here with the standard's signatures.

Examples
--------
>>> import numpy as np, pyxla
>>> from pyxla import xp
>>> @pyxla.jit
... def scaled(x):
...     return xp.astype(x, xp.float32) * xp.pow(xp.asarray(2.0, dtype=xp.float32), 3)
>>> scaled(np.arange(3.0))
array([ 0.,  8., 16.], dtype=float32)
"""
# ruff: noqa: F401, F811
import numpy as np
from numpy import (
    abs,
    add,
    all,
    any,
    arange,
    argmax,
    argmin,
    asarray,
    atan2,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    bool,
    broadcast_arrays,
    broadcast_to,
    ceil,
    complex64,
    complex128,
    concat,
    copysign,
    cos,
    cosh,
    divide,
    e,
    empty,
    empty_like,
    equal,
    exp,
    expm1,
    eye,
    flip,
    float32,
    float64,
    floor,
    floor_divide,
    from_dlpack,
    full,
    full_like,
    greater,
    greater_equal,
    hypot,
    imag,
    inf,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    linspace,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    matmul,
    matrix_transpose,
    max,
    maximum,
    mean,
    meshgrid,
    min,
    minimum,
    moveaxis,
    multiply,
    nan,
    negative,
    newaxis,
    nextafter,
    nonzero,
    not_equal,
    ones,
    ones_like,
    permute_dims,
    pi,
    positive,
    prod,
    real,
    reciprocal,
    remainder,
    repeat,
    reshape,
    result_type,
    roll,
    round,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    squeeze,
    stack,
    subtract,
    sum,
    take_along_axis,
    tan,
    tanh,
    tensordot,
    tile,
    tril,
    triu,
    trunc,
    uint8,
    uint16,
    uint32,
    uint64,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    vecdot,
    where,
    zeros,
    zeros_like,
)
from numpy import arccos as acos
from numpy import arccosh as acosh
from numpy import arcsin as asin
from numpy import arcsinh as asinh
from numpy import arctan as atan
from numpy import arctanh as atanh
from numpy import conjugate as conj
from numpy import invert as bitwise_invert
from numpy import left_shift as bitwise_left_shift
from numpy import power as pow
from numpy import right_shift as bitwise_right_shift

from . import fft, linalg
from .info import __array_namespace_info__

__array_api_version__ = "2024.12"


# ---- data types ----

def _dtype_of(x):
    return x.dtype if hasattr(x, "dtype") and not isinstance(x, type) else x


def astype(x, dtype, /, *, copy=True, device=None):
    """x with another dtype; a new array unless `copy` is false and nothing has to be done."""
    if device not in (None, "cpu"):
        raise ValueError(f'Device not understood. Only "cpu" is allowed, but received: {device}')
    return x.astype(dtype, copy=copy)


def can_cast(from_, to, /):
    """Whether values of a dtype (or of an array's) can be cast to another one by the rules of promotion."""
    return np.can_cast(_dtype_of(from_), _dtype_of(to))


def finfo(type, /):
    """Limits of a floating-point dtype, or of an array's."""
    return np.finfo(_dtype_of(type))


def iinfo(type, /):
    """Limits of an integer dtype, or of an array's."""
    return np.iinfo(_dtype_of(type))


# ---- elementwise ----

def clip(x, /, min=None, max=None):
    """x between bounds, either of which may be None; the result has x's dtype."""
    kind = x.dtype if hasattr(x, "dtype") else None
    r = np.clip(x, min, max)
    return r if kind is None or r.dtype == kind else r.astype(kind)


# ---- searching, sorting, indexing ----

def count_nonzero(x, /, *, axis=None, keepdims=False):
    """The number of elements that are not zero, in int64."""
    return np.count_nonzero(x, axis=axis, keepdims=keepdims)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Places in the sorted x1 where the elements of x2 belong."""
    return np.searchsorted(x1, x2, side=side, sorter=sorter)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """A sorted copy of x."""
    r = np.sort(x, axis=axis, stable=stable)
    return np.flip(r, axis=axis) if descending else r


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The indices that sort x; equal elements keep their order if stable."""
    if not descending:
        return np.argsort(x, axis=axis, stable=stable)
    r = np.flip(np.argsort(np.flip(x, axis=axis), axis=axis, stable=stable), axis=axis)
    return x.shape[axis] - 1 - r


def take(x, indices, /, *, axis=None):
    """Elements of x along an axis, which may be left out for one axis only."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError("axis must be specified when ndim > 1")
        axis = 0
    return np.take(x, indices, axis=axis)


# ---- statistics ----

def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Standard deviation, with N - correction in the denominator."""
    return np.std(x, axis=axis, ddof=correction, keepdims=keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Variance, with N - correction in the denominator."""
    return np.var(x, axis=axis, ddof=correction, keepdims=keepdims)


def _cumulative(scan, first, x, axis, dtype, include_initial):
    if axis is None:
        if x.ndim != 1:
            raise ValueError("axis must be specified when ndim > 1")
        axis = 0
    r = scan(x, axis=axis, dtype=dtype)
    if include_initial:
        axis %= x.ndim
        r = np.concat([np.full_like(r, first, shape=(*x.shape[:axis], 1, *x.shape[axis + 1:])), r], axis=axis)
    return r


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running sums along an axis, which may be left out for one axis only."""
    return _cumulative(np.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running products along an axis, which may be left out for one axis only."""
    return _cumulative(np.cumprod, 1, x, axis, dtype, include_initial)


# ---- shapes ----

def expand_dims(x, /, *, axis=0):
    """x with an axis of extent 1 more."""
    return np.expand_dims(x, axis)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """The n-th differences along an axis, with values before and after."""
    ends = {k: v for k, v in (("prepend", prepend), ("append", append)) if v is not None}
    return np.diff(x, n=n, axis=axis, **ends)


def unstack(x, /, *, axis=0):
    """The arrays that x is a stack of."""
    return tuple(np.moveaxis(x, axis, 0))


__all__ = sorted(name for name in globals() if not name.startswith("_") and name not in ("np", "info")) + [
    "__array_api_version__", "__array_namespace_info__"]
