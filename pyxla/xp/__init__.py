"""The Python array API standard, version 2024.12 with 2025.12's additions, over NumPy arrays and, in a jitted function, over traced ones.

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
    broadcast_shapes,
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
    eye,
    flip,
    float32,
    float64,
    floor,
    floor_divide,
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

from .. import _core
from . import fft, linalg
from .info import __array_namespace_info__

__array_api_version__ = "2024.12"


# ---- data types ----

def _dtype_of(x):
    return x.dtype if hasattr(x, "dtype") and not isinstance(x, type) else x


def astype(x, dtype, /, *, copy=True, device=None):
    """x with another dtype; a new array unless `copy` is false and nothing has to be done.

    Parameters
    ----------
    x : array
    dtype : dtype
        The new type.
    copy : bool
        Whether the result is always a new array.
    device : None or "cpu"

    Returns
    -------
    array

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.astype(xp.asarray([1, 2]), xp.float32).dtype
    dtype('float32')
    """
    if device not in (None, "cpu"):
        raise ValueError(f'Device not understood. Only "cpu" is allowed, but received: {device}')
    return x.astype(dtype, copy=copy)


def can_cast(from_, to, /):
    """Whether values of a dtype (or of an array's) can be cast to another one by the rules of promotion.

    Parameters
    ----------
    from_ : dtype or array
    to : dtype

    Returns
    -------
    bool

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.can_cast(xp.int16, xp.int32), xp.can_cast(xp.float64, xp.int64)
    (True, False)
    """
    return np.can_cast(_dtype_of(from_), _dtype_of(to))


def finfo(type, /):
    """Limits of a floating-point dtype, or of an array's.

    Parameters
    ----------
    type : dtype or array

    Returns
    -------
    object
        With `bits`, `eps`, `max`, `min`, `smallest_normal`, `dtype`.

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.finfo(xp.float32).bits
    32
    """
    return np.finfo(_dtype_of(type))


def iinfo(type, /):
    """Limits of an integer dtype, or of an array's.

    Parameters
    ----------
    type : dtype or array

    Returns
    -------
    object
        With `bits`, `max`, `min`, `dtype`.

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.iinfo(xp.int8).max
    127
    """
    return np.iinfo(_dtype_of(type))


# ---- elementwise ----

def clip(x, /, min=None, max=None):
    """x between bounds, either of which may be None; the result has x's dtype.

    Parameters
    ----------
    x : array
    min, max : array, number or None
        The bounds.

    Returns
    -------
    array

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.clip(xp.asarray([1, 5, 9]), 2, 6)
    array([2, 5, 6])
    """
    kind = x.dtype if hasattr(x, "dtype") else None
    r = np.clip(x, min, max)
    return r if kind is None or r.dtype == kind else r.astype(kind)


def expm1(x, /):
    """exp(x) - 1, accurate near 0; of complex infinities and NaN as exp has it.

    Parameters
    ----------
    x : array

    Returns
    -------
    array

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.expm1(xp.asarray([0.0, 1e-20]))
    array([0.e+00, 1.e-20])
    """
    r = np.expm1(x)
    return np.where(np.isfinite(x.real), r, np.exp(x) - 1) if r.dtype.kind == "c" else r


def from_dlpack(x, /, *, device=None, copy=None):
    """The array over the memory of an object that has `__dlpack__`; an array of a jitted function is one already.

    Parameters
    ----------
    x : object
    device : "cpu" or None
    copy : bool or None
        Whether to copy; None: only if it must be.

    Returns
    -------
    array

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.from_dlpack(xp.asarray([1, 2]))
    array([1, 2])
    """
    if _core.is_tracer(x):
        return np.copy(x) if copy else x[...]
    options = {k: v for k, v in (("device", device), ("copy", copy)) if v is not None}
    return np.from_dlpack(x, **options)


# ---- searching, sorting, indexing ----

def count_nonzero(x, /, *, axis=None, keepdims=False):
    """The number of elements that are not zero, in int64.

    Parameters
    ----------
    x : array
    axis : int, tuple of int or None
        Axes to count along; None: all.
    keepdims : bool
        Whether these stay, with extent 1.

    Returns
    -------
    array

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.count_nonzero(xp.asarray([[0, 1], [2, 3]]), axis=0)
    array([1, 2])
    """
    return np.count_nonzero(x, axis=axis, keepdims=keepdims)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Places in the sorted x1 where the elements of x2 belong.

    Parameters
    ----------
    x1 : array, 1-D
        In ascending order, or so by `sorter`.
    x2 : array
    side : "left" or "right"
        The first or the last place among equal elements.
    sorter : array or None
        Indices that sort x1.

    Returns
    -------
    array of int64, with the shape of x2

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.searchsorted(xp.asarray([1, 3, 5]), xp.asarray([3, 4]))
    array([1, 2])
    """
    return np.searchsorted(x1, x2, side=side, sorter=sorter)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """A sorted copy of x.

    Parameters
    ----------
    x : array
    axis : int
        The axis to sort along.
    descending : bool
        The greatest first.
    stable : bool
        Whether equal elements keep their order.

    Returns
    -------
    array

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.sort(xp.asarray([3, 1, 2]), descending=True)
    array([3, 2, 1])
    """
    r = np.sort(x, axis=axis, stable=stable)
    return np.flip(r, axis=axis) if descending else r


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The indices that sort x; equal elements keep their order if stable.

    Parameters
    ----------
    x : array
    axis : int
        The axis to sort along.
    descending : bool
        The greatest first.
    stable : bool
        Whether equal elements keep their order.

    Returns
    -------
    array of int64

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.argsort(xp.asarray([3, 1, 2]))
    array([1, 2, 0])
    """
    if not descending:
        return np.argsort(x, axis=axis, stable=stable)
    r = np.flip(np.argsort(np.flip(x, axis=axis), axis=axis, stable=stable), axis=axis)
    return x.shape[axis] - 1 - r


def take_along_axis(x, indices, /, *, axis=-1):
    """The elements of x that the indices name along an axis (NumPy before 2.3 has no default for it).

    Parameters
    ----------
    x : array
    indices : array of integers
        Of x's rank; broadcasts with x on the other axes.
    axis : int

    Returns
    -------
    array
        Of the indices' shape, broadcast.

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.take_along_axis(xp.asarray([[5, 6, 7]]), xp.asarray([[2, 0]]))
    array([[7, 5]])
    """
    return np.take_along_axis(x, indices, axis=axis)


def take(x, indices, /, *, axis=None):
    """Elements of x along an axis, which may be left out for one axis only.

    Parameters
    ----------
    x : array
    indices : array of integers, 1-D
    axis : int or None
        None for x of one axis.

    Returns
    -------
    array

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.take(xp.asarray([5, 6, 7]), xp.asarray([2, 0]))
    array([7, 5])
    """
    if axis is None:
        if x.ndim != 1:
            raise ValueError("axis must be specified when ndim > 1")
        axis = 0
    return np.take(x, indices, axis=axis)


# ---- statistics ----

def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Standard deviation, with N - correction in the denominator.

    Parameters
    ----------
    x : array of a floating-point dtype
    axis : int, tuple of int or None
        None: all axes.
    correction : float
        Subtracted from the number of elements.
    keepdims : bool
        Whether the axes stay, with extent 1.

    Returns
    -------
    array

    Examples
    --------
    >>> from pyxla import xp
    >>> float(xp.std(xp.asarray([1.0, 3.0])))
    1.0
    """
    return np.std(x, axis=axis, ddof=correction, keepdims=keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """Variance, with N - correction in the denominator.

    Parameters
    ----------
    x : array of a floating-point dtype
    axis : int, tuple of int or None
        None: all axes.
    correction : float
        Subtracted from the number of elements.
    keepdims : bool
        Whether the axes stay, with extent 1.

    Returns
    -------
    array

    Examples
    --------
    >>> from pyxla import xp
    >>> float(xp.var(xp.asarray([1.0, 3.0]), correction=1))
    2.0
    """
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
    """Running sums along an axis, which may be left out for one axis only.

    Parameters
    ----------
    x : array
    axis : int or None
        None for x of one axis.
    dtype : dtype or None
        Of the sums; None: as `sum` has it.
    include_initial : bool
        Whether 0 comes first.

    Returns
    -------
    array

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.cumulative_sum(xp.asarray([1, 2, 3]), include_initial=True)
    array([0, 1, 3, 6])
    """
    return _cumulative(np.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """Running products along an axis, which may be left out for one axis only.

    Parameters
    ----------
    x : array
    axis : int or None
        None for x of one axis.
    dtype : dtype or None
        Of the products; None: as `prod` has it.
    include_initial : bool
        Whether 1 comes first.

    Returns
    -------
    array

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.cumulative_prod(xp.asarray([1, 2, 3]))
    array([1, 2, 6])
    """
    return _cumulative(np.cumprod, 1, x, axis, dtype, include_initial)


# ---- shapes ----

def expand_dims(x, /, *, axis=0):
    """x with an axis of extent 1 more.

    Parameters
    ----------
    x : array
    axis : int
        Where the new axis is in the result.

    Returns
    -------
    array

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.expand_dims(xp.asarray([1, 2]), axis=1).shape
    (2, 1)
    """
    return np.expand_dims(x, axis)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """The n-th differences along an axis, with values before and after.

    Parameters
    ----------
    x : array
    axis : int
    n : int
        How often differences are taken.
    prepend, append : array or None
        Values to put before and after x first.

    Returns
    -------
    array

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.diff(xp.asarray([1, 4, 9]))
    array([3, 5])
    """
    ends = {k: v for k, v in (("prepend", prepend), ("append", append)) if v is not None}
    return np.diff(x, n=n, axis=axis, **ends)


def isin(x1, x2, /, *, invert=False):
    """Which elements of x1 are among those of x2 (of version 2025.12 of the standard).

    Parameters
    ----------
    x1, x2 : array
    invert : bool
        Which are not.

    Returns
    -------
    array of bool, with the shape of x1

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.isin(xp.asarray([1, 2, 3]), xp.asarray([3, 1]))
    array([ True, False,  True])
    """
    return np.isin(x1, x2, invert=invert)


def unstack(x, /, *, axis=0):
    """The arrays that x is a stack of.

    Parameters
    ----------
    x : array
    axis : int
        The axis that disappears.

    Returns
    -------
    tuple of array

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.unstack(xp.asarray([[1, 2], [3, 4]]))
    (array([1, 2]), array([3, 4]))
    """
    return tuple(np.moveaxis(x, axis, 0))


__all__ = sorted(name for name in globals() if not name.startswith("_") and name not in ("np", "info")) + [
    "__array_api_version__", "__array_namespace_info__"]
