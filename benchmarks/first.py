"""What first calls cost, and where their time goes: python -m benchmarks.first [--json]."""

import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np

from benchmarks import cases, report

TIMED = "; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
COLD = "import time, pyxla, numpy as np; from benchmarks.cases import rows; x = np.ones((128, 128), 'f4')" + TIMED.format("pyxla.jit(rows.softmax)(x)")
NUMPY = "import time" + TIMED.format("import numpy")
IMPORT = "import time, numpy" + TIMED.format("import pyxla")


def least(program, n=5):
    """The shortest time that a program in a fresh process prints."""
    return min(float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout) for _ in range(n))


def first(fn, *args, n=5):
    """(seconds, cache_info) of the shortest first call with LLVM loaded and no kernel known."""
    import pyxla

    found = []
    for _ in range(n):
        pyxla.clear_kernels()
        jitted = pyxla.jit(fn)
        start = time.perf_counter()
        jitted(*args)
        found.append((time.perf_counter() - start, jitted.cache_info()))
    return min(found, key=lambda pair: pair[0])


def demo_step():
    """The training step of examples/digits.py and arguments for it."""
    from examples import digits

    rng = np.random.default_rng(digits.SEED)

    def layers(scale):
        sizes = (64, digits.HIDDEN), (digits.HIDDEN, digits.CLASSES)
        return tuple(digits.Layer(rng.standard_normal(size) * scale, np.zeros(size[1])) for size in sizes)

    images, labels = rng.standard_normal((digits.BATCH, 64)), rng.integers(0, digits.CLASSES, digits.BATCH)
    return digits.train_step.__wrapped__, (layers(0.1), layers(0.0), images, labels, 0.01)


def again(fn, shapes, n=20):
    """Seconds of the first call with a shape whose kernels are known."""
    import pyxla

    jitted, times = pyxla.jit(fn), []
    for k in range(n + 1):
        x = np.ones(shapes(k), "float32")
        start = time.perf_counter()
        jitted(x)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def chain_of(n):
    def chain(x):
        for i in range(n):
            x = x * 0.999 + float(i)
        return x

    return chain


def tracing(n=1000):
    """Seconds per op of a trace."""
    import pyxla

    x, times = np.ones(8), []
    for _ in range(5):
        jitted = pyxla.jit(chain_of(n))
        start = time.perf_counter()
        jitted.lower(x)
        times.append(time.perf_counter() - start)
    return min(times) / (2 * n)


def measure():
    """{what: seconds}."""
    import pyxla

    measured = {"import pyxla, NumPy imported": least(IMPORT), "import numpy": least(NUMPY), "softmax, cold process": least(COLD)}
    pyxla.jit(lambda x: x + 1)(np.ones(3))
    rows, elementwise, stencils = cases.load("rows"), cases.load("elementwise"), cases.load("stencils")
    depth = [np.ones(1000)] * 3
    for name, fn, args in (
        ("softmax, LLVM warm", rows.softmax, (np.ones((128, 128), "float32"),)),
        ("density, 600 ops", elementwise.density, depth),
        ("the demo's training step", *demo_step()),
        ("heat, 100 unrolled steps", stencils.heat, (np.ones((128, 128)),)),
    ):
        measured[name], info = first(fn, *args)
        measured |= {f"{name}: {part}": seconds for part, seconds in info.seconds.items()}
    measured["softmax, a new shape"] = again(rows.softmax, lambda k: (100 + k, 128))
    measured["tracing, per op"] = tracing()
    return measured


def main(argv):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    measured = measure()
    print(json.dumps(measured) if "--json" in argv else report.times(measured))


if __name__ == "__main__":
    main(sys.argv[1:])
