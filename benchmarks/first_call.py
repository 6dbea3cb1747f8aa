"""What a first call costs, and where its time goes: python -m benchmarks.first_call [--json] [--repeat N].

Each figure is the least of N fresh processes, in milliseconds; `cpu` is what all threads of the process worked, which other work on the
machine changes less. Python modules are found compiled, as an installed package's are, whatever PYTHONDONTWRITEBYTECODE says. `cold` is
the first jitted call of its process, so it opens LLVM; the others come after a first call of something else. BUDGETS are what the
project asks of itself on a current server's core."""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks import report

# ---- what is called ----

def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


COEFFICIENTS = np.random.default_rng(0).uniform(0.1, 1, (6, 5, 4)).tolist()


def state_equation(s, t, p):
    """A quotient of polynomials in salinity, temperature and pressure by Horner's rule: about 400 operations."""
    s = np.sqrt(np.abs(s) * 0.025 + 1.0)

    def polynomial(rows):
        total = 0.0
        for row in rows:
            by_s = 0.0
            for column in row:
                by_t = 0.0
                for c in column:
                    by_t = by_t * t + c
                by_s = by_s * s + by_t
            total = total * p + by_s
        return total

    return polynomial(COEFFICIENTS) / polynomial([row[:3] for row in COEFFICIENTS[:3]]) + np.exp(-p) * np.log1p(np.abs(t))


def heat(u, steps):
    for _ in range(steps):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1])
    return u


def training(model, velocity, images, labels, rate, momentum=0.9):
    """The training step of examples/digits.py."""
    (w1, b1), (w2, b2) = model
    active = np.maximum(images @ w1 + b1, 0)
    logits = active @ w2 + b2
    logits -= logits.max(axis=1, keepdims=True)
    odds = np.exp(logits)
    total = odds.sum(axis=1, keepdims=True)
    target = labels[:, None] == np.arange(10)
    loss = np.mean(np.log(total) - np.sum(logits * target, axis=1, keepdims=True))
    d_logits = (odds / total - target) / len(images)
    d_active = d_logits @ w2.T * (active > 0)
    gradient = ((images.T @ d_active, d_active.sum(axis=0)), (active.T @ d_logits, d_logits.sum(axis=0)))
    for layer, speed, slope in zip(model, velocity, gradient):
        for p, v, g in zip(layer, speed, slope):
            v *= momentum
            v -= rate * g
            p += v
    return loss


def training_arguments():
    rng = np.random.default_rng(0)
    model = [(rng.standard_normal((64, 128)), np.zeros(128)), (rng.standard_normal((128, 10)), np.zeros(10))]
    return model, [(w * 0, b * 0) for w, b in model], rng.standard_normal((64, 64)), rng.integers(0, 10, 64), 0.1


def normal(*shape):
    return np.random.default_rng(1).standard_normal(shape)


def relu_product(x, w, b):
    return np.maximum(x @ w + b, 0)


# ---- one case in this process: milliseconds, and cache_info's share of them ----

def first(fn, *args, warm=True):
    import pyxla
    if warm:
        pyxla.jit(lambda x: x * 3.0 - 1.0)(normal(8))
    jitted = pyxla.jit(fn)
    start, worked = time.perf_counter(), time.process_time()
    jitted(*args)
    ms, cpu = 1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - worked)
    return {"ms": ms, "cpu": cpu, **{k: 1e3 * v for k, v in jitted.cache_info().seconds.items()}}


def transformer():
    """12 layers of width 768 at 128 rows: what the first call takes beyond the second."""
    import pyxla
    from benchmarks import networks
    _, fn, args, *_ = next(row for row in networks.rows(np) if "T = 128" in row[0])
    pyxla.jit(lambda x: x * 3.0 - 1.0)(normal(8))
    jitted = pyxla.jit(getattr(networks.functions(np), fn))

    def call():
        start, worked = time.perf_counter(), time.process_time()
        jitted(*args)
        return 1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - worked)

    ms, cpu = call()
    again, run = min(call() for _ in range(3))
    info = jitted.cache_info()
    return {"ms": ms - again, "cpu": cpu - run, "kernels": info.compiled + info.reused, **{k: 1e3 * v for k, v in info.seconds.items()}}


