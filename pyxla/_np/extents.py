"""Extents known only in the run: what `x[mask].shape` holds, Python's numbers made of them, and keys of arrays that have some.

An array whose size depends on data has `Number`s in its shape. They compute as Python's int and float do, with Python numbers, with each
other and with arrays (whose dtype wins); asked for a value they raise. An extent of a new array may be one."""
import operator
import sys

import numpy as np

from .. import _core
from ._args import INT

FLOAT, COMPLEX = np.dtype(np.float64), np.dtype(np.complex128)
CLASSES = {INT: int, FLOAT: float, COMPLEX: complex}


DECIDED = "a size that NumPy's own code decides by is not what it was in the trace; call the jitted function again"


class Number:
    """A Python int, float or complex number of the run: a 0-d tracer of int64, float64 or complex128 whose dtype yields."""

    __slots__ = ("exact", "value")

    def __init__(self, value, exact=False):
        self.value, self.exact = value, exact           # exact: not an extent but any integer, whose arithmetic has to stay in int64

    def __repr__(self):
        return f"<{CLASSES[self.value.dtype].__name__} known only in the run>"

    @property
    def __class__(self):
        """What isinstance() goes by: Python's class, but for code that has to know what this is."""
        asks = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0]
        return Number if asks in ("pyxla", "numpy") else CLASSES[self.value.dtype]

    def __bool__(self):
        return bool(self.decisive())

    def __index__(self):
        return self.decisive()

    def decisive(self):
        """Today's value, where it is NumPy's own code that asks a method of this class for it."""
        name = sys._getframe(2).f_globals.get("__name__", "")
        if self.value.dtype == INT and (name == "numpy" or name.startswith("numpy.")):      # NumPy's own code decides by it
            return _core.assume(self.value, DECIDED)
        return self.unknown()

    def unknown(self, *args):
        raise _core.TraceError("a number depends on data (the size of an array, an element given to a vectorized function), and its value "
                               "is asked for (by if, range(), a loop or int()) while the function is traced: keep to arithmetic with it, "
                               f"use np.where to decide, np.arange to count, or pass what decides as a Python number{_core.place()}")

    __int__ = __float__ = __complex__ = __hash__ = __iter__ = __len__ = unknown

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if not all(map(weak, inputs)):                  # an array among them: its dtype wins
            return self.value.__array_ufunc__(ufunc, method, *inputs, **kwargs)
        return getattr(ufunc, method)(*[x.value if isinstance(x, Number) else x for x in inputs], **kwargs)

    def __array_function__(self, function, types, args, kwargs):
        own = _core._functions.get(function)
        if own and any(map(_core.is_tracer, args)):      # as where the tracer comes first: a number yields to its dtype
            return own(*args, **kwargs)
        return function(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()})

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __neg__(self):
        return 0 - self if self.exact else Number(np.negative(self.value))

    def __pos__(self):
        return self

    def __abs__(self):
        if self.exact and self.value.dtype == INT:
            _core.check(np.greater(self.value, np.iinfo(INT).min), "range")
        return Number(np.absolute(self.value), self.exact)

    real = property(lambda self: Number(self.value.real) if self.value.dtype == COMPLEX else self)
    imag = property(lambda self: Number(self.value.imag) if self.value.dtype == COMPLEX else 0 if self.value.dtype == INT else 0.0)

    def conjugate(self):
        return Number(np.conjugate(self.value)) if self.value.dtype == COMPLEX else self


def plain(x):
    """An argument with the Numbers in it as 0-d values, as array functions take Python numbers."""
    if isinstance(x, (list, tuple)):
        return type(x)(map(plain, x))
    return x.value if isinstance(x, Number) else x


def weak(x):
    """Whether x is a Python number, of the trace or of the run."""
    if _core.is_tracer(x):
        return _core.is_scalar_tracer(x)
    return isinstance(x, (bool, int, float, complex, Number)) and not isinstance(x, np.generic)      # np.float64 is a float too


def as_value(x, dtype=None):
    """A Python number as a 0-d tracer."""
    x = x.value if isinstance(x, Number) else _core.as_tracer(x)
    x = _core.cast(x, INT) if x.dtype.kind == "b" else x
    return x if dtype is None or x.dtype == dtype else _core.cast(x, dtype)


