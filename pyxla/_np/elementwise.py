"""Elementwise functions that are not ufuncs, conversions, and the methods that need a value the trace does not have."""
from operator import index

import numpy as np

from .. import _core
from ._args import (
    BOOL,
    INT,
    UINT,
    NoValue,
    array,
    common,
    dtype_of,
    inexact,
    is_array,
    is_small,
    is_weak,
    loop_dtype,
    numpys,
    result_type,
    scalar,
    to_out,
    unsupported,
)
from .extents import broadcast_shapes
from .manip import fortran_or_c, letter, order_of, ordered

implements, method = _core.implements, _core.method


@implements(np.where)
def where(condition, x=None, y=None, /):
    if x is None and y is None:
        return np.nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    condition = array(condition, BOOL)
    dtype = result_type(x, y)
    x, y = (array(array(v, UINT if type(v) is int and v >= 2**63 else None), dtype) for v in (x, y))  # first an array: its cast wraps
    if any(_core.is_extent(n) for v in (condition, x, y) for n in v.shape):
        return _core.where(condition, x, y)
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    return _core.where(*[v if v.shape == shape else _core.broadcast(v, shape) for v in (condition, x, y)])


@implements(np.select)
def select(condlist, choicelist, default=0):
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if len(condlist) == 0:
        raise ValueError("select with an empty condition list is not possible")
    conditions = [array(c) for c in condlist]
    for i, c in enumerate(conditions):
        if c.dtype != BOOL:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    values = [v if is_weak(v) else array(v) for v in (*choicelist, default)]
    dtype = result_type(*values)
    dtype = dtype if isinstance(dtype, np.dtype) else np.dtype(type(dtype))
    values = [array(v, dtype) for v in values]
    shape = broadcast_shapes(*[v.shape for v in (*conditions, *values)])
    result = _core.copy(_core.broadcast(values[-1], shape), True)
    for c, v in zip(conditions[::-1], values[-2::-1]):
        result = _core.where(*[x if x.shape == shape else _core.broadcast(x, shape) for x in (c, v, result)])
    return result


@implements(np.clip)
def clip(a, a_min=NoValue, a_max=NoValue, out=None, *, min=NoValue, max=NoValue, **kwargs):
    if a_min is NoValue and a_max is NoValue:
        a_min = None if min is NoValue else min
        a_max = None if max is NoValue else max
    elif a_min is NoValue:
        raise TypeError("clip() missing 1 required positional argument: 'a_min'")
    elif a_max is NoValue:
        raise TypeError("clip() missing 1 required positional argument: 'a_max'")
    elif min is not NoValue or max is not NoValue:
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    return clip_method(array(a), a_min, a_max, out, **kwargs)


@method("clip")
def clip_method(a, min=None, max=None, out=None, **kwargs):
    if a.dtype.kind in "iu":                            # a bound that every value meets, whether or not the dtype holds it
        info = np.iinfo(a.dtype)
        min = None if isinstance(min, int) and min <= info.min else min
        max = None if isinstance(max, int) and max >= info.max else max
    if min is None and max is None:
        return np.positive(a, out=out, **kwargs)
    if min is None:
        return np.minimum(a, max, out=out, **kwargs)
    if max is None:
        return np.maximum(a, min, out=out, **kwargs)
    return clip_ufunc(a, min, max, out=out, **kwargs)


@implements(np._core.umath.clip)
def clip_ufunc(a, min, max, /, out=None, **kwargs):
    bounds = [v if is_weak(v) else array(v) for v in (a, min, max)]
    if any(is_small(v.dtype) for v in bounds if is_array(v)):       # no loop of theirs: the narrowest one that holds all
        dtype = np.result_type(*[loop_dtype(v.dtype) for v in bounds if is_array(v)])
        bounds = [array(v, dtype) for v in bounds]
    a, low, high = common(*bounds)
    return np.minimum(np.maximum(a, low), high, out=out, **kwargs)


@implements(np.round, np.around)
@method("round")
def round_(a, decimals=0, out=None):
    a, decimals = array(a), index(decimals)
    if a.dtype.kind in "iu":
        if decimals >= 0:
            return to_out(scalar(_core.copy(a)), out)
        tens = 10.0 ** -decimals
        return to_out(_core.cast(np.rint(a / tens) * tens, a.dtype), out)
    if a.dtype.kind == "c":
        r = _core.op("complex_", round_(a.real, decimals), round_(a.imag, decimals))
    elif decimals == 0:
        r = np.rint(a)
    elif a.dtype.kind == "b" or is_small(a.dtype):      # NumPy computes into the array's own type, which it refuses for bool
        first, last = (np.multiply, np.divide) if decimals > 0 else (np.divide, np.multiply)
        r = first(a, 10.0 ** abs(decimals), out=_core.copy(a))
        r = last(np.rint(r), 10.0 ** abs(decimals), out=r)
    elif decimals > 0:
        r = fortran_or_c(np.rint(a * 10.0 ** decimals) / 10.0 ** decimals, a)
    else:
        r = fortran_or_c(np.rint(a / 10.0 ** -decimals) * 10.0 ** -decimals, a)
    return to_out(r, out)


