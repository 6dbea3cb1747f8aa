"""Products: everything comes down to `_core.dot` over batches of matrices, or to a sum of products."""
import operator

import numpy as np

from .. import _core
from ._args import (
    ALL,
    BOOL,
    FLOAT,
    FLOAT32,
    array,
    axis_tuple,
    common,
    conj,
    count,
    dtype_of,
    inexact,
    is_none,
    is_small,
    loop_dtype,
    numpys,
    scalar,
    to_out,
)
from .extents import Number, broadcast_shapes, known_same, meets, with_extent
from .manip import diagonal, moveaxis, ravel
from .stats import squares, sum

implements, method = _core.implements, _core.method


def sum_of_products(a, b, axes):
    """sum(a * b) over axes in the operands' common dtype; for bool, any(a and b)."""
    p = np.multiply(a, b)
    if not axes:
        return p
    return _core.reduce("any" if p.dtype == BOOL else "sum", p, axes)


def contract(a, b):
    """(..., m, k) by (..., k, n) of one dtype; batch axes broadcast."""
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m, k, n = *a.shape[-2:], b.shape[-1]
    if is_none(k):
        return _core.full((*batch, m, n), a.dtype, 0)
    if a.dtype == BOOL:                                 # counts of true products: sums of ones in float32 stay positive
        return np.not_equal(contract(array(a, FLOAT32), array(b, FLOAT32)), 0)
    a = a if a.shape[:-2] == batch else _core.broadcast(a, (*batch, m, k))
    b = b if b.shape[:-2] == batch else _core.broadcast(b, (*batch, k, n))
    return _core.dot(a, b)


def typed(a, b, dtype=None, out=None, casting="same_kind"):
    """Two operands as arrays of the loop's dtype."""
    if dtype is None:
        a, b = common(a, b)
        return array(a, loop_dtype(a.dtype)), array(b, loop_dtype(b.dtype))
    a, b, dtype = array(a), array(b), dtype_of(dtype)
    for x in (a, b):
        if not np.can_cast(x.dtype, dtype, casting):
            raise TypeError(f"Cannot cast ufunc 'matmul' input from {x.dtype!r} to {dtype!r} with casting rule '{casting}'")
    return array(a, dtype), array(b, dtype)


def core_error(operand, axis, signature, got, wanted):
    return ValueError(f"matmul: Input operand {operand} has a mismatch in its core dimension {axis}, with gufunc signature "
                      f"{signature} (size {got} is different from {wanted})")


MATMUL = "(n?,k),(k,m?)->(n?,m?)"


@implements(np.matmul)
def matmul(x1, x2, /, out=None, *, casting="same_kind", order="K", dtype=None, subok=True, signature=None, axes=None, axis=None,
           keepdims=False):
    if axis is not None or keepdims:
        raise TypeError(f"matmul: {'axis' if axis is not None else 'keepdims'} can only be used with a single shared core dimension, "
                        f"not with the 3 distinct ones implied by signature {MATMUL}.")
    a, b = typed(x1, x2, asked_dtype(dtype, signature), out, casting)
    for i, x in enumerate((a, b)):
        if x.ndim == 0:
            raise ValueError(f"matmul: Input operand {i} does not have enough dimensions "
                             f"(has 0, gufunc core with signature {MATMUL} requires 1)")
    if axes is not None:
        cores = [min(a.ndim, 2), min(b.ndim, 2), (a.ndim > 1) + (b.ndim > 1)]
        a, b, place = core_axes("matmul", axes, (a, b), cores)
        return to_out(place(matmul(a, b)), out, casting)
    inner = b.shape[-2] if b.ndim > 1 else b.shape[0]
    if not meets(a.shape[-1], inner, "extent"):
        raise core_error(1, 0, MATMUL, inner, a.shape[-1])
    if not known_same(a.shape[-1], inner):
        a, b = joined_along(a, b)
    return to_out(product(a, b), out, casting)


def joined_along(a, b):
    """Operands of matmul with one extent along the summed axis, the one that is known while tracing if one is."""
    at = max(b.ndim - 2, 0)
    if isinstance(a.shape[-1], Number) and not isinstance(b.shape[at], Number):
        return with_extent(a, a.ndim - 1, b.shape[at]), b
    return a, with_extent(b, at, a.shape[-1])


def asked_dtype(dtype, signature):
    """The dtype of dtype= or signature= (the first of its types)."""
    if signature is None:
        return dtype
    kinds = signature.replace("->", "") if isinstance(signature, str) else [d for d in signature if d is not None]
    return np.dtype(kinds[-1]) if len(kinds) else dtype


