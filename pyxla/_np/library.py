"""Functions that are one routine of NumPy's, as a host call: signals, bits, sets, tables."""
import functools

import numpy as np

from .. import _core
from ._args import BOOL, FLOAT, array, axis_index, is_none, scalar
from .extents import Number, as_value, greatest, least, meets
from .host import host, whole
from .manip import fortran_or_c, ravel
from .selection import search
from .sorting import sorted_values

implements = _core.implements
MODES = ("valid", "same", "full")
TAPS = 32               # the longest vector that generated code slides
# The most elements that are compared with each: NumPy's number, and more: a search of float64 takes as long as 70 comparisons, NumPy's
# table of integers that are near each other as 18 of int64.
TESTS, MORE_TESTS = 9, 64
SLIDES = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64", "complex128"}


# ---- convolve, correlate ----

@host
def run_correlate(results, a, v, mode):
    results[0][...] = np.correlate(a, v, MODES[mode])


@host
def run_convolve(results, a, v, mode):
    results[0][...] = np.convolve(a, v, MODES[mode])


BY_LETTER = np.lib.NumpyVersion(np.__version__) < "2.4.0"    # 'v' for 'valid'


def mode_number(mode):
    if isinstance(mode, int) and 0 <= mode < 3:
        return mode
    for k, name in enumerate(MODES):
        if isinstance(mode, str) and (mode[:1].lower() == name[0] if BY_LETTER else mode == name):
            return k
    raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")


def ends(a, w, n, left):
    """The n sums of products at an end, where part of w lies beyond a: at the left one or the right one."""
    m = len(w)
    place = np.arange(n)[:, None] + np.arange(m) - n if left else np.arange(n)[:, None] + np.arange(m) + 1
    inside = place >= 0 if left else place < m
    near = a[:m] if left else a[-m:]
    return np.where(inside, near[np.where(inside, place, 0)] * w, np.zeros((), w.dtype)).sum(axis=1, dtype=w.dtype)


