"""NEP 50: the dtype of every operator on every pair of dtypes and with every Python number on either side, NumPy's refusals, and the overflow errors
of Python integers. Values of pairs that differ are in tests/test_elementwise.py."""
import operator
import warnings

import numpy as np
import pytest
from checking import OLD

import pyxla

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64", "complex128"]
OPERATORS = {name: getattr(operator, name) for name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor",
                                                        "eq", "ne", "lt", "le", "gt", "ge"]}
NUMBERS = [True, 2, 2.5, 2j]


def outcome(f, *args):
    """What a call gives: a dtype, or the kind of its exception."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            r = f(*args)
        except Exception as e:
            return next(k for k in type(e).__mro__ if k.__module__ in ("builtins", "numpy.exceptions")).__name__
    return str(np.result_type(r.dtype))


def traced(f, *args):
    return outcome(lambda *a: pyxla.eval_shape(pyxla.jit(f), *a), *args)


@pytest.mark.parametrize("x", DTYPES)
@pytest.mark.parametrize("op", OPERATORS)
def test_pairs(op, x):
    f, a = OPERATORS[op], np.ones(2, x)
    for y in DTYPES:
        b = np.ones(2, y)
        assert traced(lambda a, b: f(a, b), a, b) == outcome(f, a, b), y
        if not (OLD and op == "pow"):               # array ** scalar had a way of its own
            assert traced(lambda a, b: f(a, b), a, b[0]) == outcome(f, a, b[0]), f"scalar {y}"


@pytest.mark.parametrize("x", DTYPES)
@pytest.mark.parametrize("op", OPERATORS)
def test_python_numbers(op, x):
    f, a = OPERATORS[op], np.ones(2, x)
    for s in NUMBERS:
        assert traced(lambda a: f(a, s), a) == outcome(f, a, s), f"{x} {op} {s!r}"
        assert traced(lambda a: f(s, a), a) == outcome(f, s, a), f"{s!r} {op} {x}"
        assert traced(lambda a, s: f(a, s), a, s) == outcome(f, a, s), f"{x} {op} argument {s!r}"
        assert traced(lambda a, s: f(s, a), a, s) == outcome(f, s, a), f"argument {s!r} {op} {x}"


@pytest.mark.parametrize("x", [d for d in DTYPES if "int" in d])
def test_python_integers_out_of_range(x):
    a, info = np.ones(2, x), np.iinfo(x)
    for s in [info.min, info.max, info.min - 1, info.max + 1, 2**70, -(2**70)]:
        for op in ("add", "mul", "floordiv", "and_", "lt", "eq", "ge"):
            f = OPERATORS[op]
            want = outcome(f, a, s)
            assert traced(lambda a: f(a, s), a) == want, (op, s)
            if op in ("lt", "eq", "ge") and abs(s) < 2**63:
                got = pyxla.jit(lambda a: f(a, s))(a)
                assert (got == f(a, s)).all()
            if abs(s) < 2**63 and op in ("add", "mul"):          # a run-time argument: the error comes with the call
                assert outcome(pyxla.jit(lambda a, s: f(a, s)), a, s) == want, (op, s)


def test_structured_and_other_dtypes_are_type_errors_that_name_the_argument():
    bad = [np.zeros(2, "i4,f8"), np.array(["a", "b"]), np.array([None, 1]), np.zeros(2, "M8[s]"), np.zeros(2, "m8[s]"), np.zeros(2, "S3"), np.zeros(2, np.longdouble)]
    for array in bad:
        with pytest.raises(TypeError, match="argument second"):
            pyxla.jit(lambda first, second: first)(np.ones(2), array)


def test_isnat_is_refused():
    with pytest.raises(TypeError):
        pyxla.jit(lambda x: np.isnat(x))(np.ones(3))
