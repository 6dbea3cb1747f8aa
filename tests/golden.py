"""The graphs and plans of golden.txt: `python tests/golden.py > tests/golden.txt` renews them, for a reader of the difference.

The level and the caches are fixed, so the text is the same on every machine that has AVX2. Each name says what its plan shows. The programs are traced and
planned, not run."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

TEXT = Path(__file__).with_name("golden.txt")
FIXED = {"PYXLA_CPU": "avx2", "PYXLA_CACHES": "32768,1048576", "PYXLA_BACKEND": "interp", "PYXLA_CHECK": "0", "PYXLA_NUM_THREADS": "1"}


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, g, b):
    d = x - x.mean(axis=-1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5) * g + b


def stencil(u):
    u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def small(a, b):
    for _ in range(3):
        a = a @ b + a
    return a


F = np.zeros((100, 64), "float32")
D = np.zeros((100, 64))
PROGRAMS = {
    "several outputs are one pass": (lambda x, y: (x * y + 1, x - y, np.sqrt(x)), (D, D)),
    "softmax is one kernel that reads its input once": (softmax, (F,)),
    "so is layer norm": (layer_norm, (F, F[0], F[0])),
    "std down columns is one pass": (lambda x: x.std(axis=0), (D,)),
    "reductions of one operand share a pass": (lambda x: (x.sum(axis=1), x.max(axis=1), (x * x).sum(axis=1)), (D,)),
    "a likelihood reads its rows once": (lambda x, y: -np.log(softmax(x)[np.arange(len(y)), y]).mean(), (F, np.zeros(100, "uint8"))),
    "no temporary before a whole sum": (lambda x, y: ((x - y) ** 2).sum(), (D, D)),
    "a product is finished in its kernel": (lambda x, w, b: np.maximum(x @ w + b, 0), (F, F.T, F[:, 0])),
    "nothing of full size between a layer and its softmax": (lambda x, w, b: softmax(np.maximum(x @ w + b, 0)),
                                                             (np.zeros((512, 64), "float32"), np.zeros((64, 128), "float32"), np.zeros(128, "float32"))),
    "attention over long rows goes by blocks of them": (lambda q, k, v: softmax(q @ k.T) @ v, (F, np.zeros((3000, 64), "float32"), np.zeros((3000, 64), "float32"))),
    "rows of a norm are made in the product's kernel": (lambda x, g, b, w: layer_norm(x, g, b) @ w, (F, F[0], F[0], F[:64])),
    "rows of a table and joined pieces too": (lambda t, i, x, w: np.concatenate([t[i], x], axis=-1) @ w,
                                              (F, np.zeros(60, "uint8"), F[:60, :20], np.zeros((84, 40), "float32"))),
    "a stencil in place copies nothing": (stencil, (D[:, 0],)),
    "an update of a part copies nothing": (lambda x: x.__setitem__((slice(2, 5), slice(None, None, -2)), 3.0), (D,)),
    "views cost nothing": (lambda x: (x.T[::2, ::-1] + x.reshape(64, 100)[::2]), (D,)),
    "joined pieces are written once": (lambda x, y: np.concatenate([x[:10], np.concatenate([y * 2, x])[5:-5]]), (D, D)),
    "what is done to joined pieces is done to each": (lambda x: np.pad(x, 3) * 2 + 1, (D[:, 0].repeat(2),)),
    "a stencil on a padded array looks for the margins": (lambda x: (lambda p: p[:-2] + p[2:] - 2 * p[1:-1])(np.pad(x, 1)), (D[:, 0].repeat(2),)),
    "a stack is reduced where it is computed": (lambda x: np.stack([x, x * x, -x]).max(0), (D,)),
    "small products and all around them are one kernel": (small, (D[:3, :3], D[:3, :3])),
    "a gather, a scatter, a mask": (lambda x, i: (x[i], x.__setitem__(i, 0.0), np.where(x > 0, x, 0))[::2], (D[0], np.zeros(5, "int64"))),
}


def text():
    import pyxla
    parts = []
    for name, (fn, args) in PROGRAMS.items():
        lowered = pyxla.jit(fn).lower(*(a.copy() for a in args))
        parts.append(f"==== {name}\n---- traced\n{lowered.as_text()}---- simplified\n{lowered.as_text(simplified=True)}---- plan\n{lowered.compile().as_text()}")
    return "\n".join(parts)


def fixed_text():
    loaded = sys.modules.get("pyxla")                           # as a test: the build that is tested
    packages = str(Path(loaded.__file__ if loaded else __file__).resolve().parent.parent)
    done = subprocess.run([sys.executable, __file__, "here"], env={**os.environ, **FIXED, "PYTHONPATH": packages}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


if __name__ == "__main__":
    sys.stdout.write(text() if sys.argv[1:] == ["here"] else fixed_text())
