"""max, min, argmax and argmin along the vectors' axis: places, ties and NaN in every lane, tails, and rows longer than a block."""
import os
import subprocess
import sys

import numpy as np
import pytest

import pyxla

DTYPES = "float32 float64 float16 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool".split()
SHAPES = [(1,), (5,), (2, 16), (3, 63), (5, 129), (3, 1025), (2, 4096), (2, 5000), (9001,), (66_000,), (66, 70)]


def all_of(x):
    return x.max(-1), x.min(-1), x.argmax(-1), x.argmin(-1)


def values(dtype, shape, kind, rng):
    if dtype == "bool":
        return rng.random(shape) > (0.99, 0.01, 2, -1)[kind]
    x = (rng.standard_normal(shape) * 50).astype(dtype)
    if kind == 1:
        x = np.sort(x, axis=-1)                       # each element takes the best one's place
    if kind == 2:
        x[...] = -np.inf if x.dtype.kind == "f" else np.iinfo(dtype).min
    if kind == 3 and x.dtype.kind == "f":
        x[rng.random(shape) < 2 / shape[-1]] = np.nan
        x.flat[rng.integers(x.size)] = np.inf
    return x


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes(dtype):
    rng, f = np.random.default_rng(3), pyxla.jit(all_of)
    for shape in SHAPES:
        for kind in range(4):
            x = values(dtype, shape, kind, rng)
            for got, want in zip(f(x), all_of(x)):
                assert np.asarray(got).dtype == want.dtype
                np.testing.assert_array_equal(got, want)


def test_every_place():
    f = pyxla.jit(lambda x: (x.argmax(-1), x.max(-1)))
    for dtype, n in (("float32", 150), ("int8", 300), ("float64", 37)):
        x = np.zeros((n, n), dtype)
        x[np.arange(n), np.arange(n)] = 1
        x[np.arange(n - 1), np.arange(1, n)] = 1      # a tie in the next lane
        np.testing.assert_array_equal(f(x)[0], np.arange(n))
        if dtype != "int8":
            x[np.arange(n), np.arange(n)[::-1]] = np.nan
            np.testing.assert_array_equal(f(x)[0], np.arange(n)[::-1])
            assert np.isnan(f(x)[1]).all()


@pytest.mark.parametrize("level", ["sse2", "avx2"])
def test_other_levels(level):
    code = f"import sys; sys.path[:0] = [{os.path.dirname(__file__)!r}]; import test_extremes as t; [t.test_extremes(d) for d in ('float32', 'float64', 'int8', 'bool')]; t.test_every_place()"
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYXLA_CPU": level}, check=True)
