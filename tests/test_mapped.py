"""np.apply_along_axis and np.vectorize: one trace for all rows, and what cannot be repeated."""
import math

import numpy as np
import pytest
from checking import check, same, sample

import pyxla

X = sample((300, 7), "float64", 1)


def test_one_trace_serves_all_rows():
    calls = []

    def row(r):
        calls.append(1)
        return (r - r.mean()) / r.std()

    f = pyxla.jit(lambda x: np.apply_along_axis(row, 1, x))
    got = f(X)
    assert len(calls) == 1
    np.testing.assert_allclose(got, np.apply_along_axis(row, 1, X), rtol=1e-12)
    calls.clear()
    element = pyxla.jit(lambda x: np.vectorize(lambda a: calls.append(1) or a * 2 + 1)(x))
    np.testing.assert_array_equal(element(X), X * 2 + 1)
    assert len(calls) == 2                              # one for the dtype, as NumPy does
    assert len(element.lower(X).compile().kernels) == 1


def test_nested_and_with_indices():
    check(lambda x: np.apply_along_axis(lambda r: np.vectorize(lambda a: a * r.sum())(r), 1, x), X, rtol=1e-12)
    check(lambda t, i: np.vectorize(lambda k: t[k] + k)(i), X[0], np.array([[0, 6, -7], [3, 3, 1]]))
    with pytest.raises(IndexError):
        pyxla.jit(lambda t, i: np.vectorize(lambda k: t[k] + k)(i))(X[0], np.array([0, 7]))


def test_functions_that_are_called_for_each_row():
    check(lambda x: np.apply_along_axis(np.sort, 1, x[:20]), X)
    check(lambda x: np.apply_along_axis(lambda r: np.linalg.solve(np.diag(r) + np.ones((7, 7)), r), 1, x[:5]), X, rtol=1e-9)
    with pytest.raises(pyxla.UnsupportedError, match="whole arrays"):
        pyxla.jit(lambda x: np.apply_along_axis(lambda r: np.sort(r), 1, np.concatenate([x] * 4)))(X)


def test_what_is_refused():
    def keeps(x):
        kept = []
        np.apply_along_axis(lambda r: kept.append(r.sum()) or r.sum(), 1, x)
        return kept[0]

    with pytest.raises(pyxla.UnsupportedError, match="return them"):
        pyxla.jit(keeps)(X)

    def stores(x):
        return np.apply_along_axis(lambda r: r.__setitem__(0, 1) or r, 1, x)

    with pytest.raises(pyxla.UnsupportedError, match="store"):
        pyxla.jit(stores)(X)
    with pytest.raises(pyxla.TraceError, match="np.where"):
        pyxla.jit(lambda x: np.vectorize(lambda a: a if a > 0 else -a)(x))(X)
    with pytest.raises(ZeroDivisionError):
        pyxla.jit(lambda x: np.vectorize(lambda a: 1 / a)(x))(np.zeros(3))


def test_many_rows_of_a_captured_array():
    x = np.arange(3000.0).reshape(1500, 2)
    f = lambda: np.apply_along_axis(lambda r: r[::-1] * 2, 1, x)
    same(f(), pyxla.jit(f)())
    with pytest.raises(pyxla.UnsupportedError, match="np.where"):
        pyxla.jit(lambda: np.apply_along_axis(lambda r: r if r[0] > 3 else -r, 1, x))()


@pytest.mark.parametrize(("f", "x"), [(lambda a: a * a, 2**40), (lambda a: a + 2**62, 2**62), (lambda a: -a, -2**63), (lambda a: a**3, 2**30), (lambda a: abs(a), -2**63),
                                      (lambda a: a << 40, 2**30), (lambda a: a - 1, -2**63), (lambda a: a // -1, -2**63)])
def test_vectorized_integers_stay_in_int64(f, x):
    """Python's integers have no bounds: NumPy fails to store the result, and here nothing wraps around."""
    each = pyxla.jit(lambda x: np.vectorize(f)(x))
    with pytest.raises(OverflowError):
        np.vectorize(f)(np.array([x, 3]))
    with pytest.raises(OverflowError):
        each(np.array([x, 3]))
    small = np.array([-5, 0, 7]) if f(5) < 2**62 else np.array([-5, 0, -7])
    assert each(small).tolist() == np.vectorize(f)(small).tolist()


@pytest.mark.parametrize("f", [
    lambda x: np.vectorize(lambda t: t + 1)(x[x > 0]), lambda x: np.vectorize(lambda a, b: (a * b, a - b))(x[x > 0], 2.0), lambda x: np.vectorize(math.exp)(x[x < 0]),
    lambda x: np.vectorize(lambda a, b: np.where(a > b, a, b))(x[x[:, 0] > 0], x[0]), lambda x: np.apply_along_axis(np.sum, 1, x[x[:, 0] > 0]),
    lambda x: np.apply_along_axis(lambda r: r - r.mean(), 1, x[x[:, 0] > 0])])
def test_as_many_rows_as_the_run_finds(f):
    each = pyxla.jit(f)
    for x in (X, -X, X[:50]):
        for got, want in zip(np.atleast_1d(each(x)), np.atleast_1d(f(x))):
            np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-15)


def test_no_rows_in_the_run():
    with pytest.raises(ValueError, match="size 0 inputs unless `otypes`"):
        pyxla.jit(lambda x: np.vectorize(lambda t: t + 1)(x[x > 0]))(np.full(3, -1.0))
    with pytest.raises(ValueError, match="any iteration dimensions are 0"):
        pyxla.jit(lambda x: np.apply_along_axis(np.sum, 1, x[x[:, 0] > 0]))(np.full((3, 2), -1.0))
    assert pyxla.jit(lambda x: np.vectorize(lambda t: t + 1, otypes=["f4"])(x[x > 0]))(np.full(3, -1.0)).dtype == np.float32
    with pytest.raises(pyxla.UnsupportedError, match="whose number depends on data"):
        pyxla.jit(lambda x: np.apply_along_axis(np.sort, 1, x[x[:, 0] > 0]))(X)
