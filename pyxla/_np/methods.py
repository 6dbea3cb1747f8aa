"""Methods of ufuncs: `np.add.reduce(x)`, `.accumulate`, `.reduceat` and `.outer`, called by the tracer.

Sums, products, extremes and their scans are ops. Other associative functions are joined in pairs, log2(n) times; those that are neither,
element after element, unrolled up to a limit, and above it by NumPy's own routine."""
from functools import cache, wraps
from operator import index

import numpy as np

from .. import _core
from ._args import ALL, BOOL, INT, NoValue, array, axis_index, count, dtype_of, is_small, out_array, scalar, to_out
from .extents import is_dynamic
from .host import host, whole
from .into import accumulated_into, narrow, reduced_into, stored
from .manip import broadcast_to
from .selection import integers
from .stats import all_, any_, cumprod, cumsum, given, kept, max, min, prod, reduced_axes, start, sum

implements = _core.implements
LIMIT = 200                                             # elements that are joined one after the other
REDUCERS = {"add": sum, "multiply": prod}
EXTREMES = {"maximum": max, "minimum": min}
SCANS = {"add": cumsum, "multiply": cumprod}
ORDERED = {"maximum": "cummax", "minimum": "cummin"}
LOGICAL = ("logical_and", "logical_or", "logical_xor")
ASSOCIATIVE = {"maximum", "minimum", "fmax", "fmin", "hypot", "logaddexp", "logaddexp2", "gcd", "bitwise_and", "bitwise_or",
               "bitwise_xor", "equal", "not_equal", *LOGICAL}


def loop_type(ufunc, x, dtype, out):
    """The dtype that a ufunc's reduce and accumulate work in, by NumPy's resolution."""
    if ufunc.nin != 2 or ufunc.nout != 1:
        raise ValueError("reduce only supported for " + ("binary functions" if ufunc.nin != 2 else "functions returning a single value"))
    if not ufunc.types:                                     # NumPy's resolution of a function of strings ends the process
        raise TypeError(f"the ufunc {ufunc.__name__} has no loop for numbers")
    if ufunc.__name__ in LOGICAL:
        if dtype is not None and dtype_of(dtype) != BOOL:
            raise TypeError(f"No loop matching the specified signature and casting was found for ufunc {ufunc.__name__}")
        return BOOL
    if dtype is None and out_array(out) is None and ufunc.__name__ in REDUCERS and x.dtype.kind in "biu" and x.dtype.itemsize < 8:
        dtype = np.dtype(np.uint64) if x.dtype.kind == "u" else INT
    first = None if out_array(out) is None else out_array(out).dtype
    signature = {} if dtype is None else {"signature": (dtype_of(dtype), None, None)}
    return ufunc.resolve_dtypes((first, x.dtype, None), reduction=True, casting="unsafe", **signature)[2]


def part(x, axis, *bounds):
    """A slice of x along an axis."""
    return x[(ALL,) * axis + (slice(*bounds),)]


def element(x, axis, k):
    return x[(ALL,) * axis + (k, ...)]


def named_twice(method):
    """NumPy hands over `array=` and `indices=` by position, and leaves the names among the keywords."""
    @wraps(method)
    def call(ufunc, *args, array=None, indices=None, **kwargs):
        return method(ufunc, *args, **kwargs)
    return call


# ---- reduce ----

@implements("ufunc.reduce")
@named_twice
def ufunc_reduce(ufunc, a, axis=0, dtype=None, out=None, keepdims=False, initial=NoValue, where=True):
    name = ufunc.__name__
    if name in REDUCERS:
        return REDUCERS[name](a, axis, dtype, out, keepdims, initial, where)
    if name in EXTREMES:
        return EXTREMES[name](a if dtype is None else array(a, dtype), axis, out, keepdims, initial, where)
    if name in ("logical_or", "logical_and") and not given(initial) and dtype is None:
        return (any_ if name == "logical_or" else all_)(a, axis, out, keepdims, where=where)
    x = array(a)
    loop = loop_type(ufunc, x, dtype, out)
    if narrow(loop, out):
        return reduced_into(ufunc, x, out, axis, dtype, keepdims, initial, where)
    x = array(x, loop)
    axes = reduced_axes(axis, x.ndim)
    if len(axes) > 1 and not reorderable(ufunc):
        raise ValueError(f"reduction operation '{name}' is not reorderable, so at most one axis may be specified")
    first = start(initial, x.dtype) if given(initial) else None
    r = joined(ufunc, x, axes, first, where)
    r = kept(r, x.shape, axes) if keepdims and keepdims is not NoValue else scalar(r)
    return to_out(r, out, "unsafe")


