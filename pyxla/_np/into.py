"""Reductions and scans into an `out=` that cannot hold what the loop computes: NumPy's own routine. It rounds between steps, and when
depends on the size of its buffers."""
from functools import cache

import numpy as np

from ._args import BOOL, NoValue, array, dtype_of, is_weak, out_array
from .host import host


def narrow(loop, out):
    """Whether an `out=` is one that a result of dtype `loop` does not fit in."""
    return out_array(out) is not None and not np.can_cast(loop, out_array(out).dtype, "safe")


def reduced_into(ufunc, x, out, axis, dtype, keepdims=False, initial=NoValue, where=NoValue):
    """`ufunc.reduce(x, axis, dtype, out, keepdims, initial, where)`; out."""
    axis = tuple(axis) if isinstance(axis, list) else axis
    keepdims = bool(keepdims) and keepdims is not NoValue
    masked = where is not NoValue and where is not True
    number = initial is not NoValue and initial is not None
    rest = ([array(initial, x.dtype if is_weak(initial) else None)] if number else []) + ([array(where, BOOL)] if masked else [])
    dtype = None if dtype is None else dtype_of(dtype)
    return stored(reducer(ufunc, axis, dtype, keepdims, number, masked, initial is None), x, rest, out)


def accumulated_into(ufunc, x, out, axis, dtype):
    """`ufunc.accumulate(x, axis, dtype, out)`; out."""
    return stored(accumulator(ufunc, axis, None if dtype is None else dtype_of(dtype)), x, [], out)


def stored(call, x, rest, out):
    out = out_array(out)
    r, = call((x, *rest), ((out.dtype, out.shape),))
    out[...] = r
    return out


@cache
def reducer(ufunc, axis, dtype, keepdims, number, masked, none):
    """NumPy's reduce into the result; `number`: an initial value follows x, `masked`: then a mask; `none`: the initial value is None."""
    def run(results, x, *rest):
        keywords = {"initial": rest[0][()]} if number else {"initial": None} if none else {}
        ufunc.reduce(x, axis, dtype, results[0], keepdims, where=rest[-1] if masked else True, **keywords)
    return host(run)


@cache
def accumulator(ufunc, axis, dtype):
    def run(results, x):
        ufunc.accumulate(x, axis, dtype, results[0])
    return host(run)
