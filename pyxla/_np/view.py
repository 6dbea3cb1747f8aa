"""ndarray.view(dtype): the bytes of an array as elements of another dtype.

Sizes change along the last axis, by unsigned integers: an element of 8 bytes is two of 4, the low one first, as in the memory of every
machine this runs on. As a real dtype of the same size it is a view, written through; else what is read is a snapshot: what is stored into
it is stored into its array as that array's dtype, and nothing else may be written to the array while it lives. Bools are 0 and 1 here,
so the run checks that what lies in memory is, where one is stored as a byte or a byte as one."""
import numpy as np

from .. import _core
from ._args import array, dtype_of, is_none, scalar, unsupported

method = _core.method
UNSIGNED = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


@method("view")
def view(a, dtype=None, type=None):
    if isinstance(dtype, np.ndarray.__class__) and issubclass(dtype, np.ndarray):
        dtype, type = None, dtype
    if type is not None and type is not np.ndarray:
        raise unsupported(f"ndarray.view as {getattr(type, '__name__', type)}", "compute with plain arrays, and view the result outside")
    if dtype is None or dtype_of(dtype) == a.dtype:
        return a[...] if not _core.is_numpy_scalar(a) else a
    dtype = dtype_of(dtype)
    if dtype.kind == "b" and not _core.is_numpy_scalar(a):
        return as_bools(a)
    if dtype.kind not in "iufcV" or dtype.fields is not None or dtype.itemsize > 16 or not dtype.isnative:
        raise TypeError(f"ndarray.view as {dtype}, in which elements are no numbers that pyxla knows; use a numeric dtype of NumPy's")
    if _core.is_numpy_scalar(a):
        if dtype.itemsize != a.dtype.itemsize:
            raise unsupported("the view of a NumPy scalar as a dtype of another size", "use an array")
        return scalar(same_size(a[...], dtype))
    if dtype.itemsize == a.dtype.itemsize:
        if a.dtype.kind in "iufV" and dtype.kind != "c" and not any(map(_core.is_extent, a.shape)):
            return _core.bits(a, dtype)
        return shown(same_size(a, dtype), a)
    check_axis(a, dtype)
    return shown(of_size(a, dtype), a)


class BytesOf:
    """A store into an array through the view of it as another dtype."""

    def __init__(self, a):
        self.a = a

    def __call__(self, value):
        if value.dtype.kind == "b":
            check_bools(of_size(self.a, UNSIGNED[1]))
            value = _core.cast(value, UNSIGNED[1])
        if self.a.dtype.kind == "b":
            value = of_size(value, UNSIGNED[1])
            check_bools(value)
            self.a[...] = np.not_equal(value, 0)
        else:
            self.a[...] = of_size(value, self.a.dtype)


def check_bools(x):
    _core.check(np.less_equal(x, 1), "value", "a byte that is neither 0 nor 1 among bools that are stored to through a view; use x != 0, "
                "and store into the array itself")


def as_bools(a):
    if a.dtype.itemsize > 1:
        check_axis(a, UNSIGNED[1])
    return shown(np.not_equal(of_size(a, UNSIGNED[1]), 0), a)


def shown(x, a):
    """x as a view of a."""
    return _core.snapshot(x, a, True, True, BytesOf(a))


def of_size(a, dtype):
    """The bytes of a as elements of another dtype, of any size."""
    size = a.dtype.itemsize
    return same_size(a, dtype) if dtype.itemsize == size else smaller(a, dtype) if dtype.itemsize < size else larger(a, dtype)


def check_axis(a, dtype):
    """NumPy's errors for a change of the size, which needs a last axis that is contiguous."""
    if a.ndim == 0:
        raise ValueError("Changing the dtype of a 0d array is only supported if the itemsize is unchanged")
    n, size = a.shape[-1], a.dtype.itemsize
    if not _core.is_extent(n) and n != 1 and not any(map(is_none, a.shape)):
        strides = _core.strides(a)
        if strides is None:
            raise unsupported("the view as a dtype of another size of an array whose memory layout is not known", "take a .copy() first")
        if strides[-1] != size:
            raise ValueError("To change to a dtype of a different size, the last axis must be contiguous")
    if dtype.itemsize > size and (_core.is_extent(n) or n * size % dtype.itemsize):
        raise ValueError("When changing to a larger dtype, its size must be a divisor of the total size in bytes of the last axis of the "
                         "array.")


def same_size(a, dtype):
    """The elements of a as another dtype of their size."""
    if a.dtype.kind == "b":
        a = _core.cast(a, UNSIGNED[1])
    if a.dtype.kind == "c":
        return larger(smaller(a, UNSIGNED[8]), dtype) if a.dtype.itemsize == 16 else same_size(joined(parts_of(a)), dtype)
    if dtype.kind == "c":
        return larger(smaller(a, UNSIGNED[4]), dtype) if a.ndim else larger(smaller(a[None], UNSIGNED[4]), dtype)[0, ...]
    return a if a.dtype == dtype else _core.cast(a, dtype, True)


def parts_of(a):
    """Unsigned integers that are an element's bytes, in the order of memory: the parts of a complex number, else itself."""
    if a.dtype.kind != "c":
        return [same_size(a, UNSIGNED[a.dtype.itemsize])]
    half = UNSIGNED[a.dtype.itemsize // 2]
    return [same_size(part, half) for part in (_core.copy(a.real), _core.copy(a.imag))]


def joined(parts):
    """Unsigned integers as one of the sum of their sizes."""
    size = parts[0].dtype.itemsize
    wide = UNSIGNED[size * len(parts)]
    r = _core.cast(parts[0], wide)
    for k, part in enumerate(parts[1:], 1):
        r = np.bitwise_or(r, np.left_shift(_core.cast(part, wide), array(8 * size * k, wide)))
    return r


def smaller(a, dtype):
    """Each element as several of a smaller dtype, along the last axis."""
    if dtype.kind == "c":                               # complex64 of complex128
        return larger(smaller(a, UNSIGNED[4]), dtype)
    out, size = [], dtype.itemsize
    for part in parts_of(a):
        for k in range(part.dtype.itemsize // size):
            piece = np.right_shift(part, array(8 * size * k, part.dtype)) if k else part
            out.append(same_size(_core.cast(piece, UNSIGNED[size]), dtype))
    r = _core.concatenate([_core.reshape(v, (*v.shape, 1)) for v in out], a.ndim)
    return _core.reshape(r, (*a.shape[:-1], a.shape[-1] * len(out)))


def larger(a, dtype):
    """Several elements along the last axis as one of a larger dtype."""
    half = dtype.itemsize // 2
    if dtype.kind == "c" and a.dtype.itemsize != half:
        part = np.dtype(f"f{half}")
        a = smaller(a, part) if a.dtype.itemsize > half else larger(a, part)
    n = dtype.itemsize // a.dtype.itemsize
    a = _core.reshape(a, (*a.shape[:-1], a.shape[-1] // n, n))
    parts = [a[..., k] for k in range(n)]
    if dtype.kind == "c":
        real = np.dtype(f"f{half}")
        return _core.op("complex_", *(same_size(p, real) for p in parts))
    if a.dtype.kind == "c":                             # of complex64 pairs nothing real is larger
        raise unsupported(f"ndarray.view as {dtype} of {a.dtype}", "view it as a real dtype first")
    return same_size(joined([parts_of(p)[0] for p in parts]), dtype)