def reorderable(ufunc):
    """Whether NumPy reduces over several axes at once."""
    one = np.empty((1, 1), ufunc.types[0][0])
    try:
        ufunc.reduce(one, axis=(0, 1))
    except ValueError:
        return False
    return True


def joined(ufunc, x, axes, first, where):
    """All elements along the axes joined by a binary function, after `first`, without those that the mask excludes."""
    keep = tuple(k for k in range(x.ndim) if k not in axes)
    shape = tuple(x.shape[k] for k in keep)
    flat = lambda v: _core.reshape(_core.transpose(v, axes + keep), (count(v.shape[k] for k in axes), *shape))  # noqa: E731
    if where is not True and where is not NoValue:
        mask = flat(broadcast_to(array(where, BOOL), x.shape))
        if first is None:
            first = identity(ufunc, x.dtype, "so to use a where mask one has to specify 'initial'")
        return in_order(ufunc, flat(x), first, mask)
    x = flat(x) if axes else x[None]
    if _core.is_extent(x.shape[0]):
        return in_order(ufunc, x, first, None)
    if x.shape[0] == 0:
        first = identity(ufunc, x.dtype, None) if first is None else first
        return _core.copy(_core.broadcast(array(first), shape), True)
    if first is None and is_small(x.dtype) and ufunc.identity == -np.inf:      # NaN in a dtype without infinities
        first = identity(ufunc, x.dtype, None)
    if ufunc.__name__ == "subtract":                    # x0 - (x1 + x2 + ...)
        head, rest = (x[0], x[1:]) if first is None else (first, x)
        return without(head, rest) if rest.shape[0] else _core.copy(head)
    if ufunc.__name__ == "logical_xor":
        r = np.not_equal(_core.reduce("sum", array(x, INT), (0,)) & 1, 0)
    elif ufunc.__name__ in ASSOCIATIVE:
        r = in_pairs(ufunc, x)
        if x.shape[0] == 1 and first is None and ufunc.identity is not None:    # hypot and gcd of one number drop its sign
            r = ufunc(identity(ufunc, x.dtype, None), r)
    else:
        return in_order(ufunc, x, first, None)
    return r if first is None else ufunc(first, r)


def without(head, rest):
    """head - rest[0] - rest[1] ..., which is -0.0 only where all of the rest are +0.0."""
    r = np.subtract(head, _core.reduce("sum", rest, (0,)))
    if r.dtype.kind != "f":
        return r
    other = _core.reduce("any", np.logical_or(np.not_equal(rest, 0), np.signbit(rest)), (0,))
    return _core.where(np.logical_and(np.equal(r, 0), other), array(0, r.dtype), r)


def identity(ufunc, dtype, why):
    """The identity of a ufunc in a dtype, or NumPy's error."""
    if ufunc.identity is None:
        if why is None:
            raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
        raise ValueError(f"reduction operation '{ufunc.__name__}' does not have an identity, {why}")
    all_bits = ufunc.identity == -1 and dtype.kind == "u"
    return _core.full((), dtype, int(np.iinfo(dtype).max) if all_bits else ufunc.identity)


def in_pairs(ufunc, x):
    """A function that is associative and commutative, over axis 0: the first half with the second until one is left."""
    while x.shape[0] > 1:
        half = x.shape[0] // 2
        r = ufunc(x[:half], x[half:2 * half])
        x = r if 2 * half == x.shape[0] else _core.concatenate([r, x[2 * half:]], 0)
    return _core.copy(x[0, ...])


def in_order(ufunc, x, first, mask):
    """Element after element along axis 0."""
    if _core.is_extent(x.shape[0]) or x.shape[0] > LIMIT:
        rest = [v for v in (first, mask) if v is not None]
        return host_reduce(ufunc)((x, *rest), ((x.dtype, x.shape[1:]),), (first is not None) + 2 * (mask is not None))[0]
    r, k = (x[0, ...], 1) if first is None else (_core.copy(_core.broadcast(array(first, x.dtype), x.shape[1:]), True), 0)
    for i in range(k, x.shape[0]):
        next_ = ufunc(r, x[i, ...])
        r = next_ if mask is None else _core.where(mask[i, ...], next_, r)
    return r if x.shape[0] > 1 else _core.copy(r)


