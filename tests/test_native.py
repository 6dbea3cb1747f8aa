"""Host calls without Python (csrc/py/native.c): loops of ufuncs on buffers of every layout, positions of a mask, and sorts."""
import os
import subprocess
import sys

import numpy as np
import pytest
from checking import check, layouts, same

import pyxla

WHOLE = np.random.default_rng(1).integers(0, 100, (5, 7, 6))
PARTS = [lambda a: a[:, 1:2], lambda a: a[0, 0, 0], lambda a: a[:0]]
UFUNCS = [(np.bitwise_count, "i1 u2 i4 i8"), (np.frexp, "i1 i4 f2 f4 f8"), (np.spacing, "i4 f2 f4 f8"), (np.gcd, "i1 u2 i4 i8"), (np.lcm, "u1 i8"),
          (np.nextafter, "i2 f4 f8"), (np.ldexp, "i1 f4 f8")]


@pytest.mark.parametrize("ufunc, dtypes", UFUNCS, ids=lambda v: getattr(v, "__name__", ""))
def test_loops(ufunc, dtypes):
    for dtype in dtypes.split():
        a = WHOLE.astype(dtype)
        for x in [*(v for _, v in layouts(a)), *(part(a) for part in PARTS)]:
            others = [()] if ufunc.nin == 1 else [(x,), (x[:1] if x.ndim else x,)]
            for other in others:
                check(lambda *args: ufunc(*args), x, *(y.astype("i4") if ufunc is np.ldexp else y for y in other), calls=1)


def test_a_result_that_nobody_reads():
    check(lambda x: np.frexp(x * 3)[1], WHOLE.astype(float))


def test_loops_of_others_may_raise():
    special = pytest.importorskip("scipy.special")
    f, x = pyxla.jit(lambda x: special.gamma(x) + 1), np.array([0.5, -1.0])
    same(special.gamma(x) + 1, f(x))
    with special.errstate(all="raise"), pytest.raises(special.SpecialFunctionError):
        f(x)


POSITIONS = """
import numpy as np
import pyxla

f = pyxla.jit(lambda m: np.nonzero(m)[0])
g = pyxla.jit(lambda x, m: x[m])
for n in (1, 7, 8, 63, 64, 65, 71, 200, 1000, 5003):
    for part in (0, 0.01, 0.5, 0.99, 1):
        wide = np.random.default_rng(n).random(2 * n) < part
        for m in (wide[:n], wide[::2], wide[::-2]):
            np.testing.assert_array_equal(f(m), np.nonzero(m)[0])
            for dtype in ("i1", "f2", "f4", "f8", "c16", ">i4"):
                x = np.arange(2 * n).astype(dtype)
                for v in (x[:n], x[::-2]):
                    np.testing.assert_array_equal(g(v, m), v[m])
square, twice = np.arange(6000.0).reshape(60, 100), pyxla.jit(lambda x, y, m: (x[m] - y[m], x[m][::2].sum(), np.flatnonzero(m)))
for x in (square, square.T.copy().T, square[::-1]):
    m = np.random.default_rng(3).random(x.shape) < 0.3
    np.testing.assert_array_equal(g(x, m), x[m])
    for a, b in zip(twice(x, x * 2, m), (x[m] - (x * 2)[m], x[m][::2].sum(), np.flatnonzero(m))):
        np.testing.assert_array_equal(a, b)
odd = np.array([0, 2, 255, 0, 1], np.uint8).view(bool)
np.testing.assert_array_equal(f(odd), [1, 2, 4])
"""


@pytest.mark.parametrize("env", [{}, {"PYXLA_CPU": "sse2"}, {"PYXLA_CHECK": "1"}], ids=str)
def test_positions(env):
    subprocess.run([sys.executable, "-c", POSITIONS], env=os.environ | env, check=True)


@pytest.mark.parametrize("dtype", "bool int8 uint16 int32 uint64 float16 float32 float64 complex64 complex128".split())
def test_sorts(dtype):
    rng = np.random.default_rng(5)
    for shape in ((1,), (40,), (1000,), (7, 33), (3, 4, 20), (5, 0), (6, 1), (2, 300)):
        whole = np.round(rng.standard_normal(shape) * 20)
        x = (whole > 0) if dtype == "bool" else abs(whole).astype(dtype) if dtype[0] == "u" else whole.astype(dtype)
        if x.dtype.kind in "fc" and x.size:
            x.flat[rng.integers(x.size)] = np.nan
        for a in [v for _, v in layouts(x)]:
            for kind in (None, "heapsort", "stable"):
                f = pyxla.jit(lambda a: (np.sort(a, kind=kind), np.argsort(a, kind=kind), np.sort(a, 0), np.argsort(a, 0)))
                for got, want in zip(f(a), f.__wrapped__(a)):
                    np.testing.assert_array_equal(got, want)
