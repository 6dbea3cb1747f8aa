"""Random numbers in a traced function would be frozen: they are refused, and Cython code called while tracing gets real arrays."""
import random
import sys

import numpy as np
import pytest

import pyxla

rng = np.random.default_rng(0)
draw = np.random.rand


class Model:
    def __init__(self):
        self.rng = rng

    def call(self, x):
        return x + self.rng.normal()


@pytest.mark.parametrize("f", [lambda x: x + np.random.rand(3), lambda x: x + rng.normal(size=3), lambda x: x + draw(3),
                               lambda x: x * random.random(), Model().call], ids=range(5))
def test_refused(f):
    with pytest.raises(pyxla.TraceError, match="drawn once"):
        pyxla.jit(f)(np.zeros(3))


def test_generator_argument():
    with pytest.raises(TypeError, match="random generator"):
        pyxla.jit(lambda x, r: x)(np.zeros(3), rng)


def test_compiled_extensions_get_arrays():
    def f(x):
        return x + sys._getframe().f_globals["rng"].normal(size=3)      # a way that is not followed

    with pytest.raises(pyxla.TraceError, match="drawn once"):
        pyxla.jit(lambda x: x + eval("rng").normal(size=3))(np.zeros(3))

    assert pyxla.jit(f)(np.zeros(3)).shape == (3,)
