"""ldexp, frexp, nextafter and spacing of float16, float32 and float64 by the bits of their elements, fused with what is around them."""
import numpy as np

from .. import _core

F4, F8, INT = np.dtype("float32"), np.dtype("float64"), np.dtype("int32")
FLOATS = (np.dtype("float16"), F4, F8)      # not ml_dtypes' float8_e5m2, whose kind is "f", too
HALF_STAYS = np.lib.NumpyVersion(np.__version__) < "2.5.0"      # np.nextafter(np.float16(-0.0), np.float16(0.0)) is -0.0


def same_bits(x, dtype):
    return _core.cast(x, dtype, True)


def bits(x):
    return same_bits(x, np.dtype(f"int{8 * x.dtype.itemsize}"))


def facts(dtype):
    """Bits of the significand without its first, the exponent's bias, and the bits of infinity."""
    info = np.finfo(dtype)
    return info.nmant, info.maxexp - 1, (2 * info.maxexp - 1) << info.nmant


def power_of_two(n, dtype):
    """2.0 ** n for integers n at which that is a normal number."""
    digits, bias, _ = facts(dtype)
    whole = _core.cast(n, np.dtype(f"int{8 * dtype.itemsize}"))
    return same_bits((whole + bias) << digits, dtype)


def ldexp(x, n):
    """x * 2.0 ** n, rounded once."""
    if x.dtype.itemsize == 2:               # exact in a wider dtype, whatever n does to the result
        return (_core.cast(_core.cast(x, F4) * power_of_two(np.clip(n, -90, 90), F4), x.dtype),)
    return (_core.op("ldexp", *np.broadcast_arrays(x, _core.cast(n, x.dtype))),)


def frexp(x):
    """A significand of 0.5 to 1 and the exponent of two; what is 0 or not finite, and 0."""
    wide = F4 if x.dtype.itemsize == 2 else x.dtype
    y = _core.cast(x, wide)
    digits, bias, infinite = facts(wide)
    of_y = bits(y) & infinite
    tiny = np.equal(of_y, 0)
    b = bits(np.where(tiny, y * 2.0 ** (digits + 1), y))
    kept = np.logical_or(np.equal(y, 0), np.equal(of_y, infinite))
    significand = same_bits(b & ~infinite | (bias - 1) << digits, wide)
    exponent = ((b & infinite) >> digits) - np.where(tiny, bias + digits, bias - 1)
    return _core.cast(np.where(kept, y, significand), x.dtype), np.where(kept, 0, _core.cast(exponent, INT))


def nextafter(x, y):
    b, least = bits(x), np.finfo(x.dtype).smallest_subnormal
    away = np.equal(np.greater(y, x), np.greater(x, 0))
    r = same_bits(np.where(away, b + 1, b - 1), x.dtype)
    r = np.where(np.equal(x, 0), np.copysign(least, y), r)
    r = np.where(np.equal(x, y), x if x.dtype.itemsize == 2 and HALF_STAYS else y, r)       # (0.0 and -0.0)
    return (np.where(np.logical_or(np.isnan(x), np.isnan(y)), x + y, r),)


def spacing(x):
    """The way to the next number: away from zero, or up (NumPy's float16)."""
    x = np.where(np.equal(x, 0), np.abs(x), x)
    b = bits(x)
    next_one = np.where(np.less(x, 0), b - 1, b + 1) if x.dtype.itemsize == 2 else b + 1
    return (np.where(np.isfinite(x), same_bits(next_one, x.dtype) - x, np.nan),)


FORMULAS = {np.ldexp: ldexp, np.frexp: frexp, np.nextafter: nextafter, np.spacing: spacing}
