"""Creation functions while a function is traced: redirected for user code of the tracing thread, untouched for everybody else."""
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from checking import check
from numpy import array, zeros

import pyxla

X = np.arange(4.0)
NAMES = ["empty", "zeros", "array", "asarray", "asanyarray", "ascontiguousarray", "arange", "ones", "full", "eye", "linspace"]


def made():
    return zeros(4)


class Maker:
    def make(self):
        return np.ones(4)


def in_a_comprehension(x):
    parts = [zeros(2) for _ in range(2)]
    parts[0][1] = x[1]
    return np.concatenate(parts)


def set_first(z, x):
    z[0] = x[1]
    return z


PROGRAMS = [
    lambda x: set_first(made(), x), lambda x: set_first(Maker().make(), x), in_a_comprehension, lambda x: set_first(np.empty(4) * 0, x), lambda x: set_first(array([1.0, 2.0]), x),
    lambda x: set_first(np.arange(5.0), x), lambda x: set_first(np.arange(2, 9, 3), x), lambda x: set_first(np.full(3, 2.5), x), lambda x: set_first(np.full((2, 2), x[0]), x[:2]),
    lambda x: set_first(np.eye(4), x), lambda x: set_first(np.linspace(0, 1, 4), x), lambda x: np.array([x[0], 1.0, [2.0, x[1]][1]]), lambda x: np.array([[1, x[0]], [x[1], 2]]),
    lambda x: set_first(np.array(x), x), lambda x: set_first(np.asarray(x), x), lambda x: (set_first(np.ascontiguousarray(x[::-1]), x), x), lambda x: set_first(np.zeros_like(x), x),
    lambda x: set_first(np.zeros((2, 4), order="F").T, x[:2]), lambda x: np.array([1, 2, 3]), lambda x: np.array(x, ndmin=2), lambda x: np.array([1.5, 2.5], dtype=int) + x[:2],
    lambda x: sum(i * x for i in np.arange(3)), lambda x: x + np.array([1, 2, 3, 4]).tolist()[1], lambda x: x * int(np.array([1, 2]).sum()), lambda x: x if np.zeros(3)[1] == 0 else -x,
    lambda x: x[np.array([0, 2])[1]], lambda x: np.array("text").item() + str(1), lambda x: np.asarray(3.5) + x, lambda x: np.identity(4) @ x, lambda x: np.tri(4) @ x,
]


@pytest.mark.parametrize("f", PROGRAMS, ids=range(len(PROGRAMS)))
def test_creation(f):
    check(f, X.copy(), rtol=1e-15)


def test_nothing_stays_after_a_trace():
    before = [getattr(np, n) for n in NAMES]
    pyxla.jit(lambda x: np.zeros(4) + x)(X)
    with pytest.raises(pyxla.TraceError):
        pyxla.jit(lambda x: float(np.zeros(4)[0] + x[0]))(X)
    assert before == [getattr(np, n) for n in NAMES]
    assert all(type(v) is np.ndarray for v in (np.zeros(3), np.array([1]), np.arange(3), np.ones(2), np.eye(2), np.linspace(0, 1, 3), np.full(2, 1), np.exp(X), X + 1, X[1:]))
    a = np.zeros(3)
    a[0] = 1
    assert a.tolist() == [1, 0, 0]


def test_other_threads_see_numpy():
    kinds = []

    @pyxla.jit
    def f(x):
        def work():
            kinds.extend(map(type, (np.zeros(3), np.array([1.0]), np.ones(3), np.arange(3), X + 1, np.sum(X), X[1:], X.copy())))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x + np.zeros(4)

    f(X)
    assert kinds == [np.ndarray] * 5 + [np.float64, np.ndarray, np.ndarray]


def test_nested_trace():
    inner = pyxla.jit(lambda y: np.ones(4) * y)
    assert np.array_equal(pyxla.jit(lambda x: inner(x) + np.zeros(4))(X), X)


def test_hooks_off():
    code = "import numpy as np, pyxla\nprint(pyxla.jit(lambda x: x + np.ones(3))(np.ones(3)))\n" \
           "def f(x):\n z = np.zeros(3)\n z[0] = x[0]\n return z\ntry:\n pyxla.jit(f)(np.ones(3))\nexcept (pyxla.TraceError, ValueError):\n print('refused')\n"
    root = str(Path(pyxla.__file__).parent.parent)
    out = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYXLA_HOOKS": "0", "PYTHONPATH": root}, capture_output=True, text=True)
    assert out.stdout == "[2. 2. 2.]\nrefused\n", out.stderr


def test_a_module_that_is_imported_in_a_traced_function_has_arrays_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "imported_in_a_trace.py").write_text("import numpy as np\nW = np.arange(4.0)\nONES = np.ones(4)\n")
    monkeypatch.syspath_prepend(tmp_path)

    def f(x):
        import imported_in_a_trace as module
        return x * module.W + module.ONES

    g = pyxla.jit(f)
    np.testing.assert_array_equal(g(X), X * X + 1)
    module = sys.modules["imported_in_a_trace"]
    assert type(module.W) is type(module.ONES) is np.ndarray
    module.W[1] = 7
    np.testing.assert_array_equal(g(X), f(X))
