"""Comparing a jitted function with the same function under NumPy, and the arrays to try it on."""
import copy
import dataclasses
import warnings

import numpy as np

import pyxla

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
INTS = [d for d in DTYPES if "int" in d]
FLOATS = ["float32", "float64"]
OLD = np.lib.NumpyVersion(np.__version__) < "2.3.0"         # NumPy 2.0 to 2.2, which did some things otherwise


def clone(x, memo=None):
    """A deep copy of a tree in which every array keeps its strides, its alignment and its flags; one object stays one object."""
    memo = {} if memo is None else memo
    if id(x) in memo:
        return memo[id(x)]
    if isinstance(x, np.ndarray):
        new = clone_array(x)
    elif isinstance(x, tuple) and hasattr(x, "_fields"):
        new = type(x)(*(clone(v, memo) for v in x))
    elif isinstance(x, (list, tuple)):
        new = type(x)(clone(v, memo) for v in x)
    elif isinstance(x, dict):
        new = {k: clone(v, memo) for k, v in x.items()}
    else:
        new = copy.deepcopy(x) if dataclasses.is_dataclass(x) else x
    memo[id(x)] = new
    return new


def clone_array(x):
    low, high = np.lib.array_utils.byte_bounds(x)
    size = max(high - low, x.itemsize)
    room = np.zeros(size + 128, np.uint8)
    shift = (low - room.ctypes.data) % 64
    new = np.ndarray(x.shape, x.dtype, room.data, shift + x.ctypes.data - low if x.size else shift, x.strides)
    new[...] = x
    new.flags.writeable = x.flags.writeable
    return new


def ulps(a, b):
    """The distance of two float arrays in units in the last place (NaN equals NaN, -0.0 equals 0.0)."""
    a, b = np.atleast_1d(a), np.atleast_1d(b)
    d = np.zeros(a.shape)
    far = ~((a == b) | np.isnan(a) & np.isnan(b))
    low = int(np.iinfo(f"i{a.dtype.itemsize}").min)
    order = np.frompyfunc(lambda v: v if v >= 0 else low - v, 1, 1)
    i, j = (order(np.ascontiguousarray(x[far]).view(f"i{a.dtype.itemsize}").astype(object)) for x in (a, b))
    d[far] = np.where(np.isnan(a[far]) != np.isnan(b[far]), np.inf, np.abs(i - j).astype(np.float64) if far.any() else 0)
    return d


def same(want, got, *, ulp=0, rtol=0.0, atol=0.0, signs=True, where="result"):
    """Asserts that two trees are equal: types, dtypes, shapes, values (to `ulp`, or to rtol of the greatest value)."""
    if isinstance(want, (tuple, list)):
        assert type(want) is type(got) and len(want) == len(got), f"{where}: {got!r} instead of {want!r}"
        for k, (w, g) in enumerate(zip(want, got)):
            same(w, g, ulp=ulp, rtol=rtol, atol=atol, signs=signs, where=f"{where}[{k}]")
        return
    if dataclasses.is_dataclass(want):
        assert type(want) is type(got), f"{where}: {got!r} instead of {want!r}"
        want, got = vars(want), vars(got)
    if isinstance(want, dict):
        assert list(want) == list(got), f"{where}: keys {list(got)} instead of {list(want)}"
        for k in want:
            same(want[k], got[k], ulp=ulp, rtol=rtol, atol=atol, signs=signs, where=f"{where}[{k!r}]")
        return
    if OLD and type(want) is int and type(got) is np.int64:      # count_nonzero
        want = np.int64(want)
    assert type(got) is type(want), f"{where}: a {type(got).__name__} instead of a {type(want).__name__}: {got!r}, {want!r}"
    if not isinstance(want, (np.ndarray, np.generic)):
        assert got == want or got != got and want != want, f"{where}: {got!r} instead of {want!r}"
        return
    assert got.dtype in (want.dtype, want.dtype.newbyteorder("=")), f"{where}: {got.dtype} instead of {want.dtype}"
    assert got.shape == want.shape, f"{where}: shape {got.shape} instead of {want.shape}"
    same_values(np.asarray(want), np.asarray(got), ulp, rtol, atol, signs, where)


