"""Functions of Python's math module of numbers that are data: elements of arrays, sums, sizes.

Their results are Python's numbers of the run. csrc/py/math_hooks.c asks for them while a trace runs. Where math raises for an argument, a
check does in the run."""
import numpy as np

from .. import _core
from .extents import FLOAT, Number, as_value

DOMAIN, RANGE = "math domain error; bound the argument by np.clip", "math range error; bound the argument by np.clip"
LARGEST = 9.223372036854775e18
POLES = ("log", "log2", "log10", "log1p", "atanh")         # infinite there: a domain error, not a range error
WHOLE = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}
ASKED = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
PLAIN = {name: getattr(np, name) for name in (
    "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "degrees",
    "radians", "fmod", "copysign", "hypot")}
PLAIN |= {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
          "fabs": np.absolute, "pow": np.power, "atan2": np.arctan2}
UNCHECKED = ("cbrt", "atan", "asinh", "fabs", "degrees", "radians", "tanh", "atan2", "copysign")


def call(name, *args):
    """math.name(*args) with a number that is data among the args; NotImplemented: Python's own is to be called."""
    if not all(_core.is_extent(x) or isinstance(x, (int, float)) or _core.is_tracer(x) and x.ndim == 0 for x in args):
        return NotImplemented
    args = [as_value(x) for x in args]
    if all(map(_core.is_concrete, args)) or any(x.dtype.kind not in "iuf" for x in args):
        return NotImplemented
    if name in WHOLE and len(args) == 1:
        return whole(args[0], WHOLE[name])
    args = [_core.cast(x, FLOAT) for x in args]
    if name in ASKED and len(args) == 1:
        return ASKED[name](args[0])
    if name == "log" and len(args) == 2:
        return Number(checked("log", args[:1])) / Number(checked("log", args[1:]))
    if name in PLAIN and len(args) == PLAIN[name].nin:
        return Number(checked(name, args))
    return NotImplemented


def checked(name, args):
    """The function's value, with checks for what math raises."""
    r = PLAIN[name](*args)
    if name in UNCHECKED:
        return r
    wrong, finite = np.isnan(r), np.isfinite(args[0])
    for x in args:
        wrong, finite = np.logical_and(wrong, np.logical_not(np.isnan(x))), np.logical_and(finite, np.isfinite(x))
    beyond = np.logical_and(np.isinf(r), finite)
    if name in POLES:
        wrong = np.logical_or(wrong, beyond)
    elif name == "pow":
        wrong = np.logical_or(wrong, np.logical_and(beyond, np.equal(args[0], 0)))
    _core.check(np.logical_not(wrong), "value", DOMAIN)
    if name in ("exp", "exp2", "expm1", "sinh", "cosh", "pow", "hypot"):
        _core.check(np.logical_not(beyond), "range", RANGE)
    return r


def whole(x, round_):
    """A Python int."""
    if x.dtype.kind == "f":
        _core.check(np.logical_not(np.isnan(x)), "value", "cannot convert float NaN to integer; mask it by np.where first")
        x = round_(x)
        _core.check(np.less(np.abs(x), LARGEST), "range",
                    "a float is infinite or past int64, in which a jitted function counts; bound it by np.clip")
    return Number(as_value(x, np.dtype(np.int64)), True)
