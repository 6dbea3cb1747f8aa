"""What NumPy's functions share in reading their arguments: arrays, axes, shapes, dtypes, `out=`."""
from operator import index

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from .. import _core

NoValue = np._NoValue
BOOL, INT, UINT = np.dtype(np.bool), np.dtype(np.int64), np.dtype(np.uint64)
FLOAT32, FLOAT = np.dtype(np.float32), np.dtype(np.float64)
ALL = slice(None)


def unsupported(what, cure):
    """The exception for a form of a function that cannot be traced."""
    return _core.UnsupportedError(f"{what} is not supported in a jitted function; {cure}{_core.place()}")


def numpys(*names):
    """NumPy's functions of these names, as far as this NumPy has them."""
    return [getattr(np, name) for name in names if hasattr(np, name)]


def is_array(x):
    """Whether x is a tracer of an array or NumPy scalar."""
    return _core.is_tracer(x) and not _core.is_scalar_tracer(x)


def is_weak(x):
    """Whether x is a Python number, whose dtype yields to an array's."""
    return not is_array(x) and (isinstance(x, (bool, int, float, complex)) or _core.is_extent(x))


def array(x, dtype=None):
    """x as an array tracer, as `np.asanyarray(x, dtype)` would give; sequences are stacked."""
    if not is_array(x):
        x = _core.read(x) if dtype is None else numbers(_core.read(x), dtype_of(dtype))
        x = stacked(x) if isinstance(x, (list, tuple)) else _core.as_tracer(x)
    return x if dtype is None or x.dtype == dtype else _core.cast(x, dtype_of(dtype))


def numbers(object, dtype):
    """Python's integers, also in lists, as those of an integer dtype, with checks of its elements to be; other things as they are."""
    if dtype.kind not in "iu":
        return object
    if isinstance(object, (list, tuple)):
        _core.element(object, dtype)
        return [numbers(v, dtype) for v in object]
    if _core.is_scalar_tracer(object):
        _core.element(object, dtype)
    return _core.as_tracer(object, dtype) if is_weak(object) and type(type_of(object)) is int else object


def inexact(dtype):
    """Whether NumPy counts a dtype among the floats and complex numbers: not those of ml_dtypes."""
    return np.issubdtype(dtype, np.inexact)


def is_small(dtype):
    """Whether a dtype is a float of ml_dtypes, for which NumPy's own loops and functions have no rule."""
    return dtype.num >= 256


def loop_dtype(dtype):
    """The dtype of the loop of a ufunc to which ml_dtypes adds none of its own (matmul and its kin, clip)."""
    return FLOAT32 if is_small(dtype) else dtype


def conj(x):
    """The complex conjugate of an array; a real one is its own."""
    return np.conjugate(x) if x.dtype.kind == "c" else x


def stacked(items):
    """A nested sequence of numbers, arrays and tracers as one array tracer, as `np.array` makes it."""
    values = list(leaves(items))
    if not any(_core.is_tracer(v) or _core.is_extent(v) or isinstance(v, np.ndarray) for v in values):
        return _core.constant(np.array(items))
    dtype = np.result_type(*map(default_type, values))
    parts = [array(v, dtype) for v in items]
    if any(p.shape != parts[0].shape for p in parts):
        raise ValueError("setting an array element with a sequence. The requested array has an inhomogeneous shape "
                         f"after 1 dimensions. The detected shape was ({len(parts)},) + inhomogeneous part.")
    return _core.concatenate([_core.reshape(p, (1, *p.shape)) for p in parts], 0)


def leaves(items):
    """The values in a nested sequence that have a dtype."""
    for v in items:
        if isinstance(v, (list, tuple)):
            yield from leaves(v)
        else:
            yield v


def result_type(*args):
    """`np.result_type`, of tracers, arrays, Python numbers and dtypes."""
    known = [type_of(a) for a in args]
    if all(isinstance(k, (bool, int, float, complex)) for k in known):
        return np.result_type(*map(type, known))
    return np.result_type(*known)


def type_of(x):
    """What stands for x in a promotion: a dtype, or a Python number (weak)."""
    if _core.is_scalar_tracer(x):
        return x.__class__(0)                   # as an array it would have to fit into int64
    if _core.is_extent(x):
        return x.value.dtype.type(0).item()
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype
    if isinstance(x, (bool, int, float, complex)):
        return type(x)(0)
    return array(x).dtype if isinstance(x, (list, tuple)) else np.dtype(x)


