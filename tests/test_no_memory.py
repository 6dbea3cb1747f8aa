"""Every allocation fails once: a call raises MemoryError or works, and the next one works."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import pyxla
from pyxla import _core

X = np.arange(6.0).reshape(2, 3)
LONG = np.arange(300_000.0)
INTERPRETED = os.environ.get("PYXLA_BACKEND") == "interp"


def elementwise(x):
    return np.tanh(x) * 2 + x.sum(axis=0), x[0]


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layers(x):
    h = np.maximum(x @ np.ones((3, 4)) + 1, 0)
    return softmax(h @ h.T)


def writes(x):
    z = np.zeros((4, 3))
    z[1:3] = x
    x[0] += z[2]
    z[:, 1] *= 2
    return {"z": z, "t": np.concatenate([z, x]).T, "x": x}


def orders(x):
    z = np.zeros_like(x.T) + np.ones((3, 2))
    z[...] = x.T
    y = np.stack([[x, x * 2]] * 2).transpose(1, 0, 3, 2) @ np.ones((2, 2))
    return np.sort(z, 0), z.copy(order="C"), y, np.ascontiguousarray(x.T)[[0, 1]]


def split(x):
    y = np.resize(x, 1) if x.ndim == 7 else x.ravel()
    return np.tile(y, 20_000).sum(), y.argmax(), np.cumsum(y), x.var(axis=1), x.std(axis=0)


def flat(r):
    return [np.asarray(v) for v in (r.values() if isinstance(r, dict) else r if isinstance(r, tuple) else [r])]


def check(f, fn, x):
    for got, want in zip(flat(f(x.copy())), flat(fn(x.copy())), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("sign", [1, -1], ids=["one fails", "all fail"])
@pytest.mark.parametrize("fn", [elementwise, softmax, layers, writes, orders, split], ids=lambda fn: fn.__name__)
def test_compiler(fn, sign):
    check(pyxla.jit(fn), fn, X)                             # its kernels are there
    f, n, failed = pyxla.jit(fn), 0, 0
    while True:
        n += 1 + n // 30
        _core._fail_at(sign * n, 0)
        try:
            f(X.copy())
        except MemoryError:
            failed += 1
            assert INTERPRETED or f.cache_info().entries == 0       # interpreted runs need memory, too
        else:
            break
        finally:
            _core._fail_at(0, 0)
        if n % 5 == 0:
            check(f, fn, X)
            f.cache_clear()
    assert failed > 20
    check(f, fn, X)


def test_compiler_in_lower():
    n = 0
    while True:
        n += 1 + n // 20
        _core._fail_at(n, 0)
        try:
            lowered = pyxla.jit(softmax).lower(X)
            text = lowered.as_text(), lowered.as_text(simplified=True), lowered.compile().as_text()
        except MemoryError:
            continue
        finally:
            _core._fail_at(0, 0)
        break
    assert n > 20 and all(text)


def test_results():
    f = pyxla.jit(lambda x: (x + 1, x.reshape(100, -1).sum(axis=0), x.sum()))
    f(LONG)
    gc.collect()
    before = pyxla.memory_info().in_use
    for n in range(1, 5):
        _core._fail_at(0, n)
        try:
            f(LONG)
        except MemoryError:
            assert n < 4
        finally:
            _core._fail_at(0, 0)
    assert pyxla.memory_info().in_use == before
    assert f(LONG)[2] == LONG.sum()


HIT = """
import numpy as np, pyxla, _testcapi
x = np.arange(6.0)
same, add = pyxla.jit(lambda x: x), pyxla.jit(lambda x, y: x + y)
for _ in range(10): same(x), add(x, x)
def works(call, allocations):
    _testcapi.set_nomemory(allocations)
    try: call()
    except MemoryError: return False
    finally: _testcapi.remove_mem_hooks()
    return True
