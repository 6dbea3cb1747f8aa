"""One process of the harness: python -m benchmarks.worker FRAMEWORK GROUP SECONDS CORE CASE...

Pins itself to a core, imports the framework and prints a line of JSON when ready, when a case starts and when it is done. The
parent ends the process when a case takes too long, and starts another with the cases that are left.
"""

import ctypes
import gc
import json
import os
import re
import sys
import time
import traceback
from pathlib import Path

import numpy as np

from benchmarks import cases
from benchmarks.frameworks import FRAMEWORKS

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
STATUS = Path("/proc/self/status")
ROOT = f"{Path(__file__).resolve().parent.parent}{os.sep}"      # in what peers say of a case


def steady(call, seconds, once):
    """The shortest time of a call in seconds, and the part of the time that this process had its core for itself.

    `once` is at most how long one takes. Batches of at least 20 us, for `seconds` and at least 5 times (calls so long that this takes
    ten times `seconds`: as often as these hold, once at least); four times as long where other work takes the core away.
    """
    clock, cpu = time.perf_counter, time.process_time
    if once < 0.1:
        start = clock()
        call()
        once = clock() - start
    n = max(1, int(20e-6 / max(once, 1e-9)))
    best, repeats = float("inf"), 0
    begin, begin_cpu = clock(), cpu()
    while True:
        start = clock()
        for _ in range(n):
            call()
        now = clock()
        best = min(best, (now - start) / n)
        repeats += 1
        if now - begin >= (seconds if repeats >= 5 else 10 * seconds):
            share = (cpu() - begin_cpu) / (now - begin)
            if share > 0.97 or now - begin >= 4 * seconds:
                return best, min(share, 1.0)


def memory(field):
    """VmRSS or VmHWM of this process, in bytes."""
    return int(re.search(rf"{field}:\s+(\d+)", STATUS.read_text())[1]) * 1024


def peak_of(call, base):
    """The most memory that this process holds during a call, over `base`: that of the process before the case."""
    Path("/proc/self/clear_refs").write_text("5")
    call()
    return max(0, memory("VmHWM") - base)


def leaves(tree, like=None):
    """The arrays of a result, as NumPy arrays; a Python number has the dtype of the one in its place in `like`."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    if not isinstance(tree, (tuple, list)):
        return [np.array(tree, like[0].dtype if like and type(tree) in (bool, int, float) else None)]
    like = like if like and len(like) == len(tree) else [None] * len(tree)
    return [leaf for item, one in zip(tree, like) for leaf in leaves(item, one is not None and [one])]


def error_of(results, expected, tol, least):
    """The largest error of a result relative to the largest magnitude expected (integers: absolute), or a complaint."""
    if len(results) != len(expected):
        return f"{len(results)} results instead of {len(expected)}"
    worst = 0.0
    for got, want in zip(results, expected):
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
        exact = want.dtype.kind not in "fc"
        limit = (tol or 0) if exact else (tol or TOLERANCE[want.dtype.name])
        same = (got == want) | ((got != got) & (want != want))
        difference = np.where(same, 0, np.abs(got.astype("float64") - want.astype("float64"))).max(initial=0)
        scale = 1.0 if exact else max(float(np.abs(want[np.isfinite(want)]).max(initial=0)), least)
        worst = max(worst, float(difference) / scale)
        if not difference <= limit * scale:
            return f"wrong by {difference / scale:.2g}, allowed is {limit:.2g}"
    return worst


def touched(array):
    """Bytes of the lines that hold an array's elements: strided ones lie in lines that are used in part."""
    if array.flags.c_contiguous or array.flags.f_contiguous or not array.size:
        return array.nbytes
    n, stride = min(((n, abs(s)) for n, s in zip(array.shape, array.strides) if n > 1 and s), key=lambda axis: axis[1])
    return array.size // n * max(n * array.itemsize, min(n * stride, n * 64))


def facts(args, expected):
    """Bytes that a case must read and write at least, and the type whose FMA peak bounds its arithmetic."""
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    wide = any(a.dtype == "float64" for a in arrays)
    return {
        "read": sum(map(touched, arrays)),
        "written": sum(r.nbytes for r in expected),
        "dtype": "float64" if wide else "float32",
    }


def measure(framework, group, case, seconds):
    """What the harness records of one case."""
    args = cases.arguments(case)
    expected = leaves(getattr(cases.load(group), case.fn)(*cases.arguments(case)))
    record = facts(args, expected) | {"ops": case.ops}
    framework.forget()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    base = memory("VmRSS")
    call = framework.prepare(case, framework.load(group), args)
    start = time.perf_counter()
    result = call()
    record["first"] = time.perf_counter() - start
    verdict = error_of(leaves(result, expected), expected, case.tol, case.least)
    if isinstance(verdict, str):
        return record | {"error": verdict}
    del result
    ctypes.CDLL(None).malloc_trim(0)  # what the comparison left in the C library's heap is no framework's
    start = time.perf_counter()
    record["peak"] = peak_of(call, base)
    record["max_error"] = verdict
    record["steady"], record["share"] = steady(call, seconds, time.perf_counter() - start)
    return record


def say(**line):
    print(json.dumps(line), file=sys.__stdout__, flush=True)


def main(name, group, seconds, core, *wanted):
    os.sched_setaffinity(0, {int(core)})
    try:
        framework = FRAMEWORKS[name]()
    except ImportError as e:
        return say(ready=False, error=str(e))
    say(ready=True, version=framework.version)
    for case in cases.load(group).CASES:
        if case.name not in wanted:
            continue
        say(start=case.name)
        try:
            say(case=case.name, record=measure(framework, group, case, float(seconds)))
        except framework.refusals:
            say(case=case.name, record=None)
        except Exception as e:
            why = traceback.format_exception_only(e)[-1].strip().splitlines()
            say(case=case.name, record={"error": " ".join(why).replace(ROOT, "")[:300]})


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.stdout = sys.stderr
    main(*sys.argv[1:])
