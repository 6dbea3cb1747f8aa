"""fma=True fuses by a rule of the graph: a product that one sum uses."""
import numpy as np

import pyxla

X = 1 + np.arange(8) * 2.0**-30


def test_product_and_sum_round_once():
    plain, fused = pyxla.jit(lambda x, y: x * x - y), pyxla.jit(lambda x, y: x * x - y, fma=True)
    assert not plain(X, X * X).any()
    exact = np.array([float((int(x * 2**30) ** 2) - int(x * x * 2**52) * 2**8) / 2**60 for x in X])
    np.testing.assert_array_equal(fused(X, X * X), exact)


def test_product_used_twice_is_rounded():
    f = pyxla.jit(lambda x, y: (x * x - y, x * x), fma=True)
    assert not f(X, X * X)[0].any()


def test_product_on_the_right():
    f = pyxla.jit(lambda x, y: y - x * x, fma=True)
    assert (f(X, X * X)[1:] < 0).all()
