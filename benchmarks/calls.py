"""What a call costs beside NumPy's own `x + y`: python -m benchmarks.calls [--json]."""

import json
import os
import sys
import time

import numpy as np

import pyxla
from benchmarks import report


def best(call, *args, seconds=0.15, n=2000, **kwargs):
    """The shortest time of a call in seconds, less that of an empty loop."""
    clock = time.perf_counter

    def empty():
        for _ in range(n):
            pass

    def loop():
        for _ in range(n):
            call(*args, **kwargs)

    def shortest(function):
        least, end = float("inf"), clock() + seconds
        while clock() < end:
            start = clock()
            function()
            least = min(least, clock() - start)
        return least / n

    call(*args, **kwargs)                   # the trace and what it imports
    return shortest(loop) - shortest(empty)


class Model:
    """A method with keyword arguments, as a user's class has."""

    @pyxla.jit
    def scaled(self, x, *, gain, bias):
        return x * gain + bias


# Pyxla must not be asked for a tree's leaf by leaf: one nested dict, as parameters are kept.
def tree_of(x):
    return {f"layer{i}": {"w": x, "b": x.copy(), "scale": [x.copy(), x.copy()]} for i in range(5)}


def last_of(tree):
    return tree["layer4"]["b"] + 1.0


SCALE = 2.0


def by_number(x, n):
    return x + 1.0 if n else x


def measure():
    """{what: seconds}; the first row is what the others are compared with."""
    x, y = np.arange(8.0), np.ones(8)
    tree = tree_of(x)
    sure = {
        name: pyxla.jit(fn)
        for name, fn in {
            "identity": lambda x: x,
            "add": lambda x, y: x + y,
            "one": lambda x: x + 1.0,
            "tree": last_of,
            "number": lambda x, n: x + 1.0,
            "guard": by_number,
            "global": lambda x, n: x + SCALE,
        }.items()
    }
    model = Model()
    measured = {
        "NumPy x + y": best(lambda: x + y) - best(lambda: None),
        "identity": best(sure["identity"], x),
        "one array of 8": best(sure["one"], x),
        "two arrays of 8": best(sure["add"], x, y),
        "tree of 20 leaves": best(sure["tree"], tree),
        "method with keyword arguments": best(model.scaled, x, gain=y, bias=y),
        "one array and an int": best(sure["number"], x, 1),
        "... the int guarded": best(sure["guard"], x, 1),
        "... a global guarded": best(sure["global"], x, 1),
    }
    measured["Python scalar argument"] = best(pyxla.jit(lambda x, s: x * s), x, 2.0)
    return measured


def main(argv):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    measured = measure()
    print(json.dumps(measured) if "--json" in argv else report.calls(measured))


if __name__ == "__main__":
    main(sys.argv[1:])