def check_range(name, a, b):
    """A check that the result, an integer without bounds in Python, fits int64 (one a little below 2^63 may fail it)."""
    if name in RANGED:
        x, y = _core.cast(a, FLOAT), _core.cast(b, FLOAT)
        y = np.exp2(y) if name == "left_shift" else y
        _core.check(np.less(np.abs(RANGED[name](x, y)), 9.223372036854775e18), "range")


RANGED = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "power": np.power, "left_shift": np.multiply,
          "floor_divide": np.divide}


def is_float64(x):
    """Whether x is an `np.float64`, which to Python's complex is a float."""
    return _core.is_numpy_scalar(x) and x.dtype == FLOAT


def binary(ufunc, compares=False, divides=None, of_complex=True):
    """The operator and its reflection; divides: whether its result is always a float (True) or not (False), None: it divides nothing."""
    def forward(a, b, swapped=False):
        if not (weak(b) or not swapped and a.value.dtype == COMPLEX and is_float64(b)):
            return NotImplemented
        given = a, b
        a, b = as_value(a), as_value(b)
        dtype = COMPLEX if COMPLEX in (a.dtype, b.dtype) else FLOAT if divides or FLOAT in (a.dtype, b.dtype) else INT
        if dtype == COMPLEX and not of_complex:
            return NotImplemented
        a, b = as_value(Number(a), dtype), as_value(Number(b), dtype)
        if divides is not None:
            divisor = a if swapped else b
            if not _core.is_concrete(divisor):
                _core.check(np.not_equal(divisor, 0), "zero_division")
            elif _core.concrete(divisor) == 0:
                raise ZeroDivisionError("division by zero")
        exact = any(isinstance(v, Number) and v.exact for v in given)
        a, b = (b, a) if swapped else (a, b)
        r = ufunc(a, b)
        if exact and dtype == INT and not compares:
            check_range(ufunc.__name__, a, b)
        return r if compares else Number(r, exact)
    return forward, lambda a, b: forward(a, b, True)


