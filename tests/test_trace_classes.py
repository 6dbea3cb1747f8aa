"""While a function is traced, `isinstance` and `__class__` say what they say when it is not."""
import functools
import numbers

import numpy as np
import pytest

import pyxla

VALUES = [np.ones(3), np.ones(()), np.float32(2), np.int8(3), np.bool_(True), np.float64(2.5), True, 3, 2.5, 1 + 2j]
CLASSES = [np.ndarray, np.generic, np.floating, np.integer, np.float64, numbers.Number, numbers.Integral, bool, int, float, complex, list]


@pytest.mark.parametrize("x", VALUES, ids=lambda x: type(x).__name__)
def test_isinstance(x):
    def classes(x):
        return [isinstance(x, c) for c in CLASSES]
    assert pyxla.jit(classes)(x) == classes(x)


def test_computed_values_have_numpys_class():
    def classes(x, n):
        return [v.__class__.__name__ for v in (x + 1, x.sum(), x.astype("i2")[0], x[0] > 1, n + 1, n / 2, n * x, x.reshape(1, -1))]
    assert pyxla.jit(classes)(np.ones(3), 3) == classes(np.ones(3), 3)


def test_a_branch_by_class_is_the_one_of_numpy():
    def norm(x):
        if not isinstance(x, np.ndarray):
            x = np.array([x, x])
        return (x * x).sum()
    for x in (np.arange(3.0), np.float64(2), 2.0):
        assert pyxla.jit(norm)(x) == norm(x)


def test_singledispatch():
    @functools.singledispatch
    def kind(x):
        return 0
    kind.register(np.ndarray, lambda x: x + 1)
    kind.register(float, lambda x: x + 2)
    assert pyxla.jit(lambda x: kind(x))(1.0) == 3.0
    np.testing.assert_array_equal(pyxla.jit(lambda x: kind(x))(np.ones(2)), [2, 2])


def test_a_leaked_tracer_is_no_array():
    kept = []
    pyxla.jit(lambda x: kept.append(x) or x + 1)(np.ones(2))
    assert not isinstance(kept[0], np.ndarray)