def core_axes(name, axes, operands, cores):
    """The operands with the axes of their cores last, and what puts the result's core where `axes` wants it."""
    axes = [tuple(t) if isinstance(t, (tuple, list)) else (t,) for t in axes]
    if len(axes) not in ([2, 3] if cores[2] == 0 else [3]):
        raise ValueError(f"{name}: axes should be a list with an entry for each input and output; entries for outputs can be omitted "
                         "if none of them has core axes.")
    for t, n in zip(axes, cores):
        if len(t) != n:
            raise ValueError(f"{name}: operand has {n} core dimensions, but {len(t)} dimensions are specified by axes tuple.")
    moved = [moveaxis(x, t, tuple(range(-n, 0))) for x, t, n in zip(operands, axes, cores)]
    return *moved, lambda r: moveaxis(r, tuple(range(-cores[2], 0)), axes[2]) if cores[2] else r


def product(a, b):
    """matmul of operands that fit."""
    if a.ndim == 1 and b.ndim == 1:
        return sum_of_products(a, b, (0,))
    c = contract(a[None, :] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b)
    if a.ndim == 1:
        return c[..., 0, :]
    return c[..., 0] if b.ndim == 1 else c


@implements(np.linalg.matmul)
def linalg_matmul(x1, x2, /):
    return matmul(x1, x2)


def gufunc(name, signature_):
    """Registers a function of two cores (with batch axes) for np.<name>, where this NumPy has it."""
    def register(f):
        @implements(*numpys(name))
        def wrapper(x1, x2, /, out=None, *, casting="same_kind", order="K", dtype=None, subok=True, axis=None, axes=None,
                    keepdims=False, signature=None):
            vectors = signature_ == (1, 1)
            if (axis is not None or keepdims) and not vectors:
                raise TypeError(f"{name}: axis and keepdims can only be used with a single shared core dimension")
            if axis is not None and axes is not None:
                raise TypeError("cannot specify both 'axis' and 'axes'")
            a, b = typed(x1, x2, asked_dtype(dtype, signature), out, casting)
            for i, (x, core) in enumerate(zip((a, b), signature_)):
                if x.ndim < core:
                    raise ValueError(f"{name}: Input operand {i} does not have enough dimensions "
                                     f"(has {x.ndim}, gufunc core requires {core})")
            place = lambda r: r  # noqa: E731
            if axis is not None:
                axis = operator.index(axis)
                a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
                place = (lambda r: moveaxis(r, -1, axis)) if keepdims else place
            if axes is not None:
                a, b, place = core_axes(name, axes, (a, b), [*signature_, 0 if vectors and not keepdims else 1])
            ka, kb = a.shape[-1], b.shape[-2 if signature_ == (1, 2) else -1]
            if ka != kb:
                raise ValueError(f"{name}: Input operand 1 has a mismatch in its core dimension 0 "
                                 f"(size {kb} is different from {ka})")
            r = f(a, b)
            return to_out(place(array(r)[..., None] if keepdims else r), out, casting)
        return wrapper
    return register


@gufunc("vecdot", (1, 1))
def vecdot(a, b):
    p = np.multiply(conj(a), b)
    return _core.reduce("any" if p.dtype == BOOL else "sum", p, (p.ndim - 1,))


@gufunc("matvec", (2, 1))
def matvec(a, b):
    return contract(a, b[..., None])[..., 0]


@gufunc("vecmat", (1, 2))
def vecmat(a, b):
    return contract(conj(a)[..., None, :], b)[..., 0, :]


@implements(np.linalg.vecdot)
def linalg_vecdot(x1, x2, /, *, axis=-1):
    return vecdot(x1, x2, axis=axis)


# ---- dot and its kin ----