def least(call): return next(n for n in range(9) if works(call, n))
frame = least(lambda: None)                       # of a call of Python's: one in CPython 3.10, none later
assert least(lambda: same(x)) == frame
assert least(lambda: add(x, x)) == frame + 1
"""


def test_a_hit_makes_no_object_but_its_result():
    pytest.importorskip("_testcapi")
    r = subprocess.run([sys.executable, "-c", HIT], capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stderr[-4000:]


PYTHON = """
import sys, gc, numpy as np, pyxla, _testcapi
X = np.arange(6.0).reshape(2, 3)
class Pair:
    def __init__(self, x, y): self.x, self.y = x, y
pyxla.register_tree(Pair, lambda p: ((p.x, p.y), None), lambda aux, c: Pair(*c))
def fn(x, t, n):
    z = np.zeros(3)
    z[1:] = x[0, 1:] * n
    x[0] += 1
    y = np.zeros((3, 2)) + x.T
    y[...] = np.sort(x.T * 2, 0)
    return {"y": (y, y.ravel()), "z": z, "p": Pair(t["a"].sum(), n + 1), "v": x[1], "l": [x, (n * 2, None)]}
warm = pyxla.jit(fn)
def call(f): return f(X.copy(), {"a": X}, 3)
def hit(): return lambda: call(warm)
def miss():
    f = pyxla.jit(fn)
    return lambda: call(f)
def made(): return lambda: call(pyxla.jit(fn))
def lower(): return lambda: warm.lower(X.copy(), {"a": X}, 3).compile().as_text()
def shape(): return lambda: pyxla.eval_shape(lambda x: {"a": x + 1, "b": x[0]}, pyxla.ShapeDtype((2, 3), "f8"))
def failing(kind, f):
    f = pyxla.jit(f)
    def work():
        try: f(X)
        except kind: pass
    return work
def rest(x): return x[x > 1] * 2, np.unique(x), np.sort(x, 0), np.linalg.svd(x, compute_uv=False), np.linalg.eigvals(x[:, :2] + 2), np.full(3, x[0, 0])
several = pyxla.jit(rest)
def sized(): return lambda: several(X)
def sized_miss():
    f = pyxla.jit(rest)
    return lambda: f(X)
def sized_lower(): return lambda: several.lower(X).compile().as_text()
def error(): return failing(ValueError, lambda x: x + np.zeros(7))
def trace_error(): return failing(pyxla.TraceError, lambda x: x if x.sum() > 0 else -x)
sys.unraisablehook = lambda u: None
make = globals()[sys.argv[1]]
for _ in range(3): make()()
n = fine = failed = 0
while fine < 20:
    n += 1 + n // (20 if "sized" in sys.argv[1] else 1000)
    work = make()
    fine += 1
    try:
        _testcapi.set_nomemory(n, n + 1)
        work()
    except MemoryError:
        fine, failed = 0, failed + 1
    except SystemError as e:                  # 3.11 itself loses the error of a frame that it has no memory for
        if "returned NULL without" not in str(e): raise
        fine = 0
    finally:
        _testcapi.remove_mem_hooks()
    got = call(warm)
    assert got["z"][1] == 3 and got["p"].x == 15 and got["l"][1] == (6, None)
assert failed > 3
"""


# The same with Python's own calls: 3.12.1 and 3.13.0 crash when a call's frame has no memory.
ALONE = """
import _testcapi
def inner(*a, k=1, **kw): return tuple(v for v in a)
def call(a, b=2, *c, d=3): return inner(*{"a": a, "b": [b, c]}.values(), k=d, z=1)
for n in range(1, 400):
    try:
        _testcapi.set_nomemory(n, n + 1)
        call(5)
    except MemoryError:
        pass
    finally:
        _testcapi.remove_mem_hooks()
    for _ in range(20): [(i, {i: [i]}) for i in range(100)]
"""


@pytest.fixture(scope="module")
def python_survives():
    if subprocess.run([sys.executable, "-c", ALONE], capture_output=True, timeout=100).returncode:
        pytest.skip("this Python crashes without memory, without pyxla")


@pytest.mark.parametrize("what", ["hit", "miss", "made", "lower", "shape", "error", "trace_error", "sized", "sized_miss", "sized_lower"])
def test_python(what, python_survives):
    pytest.importorskip("_testcapi")
    r = subprocess.run([sys.executable, "-c", PYTHON, what], capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stderr[-4000:]
