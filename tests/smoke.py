"""A few calls through every layer, for an installed wheel: needs NumPy and pyxla alone.

Modules named on the command line are imported before it (`python smoke.py torch numba`), or after it if a `-` comes first; those with
an LLVM of their own compile something before and after it does."""
import importlib
import sys

import numpy as np

before = "-" not in sys.argv
modules = [name for name in sys.argv[1:] if name != "-"]
USES = {
    "numba": lambda numba: numba.njit(lambda x: x + 1)(np.arange(3.0))[2],
    "jax": lambda jax: jax.jit(lambda x: x + 1)(2.0),
    "torch": lambda torch: (torch.arange(3.0) + 1)[2],
}


def use_modules():
    for name in modules:
        module = importlib.import_module(name)
        assert USES.get(name, lambda _: 3)(module) == 3


if before:
    use_modules()

import pyxla


@pyxla.jit
def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pyxla.jit
def layer(x, w, b):
    return np.maximum(x @ w + b, 0)


@pyxla.jit
def smooth(a):
    a[1:-1] += 0.25 * (a[:-2] - 2 * a[1:-1] + a[2:])


rng = np.random.default_rng(0)
for n in (5, 64, 257):
    x, w, b, a = rng.random((n, 33)), rng.random((33, 8)), rng.random(8), rng.random(n)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    assert np.allclose(softmax(x), e / e.sum(axis=-1, keepdims=True))
    assert np.allclose(layer(x, w, b), np.maximum(x @ w + b, 0))
    want = a.copy()
    want[1:-1] += 0.25 * (want[:-2] - 2 * want[1:-1] + want[2:])
    smooth(a)
    assert np.array_equal(a, want)
use_modules()
assert np.allclose(softmax(np.ones((3, 4), np.float32)), 0.25)
use_modules()
print("pyxla", getattr(pyxla, "__version__", ""), "works", *sys.argv[1:])
