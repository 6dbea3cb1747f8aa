"""The methods of every ufunc of NumPy's (reduce, accumulate, reduceat, outer, at) in every form, jitted and not."""
import itertools
import warnings

import numpy as np
import pytest
from checking import clone, same, sample

import pyxla

UFUNCS = {f.__name__: f for f in vars(np).values() if isinstance(f, np.ufunc) and f.signature is None and f.nout == 1}
# NumPy's own loops for AVX-512 go wrong where one operand is the result: along contiguous axes these are not its elements joined in order.
IN_ORDER = ("power", "arctan2", "float_power")
BAD_TWICE = ("axis=9", "axis=(0, 0)", "[0, 3]", "i + 5")    # an argument that is an error, of calls that may have another one

REDUCE = """reduce(x)  reduce(x, axis=-1)  reduce(x, axis=None)  reduce(c, axis=(0, 2))  reduce(x, axis=())  reduce(x, axis=1, keepdims=True)
    reduce(x, initial=y[0])  reduce(x, initial=1)  reduce(x, initial=None)  reduce(x, where=m, axis=1)  reduce(x, where=m, axis=1, initial=1)
    reduce(x, dtype='float64')  reduce(x, dtype='int64')  reduce(x, out=y)  reduce(x, out=np.zeros(4))  reduce(x, out=b, dtype='float64')
    reduce(x, out=y[None], keepdims=True)  reduce(x[:0])  reduce(x[:0], initial=1)  reduce(x[:, :0], axis=0)  reduce(x[:1])  reduce(x[0, 0])
    reduce(x, axis=9)  reduce(x, axis=(0, 0))  reduce(c.T, axis=0)  reduce(x, 0, None, y, False)"""
OTHERS = """accumulate(x)  accumulate(c, axis=1)  accumulate(x, dtype='float64')  accumulate(x, out=x)  accumulate(x, out=w)  accumulate(x[0, 0])
    accumulate(x[:0])  reduceat(x, [0, 2, 1], axis=0)  reduceat(x, i, axis=1)  reduceat(x, [0, 2], dtype='float64')  reduceat(x, [0, 2], out=x[:2])
    reduceat(x, [0, 2], out=w[:2])  reduceat(x, [0, 3])  outer(x, y)  outer(x, 2)  outer(x, y, out=np.zeros((3, 4, 4)))"""
AT = """at(y, i, x[0])  at(y, i, 1)  at(y, m[0], 1)  at(x, (i[:3], i[1:]), 1)  at(x, (slice(1), i), y)  at(x, (slice(None), i[:3]), [[1], [2], [0]])
    at(c, (i[:2] % 2, slice(None), 1), 1)  at(x, slice(2), y)  at(y, i + 5, 1)  at(y, i)"""
UNARY = "at(y, i)  at(x, (m[:, 0], i[:2]))  at(x, m)  at(x, 1)  reduce(x)  accumulate(x)  outer(x, x)"


def forms(text):
    return [form.strip() for line in text.splitlines() for form in line.split("  ") if form.strip()]


def outcome(f, args):
    args = clone(args)
    try:
        return f(*args), args
    except Exception as e:
        return e, args


def differ(name, form, dtype):
    """What is wrong with a form: None or a text."""
    f = eval(f"lambda x, y, c, m, i, b, w: u.{form}", {"u": UFUNCS[name], "np": np})
    args = [sample((3, 4), dtype, 1), sample(4, dtype, 2), sample((2, 3, 2), dtype, 3), sample((3, 4), "bool", 4),
            np.array([0, 2, 1, 2]), np.zeros(4, "int8"), np.zeros((3, 4), "int64")]
    (want, after), (got, mine) = outcome(f, args), outcome(pyxla.jit(f), args)
    if isinstance(want, Exception):
        kind = next(k for k in type(want).__mro__ if k.__module__ in ("builtins", "numpy.exceptions"))
        if not isinstance(got, Exception if any(v in form for v in BAD_TWICE) else kind):
            return f"{type(want).__name__} {want}; got {got!r}"
    elif isinstance(got, Exception):
        return f"{type(got).__name__} {got}"
    else:
        try:
            half = "float16" in str(getattr(want, "dtype", ""))
            same([want, after], [got, mine], rtol=2e-3 if half else 1e-13, signs=False)
        except AssertionError as e:
            return str(e)
    return None


@pytest.mark.parametrize("dtype", ["float64", "int8", "complex128"])
@pytest.mark.parametrize("name", UFUNCS)
def test_methods(name, dtype):
    text = UNARY if UFUNCS[name].nin == 1 else AT if name == "ldexp" else "\n".join([REDUCE, OTHERS, AT])
    wrong = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for form in forms(text):
            if name in IN_ORDER and form.startswith("reduce(x, axis=") and ("-1" in form or "keepdims" in form):
                continue
            why = differ(name, form, dtype)
            if why is not None:
                wrong.append(f"{name}.{form}: {why}")
    assert not wrong, "\n".join(wrong)


def test_long_axes():
    x = np.linspace(1.0, 1.1, 600).reshape(300, 2)
    for f in (lambda x: np.divide.reduce(x), lambda x: np.divide.reduce(x, where=x > 1.05, initial=2.0), lambda x: np.divide.accumulate(x, 0)):
        want, got = f(x), pyxla.jit(f)(x)
        same(want, got, ulp=2)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_a_scan_begins_with_the_element_itself(dtype):
    """0 + -0.0 would be 0.0."""
    def f(x):
        return np.cumsum(x, -1), np.subtract.accumulate(x, -1), np.add.accumulate(x), 1 / np.cumsum(x.real)

    x = np.array([[-0.0, 0.5, -0.5], [-0.0, -0.0, -0.0]], dtype)
    with np.errstate(divide="ignore"):
        for want, got in zip(f(x), pyxla.jit(f)(x)):
            assert want.tobytes() == got.tobytes()


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_differences_of_zeros_have_numpys_sign(dtype):
    x = np.array(list(itertools.product([0.0, -0.0, 1.0, -1.0], repeat=4)), dtype)
    for f in (lambda x: np.subtract.reduce(x, axis=1), lambda x: np.subtract.reduce(x, axis=1, initial=-0.0)):
        got, want = pyxla.jit(f)(x), f(x)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