@implements(np.dot)
@method("dot")
def dot(a, b, out=None):
    a, b = arrays(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return to_out(scaled(np.multiply(a, b)), out)
    return to_out(dot_axes(a, b, a.ndim - 1, b.ndim - 2 if b.ndim > 1 else 0), out)


def scaled(r):
    """A vector or matrix times a number: NumPy adds it to zeros, by BLAS's axpy, so no element is -0."""
    added = r.dtype.kind in "fc" and r.dtype.itemsize > 2 and not is_small(r.dtype) and 0 < r.ndim < 3 and r.size != 1
    return np.add(r, r.dtype.type(0)) if added else r


def arrays(a, b):
    """Both as arrays of their common dtype, where a Python number counts as an array of its own."""
    a, b = array(a), array(b)
    dtype = np.result_type(a.dtype, b.dtype)
    return array(a, dtype), array(b, dtype)


def dot_axes(a, b, i, j):
    """Sum of products over axis i of a and axis j of b; the other axes of a, then those of b."""
    if a.shape[i] != b.shape[j]:
        raise ValueError(f"shapes {shape_text(a)} and {shape_text(b)} not aligned: "
                         f"{a.shape[i]} (dim {i}) != {b.shape[j]} (dim {j})")
    a, b = moveaxis(a, i, -1), moveaxis(b, j, 0)
    if a.ndim == 1 and b.ndim == 1:
        return sum_of_products(a, b, (0,))
    k = b.shape[0]
    left, right = a.shape[:-1], b.shape[1:]
    c = contract(_core.reshape(a, (count(left), k)), _core.reshape(b, (k, count(right))))
    return _core.reshape(c, (*left, *right))


def shape_text(a):
    return str(a.shape).replace(" ", "")


@implements(np.inner)
def inner(a, b, /):
    a, b = arrays(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return scaled(np.multiply(a, b))
    return dot_axes(a, b, a.ndim - 1, b.ndim - 1)


@implements(np.vdot)
def vdot(a, b, /):
    a, b = arrays(a, b)
    return dot_axes(conj(ravel(a)), ravel(b), 0, 0)


@implements(np.outer)
def outer(a, b, out=None):
    return np.multiply(ravel(a)[:, None], ravel(b)[None, :], out=out)


@implements(np.linalg.outer)
def linalg_outer(x1, x2, /):
    a, b = array(x1), array(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are x1.ndim={a.ndim} and x2.ndim={b.ndim}.")
    return outer(a, b)


@implements(np.kron)
def kron(a, b):
    a, b = array(a), array(b)
    if a.ndim == 0 or b.ndim == 0:
        return np.multiply(a, b)
    rank = max(a.ndim, b.ndim)
    m, n = ((1,) * (rank - x.ndim) + x.shape for x in (a, b))
    a = _core.reshape(a, tuple(k for s in m for k in (s, 1)))
    b = _core.reshape(b, tuple(k for s in n for k in (1, s)))
    shape = [p * q for p, q in zip(m, n)]
    dynamic = [k for k in range(rank) if _core.is_extent(shape[k])]
    if len(dynamic) == 1:                                   # whose product fits, whatever it is
        shape[dynamic[0]] = -1
    return np.reshape(np.multiply(a, b), tuple(shape))


@implements(np.tensordot, np.linalg.tensordot)
def tensordot(a, b, axes=2):
    a, b = arrays(a, b)
    try:
        i, j = axes
    except TypeError:
        i, j = range(a.ndim - axes, a.ndim), range(axes)
    i, j = (tuple(x) if hasattr(x, "__iter__") else (x,) for x in (i, j))
    if len(i) != len(j):
        raise ValueError("shape-mismatch for sum")
    i = tuple(k + a.ndim if k < 0 else k for k in i)
    j = tuple(k + b.ndim if k < 0 else k for k in j)
    if any(p >= a.ndim or q >= b.ndim or a.shape[p] != b.shape[q] for p, q in zip(i, j)):
        raise ValueError("shape-mismatch for sum")
    free_a, free_b = ([k for k in range(x.ndim) if k not in used] for x, used in ((a, i), (b, j)))
    shape = tuple(a.shape[k] for k in free_a) + tuple(b.shape[k] for k in free_b)
    if _core.windowed(a) or _core.windowed(b):
        from .einsum import einsum_pair

        ta, tb = list(range(a.ndim)), [i[j.index(q)] if q in j else a.ndim + q for q in range(b.ndim)]
        left = [p for p in free_a] + [a.ndim + q for q in free_b]
        x, t = einsum_pair(a, ta, b, tb, set(left))
        return _core.transpose(x, tuple(t.index(c) for c in left))
    k = count(a.shape[p] for p in i)
    a = _core.reshape(_core.transpose(a, (*free_a, *i)), (count(a.shape[p] for p in free_a), k))
    b = _core.reshape(_core.transpose(b, (*j, *free_b)), (k, count(b.shape[q] for q in free_b)))
    return _core.reshape(contract(a, b), shape)


@implements(np.trace)
@method("trace")
def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    a = array(a)
    r = sum(diagonal(a, offset, axis1, axis2), -1, dtype, out)
    return _core.follow(r, np.any(a, (axis1, axis2))) if a.ndim > 3 and out is None else r


@implements(np.linalg.trace)
def linalg_trace(x, /, *, offset=0, dtype=None):
    return trace(x, offset, -2, -1, dtype)


@implements(np.linalg.multi_dot)
def multi_dot(arrays, *, out=None):
    arrays = [array(a) for a in arrays]
    if len(arrays) < 2:
        raise ValueError("Expecting at least two arrays.")
    first, last = arrays[0], arrays[-1]
    arrays[0] = first[None, :] if first.ndim == 1 else first
    arrays[-1] = last[:, None] if last.ndim == 1 else last
    if any(a.ndim != 2 for a in arrays):
        raise np.linalg.LinAlgError("all arrays must be 2-dimensional")
    r = chain(arrays, chain_cuts([arrays[0].shape[0]] + [a.shape[1] for a in arrays]), 0, len(arrays) - 1)
    if first.ndim == 1:
        r = r[0] if last.ndim > 1 else r[0, 0]
    elif last.ndim == 1:
        r = r[:, 0]
    return to_out(r, out)


def chain_cuts(p):
    """Where to cut the product i..j for the fewest multiplications (Cormen, ch. 15.2)."""
    n = len(p) - 1
    cost = {(i, i): 0 for i in range(n)}
    cut = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], cut[i, j] = min((cost[i, k] + cost[k + 1, j] + p[i] * p[k + 1] * p[j + 1], k) for k in range(i, j))
    return cut


def chain(arrays, cut, i, j):
    if i == j:
        return arrays[i]
    k = cut[i, j]
    return dot(chain(arrays, cut, i, k), chain(arrays, cut, k + 1, j))


@implements(np.linalg.matrix_power)
def matrix_power(a, n):
    a = array(a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    if not isinstance(n, int):
        raise TypeError("exponent must be an integer")
    if n < 0:
        a, n = np.linalg.inv(a), -n
    if n == 0:
        eye = _core.cast(np.equal(_core.iota(a.shape[-1])[:, None], _core.iota(a.shape[-1])[None, :]), a.dtype)
        return _core.copy(_core.broadcast(eye, a.shape), True)
    result = None
    while n:
        n, bit = divmod(n, 2)
        if bit:
            result = a if result is None else matmul(result, a)
        a = matmul(a, a) if n else a
    return result


# ---- norms ----

@implements(np.linalg.norm)
def norm(x, ord=None, axis=None, keepdims=False):
    x = array(x)
    x = x if inexact(x.dtype) else array(x, FLOAT)
    if axis is None and x.dtype.kind != "c" and (ord is None or ord in ("f", "fro") and x.ndim == 2 or ord == 2 and x.ndim == 1):
        flat = ravel(x)
        r = np.sqrt(sum_of_products(flat, flat, (0,)))
        return _core.reshape(r, (1,) * x.ndim) if keepdims else r
    axes = tuple(range(x.ndim)) if axis is None else axis_tuple(axis, x.ndim, None, "Duplicate axes given.")
    if len(axes) == 1 or axis is None and ord is None:
        return vector_norm_of(x, ord, axes, keepdims)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    return matrix_norm_of(x, ord, axes, keepdims)


def vector_norm_of(x, ord, axes, keepdims):
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord is None or ord == 2:
        return np.sqrt(sum(squares(x), axes, keepdims=keepdims))
    if ord == np.inf:
        return np.max(np.abs(x), axis=axes, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return np.min(np.abs(x), axis=axes, keepdims=keepdims)
    if ord == 0:
        return sum(_core.cast(np.not_equal(x, 0), x.real.dtype), axes, keepdims=keepdims)
    if ord == 1:
        return sum(np.abs(x), axes, keepdims=keepdims)
    size = np.abs(x)
    total = sum(_core.cast(size ** ord, size.dtype), axes, keepdims=keepdims)       # NumPy's power is in place
    return total ** np.reciprocal(ord, dtype=total.dtype)


def matrix_norm_of(x, ord, axes, keepdims):
    row, col = axes
    if ord is None or ord in ("f", "fro"):
        return np.sqrt(sum(squares(x), axes, keepdims=keepdims))
    if ord in (2, -2, "nuc"):
        return singular_norm(x, ord, axes, keepdims)
    if ord not in (1, -1, np.inf, -np.inf):
        raise ValueError("Invalid norm order for matrices.")
    inner, over = (row, col) if abs(ord) == 1 else (col, row)
    sums = sum(np.abs(x), inner, keepdims=True)
    if ord > 0:
        r = np.max(sums, axis=over, keepdims=True, initial=0)
    else:
        r = np.min(sums, axis=over, keepdims=True)
    return r if keepdims else scalar(r[tuple(0 if k in axes else ALL for k in range(x.ndim)) + (...,)])


def singular_norm(x, ord, axes, keepdims):
    s = np.linalg.svd(moveaxis(x, axes, (-2, -1)), compute_uv=False)
    op, rest = {2: (np.max, {"initial": 0}), -2: (np.min, {}), "nuc": (sum, {"initial": 0})}[ord]
    r = op(s, axis=-1, **rest)
    return _core.reshape(r, tuple(1 if k in axes else n for k, n in enumerate(x.shape))) if keepdims else r


@implements(np.linalg.vector_norm)
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    x = array(x)
    x = x if inexact(x.dtype) else array(x, FLOAT)
    axes = tuple(range(x.ndim)) if axis is None else axis_tuple(axis, x.ndim)
    return vector_norm_of(x, ord, axes, keepdims)


@implements(np.linalg.matrix_norm)
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    return norm(x, ord, (-2, -1), keepdims)
