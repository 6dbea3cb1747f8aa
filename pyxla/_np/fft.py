"""np.fft: NumPy's own transforms as host calls."""
from operator import index

import numpy as np
from numpy.fft import _pocketfft

from .. import _core
from ._args import array, axis_index, to_out, unsupported
from .borrow import borrow
from .extents import Number, as_value
from .host import fill, host

implements = _core.implements
NORMS = (None, "backward", "ortho", "forward")
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = ("fft2", "ifft2", "fftn", "ifftn", "rfft2", "irfft2", "rfftn", "irfftn")


@host
def run_one(results, x, function, n, axis, norm):
    r = getattr(np.fft, ONE[function])(x, n or None, axis, NORMS[norm], out=results[0])       # 0: of all elements
    if r is not results[0]:                             # hfft does not know `out`
        fill(results, [r])


@host
def run_many(results, x, function, norm, *sizes):
    """sizes: the extents, then the axes."""
    k = len(sizes) // 2
    fill(results, [getattr(np.fft, MANY[function])(x, sizes[:k], sizes[k:], NORMS[norm])])


def norm_number(norm):
    if norm in NORMS:
        return NORMS.index(norm)
    raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')


def points(n):
    if isinstance(n, Number):
        _core.check(np.less(0, as_value(n)), "value",
                    "Invalid number of FFT data points (0) specified.; give n=, or select at least one element")
        return n
    n = index(_core.concrete(n) if _core.is_tracer(n) else n)
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    return n


def real_dtype(x):
    """The dtype of a real transform's numbers."""
    part = np.dtype(f"f{x.dtype.itemsize // 2}") if x.dtype.kind == "c" else x.dtype
    return np.result_type(part, 1.0)


def result(name, x, shape, n, axis):
    """(dtype, shape) of a transform of n points along its (last) axis."""
    forward = name.startswith(("rfft", "ihfft"))
    backward = name.startswith(("irfft", "hfft"))
    if forward and x.dtype.kind == "c":
        raise TypeError(f"ufunc '{name}' did not contain a loop with signature matching types {x.dtype!r}: it transforms real arrays")
    shape = (*shape[:axis], n // 2 + 1 if forward else n, *shape[axis + 1:])
    return (real_dtype(x) if backward else np.result_type(x.dtype, 1j), shape)


def one_axis(name):
    function = getattr(np.fft, name)

    @implements(function)
    def f(a, n=None, axis=-1, norm=None, out=None):
        x = array(a)
        whole = n is None
        if not whole and isinstance(n, Number):
            raise unsupported("np.fft with a number of points that depends on data", "leave it out, or slice and pad before")
        if whole:
            n = (x.shape[axis] - 1) * 2 if name in ("irfft", "hfft") else x.shape[axis]
        n, axis, norm = points(n), axis_index(axis, x.ndim), norm_number(norm)
        (r,) = run_one((x,), (result(name, x, x.shape, n, axis),), ONE.index(name), 0 if whole else n, axis, norm)
        return to_out(_core.follow(r, x, True), out)
    return f


def many_axes(name, default):
    @implements(getattr(np.fft, name))
    def f(a, s=None, axes=default, norm=None, out=None):
        x = array(a)
        s, axes = _pocketfft._cook_nd_args(x, s, axes, invreal=int(name.startswith("irfft")))
        s, axes = [points(n) for n in s], [axis_index(k, x.ndim) for k in axes]
        norm, shape = norm_number(norm), list(x.shape)
        if not axes:
            if name.startswith(("rfft", "irfft")):
                raise IndexError("list index out of range")
            return x
        # along an axis that is named twice the last transform decides; the real one is the first (or, backwards, the last) of all
        y = x                                           # what the last transform reads
        if name.startswith("irfft") and len(axes) > 1:
            y = np.empty((), np.result_type(x.dtype, 1j))
        dtype, along = result(name, y, x.shape, s[-1], axes[-1])
        steps = [*zip(s[:-1], axes[:-1]), (along[axes[-1]], axes[-1])]
        for n, k in steps if name.startswith("irfft") else steps[::-1]:
            shape[k] = n
        (r,) = run_many((x,), ((dtype, tuple(shape)),), MANY.index(name), norm, *s, *axes)
        return to_out(_core.follow(r, x, True), out)
    return f


for name in ONE:
    one_axis(name)
for name in MANY:
    many_axes(name, (-2, -1) if name.endswith("2") else None)
for function in (np.fft.fftshift, np.fft.ifftshift):
    borrow(function)
