"""ldexp, frexp, nextafter and spacing, which are formulas on the bits of floats: NumPy's bits for all float16, random bits of the others, and extremes."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from checking import extremes

import pyxla

R = np.random.default_rng(3)
UFUNCS = {f: pyxla.jit(f) for f in (np.ldexp, np.frexp, np.nextafter, np.spacing)}


def same(f, *args):
    with np.errstate(all="ignore"):
        want = f(*args)
    got = UFUNCS[f](*args)
    for w, g in zip(want if isinstance(want, tuple) else (want,), got if isinstance(got, tuple) else (got,)):
        assert w.dtype == g.dtype and w.shape == g.shape
        np.testing.assert_array_equal(g, w)
        if w.dtype.kind == "f":
            signs = np.isnan(w) | (np.signbit(w) == np.signbit(g))
            assert signs.all(), [a[~signs][:3] for a in args]


def values(dtype):
    bits = np.arange(65536) if dtype == "float16" else R.integers(0, 2**32, 3000) if dtype == "float32" else R.integers(-2**63, 2**63 - 1, 3000)
    subnormal = (R.standard_normal(500) * float(np.finfo(dtype).tiny)).astype(dtype)
    return np.concatenate([bits.astype(f"u{np.dtype(dtype).itemsize}").view(dtype), extremes(dtype), subnormal])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_bits(dtype):
    x = values(dtype)
    same(np.frexp, x)
    same(np.spacing, x)
    for most in (5, 40, 200, 1200, 4000, 2**31 - 1):
        same(np.ldexp, x, R.integers(-most, most, x.size).astype("int32"))
        same(np.ldexp, x, R.integers(-most, most, x.size))
    for n in (2**62, -2**62):
        same(np.ldexp, x, np.full(x.size, n))
    for y in (R.permutation(x), x, *(np.full(x.size, v, dtype) for v in (0.0, -0.0, 1.0, np.inf, -np.inf, np.nan))):
        same(np.nextafter, x, y)
        same(np.nextafter, y, x)


@pytest.mark.parametrize("setting", [{"PYXLA_CPU": "sse2"}, {"PYXLA_CPU": "avx2"}, {"PYXLA_BACKEND": "interp"}], ids=str)
def test_other_levels(setting):
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(pyxla.__file__).parent.parent)])
    subprocess.run([sys.executable, "-c", "from test_exponents import *\nfor d in 'float16', 'float32', 'float64': test_bits(d)"],
                   env=os.environ | setting | {"PYTHONPATH": path}, check=True)


def test_forms():
    x, n = R.standard_normal((5, 6)), R.integers(-9, 9, (5, 1))
    for args in ((x, n), (x.T, 3), (x[::2, ::-1], 2), (3, n), (x > 0, n), (x.astype("float32"), n.astype("int8"))):
        same(np.ldexp, *args)
    significand, exponent = pyxla.jit(np.frexp)(x.T)
    assert [s // 2 for s in significand.strides] == list(exponent.strides)
    np.testing.assert_array_equal(np.ldexp(significand, exponent), x.T)
    f = pyxla.jit(lambda x, out: np.nextafter(x, 0, out=out, where=x > 0))
    np.testing.assert_array_equal(f(x, np.zeros((5, 6))), np.where(x > 0, np.nextafter(x, 0), 0))
