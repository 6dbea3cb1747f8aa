"""Functions that NumPy writes in Python over other NumPy functions: their own code, where `asarray` takes tracers.

A borrowed function is NumPy's code object with globals in which `asarray`, `zeros` and their kin (also as attributes of `np`)
make tracers, so it is exactly as NumPy defines it; every function it calls is dispatched as usual."""
import types

import numpy as np

from .. import _core
from .._capture import anew
from ._args import array, dtype_of, shape_tuple
from .create import full, ones


def as_array(a, dtype=None, *args, **kwargs):
    return array(a, dtype)


def new_array(a, dtype=None, *, copy=True, ndmin=0, **kwargs):
    x = array(a, dtype)
    x = x[(None,) * (ndmin - x.ndim) + (...,)] if x.ndim < ndmin else x
    return _core.copy(x[...]) if copy else x


def zeros(shape, dtype=float, *args, **kwargs):
    return _core.full(shape_tuple(shape), dtype_of(dtype), 0)


def broadcast(*args):
    shape = np.broadcast_shapes(*[np.shape(a) for a in args])
    return types.SimpleNamespace(shape=shape, ndim=len(shape))


REDIRECTED = {"asarray": as_array, "asanyarray": as_array, "array": new_array, "broadcast": broadcast,
              "zeros": zeros, "empty": zeros, "full": full, "ones": ones}


class Converting:
    """A NumPy module whose conversions and creation functions make tracers."""

    def __init__(self, module):
        self.module = module

    def __getattr__(self, name):
        return REDIRECTED.get(name) or getattr(self.module, name)


def own_code(function, **own):
    """A function of NumPy's with its own code, in globals where conversions make tracers, over `own` names in the place of NumPy's."""
    code = getattr(function, "__wrapped__", function)
    names = {k: Converting(v) if isinstance(v, types.ModuleType) and v.__name__.startswith("numpy") else REDIRECTED.get(k, v)
             for k, v in code.__globals__.items()} | own
    borrowed = types.FunctionType(anew(code.__code__), names, code.__name__, code.__defaults__, code.__closure__)
    borrowed.__kwdefaults__ = code.__kwdefaults__
    return borrowed


def borrow(function, **own):
    """Registers NumPy's own code for a function; the function on tracers."""
    return _core.implements(function)(own_code(function, **own))


for function in (np.trapezoid, np.polyval, np.unwrap, np.vander, np.corrcoef,
                 np.apply_over_axes, np.logspace, np.sinc,
                 np.diag_indices_from, np.tril_indices_from, np.triu_indices_from):
    borrow(function)

long_cross, fill_by_numpy = own_code(np.cross), own_code(np.fill_diagonal)


@_core.implements(np.fill_diagonal)
def fill_diagonal(a, val, wrap=False):
    """At indices, in place; NumPy's code stores through the flattened array."""
    usual = _core.is_tracer(a) and not _core.is_scalar_tracer(a) and a.ndim == 2 and a.dtype.kind in "fc" and type(val) in (int, float)
    if not usual or wrap or any(map(_core.is_extent, a.shape)):
        return fill_by_numpy(a, val, wrap)
    i = _core.iota(min(a.shape))
    a[i, i] = val


@_core.implements(np.cross)
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    a, b = array(a), array(b)
    if a.ndim == 1 and b.ndim == 1:                     # NumPy's code writes into what it expects to be no scalars
        return long_cross(a[None], b[None])[0, ...]
    return long_cross(a, b, axisa, axisb, axisc, axis)


borrow(np.linalg.cross)