for _name, _ufunc in {"add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "mod": np.remainder,
                      "truediv": np.divide, "pow": np.power, "and": np.bitwise_and, "or": np.bitwise_or,
                      "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift}.items():
    _forward, _backward = binary(_ufunc, divides={"truediv": True, "floordiv": False, "mod": False}.get(_name),
                                 of_complex=_name in ("add", "sub", "mul", "truediv", "pow"))
    setattr(Number, f"__{_name}__", _forward)
    setattr(Number, f"__r{_name}__", _backward)
for _name, _ufunc in {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
                      "ne": np.not_equal}.items():
    setattr(Number, f"__{_name}__", binary(_ufunc, compares=True, of_complex=_name in ("eq", "ne"))[0])

_core._extent_type(Number)


def run_integer(x):
    """Whether x is an integer that is known only in the run: an extent, or a 0-d array of integers that depends on arguments."""
    if isinstance(x, Number):
        return x.value.dtype == INT
    return (_core.is_tracer(x) and not _core.is_scalar_tracer(x) and x.ndim == 0 and x.dtype.kind in "iu"
            and not _core.is_concrete(x))


def extent(n):
    """An integer of the run as an extent, checked to be none below 0."""
    if isinstance(n, Number):
        return n
    n = as_value(n, INT)
    _core.check(np.less_equal(0, n), "value", "negative dimensions are not allowed; bound the number by np.maximum(n, 0)")
    return Number(np.maximum(n, 0))


def settled(x):
    """A vector with an extent that is a number: today's, which each run checks."""
    n = x.shape[0]
    if isinstance(n, int):
        return x
    return _core.gather(x, (_core.iota(_core.assume(as_value(n), "how many elements an array has")),))


def is_dynamic(x):
    """Whether the size of an array depends on data."""
    return any(isinstance(n, Number) for n in x.shape)


# ---- extents that meet ----

def meets(n, m, code="value"):
    """Whether two extents are equal; where only the run knows, it checks."""
    if isinstance(n, Number) or isinstance(m, Number):
        own = ("sizes known only in the run have to be equal; select by one mask, or slice to the same length",) if code == "value" else ()
        _core.check(np.equal(as_value(n), as_value(m)), code, *own)
        return True
    return n == m


def with_extent(x, axis, n):
    """x with extent n along an axis: its own, which meets n."""
    return x if x.shape[axis] is n else _core.broadcast(x, (*x.shape[:axis], n, *x.shape[axis + 1:]))


def known_same(n, m):
    """Whether two extents are equal for sure."""
    if isinstance(n, Number) != isinstance(m, Number):
        return False
    if not isinstance(n, Number):
        return n == m
    same = np.equal(n.value, m.value)
    return _core.is_concrete(same) and bool(same)


def greatest(m, n):
    """The greater of two extents."""
    if isinstance(m, Number) or isinstance(n, Number):
        return Number(np.maximum(as_value(m), as_value(n)))
    return max(m, n)


def least(m, n):
    """The lesser of two extents."""
    if isinstance(m, Number) or isinstance(n, Number):
        return Number(np.minimum(as_value(m), as_value(n)))
    return min(m, n)


def broadcast_shapes(*shapes):
    """`np.broadcast_shapes` of extents that the run may only know."""
    if not any(isinstance(n, Number) for shape in shapes for n in shape):
        return np.broadcast_shapes(*shapes)
    total = _core.full(shapes[0], INT, 0)
    for shape in shapes[1:]:
        total = np.add(total, _core.full(shape, INT, 0))
    return total.shape


# ---- keys of arrays with run-time extents ----

def ramp(*args):
    """`np.arange` of integers, of which some are known only in the run."""
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    if any(isinstance(v, float) or isinstance(v, Number) and v.value.dtype != INT for v in (start, stop, step)) or isinstance(step, Number):
        raise _core.UnsupportedError("np.arange over a number of the run is not supported for floats or such a step; scale np.arange(n)")
    step = operator.index(_core.concrete(step))
    if step == 0:
        raise ZeroDivisionError("Maximum allowed size exceeded")
    if isinstance(start, int) and start == 0 and step == 1:
        return _core.iota(Number(np.maximum(as_value(stop), 0)))
    size = (stop - start + (step - (1 if step > 0 else -1))) // step
    return np.add(np.multiply(_core.iota(Number(np.maximum(as_value(size), 0))), step), as_value(start))


def start_of(i, n):
    """Where a slice that starts (or stops) at i begins, counted from the front and kept inside."""
    i = Number(_core.where(np.less(as_value(i), 0), as_value(i + n), as_value(i)))
    return Number(np.clip(as_value(i), 0, as_value(n)))


def slice_indices(s, n):
    """The indices that a slice of an axis of extent n reads, and their number."""
    step = 1 if s.step is None else operator.index(_core.concrete(s.step))
    if step == 0:
        raise ValueError("slice step cannot be zero")
    s = slice(*(Number(as_value(v, INT)) if run_integer(v) else v for v in (s.start, s.stop)))
    zero = Number(as_value(0))
    simple = [v is None or isinstance(v, int) for v in (s.start, s.stop)]
    if step == 1 and all(simple) and (s.start or 0) >= 0 and (s.stop is None or s.stop < 0):       # x[1:] and x[:-1] have one extent
        count = Number(np.maximum(as_value(n - ((s.start or 0) - (s.stop or 0))), 0))
        return np.add(_core.iota(count), s.start or 0), count
    if step == -1 and s.start is None and s.stop is None:
        return np.subtract(as_value(n - 1), _core.iota(n)), n
    if step > 0:
        first = zero if s.start is None else start_of(s.start, n)
        stop = n if s.stop is None else start_of(s.stop, n)
        count = (stop - first + (step - 1)) // step
    else:
        last = lambda i: start_of(i + 1, n) - 1 if not isinstance(i, int) or i != -1 else n - 1  # noqa: E731
        first = n - 1 if s.start is None else last(s.start)
        stop = zero - 1 if s.stop is None else last(s.stop)
        count = (first - stop + (-step - 1)) // -step
    count = Number(np.maximum(as_value(count), 0))
    return np.add(np.multiply(_core.iota(count), step), as_value(first)), count
