"""Long kernels of scalars, which LLVM translates as they come: the bits are those of arrays, and the time to compile is in proportion."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pyxla

UNARY = [f for f in vars(np).values() if isinstance(f, np.ufunc) and (f.nin, f.nout, f.signature) == (1, 1, None)]
BINARY = [f for f in vars(np).values() if isinstance(f, np.ufunc) and (f.nin, f.nout, f.signature) == (2, 1, None)]
DTYPES = "?bHQefdD"
SCALARS = 8


def takes(f, dtype):
    try:
        f(*[np.ones(1, dtype)] * f.nin)
        return True
    except TypeError:
        return False


def values(dtype):
    r = np.random.default_rng(0)
    if dtype.kind in "biu":
        return r.integers(0, 2 if dtype.kind == "b" else 100, SCALARS).astype(dtype) * (np.array([1, -1] * (SCALARS // 2), dtype) if dtype.kind == "i" else dtype.type(1))
    x = np.concatenate([r.standard_normal(SCALARS - 6) * 4, [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]])
    return (x + 1j * x[::-1] if dtype.kind == "c" else x).astype(dtype)


def arguments(f, x):
    y = np.roll(x, 3)
    return (x, abs(y) if f is np.power and x.dtype.kind == "i" else y)[:f.nin]


def check():
    with np.errstate(all="ignore"):
        for dtype in map(np.dtype, DTYPES):
            x = values(dtype)
            functions = [f for f in UNARY + BINARY if takes(f, dtype)]
            each = pyxla.jit(lambda x, functions=functions: [[f(*[a[i] for a in arguments(f, x)]) for i in range(SCALARS)] for f in functions])
            for f, numbers in zip(functions, each(x)):
                whole, numbers = pyxla.jit(f)(*arguments(f, x)), np.array(numbers)
                assert numbers.dtype == whole.dtype, (f, dtype)
                nan = np.isnan(whole) if whole.dtype.kind in "fc" else np.zeros(SCALARS, bool)
                assert numbers[~nan].tobytes() == whole[~nan].tobytes(), (f, dtype, numbers, whole)
                assert not nan.any() or np.isnan(numbers[nan]).all(), (f, dtype)


@pytest.mark.parametrize("level", ["", "sse2", "avx2"])
def test_elements_have_the_bits_of_arrays(level):
    packages = os.pathsep.join([str(Path(__file__).parent), str(Path(pyxla.__file__).parent.parent)])
    run = subprocess.run([sys.executable, "-c", "import test_straight; test_straight.check()"],
                         env=os.environ | {"PYTHONPATH": packages} | ({"PYXLA_CPU": level} if level else {}), capture_output=True, text=True)
    assert run.returncode == 0 or "does not have" in run.stderr, run.stderr[-3000:]


def thomas(a, b, c, d):
    n = len(d)
    p, q, x = np.zeros(n), np.zeros(n), np.zeros(n)
    p[0], q[0] = c[0] / b[0], d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * p[i - 1]
        p[i], q[i] = c[i] / m, (d[i] - a[i] * q[i - 1]) / m
    x[-1] = q[-1]
    for i in range(n - 2, -1, -1):
        x[i] = q[i] - p[i] * x[i + 1]
    return x


def best_score(s):
    h = np.zeros((s.shape[0] + 1, s.shape[1] + 1))
    for i in range(1, h.shape[0]):
        for j in range(1, h.shape[1]):
            h[i, j] = np.maximum(np.maximum(h[i - 1, j - 1] + s[i - 1, j - 1], h[i - 1, j] - 1), h[i, j - 1] - 1)
    return h


def test_recurrences():
    r = np.random.default_rng(0)
    a, b, c, d = r.random((4, 200)) + [[0], [3], [0], [0]]
    assert pyxla.jit(thomas)(a, b, c, d).tobytes() == thomas(a, b, c, d).tobytes()
    s = r.standard_normal((20, 20))
    assert pyxla.jit(best_score)(s).tobytes() == best_score(s).tobytes()
