"""The machine's limits: python -m benchmarks.roofline CORE prints them as JSON; `limit` applies them to a case."""

import bisect
import ctypes
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("roofline.c")
FLAGS = ["-O3", "-march=native", "-ffp-contract=fast", "-fno-tree-loop-distribute-patterns", "-Wno-psabi", "-shared", "-fPIC"]
SIZES = [2**k for k in range(12, 28)]


def library():
    """The helper, compiled for this machine."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "roofline.so"
        subprocess.run([os.environ.get("CC", "cc"), *FLAGS, str(SOURCE), "-o", str(built)], check=True)
        lib = ctypes.CDLL(str(built))
    for name in ("copy_rate", "read_rate"):
        getattr(lib, name).argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_double)
    for name in ("copy_rate", "read_rate", "fma_f32", "fma_f64"):
        getattr(lib, name).restype = ctypes.c_double
    for name in ("fma_f32", "fma_f64"):
        getattr(lib, name).argtypes = (ctypes.c_double,)
    return lib


def measure(core, seconds=0.05):
    """Rates by working set (bytes/s) and FMAs per second, on one core."""
    import numpy as np

    os.sched_setaffinity(0, {core})
    lib = library()
    room = np.ones(SIZES[-1] + 64, np.uint8)
    room = room[-room.ctypes.data % 64 :]
    for rate in (lib.fma_f32, lib.fma_f64):
        rate(seconds)
    return {
        "sizes": SIZES,
        "copy": [lib.copy_rate(room.ctypes.data, n, seconds) for n in SIZES],
        "read": [lib.read_rate(room.ctypes.data, n, seconds) for n in SIZES],
        "fma": {"float32": lib.fma_f32(seconds), "float64": lib.fma_f64(seconds)},
    }


def rate_at(machine, kind, size):
    """The rate of a working set of any size, between those measured by logarithm."""
    sizes, rates = machine["sizes"], machine[kind]
    if size <= sizes[0]:
        return rates[0]
    if size >= sizes[-1]:
        return rates[-1]
    i = bisect.bisect_right(sizes, size) - 1
    t = math.log(size / sizes[i]) / math.log(sizes[i + 1] / sizes[i])
    return rates[i] ** (1 - t) * rates[i + 1] ** t


def limit(machine, record):
    """Seconds that a case takes at least, and what bounds it: "memory" or "arithmetic".

    The rate is that of a copy, or of a read where nearly all bytes are read.
    """
    size = record["read"] + record["written"]
    kind = "read" if record["written"] * 8 < size else "copy"
    moving = size / rate_at(machine, kind, size)
    computing = record["ops"] / machine["fma"][record["dtype"]]
    return max(moving, computing), "memory" if moving >= computing else "arithmetic"


if __name__ == "__main__":
    json.dump(measure(int(sys.argv[1])), sys.stdout)
