"""Kernels that are compiled when the package is built: plain products of every form, for each level of instructions.

`python -m pyxla._families FOLDER` writes `_kernels_LEVEL.bin` for the levels up to the machine's own. Kernels take extents, strides
and blocks as arguments, so a few shapes of each form stand for all of them. What other functions need is compiled when they are
called; without these files, or where one is of another build, so are the products."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np

LEVELS = {"sse2": ["sse2"], "avx2": ["sse2", "avx2"], "avx512": ["sse2", "avx2", "avx512"], "neon": ["neon"]}
LENGTHS = (1, 6, 14, 28, 77, 300, 500, 701, 1100, 2100)
NARROW = range(1, 33)                                   # extents that a kernel may know
FEW = (2, 3, 4, 5, 10, 12, 14, 16, 42, 45, 48, 96, 100, 102, 105)               # rows that take tiles of every height
PANELS = (37, 40, 45, 48, 56, 60, 64, 80, 90, 96, 112)  # columns that take panels of every width, whole ones and not
LARGER = (100, 128, 190, 192, 200, 250, 256, 384, 500)
LONG = (64, 300, 2100)
AT_ONCE = (10, 12, 14, 16, 100)                         # rows that use a matrix at once where it lies, in tiles of every height
WHERE_IT_LIES = ((700, 500), (700, 700), (700, 1100), (1100, 1100), (2400, 500), (2400, 1100), (250, 1024), (512, 1024), (1024, 1024),
                 (1024, 512))


def shapes():
    """Pairs of shapes of `a @ b`, and whether also of its transposed operands."""
    for m, k, n in product(LENGTHS, repeat=3):
        yield (m, k), (k, n), True
    for m, n in product(FEW, PANELS):
        for k in (14, 77, 300, n):                          # equal strides are one argument
            yield (m, k), (k, n), True
    for m, n in product((96, 100, 102, 105), LARGER):
        for k in (n, 1100):
            yield (m, k), (k, n), True
    for n in (*NARROW, *PANELS, *LARGER):
        yield (n, n), (n, n), True
    for m in range(2, 9):
        yield (m, 2100), (2100, 500), True
    for m, (k, n) in product(AT_ONCE, WHERE_IT_LIES):
        yield (m, k), (k, n), True
    for n in NARROW:
        yield (20, 40), (40, n), True                       # few rows: one block
        yield (n, 50), (50, n), True                        # x.T @ x has equal strides
        for m in LONG:
            yield from [((m, m), (m, n), m == LONG[-1]), ((n, m), (m, m), False), ((m, n), (n, m), False)]
    for m, k in product((*LENGTHS, *NARROW), (*LONG, 1100)):
        yield from [((m, k), (k,), True), ((k, m), (m,), True), ((m,), (m, k), True), ((k,), (k, m), True)]
        yield from [((m,), (m,), False), ((k,), (k,), False)]
    yield from (((1000, n, n), (1000, n, n), False) for n in (*range(2, 17), 32, 64))


def blank(shape, dtype):
    """An array that takes no memory until it is written to (nobody does)."""
    return np.empty(shape, dtype)


def turned(x):
    """An array of this shape whose columns are together."""
    return blank(x.shape[::-1], x.dtype).T


def operands(dtype):
    """Pairs of operands that among them take all plain products' kernels."""
    for left, right, transposed in shapes():
        a, b = blank(left, dtype), blank(right, dtype)
        yield a, b
        if transposed and a.ndim == 2:
            yield turned(a), b
        if transposed and b.ndim == 2:
            yield a, turned(b)
    for length in (70, 3000):                               # attention's keys are packed so
        heads = blank((3, length, 64), dtype)
        yield heads, blank(heads.shape, dtype).swapaxes(1, 2)
        yield heads, blank((length, 3, 64), dtype).transpose(1, 2, 0)


def write(path):
    """Compiles the families for this process' level (PYXLA_CPU) into a file."""
    import pyxla

    multiply = pyxla.jit(lambda a, b: a @ b)
    pyxla._core._ship()
    for dtype in ("float32", "float64"):
        for a, b in operands(dtype):
            multiply.lower(a, b).compile()._prepare()
    pyxla._core._ship(path)


def main(folder):
    import pyxla

    def write_level(level):
        path = Path(folder) / f"_kernels_{level}.bin"
        subprocess.run([sys.executable, "-c", f"from pyxla._families import write; write({str(path)!r})"], check=True,
                       env={**os.environ, "PYXLA_CPU": level, "PYXLA_BACKEND": "llvm", "PYXLA_CHECK": "0"})

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(write_level, LEVELS[pyxla._core.system_info()["level"]]))


if __name__ == "__main__":
    main(sys.argv[1])
