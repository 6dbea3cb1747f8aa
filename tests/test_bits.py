"""np.packbits and np.unpackbits (csrc/run/bits.c), and the signs of 16-bit floats."""
import numpy as np
import pytest

import pyxla


@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "i4"])
@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_packbits(dtype, order, axis):
    f, r = pyxla.jit(lambda x: np.packbits(x, axis, order)), np.random.default_rng(0)
    for n in (*range(1, 18), 31, 32, 63, 64, 65, 129, 1000):
        x = (r.integers(0, 3, (3, n)) - (dtype == "i4")).astype(dtype)
        for y in (x, x[:, ::-1], x.T, x[::2]):
            np.testing.assert_array_equal(f(y), np.packbits(y, axis, order))


@pytest.mark.parametrize("count", [None, 3, 24, -3, 8011, 16003])
@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unpackbits(count, order, axis):
    f, r = pyxla.jit(lambda x: np.unpackbits(x, axis, count, order)), np.random.default_rng(0)
    for n in (1, 2, 3, 4, 8, 9, 1000):
        x = r.integers(0, 256, (3, n)).astype("u1")
        for y in (x, x[:, ::-1], x.T):
            np.testing.assert_array_equal(f(y), np.unpackbits(y, axis, count, order))


@pytest.mark.parametrize("f", [np.abs, np.negative, lambda x: -abs(x) * 2])
def test_signs_of_every_half(f):
    x = np.arange(2**16, dtype="u2").view("f2")
    got, want, number = pyxla.jit(f)(x), f(x), ~np.isnan(x)
    np.testing.assert_array_equal(got.view("u2")[number], want.view("u2")[number])
    assert np.isnan(got[~number]).all()
