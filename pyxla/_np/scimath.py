"""np.emath: functions whose result is complex where a real one would be NaN, as far as dtypes decide it."""
import numpy as np
from numpy.lib import _scimath_impl

from .. import _core
from ._args import array, is_weak, unsupported

implements = _core.implements
scimath = np.lib.scimath


def known(x):
    """The values of a number or an array that depends on no argument, or None."""
    if _core.is_scalar_tracer(x) or not _core.is_concrete(x):
        return None
    return np.asarray(_core.concrete(x))


def fixed(name, x, outside, never):
    """x as NumPy's function takes it: complex where an element is `outside` its real domain. never: kinds of dtypes that have none such."""
    a = array(x)
    if a.dtype.kind in never:
        return a
    values = known(x)
    if values is None:
        raise unsupported(f"np.emath.{name} of real values", "whether NumPy's result is complex depends on the data; "
                          f"use np.{name}, of x.astype(complex) where it may be")
    return array(_scimath_impl._tocomplex(values)) if outside(values) else a


def below_zero(x):
    return bool((x < 0).any())


def above_one(x):
    return bool((abs(x) > 1).any())


def define(name, outside, never):
    @implements(getattr(scimath, name))
    def function(x):
        return getattr(np, name)(fixed(name, x, outside, never))


for _name in ("sqrt", "log", "log2", "log10"):
    define(_name, below_zero, "buc")
for _name in ("arccos", "arcsin", "arctanh"):
    define(_name, above_one, "bc")


@implements(scimath.logn)
def logn(n, x):
    x, n = fixed("logn", x, below_zero, "buc"), fixed("logn", n, below_zero, "buc")
    return np.log(x) / np.log(n)


@implements(scimath.power)
def power(x, p):
    a = fixed("power", x, below_zero, "buc")
    if array(p).dtype.kind == "i":                      # negative integers as floats
        values = known(p)
        if values is None:
            raise unsupported("np.emath.power with an integer exponent", "whether the result is a float depends on the data; pass a float")
        p = array(values * 1.0 if below_zero(values) else values)
    return np.power(a, array(p) if is_weak(p) else p)
