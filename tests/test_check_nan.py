"""jit(check_nan=True): the line of the operation that first made a NaN."""
import inspect

import numpy as np
import pytest

import pyxla


def line_of(f, text):
    lines, first = inspect.getsourcelines(f)
    return first + next(k for k, s in enumerate(lines) if text in s)


def raises(f, text, *args):
    with pytest.raises(FloatingPointError, match="made a NaN") as e:
        pyxla.jit(f, check_nan=True)(*args)
    assert f":{line_of(f, text)}" in str(e.value), str(e.value)


def chain(x):
    y = x - 3.0
    z = np.sqrt(y)          # here
    return z * 2 + np.log(y)


def test_elementwise_names_the_line():
    raises(chain, "# here", np.arange(5.0))
    np.testing.assert_array_equal(pyxla.jit(chain, check_nan=True)(np.arange(4.0, 9.0)), chain(np.arange(4.0, 9.0)))


def test_a_nan_that_comes_in_is_nobodys():
    x = np.array([1.0, np.nan, 2.0])
    f = pyxla.jit(lambda x: (x * 2 + 1, x.sum(), np.sqrt(x), x.max(), np.cumsum(x)), check_nan=True)
    assert np.isnan(f(x)[1])
    raises(lambda x: x / 0, "x / 0", np.zeros(3))


def total(x):
    y = x * 2
    return y.sum() + 1      # here


def product(x):
    return x @ np.zeros(3)  # here


def known(x):
    return x + np.log(np.float64(-1.0) * np.ones(3))  # here


def complex_quotient(z):
    return z / 0            # here


def test_other_operations():
    raises(total, "# here", np.array([np.inf, -np.inf]))
    raises(product, "# here", np.array([[np.inf, 0, 0]]))
    raises(known, "# here", np.ones(3))
    raises(complex_quotient, "# here", np.zeros(2, complex))
    raises(chain, "# here", np.arange(5, dtype=np.float16))


def test_off_by_default_and_inlined_functions_keep_their_own():
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(pyxla.jit(chain)(np.arange(5.0)), chain(np.arange(5.0)))
    inner = pyxla.jit(chain, check_nan=True)
    with pytest.raises(FloatingPointError):
        pyxla.jit(lambda x: inner(x) + 1)(np.arange(5.0))
    assert np.isnan(pyxla.jit(lambda x: pyxla.jit(chain)(x) + 1, check_nan=True)(np.arange(5.0))).any()
