"""Integers divided by one number of the run: factors found once (csrc/gen/divisor.c)."""
import numpy as np
import pytest

import pyxla

QUOTIENT, REST = pyxla.jit(lambda x, n: x // n), pyxla.jit(lambda x, n: x % n)
BOTH = pyxla.jit(lambda x, n: (x // n + x % n, (x + 1) // n, (x * 2) % n))


def divisors(t, r):
    """Numbers of all sizes, powers of two and their neighbours, the extremes."""
    i = np.iinfo(t)
    if t.itemsize == 1:
        return range(i.min, i.max + 1)
    powers = (s * (1 << k) + q for k in range(8 * t.itemsize) for q in (-1, 0, 1) for s in (1, -1))
    return sorted({v for v in powers if i.min <= v <= i.max} | {int(v >> t.type(k)) for k in range(0, 8 * t.itemsize, 2) for v in r.integers(i.min, i.max, 2, dtype=t, endpoint=True)} | {i.min, i.max})


@pytest.mark.parametrize("dtype", "bBhHiIqQ")
def test_every_size(dtype):
    t, r = np.dtype(dtype), np.random.default_rng(0)
    i = np.iinfo(t)
    x = np.concatenate([r.integers(i.min, i.max, 67, dtype=t, endpoint=True) >> t.type(k) for k in range(0, 8 * t.itemsize, 3)]
                       + [np.array([i.min, i.min + 1, i.max, i.max - 1, 0, 1, 2, i.max // 2], t)])
    with np.errstate(all="ignore"):
        for d in divisors(t, r):
            n = t.type(d)
            np.testing.assert_array_equal(QUOTIENT(x, n), x // n, str(d))
            np.testing.assert_array_equal(REST(x, n), x % n, str(d))
            if d % 7 == 0:
                for got, want in zip(BOTH(x, n), (x // n + x % n, (x + t.type(1)) // n, (x * t.type(2)) % n)):
                    np.testing.assert_array_equal(got, want, str(d))


@pytest.mark.parametrize("size", [0, 1, 5, 16, 1000])
def test_numbers_and_rows(size):
    x = np.arange(-size // 2, size - size // 2)
    for n in (3, -3, 1, -1, 2**40):
        np.testing.assert_array_equal(QUOTIENT(x, n), x // n)
        np.testing.assert_array_equal(REST(x, n), x % n)
    rows, n = np.stack([x, x * 7]), np.array([[3], [-5]])
    np.testing.assert_array_equal(QUOTIENT(rows, n), rows // n)
    np.testing.assert_array_equal(QUOTIENT(rows.T, n[0]), rows.T // n[0])
    np.testing.assert_array_equal(pyxla.jit(lambda x, n: (x // n).sum())(rows, 3), (rows // 3).sum())
