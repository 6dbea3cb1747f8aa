"""Two threads beside one: python -m benchmarks.threads [--json].

Work of each kind with the pool at one and at two threads in the same process, alternately; and Python threads that call at once.
"""

import json
import os
import sys
import threading
import time

import numpy as np

import pyxla
from benchmarks import cases, report

WORK = (
    ("elementwise", "Black-Scholes f64 1M"),
    ("elementwise", "density (600 ops) f64 100k"),
    ("elementwise", "sin*exp+tanh f32 100k"),
    ("elementwise", "chain f32 10M"),
    ("rows", "softmax f32 65536x64"),
    ("rows", "softmax f32 128x128"),
    ("reductions", "sum(x*x) f32 2048x2048"),
    ("reductions", "distances f64 1000x3"),
    ("stencils", "laplace f64 2000x2000"),
    ("products", "matmul f32 512"),
    ("small", "x + y f64 8"),
    ("small", "200 ops f32 64"),
)


def shortest(call, seconds=0.1):
    """The shortest time of a call, in batches of at least 50 us."""
    clock = time.perf_counter
    start = clock()
    call()
    n = max(1, int(50e-6 / (clock() - start)))
    best, end = float("inf"), clock() + seconds
    while clock() < end:
        start = clock()
        for _ in range(n):
            call()
        best = min(best, (clock() - start) / n)
    return best


def one_and_two(group, name, rounds=5):
    """The shortest time of a case with one thread and with two."""
    case = next(c for c in cases.load(group).CASES if c.name == name)
    args, fn = cases.arguments(case), pyxla.jit(getattr(cases.load(group), case.fn))
    fn(*args)
    best = [float("inf")] * 2
    for _ in range(rounds):
        for k in (0, 1):
            pyxla.set_num_threads(k + 1)
            best[k] = min(best[k], shortest(lambda: fn(*args)))
    return best


def at_once(threads, seconds=0.5):
    """Calls per second of `threads` Python threads together: 100 k elements each, long enough to release the interpreter's lock."""
    pyxla.set_num_threads(1)
    fn = pyxla.jit(cases.load("elementwise").sin_exp_tanh)
    inputs = [np.ones(100_000, "float32") for _ in range(threads)]
    counts, stop = [0] * threads, threading.Event()

    def work(k):
        while not stop.is_set():
            fn(inputs[k])
            counts[k] += 1

    fn(inputs[0])
    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for w in workers:
        w.start()
    time.sleep(seconds)
    stop.set()
    for w in workers:
        w.join()
    return sum(counts) / seconds


def measure():
    """{case: [seconds with one thread, with two]}; the last row in seconds per call of one Python thread and of two at once."""
    measured = {name: one_and_two(group, name) for group, name in WORK}
    best = [max(at_once(n) for _ in range(3)) for n in (1, 2)]
    return measured | {"two Python threads, 100 k elements each": [1 / rate for rate in best]}


def main(argv):
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("this process may use one core only")
    measured = measure()
    print(json.dumps(measured) if "--json" in argv else report.threads(measured))


if __name__ == "__main__":
    np.seterr(all="ignore")
    main(sys.argv[1:])
