"""Kernels that the package was built with: plain products need no compiler, and what is shipped is what would be compiled."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pyxla

PACKAGE = Path(pyxla.__file__).resolve().parent
LEVEL = pyxla._core.system_info()["level"]
FILE = PACKAGE / f"_kernels_{LEVEL}.bin"
PRODUCTS = """
import numpy as np, pyxla
rng = np.random.default_rng(0)
f = pyxla.jit(lambda a, b: a @ b)
for dtype in "float32", "float64":
    for m, k, n in [(77, 77, 77), (64, 64, 64), (300, 200, 500), (701, 703, 699), (1000, 5, 1000), (1, 9, 9), (1030, 1100, 3)]:
        a, b = (np.asarray(rng.integers(-8, 8, s), dtype) for s in [(m, k), (k, n)])
        assert np.array_equal(f(a, b), a @ b)
        assert np.array_equal(f(a, b[:, 0].copy()), a @ b[:, 0]) and np.array_equal(f(a[0], b), a[0] @ b)
        if m == k == n:
            assert np.array_equal(f(a.T, b), a.T @ b) and np.array_equal(f(a, b.T), a @ b.T)
    q, k = (np.asarray(rng.integers(-8, 8, (5, 70, 64)), dtype) for _ in range(2))
    assert np.array_equal(f(q, k.swapaxes(1, 2)), q @ k.swapaxes(1, 2))
info = f.cache_info()
print(info.compiled, info.reused)
"""

pytestmark = pytest.mark.skipif(not FILE.exists(), reason="this build has no shipped kernels (a sanitized or debugging one)")


def counts(package=PACKAGE, program=PRODUCTS, **environment):
    """Kernels compiled and found by a process that multiplies matrices, its results checked."""
    env = {**os.environ, "PYTHONPATH": str(package.parent), "PYXLA_BACKEND": "llvm", "PYXLA_CHECK": "0", "PYXLA_SHIPPED": "1", **environment}
    done = subprocess.run([sys.executable, "-c", program], env=env, cwd=package.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tuple(map(int, done.stdout.split()))


def test_nothing_is_compiled():
    compiled, found = counts()
    assert compiled == 0 and found > 40


GRAMS = """
import numpy as np, pyxla
f, h, g = pyxla.jit(lambda x: x.T @ x), pyxla.jit(lambda x: x @ x.T), pyxla.jit(lambda x, w: x @ w)
for n in [*range(2, 33), 50, 100]:
    x, w = np.ones((41, n), "float32"), np.ones((n, 39), "float32")
    assert (f(x) == 41).all() and (h(x) == n).all() and (g(w, np.ones((39, n), "float32")) == 39).all()
print(sum(j.cache_info().compiled for j in (f, h, g)), sum(j.cache_info().reused for j in (f, h, g)))
"""


def test_a_matrix_with_itself():
    """x.T @ x takes the kernels of a.T @ b: nothing is compiled for any width; nor for few rows and columns (but what turns rows of four, at sse2)."""
    compiled, found = counts(program=GRAMS)
    assert compiled <= (LEVEL == "sse2") and found > 90


def test_switched_off():
    assert counts(PYXLA_SHIPPED="0")[0] > 10
    assert counts(PYXLA_CHECK="1")[0] > 10                  # bounds checks are other kernels


def write(path):
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PYXLA_BACKEND": "llvm", "PYXLA_CHECK": "0", "PYXLA_CPU": LEVEL}
    subprocess.run([sys.executable, "-c", f"from pyxla._families import write; write({str(path)!r})"], check=True, cwd=PACKAGE.parent, env=env)


def test_the_same_code_again(tmp_path):
    write(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == FILE.read_bytes()


@pytest.mark.parametrize("harm", [lambda b: b[:len(b) // 2], lambda b: b[:8] + bytes(64) + b[72:], lambda b: b"", lambda b: b[:72] + b"\xff" * 8 + b[80:]],
                         ids=["cut", "another build", "empty", "count"])
def test_a_bad_file_is_not_used(harm, tmp_path):
    package = tmp_path / "pyxla"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / FILE.name).write_bytes(harm(FILE.read_bytes()))
    compiled, _ = counts(package)
    assert compiled > 10
