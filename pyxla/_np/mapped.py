"""Functions of the user's that are applied to every row or element: np.apply_along_axis and np.vectorize.

The function is traced once, on a placeholder for one row, and what it computes is repeated for all (csrc/ir/batch.c). Where an operation
has no rule for that it is called for each, as NumPy does, up to a limit."""
import math

import numpy as np

from .. import _core
from ._args import BOOL, FLOAT, INT, array, axis_index, unsupported
from .extents import Number, broadcast_shapes, is_dynamic
from .host import host
from .manip import broadcast_to

LIMIT = 1000                        # calls of a function that is not repeated


@host
def placeholder(results, *inputs):
    raise _core.UnsupportedError("a function given to np.vectorize or np.apply_along_axis asks for the values of one call (by if, or "
                                 "int()), or keeps them for later (it stores into an outer array or list): use np.where to decide, and "
                                 "return them instead")


class State:
    rows = 0                        # placeholders are told apart by their number


def row_like(dtype, shape, arrays):
    """A placeholder for one row; it depends on what the arrays depend on."""
    State.rows += 1
    return placeholder(arrays, ((dtype, shape),), State.rows)[0]


def mapped(function, arrays, shape, rank, wrap):
    """The results of a function for each of the rows in `arrays`, whose first axes are `shape`: a list of arrays with these axes in front.

    wrap makes an argument of a row. Whether the function returned a tuple is the second result."""
    dynamic = any(map(is_dynamic, arrays))
    if dynamic or not all(map(_core.is_concrete, arrays)) or math.prod(shape) > LIMIT:      # else the function may ask for values
        rows = [row_like(a.dtype, a.shape[rank:], arrays) for a in arrays]
        # No stores into a placeholder: they would have to change the array.
        r = function(*(wrap(_core.snapshot(row, a, True, True)) if row.ndim else wrap(row) for row, a in zip(rows, arrays)))
        values = r if isinstance(r, tuple) else (r,)
        out = _core.batched(tuple(map(array, values)), tuple(rows), tuple(arrays), shape)
        if out is not None:
            return out, isinstance(r, tuple)
    if dynamic:
        raise unsupported("a function with operations that cannot be repeated for all rows, whose number depends on data",
                          "write it for whole arrays")
    return one_by_one(function, arrays, shape, rank, wrap)


def one_by_one(function, arrays, shape, rank, wrap):
    if math.prod(shape) > LIMIT:
        raise unsupported(f"a function with operations that cannot be repeated for all rows, called for {math.prod(shape)} of them",
                          "write it for whole arrays")
    calls, columns = [], []
    for at in np.ndindex(*shape):
        r = function(*(wrap(known(a[(*at, ...)] if a.ndim > rank else a[at])) for a in arrays))
        calls.append(r if isinstance(r, tuple) else (r,))
    columns = [[array(v) for v in column] for column in zip(*calls, strict=True)]
    if any(v.shape != column[0].shape for column in columns for v in column):
        raise ValueError("could not broadcast input array: the results for different rows have different shapes")
    dtypes = [column[0].dtype for column in columns]
    stacked = [_core.concatenate([_core.reshape(array(v, d), (1, *v.shape)) for v in column], 0) for column, d in zip(columns, dtypes)]
    return [_core.reshape(v, shape + v.shape[1:]) for v in stacked], isinstance(r, tuple)


def known(x):
    """An element with its value where no argument decides it."""
    return np.asarray(_core.concrete(x))[()] if not x.ndim and _core.is_concrete(x) else x


def is_empty(shape):
    """Whether an extent is known to be 0."""
    return any(not _core.is_extent(n) and n == 0 for n in shape)


# ---- apply_along_axis ----

@_core.implements(np.apply_along_axis)
def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    arr = array(arr)
    axis = axis_index(axis, arr.ndim)
    if _core.is_extent(arr.shape[axis]):
        raise unsupported("np.apply_along_axis of rows whose length depends on data", "write it for whole arrays")
    others = [k for k in range(arr.ndim) if k != axis]
    rows = _core.transpose(arr, (*others, axis))
    shape = rows.shape[:-1]
    for n in filter(_core.is_extent, shape):
        _core.check(np.less(0, n), "value", "Cannot apply_along_axis when any iteration dimensions are 0; select some rows")
    if is_empty(shape):
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")

    def call(row):
        r = func1d(row, *args, **kwargs)
        return array(list(r)) if isinstance(r, tuple) else r

    (r,), _ = mapped(call, [rows], shape, len(shape), lambda row: row)
    n, inner = len(shape), r.ndim - len(shape)
    return _core.transpose(_core.copy(r, True), (*range(axis), *range(n, n + inner), *range(axis, n)))


