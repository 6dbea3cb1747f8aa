"""Functions of Python's math module of elements of arrays and other numbers that are data."""
import math

import numpy as np
import pytest

import pyxla

ONE = ("sqrt exp exp2 expm1 log log2 log10 log1p cbrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh fabs degrees radians "
       "floor ceil trunc isnan isinf isfinite").split()
TWO = "pow atan2 fmod copysign hypot log".split()
VALUES = [0.3, 1.7, -0.6, 0.0, -0.0, 1.0, -1.0, 1e3, -1e3, 1e300, -1e300, np.inf, -np.inf, np.nan]


def compare(jitted, f, *args):
    try:
        want = f(*args)
    except (ValueError, OverflowError, ZeroDivisionError) as e:
        with pytest.raises(type(e)):
            jitted(*args)
        return
    if isinstance(want, int) and abs(want) >= 2**63:
        with pytest.raises(OverflowError, match="int64"):
            jitted(*args)
        return
    got = jitted(*args)
    assert type(got) is type(want) or type(want) is bool
    np.testing.assert_allclose(got, want, rtol=1e-15, atol=1e-300)
    assert math.copysign(1, got) == math.copysign(1, want) or want != want


@pytest.mark.parametrize("name", [n for n in ONE if hasattr(math, n)])
def test_one_number(name):
    f = getattr(math, name)
    g = lambda x: f(x[0])
    jitted = pyxla.jit(g)
    for v in VALUES:
        compare(jitted, g, np.array([v]))
    for x in (np.array([0.25], "f4"), np.array([1], "i2")) if name != "trunc" else ():
        compare(pyxla.jit(g), g, x)
    assert jitted.cache_info().traces == 1


@pytest.mark.parametrize("name", TWO)
def test_two_numbers(name):
    f = getattr(math, name)
    g = lambda x: f(x[0], x[1])
    jitted = pyxla.jit(g)
    for a in VALUES:
        for b in VALUES:
            compare(jitted, g, np.array([a, b]))
    compare(pyxla.jit(lambda x, s: f(s, x[0])), lambda x, s: f(s, x[0]), np.array([2.0]), 1.5)


def loop(x):
    y = np.zeros_like(x)
    for i in range(len(x)):
        y[i] = math.exp(-x[i] ** 2) * math.sin(x[i]) + math.hypot(x[i], 2)
    return y / math.sqrt(np.dot(x, x))


@pytest.mark.parametrize("f", [
    loop, lambda x: x * math.sqrt(x.max()), lambda x: x[:math.floor(x[1]) + 1] * 1, lambda x: np.zeros(math.ceil(x[2])) + 1, lambda x: math.log(x[x > 0].size) * x,
    lambda x: isinstance(math.cos(x[0]), float) * x, lambda x: np.vectorize(lambda v: math.tanh(v) + 1)(x), lambda x: math.log(x[1], 2) + x, lambda x: math.sqrt(4) * x])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_programs(f, dtype):
    """Their results are Python floats, whose dtype yields."""
    x = np.array([0.3, 1.7, 2.5, -0.6], dtype)
    want, got = f(x), pyxla.jit(f)(x)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5 if dtype == "f4" else 1e-14)


def test_an_argument_that_math_refuses_names_the_line():
    with pytest.raises(ValueError, match=r"math domain error in math.sqrt\(float64\(\)\); .*np.clip .*test_numbers"):
        pyxla.jit(lambda x: math.sqrt(x[0]) * x)(np.array([-1.0]))
    with pytest.raises(OverflowError, match=r"math range error in math.exp"):
        pyxla.jit(lambda x: math.exp(x[0]) * x)(np.array([1e4]))
    with pytest.raises(pyxla.TraceError, match=r"float\(\) needs a value"):
        pyxla.jit(lambda x: math.gamma(x[0]))(np.array([1.5]))
