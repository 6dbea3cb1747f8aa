"""Several threads, processes and interrupts at once: whatever meets, each call gives its result or its own exception."""

import functools
import itertools
import os
import queue
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import pyxla

SECONDS = 1.5


def in_threads(*works):
    """Runs each work(k, stop) until it returns; the first exception of any ends all."""
    errors, stop = [], threading.Event()

    def body(k, work):
        try:
            work(k, stop)
        except BaseException as e:
            errors.append(e)
            stop.set()

    threads = [threading.Thread(target=body, args=item) for item in enumerate(works)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
        assert not t.is_alive()
    if errors:
        raise errors[0]


def rounds(stop, seconds=SECONDS):
    end = time.monotonic() + seconds
    return itertools.takewhile(lambda _: not stop.is_set() and time.monotonic() < end, itertools.count())


def shift(x, y, t):
    z = np.zeros_like(x)
    z[1:] = x[:-1] * 2
    return {"z": z + y, "t": t["n"] + 1, "x": x}


def check_shift(f, x, y, n):
    z = np.zeros_like(x)
    z[1:] = x[:-1] * 2
    got = f(x, y, {"n": n})
    np.testing.assert_array_equal(got["z"], z + y)
    assert got["t"] == n + 1 and got["x"] is x


def test_everything_at_once():
    """Hits, misses, failures, clearing, inspecting and freeing on other threads, on the same functions."""
    functions = [pyxla.jit(shift), pyxla.jit(shift, threads=2)]
    results = queue.SimpleQueue()

    def caller(k, stop):
        r = random.Random(k)
        for n in rounds(stop):
            x = np.arange(float(r.choice([1, 2, 3, 100, 5000]) * r.choice([1, 1, 1, 1 + n % 37]))).astype(r.choice("fd"))
            x = r.choice([x, x[::-1], np.repeat(x, 2)[::2]])
            check_shift(r.choice(functions), x, r.choice([1, 2.5, x]), r.choice([n, n, 10**25]))
            results.put(functions[0](x, 1.0, {"n": 0})["z"])

    def failing(k, stop):
        for _ in rounds(stop):
            with pytest.raises(ValueError):
                functions[0](np.zeros(3), np.zeros(4), {"n": 0})
            with pytest.raises(TypeError):
                functions[0](np.zeros(3), np.array(["a"]), {"n": 0})

    def meddler(k, stop):
        for n in rounds(stop):
            f = functions[n % 2]
            [f.cache_clear, f.cache_info, pyxla.clear_kernels, pyxla.memory_info, pyxla.trim_memory,
             lambda: f.lower(np.zeros(3), 1.0, {"n": 0}).as_text(),
             lambda: f.lower(np.zeros((3, 4)), 1.0, {"n": 0}).compile().as_text()][n % 7]()
            time.sleep(0.001)
            while not results.empty():
                results.get_nowait()

    in_threads(caller, caller, caller, failing, meddler)


def test_pool_shared():
    """Large kernels from several threads, while the number of threads changes."""
    f = pyxla.jit(lambda x, s: ((x * s).sum(), x + s, x.reshape(100, -1).sum(axis=0)))
    x = np.arange(300_000.0)
    want = f(x, 2.0)

    def caller(k, stop):
        for n in rounds(stop):
            got = f(x, 2.0 if n % 2 else 3.0)
            if n % 2:
                assert got[0] == want[0] and np.array_equal(got[1], want[1]) and np.array_equal(got[2], want[2])
            else:
                assert got[1][7] == 10

    def meddler(k, stop):
        try:
            for n in rounds(stop):
                pyxla.set_num_threads([1, 2, 3, 8, None][n % 5])
                assert pyxla.get_num_threads() >= 1
                time.sleep(0.002)
        finally:
            pyxla.set_num_threads(None)

    in_threads(caller, caller, caller, meddler)


def test_written_arguments_of_each_thread():
    @pyxla.jit
    def step(x, y):
        x[1:] += y[:-1]
        x *= 0.5

    def caller(k, stop):
        x, y = np.full(2000 + k, float(k)), np.ones(2000 + k)
        mine = x.copy()
        for _ in rounds(stop):
            step(x, y)
            mine[1:] += y[:-1]
            mine *= 0.5
            np.testing.assert_array_equal(x, mine)

    in_threads(*[caller] * 4)


def test_functions_made_and_dropped():
    def caller(k, stop):
        for n in rounds(stop):
            f = pyxla.jit(lambda x: x * n + k)
            assert f(np.float64(2)) == 2 * n + k

    in_threads(*[caller] * 4)


def test_trees_registered_while_others_call():
    f = pyxla.jit(lambda t: t)

    def registers(k, stop):
        for n in rounds(stop):
            cls = type(f"Node{n}", (), {})
            pyxla.register_tree(cls, lambda t: ((t.x,), type(t)), lambda cls, c: setattr(t := cls(), "x", c[0]) or t)
            node = cls()
            node.x = np.ones(3)
            assert type(f(node)) is cls

    def caller(k, stop):
        for n in rounds(stop):
            assert f([n, {"a": (n, None)}]) == [n, {"a": (n, None)}]

    in_threads(registers, registers, caller, caller)


def test_compiles_that_would_wait_for_each_other():
    """In the middle of a trace each of two threads calls, behind a cache, the function that the other one compiles."""
    x, both, entered = np.ones(3), threading.Barrier(2), set()

    def meet(name, call):
        if name not in entered:
            entered.add(name)
            both.wait(60)
            call(x)
        return 2.0

    one, two = functools.cache(lambda: meet("one", g)), functools.cache(lambda: meet("two", f))
    f, g = pyxla.jit(lambda x: x * one()), pyxla.jit(lambda x: x + two())

    def caller(k, stop):
        np.testing.assert_array_equal((f, g)[k](x), (x * 2, x + 2)[k])

    in_threads(caller, caller)


# ---- processes ----


def run(code, timeout=120, **env):
    r = subprocess.run([sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, timeout=timeout)
    assert r.returncode == 0, f"{r.returncode}: {r.stdout[-2000:]} {r.stderr[-4000:]}"
    return r.stdout


def test_fork_while_others_compile():
    run("""
import os, threading, time, warnings, numpy as np, pyxla
warnings.simplefilter("ignore")
stop = threading.Event()
def busy(k):
    n = 0
    while not stop.is_set():
        n += 1
        f = pyxla.jit(lambda x: np.tanh(x * n) + k)
        f(np.ones(3 + n % 5))
        if n % 5 == 0:
            pyxla.clear_kernels()
        pyxla.jit(lambda x: x + 1, threads=2)(np.ones(200_000))
threads = [threading.Thread(target=busy, args=(k,)) for k in range(2)]
for t in threads: t.start()
for n in range(12):
    time.sleep(0.01 * n)
    pid = os.fork()
    if pid == 0:
        ok = pyxla.jit(lambda x: np.exp(x) - n)(np.zeros(7))[3] == 1 - n
        ok = ok and pyxla.jit(lambda x: x * 2, threads=2)(np.ones(300_000)).sum() == 600_000
        os._exit(0 if ok else 1)
    end = time.monotonic() + 60
    while (done := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < end:
        time.sleep(0.005)
    if done[0] == 0:
        os.kill(pid, 9)
        stop.set()
        raise SystemExit("the child hangs")
    assert done[1] == 0, done
stop.set()
for t in threads: t.join()
""")


def test_fork_before_the_first_call():
    """What a call imports was imported before the fork, as another thread may have been at it; nothing of that is said."""
    out = run("""
import os, sys, warnings, numpy as np, pyxla
warnings.simplefilter("ignore")
sys.stderr = sys.stdout
f = pyxla.jit(lambda x: np.sort(np.tanh(x)) + x[x > 0].sum())
pid = os.fork()
loaded = set(sys.modules)
f(np.ones(3))
try: pyxla.jit(lambda x: bool(x))(np.ones(3))
except pyxla.TraceError: pass
late = [name for name in set(sys.modules) - loaded if name.startswith("pyxla")]
print(*late)
if pid == 0: os._exit(len(late))
assert os.waitpid(pid, 0)[1] == 0
""")
    assert not out.strip()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity")
def test_the_pool_respects_the_affinity():
    run("""
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import pyxla
assert pyxla.get_num_threads() == 1
""", PYXLA_NUM_THREADS="")
    assert run("import pyxla; print(pyxla.get_num_threads())", PYXLA_NUM_THREADS="5").strip() == "5"
    run("""
import os, pyxla
pyxla.get_num_threads()
one = {min(os.sched_getaffinity(0))}
if (pid := os.fork()) == 0:
    os.sched_setaffinity(0, one)
    os._exit(pyxla.get_num_threads() - 1)
assert os.waitpid(pid, 0)[1] == 0
os.sched_setaffinity(0, one)
pyxla.set_num_threads(None)
assert pyxla.get_num_threads() == 1
""", PYXLA_NUM_THREADS="")


def test_a_set_number_of_threads_bounds_functions_with_their_own():
    run("""
import os, numpy as np, pyxla
f, x = pyxla.jit(np.tanh, threads=4), np.ones(500_000)
f(x[:9])
before = len(os.listdir("/proc/self/task"))
pyxla.set_num_threads(1)
f(x)
assert len(os.listdir("/proc/self/task")) == before
pyxla.set_num_threads(None)
f(x)
assert len(os.listdir("/proc/self/task")) == before + 3
""", PYXLA_NUM_THREADS="", PYXLA_BACKEND="llvm")


def test_multiprocessing():
    run("""
import multiprocessing as mp, warnings, numpy as np, pyxla
warnings.simplefilter("ignore")
@pyxla.jit
def f(x): return np.sin(x).sum()
def work(n): return float(f(np.full(1000, n / 10.0)))
if __name__ == "__main__":
    want = [work(n) for n in range(8)]
    with mp.get_context("fork").Pool(3) as pool:
        assert pool.map(work, range(8)) == want
""")


def test_interrupts_at_any_moment():
    """^C every few milliseconds, in traces, plans, compiles, waits and runs: the functions go on to work."""
    out = run("""
import os, signal, threading, time, numpy as np, pyxla
x, big = np.arange(12.0), np.ones(400_000)
def make(k):
    def f(x):
        y = np.tanh(x) + k
        for _ in range(4):
            y = y + np.sin(y)
        return y.sum()
    return pyxla.jit(f)
f, count, good = make(0), 0, 0
def body(k):
    g = make(k % 50)
    g(x)
    f(big)
    f(x)
    if k % 7 == 0:
        f.cache_clear()
        pyxla.clear_kernels()
want = f(x)
start, k = time.monotonic(), 0
while time.monotonic() < start + 4 or (min(count, good) < 11 and time.monotonic() < start + 100):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005 * 1.2 ** (k % 45))
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        k += 1
        body(k)
        good += 1
    except KeyboardInterrupt:
        count += 1
    finally:
        while True:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                break
            except KeyboardInterrupt:
                count += 1
assert f(x) == want and make(3)(x) == make(3).__wrapped__(x), (f(x), want)
print(count, good)
""")
    count, good = map(int, out.split())
    assert count > 10 and good > 0


def test_exit_with_everything_alive():
    """The pool, a compile in a daemon thread, a call in an atexit handler, cycles with results."""
    run("""
import atexit, threading, numpy as np, pyxla
f = pyxla.jit(lambda x: np.tanh(x) + 1, threads=4)
y = f(np.ones(500_000))
atexit.register(lambda: f(np.ones(400_000)))
class Keeps:
    def __init__(self): self.me, self.y, self.f = self, f(y), f
    def __del__(self): f(self.y)
k = Keeps()
def forever():
    n = 0
    while True:
        n += 1
        pyxla.jit(lambda x: np.exp(x * n))(np.ones(n % 9))
for _ in range(2): threading.Thread(target=forever, daemon=True).start()
""")


@pytest.mark.parametrize("method", ["os._exit(0)", "sys.exit(0)", "os.kill(os.getpid(), 0)"])
def test_exit_from_a_thread_of_its_own(method):
    run(f"""
import os, sys, threading, numpy as np, pyxla
f = pyxla.jit(lambda x: np.tanh(x) + 1, threads=4)
t = threading.Thread(target=lambda: (f(np.ones(500_000)), {method}))
t.start(); t.join()
""")
