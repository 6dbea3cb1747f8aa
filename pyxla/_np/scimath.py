"""np.emath: functions whose result is complex where a real one would be NaN."""
import numpy as np
from numpy.lib import _scimath_impl

from .. import _core
from ._args import array

implements = _core.implements
scimath = np.lib.scimath


def fixed(x, outside, never):
    """x as NumPy's function takes it: complex where an element is `outside` its real domain. never: kinds of dtypes that have none such."""
    a = array(x)
    return a if a.dtype.kind in never or not outside(a) else _scimath_impl._tocomplex(a)


def below_zero(x):
    return not _core.assume(np.logical_not(np.any(np.less(x, 0))), "whether no element is negative")


def above_one(x):
    return not _core.assume(np.logical_not(np.any(np.greater(abs(x), 1))), "whether no element is outside of -1 to 1")


def define(name, outside, never):
    @implements(getattr(scimath, name))
    def function(x):
        return getattr(np, name)(fixed(x, outside, never))


for _name in ("sqrt", "log", "log2", "log10"):
    define(_name, below_zero, "buc")
for _name in ("arccos", "arcsin", "arctanh"):
    define(_name, above_one, "bc")


@implements(scimath.logn)
def logn(n, x):
    x, n = fixed(x, below_zero, "buc"), fixed(n, below_zero, "buc")
    return np.log(x) / np.log(n)


@implements(scimath.power)
def power(x, p):
    a, p = fixed(x, below_zero, "buc"), array(p)
    if p.dtype.kind == "i" and below_zero(p):
        p = p * 1.0
    return np.power(a, p)
