"""Memory over many calls: python -m benchmarks.memory [--calls N] [--json].

What a process holds after N calls (a million) of small functions less what it held after the first thousand; and N / 1000 calls of
results that are kept for a while, whose memory goes back and forth. The peaks of single calls are in the harness' table.
"""

import argparse
import collections
import json
import re
from pathlib import Path

import numpy as np

import pyxla
from benchmarks import report

STATUS = Path("/proc/self/status")


def held():
    return int(re.search(r"VmRSS:\s+(\d+)", STATUS.read_text())[1]) * 1024


class Model:
    @pyxla.jit
    def scaled(self, x, *, gain):
        return {"y": x * gain, "rest": [x, x + 1.0]}


def repeated(x, n):
    for _ in range(n):
        x = x + 1.0
    return x


def growth(call, calls):
    """Bytes that the process gains."""
    for k in range(1000):
        call(k)
    before = held()
    for k in range(calls):
        call(k)
    return held() - before


def measure(calls):
    """{what: bytes gained}."""
    x, model, kept = np.ones(8), Model(), collections.deque(maxlen=7)
    add, guarded, large = pyxla.jit(lambda x, y: x + y), pyxla.jit(repeated), pyxla.jit(lambda x: x * 2.0)
    return {
        "two arrays": growth(lambda k: add(x, x), calls),
        "a tree from a method": growth(lambda k: model.scaled(x, gain=x), calls),
        "a guard on an int": growth(lambda k: guarded(x, 3), calls),
        "results of 0.1 to 6 MB, seven kept": growth(lambda k: kept.append(large(np.ones(12_500 * (1 + k * 7 % 60)))), calls // 1000),
    }


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10**6)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    measured = measure(options.calls)
    print(json.dumps(measured) if options.json else report.growth(measured))


if __name__ == "__main__":
    main()