def same_values(want, got, ulp, rtol, atol, signs, where):
    if want.tobytes() == got.tobytes() and want.dtype == got.dtype:
        return
    want, got = np.atleast_1d(want), np.atleast_1d(got)
    if want.dtype.kind == "c":
        scale = np.abs(want[np.isfinite(want)]).max(initial=0) if rtol else 0
        same_values(want.real, got.real, ulp, 0.0, atol + rtol * scale, signs, f"{where}.real")
        same_values(want.imag, got.imag, ulp, 0.0, atol + rtol * scale, signs, f"{where}.imag")
        return
    if want.dtype.kind == "f":
        good = ulps(want, got) <= ulp
        if rtol or atol:
            finite = np.abs(want[np.isfinite(want)])
            with np.errstate(all="ignore"):
                good |= np.abs(want - got) <= atol + rtol * (finite.max() if finite.size else 0)
        elif signs:
            good &= (np.signbit(want) == np.signbit(got)) | np.isnan(want)
    else:
        good = want == got
    if not good.all():
        bad = np.argwhere(~good)
        at = tuple(bad[0].tolist())
        raise AssertionError(f"{where}: {len(bad)} of {want.size} differ, first at {at}: {got[at]!r} instead of {want[at]!r}")


def check(fn, *args, calls=2, tolerance=None, **kwargs):
    """Asserts that jit(fn) gives on copies of args what fn gives, in results and in the arguments afterwards.

    It is called twice (a miss, then a hit). Keywords: those of `same`. Returns the jitted function."""
    jitted = pyxla.jit(fn)
    kwargs = {**(tolerance or {}), **kwargs}
    plain = clone(args)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = fn(*plain)
    for call in range(calls):
        mine = clone(args)
        got = jitted(*mine)
        same(want, got, where=f"result (call {call + 1})", **kwargs)
        same(plain, mine, where=f"arguments (call {call + 1})", **kwargs)
    return jitted


def check_error(fn, *args, kind=None):
    """Asserts that jit(fn) raises the kind of exception that fn raises; returns the message."""
    if kind is None:
        try:
            fn(*clone(args))
        except Exception as e:
            kind = type(e)
        else:
            raise AssertionError("NumPy accepts this")
        kind = next(k for k in kind.__mro__ if k.__module__ in ("builtins", "numpy.exceptions"))
    try:
        pyxla.jit(fn)(*clone(args))
    except kind as e:
        return str(e)
    raise AssertionError(f"no {kind.__name__}")


# ---- arrays ----

def sample(shape, dtype, seed=0):
    """Ordinary values of a dtype: small integers, floats of about 1."""
    rng, dtype = np.random.default_rng(seed), np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(shape)).astype(dtype)
    if dtype.kind == "c":
        return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return np.asarray(rng.integers(0 if dtype.kind == "u" else -9, 10, shape)).astype(dtype)


def extremes(dtype):
    """The special values of a dtype."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        near = [info.min, info.min + 1, 0, 1, 2, 3, 7, info.max // 2, info.max - 1, info.max]
        return np.array(near + ([-1, -2, -3, -7] if dtype.kind == "i" else []), dtype)
    info = np.finfo(dtype)
    half = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 10.0, 1e-3, 1 / 3, info.eps, info.tiny, info.smallest_subnormal, info.tiny / 2, info.max,
            2.0 ** (info.nmant - 1) + 0.5, 2.0 ** info.nmant, 2.0 ** (info.nmant + 2), np.inf, np.nan, 1 + info.eps, 1 - info.eps / 2]
    return np.array(half + [-h for h in half], dtype)


def layouts(x):
    """(name, array) of the same values in every layout that NumPy has."""
    yield "c", np.ascontiguousarray(x).reshape(x.shape)
    if x.ndim:
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1), x.dtype)
        wide[..., 1::2] = x
        yield "strided", wide[..., 1::2]
        yield "reversed", np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    if x.ndim > 1:
        yield "fortran", np.asfortranarray(x)
    yield "unaligned", unaligned(x)
    if x.itemsize > 1:
        yield "byte-swapped", x.astype(x.dtype.newbyteorder())


def unaligned(x):
    room = np.zeros(x.nbytes + 64, np.uint8)
    shift = (1 - room.ctypes.data) % 16 if x.itemsize > 1 else 0
    new = np.ndarray(x.shape, x.dtype, room.data, shift)
    new[...] = x
    return new