@method("astype")
def astype_method(a, dtype, order="K", casting="unsafe", subok=True, copy=True):
    dtype = dtype_of(dtype)
    if not np.can_cast(a.dtype, dtype, casting):
        raise TypeError(f"Cannot cast array data from {a.dtype!r} to {dtype!r} according to the rule '{casting}'")
    if a.dtype == dtype:
        if copy or letter(order) == "K":
            return ordered(a, order) if copy else a
        return _core.contiguous(a, order_of(a, order, "a copy") == "F")
    return _core.cast(a, dtype) if order in ("K", "k") or a.ndim < 2 else ordered(_core.cast(a, dtype), order)


@implements(*numpys("astype"))
def astype(x, dtype, /, *, copy=True, device=None):
    if not is_array(x) and not isinstance(x, (np.ndarray, np.generic)):
        raise TypeError(f"Input should be a NumPy array or scalar. It is a {type(x)} instead.")
    return astype_method(array(x), dtype, copy=copy)


# ---- real and imaginary parts ----

@method("conj")
@method("conjugate")
def conjugate(a, out=None):
    return np.conjugate(a, out=out) if a.dtype.kind == "c" or out is not None else a


@implements(np.real)
def real(val):
    val = array(val)
    return val.real if val.dtype.kind == "c" else val


@implements(np.imag)
def imag(val):
    val = array(val)
    if val.dtype.kind == "c":
        return val.imag
    zero = _core.full(val.shape, val.dtype, 0)
    return zero[()] if _core.is_numpy_scalar(val) else zero


@implements(np.iscomplex)
def iscomplex(x):
    x = array(x)
    return np.not_equal(x.imag, 0) if x.dtype.kind == "c" else _core.full(x.shape, BOOL, False)[...]


@implements(np.isreal)
def isreal(x):
    return np.equal(imag(x), 0)


@implements(np.real_if_close)
def real_if_close(a, tol=100):
    a = array(a)
    if a.dtype.kind != "c":
        return a
    tol = np.finfo(a.dtype).eps * tol if tol > 1 else tol
    return a.real if _core.assume(np.all(np.less(abs(a.imag), tol)), "whether all imaginary parts are small") else a


@implements(np.angle)
def angle(z, deg=False):
    z = array(z, INT) if array(z).dtype == BOOL else array(z)
    a = np.arctan2(imag(z), real(z))
    return a * (180 / np.pi) if deg else a


# ---- comparisons ----

@implements(np.isclose)
def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    x, y, atol, rtol = (v if is_weak(v) else array(v) for v in (a, b, atol, rtol))
    if is_array(y):
        y = array(y, result_type(y, 1.0))
    elif isinstance(y, int):
        y = y * 1.0
    r = np.less_equal(abs(x - y), atol + rtol * abs(y)) & np.isfinite(y) | np.equal(x, y)
    if equal_nan:
        r = r | np.isnan(x) & np.isnan(y)
    return scalar(r)


@implements(np.allclose)
def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    return np.all(isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1, a2, equal_nan=False):
    a1, a2 = array(a1), array(a2)
    if a1.shape != a2.shape:
        return False
    same = np.equal(a1, a2)
    if equal_nan and a1.dtype.kind in "fc" and a2.dtype.kind in "fc":
        same = same | np.isnan(a1) & np.isnan(a2)
    return np.all(same)


@implements(np.array_equiv)
def array_equiv(a1, a2):
    a1, a2 = array(a1), array(a2)
    try:
        np.broadcast_shapes(a1.shape, a2.shape)
    except ValueError:
        return False
    return np.all(np.equal(a1, a2))


@implements(np.isposinf)
def isposinf(x, out=None):
    return np.logical_and(np.isinf(x), np.logical_not(np.signbit(x)), out=out)


@implements(np.isneginf)
def isneginf(x, out=None):
    return np.logical_and(np.isinf(x), np.signbit(x), out=out)


@implements(np.nan_to_num)
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    a = array(x)
    r = a
    if a.dtype.kind == "c":
        r = _core.op("complex_", nan_to_num(a.real, True, nan, posinf, neginf), nan_to_num(a.imag, True, nan, posinf, neginf))
    elif inexact(a.dtype):
        info = np.finfo(a.dtype)
        r = np.where(np.isnan(a), array(nan, a.dtype), a)
        r = np.where(isposinf(a), array(float(info.max) if posinf is None else posinf, a.dtype), r)
        r = np.where(isneginf(a), array(float(info.min) if neginf is None else neginf, a.dtype), r)
    if not copy:
        a[...] = r
        return scalar(a)
    if r is a or a.ndim == 0:
        return scalar(r if r is not a else _core.copy(a))
    out = _core.copy(a)                                     # NumPy's result has the copy's layout
    out[...] = r
    return out


@implements(np.fix)
def fix(x, out=None):
    return to_out(scalar(np.trunc(array(x))), out)


# ---- methods that ask for what the trace does not have ----

def value_method(name, cure):
    @method(name)
    def refuse(a, *args, **kwargs):
        if not args and not kwargs or name == "item":
            concrete = _core.concrete(a)                # known where it depends on no input, else an error with the line
            return getattr(concrete, name)(*args, **kwargs)
        raise unsupported(f"{name} with arguments", cure)


for name in ("item", "tolist", "tobytes"):
    value_method(name, "return the array and convert it outside")


@method("__copy__")
def copied(a):
    return _core.copy(a)


@method("__deepcopy__")
def deep_copied(a, memo):
    return _core.copy(a)