def slide(a, w, mode):
    """Sums of products of w with what it covers of a, which is as long or longer: a stencil, and what is left at the ends."""
    m, n = len(w), len(a)
    left = (0, m // 2, m - 1)[mode]
    right = (0, m - left - 1, m - 1)[mode]
    middle = np.zeros((), w.dtype)
    for k in range(m):
        middle = middle + a[k:n - m + 1 + k] * w[k]
    return np.concatenate([ends(a, w, left, True)] * (left > 0) + [middle] + [ends(a, w, right, False)] * (right > 0))


def few_taps(a, v):
    """Whether generated code slides one along the other; NumPy's products of bools and of float16 are others."""
    sizes = a.size, v.size
    return not any(map(_core.is_extent, sizes)) and 0 < min(sizes) <= TAPS and np.result_type(a.dtype, v.dtype).name in SLIDES


def slid(run, a, v, mode):
    a, v = (_core.cast(x, np.result_type(a.dtype, v.dtype)) for x in (a, v))
    if run is run_convolve:
        return slide(a, v[::-1], mode) if a.size >= v.size else slide(v, a[::-1], mode)
    v = np.conj(v)
    return slide(a, v, mode) if a.size >= v.size else slide(v, a, mode)[::-1]


def sliding(run, a, v, mode):
    """Two vectors slid along each other."""
    a, v, mode = array(a), array(v), mode_number(mode)
    a, v = (ravel(x) if x.ndim == 0 else x for x in (a, v))
    if a.ndim > 1 or v.ndim > 1:
        raise ValueError("object too deep for desired array")
    n, m = greatest(a.size, v.size), least(a.size, v.size)
    if isinstance(m, Number):
        _core.check(np.greater(as_value(m), 0), "value", "a and v cannot be empty; select at least one element of each")
    elif m == 0:
        raise ValueError(f"{'a' if a.size == 0 else 'v'} cannot be empty")
    if few_taps(a, v):
        return slid(run, a, v, mode)
    length = (n - m + 1, n, n + m - 1)[mode]
    return run((a, v), ((np.result_type(a.dtype, v.dtype), (length,)),), mode)[0]


@implements(np.convolve)
def convolve(a, v, mode="full"):
    return sliding(run_convolve, a, v, mode)


@implements(np.correlate)
def correlate(a, v, mode="valid"):
    return sliding(run_correlate, a, v, mode)


# ---- tables ----

def interp_into(results, x, xp, fp, *rest):
    """rest: left, right and period as far as they are given, then a bit mask of them."""
    *values, given = rest
    left, right, period = (values.pop(0).item() if given >> k & 1 else None for k in range(3))
    results[0][...] = np.interp(x, xp, fp, left, right, period)


run_interp = host(interp_into, lambda number: _core.host_own(number, "interp"))


@implements(np.interp)
def interp(x, xp, fp, left=None, right=None, period=None):
    x, xp, fp = array(x), array(xp), array(fp)
    if xp.ndim != 1 or fp.ndim != 1:
        raise ValueError("Data points must be 1-D sequences" if period is not None else "object too deep for desired array")
    if not meets(xp.shape[0], fp.shape[0]):
        raise ValueError("fp and xp are not of the same length.")
    if is_none(xp.shape[0]):
        raise ValueError("array of sample points is empty")
    if isinstance(xp.shape[0], Number):
        _core.check(np.less(0, as_value(xp.shape[0])), "value", "array of sample points is empty; select at least one")
    rest = [left, right, period]
    given = sum(1 << k for k, v in enumerate(rest) if v is not None)
    inputs = [x, xp, fp, *(array(v) for v in rest if v is not None)]
    if all(v.dtype.kind in "biuf" for v in inputs):
        inputs = [_core.cast(v, FLOAT) for v in inputs]
    dtype = np.result_type(np.complex128, FLOAT) if fp.dtype.kind == "c" else FLOAT
    return scalar(run_interp(inputs, ((dtype, x.shape),), given)[0])


@implements(np.i0)
def i0(x):
    x = array(x)
    if x.dtype.kind == "c":
        raise TypeError("i0 not supported for complex values")
    return _core.follow(whole(np.i0, ())((x,), ((x.dtype if x.dtype.kind == "f" else FLOAT, x.shape),))[0], x)


# ---- sets ----

def sizes_known(*arrays):
    return not any(_core.is_extent(n) for a in arrays for n in a.shape)


FEW = 4096                                             # integers; for more of them NumPy's table, where their range is small, is as fast


def most_tests(x, tests):
    """How many elements are compared with each: with uint64 and another dtype as many as NumPy does, whose sort takes them for float64."""
    dtypes = {x.dtype, tests.dtype}
    if len(dtypes) > 1 and np.dtype("uint64") in dtypes:
        return TESTS
    return max(TESTS, min(MORE_TESTS, 128 // x.itemsize)) if x.dtype.kind in "iu" else MORE_TESTS


def is_sought(x, tests):
    kinds = {x.dtype.kind, tests.dtype.kind, np.result_type(x.dtype, tests.dtype).kind}
    return "f" in kinds and "c" not in kinds and np.uint64 not in (x.dtype, tests.dtype) or (
        kinds <= {"i", "u"} and x.size <= FEW and tests.size <= FEW)


def among(x, tests):
    """Whether each element is one of a vector: a search in these, sorted."""
    dtype = np.result_type(x.dtype, tests.dtype)
    x, table = _core.cast(x, dtype), sorted_values(_core.cast(tests, dtype), 0, 0)
    at = np.minimum(search(table, x, "left"), tests.size - 1)
    return np.equal(_core.gather(table, (at,)), x)


@implements(np.isin)
def isin(element, test_elements, assume_unique=False, invert=False, *, kind=None):
    element = array(element)
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: '{kind}'. Please use None, 'sort' or 'table'.")
    keywords = (("assume_unique", bool(assume_unique)), ("invert", bool(invert)), ("kind", kind))
    tests = array(test_elements)
    if kind is None and not any(map(_core.is_extent, tests.shape)) and tests.size <= most_tests(element, tests):
        tests = ravel(tests)
        found = [np.equal(element, tests[k]) for k in range(tests.size)]
        r = functools.reduce(np.logical_or, found, _core.full(element.shape, BOOL, False))
        r = _core.reshape(np.logical_not(r) if invert else r, element.shape)      # (0-d: an array)
    elif kind != "table" and sizes_known(element, tests) and tests.size and is_sought(element, tests):
        r = among(element, ravel(tests))
        r = _core.reshape(np.logical_not(r) if invert else r, element.shape)
    else:
        r = whole(np.isin, keywords)((element, tests), ((BOOL, element.shape),))[0]
    return _core.copy(r, True)                          # NumPy reshapes a vector, whatever the order of the axes of element


if hasattr(np, "in1d"):                                     # NumPy before 2.4
    @implements(np.in1d)
    def in1d(ar1, ar2, assume_unique=False, invert=False, *, kind=None):
        return isin(ravel(array(ar1)), ar2, assume_unique, invert, kind=kind)


# ---- bits ----

def bit_array(a, axis):
    x = array(a)
    if axis is not None:
        return x, axis_index(axis, x.ndim)
    return ravel(x), 0


ORDERS = ("big", "little")                                  # by number


def run_pack(results, x, axis, order):
    results[0][...] = np.packbits(x, axis=axis, bitorder=ORDERS[order])


def run_unpack(results, x, axis, order):
    if not x.size:
        results[0][...] = 0                                     # NumPy leaves it as it is
    else:
        results[0][...] = np.unpackbits(x, axis=axis, count=results[0].shape[axis], bitorder=ORDERS[order])


pack, unpack = host(run_pack, lambda number: _core.host_bits(number, True)), host(run_unpack, lambda number: _core.host_bits(number, False))


def bit_order(bitorder):
    if not isinstance(bitorder, str):
        raise TypeError(f"pack() argument 3 must be str, not {'None' if bitorder is None else type(bitorder).__name__}")
    if bitorder not in ORDERS:
        raise ValueError("'order' must be either 'little' or 'big'")
    return ORDERS.index(bitorder)


@implements(np.packbits)
def packbits(a, /, axis=None, bitorder="big"):
    x, axis = bit_array(a, axis)
    if x.dtype.kind not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    shape = tuple((n + 7) // 8 if k == axis else n for k, n in enumerate(x.shape))
    x = x if x.dtype.itemsize == 1 else np.not_equal(x, 0)
    return fortran_or_c(pack((x,), ((np.uint8, shape),), axis, bit_order(bitorder))[0], x)


@implements(np.unpackbits)
def unpackbits(a, /, axis=None, count=None, bitorder="big"):
    x, axis = bit_array(a, axis)
    if x.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    n = 8 * x.shape[axis]
    if count is not None:
        n = n + count if count < 0 else count
    if n < 0:
        raise ValueError(f"-{-count} is less than minimum {-8 * x.shape[axis]}" if count is not None else "")
    shape = tuple(n if k == axis else m for k, m in enumerate(x.shape))
    return fortran_or_c(unpack((x,), ((np.uint8, shape),), axis, bit_order(bitorder))[0], x)


# ---- paths ----

@implements(np.einsum_path)
def einsum_path(*operands, optimize="greedy", einsum_call=False):
    """A fact about shapes: NumPy's own answer for arrays of these."""
    def shaped(x):
        if _core.is_tracer(x):
            x = array(x)
            return np.lib.stride_tricks.as_strided(ONE_OF[x.dtype.char], x.shape, (0,) * x.ndim)
        return x
    return np.einsum_path(*map(shaped, operands), optimize=optimize, einsum_call=einsum_call)


ONE_OF = {c: np.zeros((), c) for c in "?bhilqBHILQefdFD"}