# ---- vectorize ----

def python_type(dtype):
    """The dtype in which a Python number of an element is computed."""
    if dtype.kind == "f":
        return FLOAT
    if dtype.kind in "iu" and dtype != np.uint64:
        return INT
    if dtype.kind in "b":
        return BOOL
    raise unsupported(f"np.vectorize over {dtype}", "write the function for whole arrays")


def element(x):
    """An element as the Python number that NumPy gives to a vectorized function."""
    if not _core.is_tracer(x):
        return x.item()
    return Number(x, True) if x.dtype in (FLOAT, INT) else x[()]


def result_types(function, arrays, otypes):
    """The dtypes that NumPy finds by a first call, on NumPy scalars."""
    if otypes is not None:
        return [np.dtype(t) for t in otypes]
    first = [np.ravel(a)[0] if is_dynamic(a) else _core.reshape(a, (a.size,))[0] for a in arrays]
    r = function(*(map(known, first) if all(map(_core.is_concrete, arrays)) else first))
    return [array(v).dtype for v in (r if isinstance(r, tuple) else (r,))]


def vectorized(self, func, args):
    """`np.vectorize(f)(...)`, after it has sorted its arguments."""
    arrays = [array(a) for a in args]
    if self.signature is not None:
        if any(map(is_dynamic, arrays)):
            raise unsupported("np.vectorize by a signature over an array whose size depends on data", "write the function for whole arrays")
        return with_signature(self, func, arrays)
    shape = broadcast_shapes(*(a.shape for a in arrays))
    for n in filter(_core.is_extent, shape if self.otypes is None else ()):
        _core.check(np.less(0, n), "value", "cannot call `vectorize` on size 0 inputs unless `otypes` is set; give otypes")
    if is_empty(shape) and self.otypes is None:
        raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
    otypes = result_types(func, arrays, self.otypes)
    if is_empty(shape):
        out, several = [_core.full(shape, t, 0) for t in otypes], len(otypes) > 1
    else:
        wide = [broadcast_to(array(a, python_type(a.dtype)), shape) for a in arrays]
        out, several = mapped(func, wide, shape, len(shape), element)
        out = [converted(v, t) for v, t in zip(out, otypes)]
    return tuple(out) if several else out[0]


def converted(x, dtype):
    """Results as the dtype of the first; Python's integers have to fit."""
    if dtype.kind in "iu" and x.dtype.kind in "iu" and x.dtype != dtype:
        _core.check(np.equal(_core.cast(_core.cast(x, dtype), x.dtype), x), "range")
    return _core.copy(array(x, dtype)) if x.dtype == dtype else array(x, dtype)


def with_signature(self, func, arrays):
    """Core axes as the signature names them: rows are arrays."""
    inputs, outputs = self._in_and_out_core_dims
    if len(arrays) != len(inputs):
        raise TypeError(f"wrong number of positional arguments: expected {len(inputs)!r}, got {len(arrays)!r}")
    for a, dims in zip(arrays, inputs):
        if a.ndim < len(dims):
            raise ValueError(f"{a.ndim}-dimensional argument does not have enough dimensions for all core dimensions {dims!r}")
    shape = np.broadcast_shapes(*(a.shape[:a.ndim - len(dims)] for a, dims in zip(arrays, inputs)))
    sizes = {}
    for a, dims in zip(arrays, inputs):
        for n, dim in zip(a.shape[a.ndim - len(dims):], dims):
            if sizes.setdefault(dim, n) != n:
                raise ValueError(f"inconsistent size for core dimension {dim!r}: {n!r} vs {sizes[dim]!r}")
    if 0 in shape:
        raise unsupported("np.vectorize with a signature over no elements", "write the function for whole arrays")
    wide = [broadcast_to(a, shape + a.shape[a.ndim - len(dims):]) for a, dims in zip(arrays, inputs)]
    out, several = mapped(func, wide, shape, len(shape), lambda row: row if row.ndim else row[()])
    if len(out) != len(outputs):
        raise ValueError(f"wrong number of outputs from pyfunc: expected {len(outputs)!r}, got {len(out)!r}")
    otypes = self.otypes or [v.dtype for v in out]
    out = [_core.copy(array(v, np.dtype(t))) for v, t in zip(out, otypes)]
    return tuple(out) if several and len(out) > 1 else out[0]