@cache
def host_reduce(ufunc):
    """NumPy's own method over axis 0; `given`: 1, an initial value follows, 2, a mask."""
    def run(results, x, *rest):
        *rest, given = rest
        initial = {"initial": rest.pop(0).item()} if given & 1 else {}
        results[0][...] = ufunc.reduce(x, axis=0, dtype=x.dtype, **initial, **({"where": rest[0]} if given & 2 else {}))
    return host(run)


# ---- accumulate ----

@implements("ufunc.accumulate")
@named_twice
def ufunc_accumulate(ufunc, a, axis=0, dtype=None, out=None):
    name = ufunc.__name__
    x = array(a)
    if axis is None:
        if x.ndim != 1:
            raise ValueError("accumulate does not allow multiple axes")
        axis = 0
    if x.ndim == 0:
        raise TypeError("cannot accumulate on a scalar")
    axis = axis_index(index(axis), x.ndim)
    if name in SCANS:
        return SCANS[name](x, axis, dtype, out)
    loop = loop_type(ufunc, x, dtype, out)
    if narrow(loop, out):
        return accumulated_into(ufunc, x, out, axis, dtype)
    return to_out(_core.follow(running(ufunc, array(x, loop), axis), x), out, "unsafe")


def running(ufunc, x, axis):
    """The accumulation of x, which has the loop's dtype."""
    name = ufunc.__name__
    if name in ORDERED and x.dtype.kind == "c" and is_dynamic(x):          # (expanded into slices where the extents are known)
        return by_numpy(ufunc, x, axis)
    if name in ORDERED:
        return _core.scan(ORDERED[name], x, axis)
    if not _core.is_extent(x.shape[axis]) and x.shape[axis] < 2:
        return _core.copy(x)
    if name == "subtract":                              # a - b is a + (-b), to the bit
        rest = np.negative(part(x, axis, 1, None))
        return _core.scan("cumsum", _core.concatenate([part(x, axis, 0, 1), rest], axis), axis)
    if name == "logical_xor":
        return np.not_equal(_core.scan("cumsum", array(x, INT), axis) & 1, 0)
    if _core.is_extent(x.shape[axis]):
        return by_numpy(ufunc, x, axis)
    if name in ASSOCIATIVE:
        return doubled(ufunc, x, axis)
    return one_by_one(ufunc, x, axis)


def doubled(ufunc, x, axis):
    """Hillis and Steele's scan: after step k each element joins 2**k before it."""
    d = 1
    while d < x.shape[axis]:
        x = _core.concatenate([part(x, axis, None, d), ufunc(part(x, axis, None, -d), part(x, axis, d, None))], axis)
        d *= 2
    return x


def by_numpy(ufunc, x, axis):
    return whole(ufunc.accumulate, (("axis", axis),))((x,), ((x.dtype, x.shape),))[0]


def one_by_one(ufunc, x, axis):
    n = x.shape[axis]
    if n > LIMIT:
        return by_numpy(ufunc, x, axis)
    parts = [element(x, axis, 0)]
    for k in range(1, n):
        parts.append(ufunc(parts[-1], element(x, axis, k)))
    return np.stack(parts, axis)


# ---- reduceat ----

@implements("ufunc.reduceat")
@named_twice
def ufunc_reduceat(ufunc, a, indices, axis=0, dtype=None, out=None):
    x, indices = array(a), array(integers(indices), INT)
    axis = axis_index(axis, x.ndim)
    loop = loop_type(ufunc, x, dtype, out)
    _core.check(np.logical_and(np.less_equal(0, indices), np.less(indices, x.shape[axis])), "index")
    if narrow(loop, out):
        return stored(reduceat_into(ufunc, axis, loop), x, [indices], out)
    shape = x.shape[:axis] + indices.shape + x.shape[axis + 1:]
    return to_out(reduceat_into(ufunc, axis, loop)((x, indices), ((loop, shape),))[0], out)


@cache
def reduceat_into(ufunc, axis, dtype):
    def run(results, a, indices):
        ufunc.reduceat(a, indices, axis, dtype, results[0])

    def native(number):
        return vars(np).get(ufunc.__name__) is ufunc and _core.host_reduceat(number, ufunc, dtype)
    return host(run, native)


# ---- outer ----

@implements("ufunc.outer")
def ufunc_outer(ufunc, a, b, /, **kwargs):
    a, b = array(a), array(b)                           # numbers too are arrays here, with the dtype of such an array
    return ufunc(a[(..., *(None,) * b.ndim)], b, **kwargs)