def new_shape():
    """A known function of 12 operations at shapes it has not seen; ms is what one costs beyond a call, the median of 20."""
    import pyxla
    jitted = pyxla.jit(lambda x, y: (softmax(x * y + 1.0) - x) / (np.abs(y) + 1.0))
    for n in (96, 128):
        jitted(normal(n, n), normal(n, n))

    def call(*args):
        start = time.perf_counter()
        jitted(*args)
        return 1e3 * (time.perf_counter() - start)

    compiled, beyond = jitted.cache_info().compiled, []
    for n in range(140, 160):
        args = normal(n, n), normal(n, n)
        beyond.append(call(*args) - call(*args))
    return {"ms": statistics.median(beyond), "kernels compiled": jitted.cache_info().compiled - compiled}


def tracing():
    """Microseconds per traced operation."""
    import pyxla
    def chain(x):
        for _ in range(3000):
            x = x * 0.5 + 1.0
        return x
    x = normal(8)
    least = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        pyxla.eval_shape(chain, x)
        least = min(least, time.perf_counter() - start)
    return {"us per op": 1e6 * least / 6000}


def importing():
    start, worked = time.perf_counter(), time.process_time()
    import pyxla  # noqa: F401
    return {"ms": 1e3 * (time.perf_counter() - start), "cpu": 1e3 * (time.process_time() - worked)}


CASES = {
    "import pyxla, over NumPy's": importing,
    "softmax 128x128, cold": lambda: first(softmax, normal(128, 128), warm=False),
    "softmax 128x128": lambda: first(softmax, normal(128, 128)),
    "equation of state (400 operations)": lambda: first(state_equation, normal(1000), normal(1000), normal(1000)),
    "training step of the demo": lambda: first(training, *training_arguments()),
    "100 time steps of heat": lambda: first(functools.partial(heat, steps=100), normal(64, 64)),
    "relu(x @ w + b)": lambda: first(relu_product, normal(64, 128), normal(128, 96), normal(96)),
    "12 transformer layers": transformer,
    "a new shape": new_shape,
    "tracing": tracing,
}
BUDGETS = {"import pyxla, over NumPy's": 20, "softmax 128x128, cold": 50, "softmax 128x128": 10, "equation of state (400 operations)": 80,
           "training step of the demo": 60, "100 time steps of heat": 40, "relu(x @ w + b)": 15, "12 transformer layers": 150,
           "a new shape": 0.14, "tracing": 2}


def measure(repeat):
    """{case: its figures}, of the run whose first figure is the least."""
    measured = {}
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPYCACHEPREFIX": folder}

        def run(name):
            return json.loads(subprocess.run([sys.executable, "-m", "benchmarks.first_call", "--case", name], env=env, check=True,
                                             capture_output=True, text=True).stdout)

        run("softmax 128x128, cold")
        for name in CASES:
            measured[name] = min((run(name) for _ in range(repeat)), key=lambda r: next(iter(r.values())))
    return measured


def table(measured):
    rows = [["first call of", "measured", "budget", "of which"]]
    for name, figures in measured.items():
        (unit, value), *parts = figures.items()
        rows.append([name, f"{value:.3g} {unit}", f"{BUDGETS[name]:.3g}", ", ".join(f"{k} {v:.3g}" for k, v in parts)])
    return report.aligned(rows)


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--case", help="one case, in this process")
    options = parser.parse_args(argv)
    if options.case:
        print(json.dumps(CASES[options.case]()))
        return
    measured = measure(options.repeat)
    print(json.dumps(measured) if options.json else table(measured))


if __name__ == "__main__":
    main(sys.argv[1:])