def default_type(x):
    """The dtype of x as an array of its own."""
    if hasattr(x, "dtype"):
        return x.dtype
    kind = type(type_of(x))
    return _core.as_tracer(x).dtype if kind is int else np.dtype(kind)      # which that of an int past int64 is, its value says


def common(*xs):
    """The arguments as array tracers of their common dtype; Python numbers are weak."""
    dtype = result_type(*[v for x in xs for v in (leaves(x) if isinstance(x, (list, tuple)) else [x])])
    return [_core.as_tracer(x, dtype) if is_weak(x) else array(x, dtype) for x in xs]


def axis_index(axis, ndim, name=None):
    """An axis in 0 .. ndim - 1, or `AxisError`."""
    return normalize_axis_index(index(axis), ndim, name)


def axis_tuple(axis, ndim, name=None, duplicates="repeated axis"):
    """Axes (one or several) in 0 .. ndim - 1, in the order given."""
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    out = tuple(axis_index(a, ndim, name) for a in axes)
    if len(set(out)) != len(out):
        raise ValueError(duplicates if name is None else f"{duplicates} in `{name}` argument")
    return out


def shape_tuple(shape):
    """A shape given as an int or a sequence of ints."""
    from .extents import extent, run_integer
    if run_integer(shape):
        return (extent(shape),)
    if isinstance(shape, (bool, np.bool)):
        raise TypeError(f"expected a sequence of integers or a single integer, got '{shape}'")
    try:
        return (index(shape),)
    except TypeError:
        shape = tuple(shape)
    if any(isinstance(n, (bool, np.bool)) for n in shape):
        raise TypeError("an integer is required")
    return tuple(extent(n) if run_integer(n) else index(n) for n in shape)


def known_ints(x):
    """Integers that have to be known while tracing (places, counts), given as one or a sequence: an int or a list of ints.

    An array will do if it depends on no argument; another one is refused with the line."""
    if _core.is_tracer(x):
        x = _core.concrete(x)
    if isinstance(x, (list, tuple)):
        return [index(_core.concrete(v)) for v in x]
    if isinstance(x, np.ndarray) and x.ndim:
        if x.dtype.kind not in "iu":
            raise TypeError(f"Cannot cast array data from {x.dtype!r} to dtype('int64') according to the rule 'safe'")
        return x.ravel().tolist()
    return index(x)


def is_none(n):
    """Whether an extent is 0; one known only in the run counts as some."""
    return not _core.is_extent(n) and n == 0


def count(shape):
    """The number of elements of a shape."""
    n = 1
    for k in shape:
        n *= k
    return n


def scalar(x):
    """A 0-d result as the NumPy scalar that NumPy gives; other arrays as they are."""
    return x if x.ndim else x[()]


def dtype_of(dtype):
    """A `dtype=` as np.dtype; NumPy makes none from an array."""
    if is_array(dtype):
        raise TypeError("Cannot construct a dtype from an array")
    return np.dtype(dtype)


def out_array(out):
    """The array of an `out=`, None where there is none (None, or ... for "no NumPy scalars")."""
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if out is None or out is ...:
        return None
    if not (is_array(out) or isinstance(out, np.ndarray)):
        raise TypeError("return arrays must be of ArrayType")
    return out


def stored_into(name, a):
    """The array that a function stores into, as a tracer."""
    if is_array(a):
        return a
    if isinstance(a, np.ndarray):
        raise unsupported(f"{name} of traced values into an array that NumPy made of numbers alone", "make it from tracers, or an argument")
    raise TypeError(f"the first argument of {name} must be numpy.ndarray, not {type(a).__name__}")


def to_out(result, out, casting="same_kind"):
    """result, or `out` after result was stored into it."""
    if out_array(out) is None:
        wanted = out is ... or out == (...,)
        return result[...] if wanted and _core.is_numpy_scalar(result) else result
    out = out_array(out)
    if not np.can_cast(result.dtype, out.dtype, casting):
        raise TypeError(f"Cannot cast output from {result.dtype!r} to {out.dtype!r} with casting rule '{casting}'")
    if out.shape != result.shape:
        raise ValueError(f"output array has shape {out.shape}, the result has shape {result.shape}")
    assign(out, result)
    return out


def assign(out, value):
    """Stores into all of an array what is cast to its dtype (a number of NumPy's that is stored may be refused)."""
    out[...] = value[...] if _core.is_numpy_scalar(value) else value
