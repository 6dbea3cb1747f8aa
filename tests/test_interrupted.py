"""A call that ends in an exception, wherever that comes from, leaves the function as it was; calls within calls, forks within traces."""
import gc
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import pyxla

X = np.arange(4.0)
KINDS = [ValueError, KeyboardInterrupt, MemoryError, SystemExit, GeneratorExit]


class Countdown:
    """Raises at the n-th of the calls that it is told of."""

    left, kind = 0, ValueError

    def step(self):
        self.left -= 1
        if self.left == 0:
            raise self.kind("counted down")


countdown = Countdown()


class Box:
    def __init__(self, x):
        self.x = x


def flatten(box):
    countdown.step()
    return (box.x,), None


def unflatten(aux, children):
    countdown.step()
    return Box(*children)


pyxla.register_tree(Box, flatten, unflatten)


class Key:
    def __init__(self, v):
        self.v = v

    def __hash__(self):
        countdown.step()
        return hash(self.v)

    def __eq__(self, other):
        countdown.step()
        return self.v == other.v


class Lender:
    @property
    def __array_interface__(self):
        countdown.step()
        return X.__array_interface__


def with_static(x, k):
    return x * k.v


CALLS = {
    "tree": (lambda t: Box(t.x + 1), lambda f: f(Box(X)).x, X + 1),
    "static": (with_static, lambda f: f(X, Key(3.0)), X * 3),
    "lender": (lambda x: x - 1, lambda f: f(Lender()), X - 1),
    "flatten in lower": (lambda t: Box(t.x + 1), lambda f: f.lower(Box(X)).as_text() and X, X),
}


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_exceptions_of_the_arguments_own_code(what, kind):
    fn, call, want = CALLS[what]
    warm = pyxla.jit(fn)
    call(warm)
    countdown.kind, raised = kind, 0
    gc.collect()
    before = pyxla.memory_info().in_use
    for n in range(1, 9):
        for f in (warm, pyxla.jit(fn)):
            countdown.left = n
            try:
                got = call(f)
            except (kind, TypeError) as e:              # of a lender: a TypeError that says what was raised
                assert type(e) is kind or "counted down" in str(e)
                raised, got = raised + 1, want
            np.testing.assert_array_equal(got, want)
            countdown.left = 0
            np.testing.assert_array_equal(call(f), want)
    got = f = None
    gc.collect()
    assert raised and pyxla.memory_info().in_use <= before + 256


def test_calls_within_calls():
    """From a finalizer in the middle of a trace, an argument's property, a callback of NumPy's, a sort's keys."""
    inner = pyxla.jit(lambda x: x * 3)
    seen = []

    class Gone:
        def __del__(self):
            seen.append(1)
            pyxla.jit(lambda x: x - 1).cache_clear()
            inner.cache_clear()

    class Asks:
        @property
        def __array_interface__(self):
            np.testing.assert_array_equal(inner(X), X * 3)
            inner.cache_clear()
            pyxla.clear_kernels()
            return X.__array_interface__

    def f(x):
        gone = Gone()
        del gone
        return x + 1

    np.testing.assert_array_equal(pyxla.jit(f)(X), X + 1)
    assert seen
    for _ in range(3):
        np.testing.assert_array_equal(inner(Asks()), X * 3)
    np.testing.assert_array_equal(np.vectorize(lambda v: float(inner(np.float64(v))))(X), X * 3)
    np.testing.assert_array_equal(np.apply_along_axis(inner, 0, X), X * 3)
    assert sorted([3.0, 1.0], key=lambda v: inner(v)) == [1.0, 3.0]


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals are the main thread's")
def test_a_signals_handler_that_calls():
    f, count = pyxla.jit(lambda x: x * 3), [0]

    def handler(*_):
        count[0] += 1
        k = float(count[0] % 5)
        np.testing.assert_array_equal(pyxla.jit(lambda x: x + k)(X), X + k)
        np.testing.assert_array_equal(f(X), X * 3)
        if count[0] % 3 == 0:
            f.cache_clear()

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.003)
    try:
        for n in range(10_000):
            v = float(n % 17)
            np.testing.assert_allclose(pyxla.jit(lambda x: np.tanh(x) * v + v)(X), np.tanh(X) * v + v)
            np.testing.assert_array_equal(f(X), X * 3)
            if count[0] > 40:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert count[0] > 40


# Each in a process of its own, forked before anything was traced.
FIRST = """
import os, random, signal, time, numpy as np, pyxla
X = np.arange(6.0).reshape(2, 3)
def fn(x):
    z = np.zeros(3); z[1:] = x[0, 1:] * 2
    return {"z": z + np.ones(3) + np.linspace(0, 1, 3), "s": np.sort(x, axis=0), "y": x[x > 1] * 2, "e": np.eye(3) @ z}
want = fn(X)
def good(r): return all(np.allclose(r[k], want[k]) for k in want)
def child(after):
    f = pyxla.jit(fn)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        end = time.time() + after + 5
        f(X)
        while time.time() < end: pass
        return 2                                    # the interrupt was lost
    except KeyboardInterrupt:
        pass
    return 0 if good(f(X)) and good(pyxla.jit(fn)(X)) and type(np.zeros(2)) is np.ndarray else 3
for k in range(9):
    pid = os.fork()
    if pid == 0:
        os._exit(child(0.0005 * 2 ** k))
    status = os.waitpid(pid, 0)[1]
    assert status == 0, (k, status)
"""

# What a signal's handler raises while an operation is put into words, in the main thread and, by class alone, in another one; a process
# started in a shell's background ignores SIGINT.
RAISED = """
import ctypes, signal, threading, numpy as np, pyxla, pyxla._errors
X = np.array([3.0, 1.0, 2.0])
class Late(Exception):
    pass
def alarm(*_): raise raised
def asynchronous(): ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), ctypes.py_object(type(raised)))
def in_words(operation=None):
    global count
    count += 1
    if count == 1: arrives()
    return here(operation)
pyxla._errors.here, here = in_words, pyxla._errors.here
def run():
    global count
    count = 0
    f = pyxla.jit(fn)
    try:
        f(X)
        for _ in range(100): pass
        lost.append(raised)
    except type(raised) as e: assert e is raised or arrives is asynchronous
    assert count and (f(X) == fn(X)).all(), count
def fn(x): return np.linalg.inv(np.diag(np.sort(x))) + x.take([0, 1, 2])
lost = []
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGALRM, alarm)
for raised in (KeyboardInterrupt("now"), SystemExit(3), Late("too", "late")):
    arrives = lambda: signal.raise_signal(signal.SIGALRM)
    run()
    arrives = asynchronous
    t = threading.Thread(target=run); t.start(); t.join()
assert not lost, lost
"""

FORKS = """
import os, signal, numpy as np, pyxla
X, home = np.arange(4.0), os.getpid()
def goes_on(x):
    "The child is in the middle of the trace, too, and finishes it."
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        return x * 5
    return x + 1 + os.waitpid(pid, 0)[1]
r = pyxla.jit(goes_on)(X)
if os.getpid() != home:
    ok = (r == X * 5).all() and (pyxla.jit(lambda x: np.exp(x))(X) == np.exp(X)).all()
    os._exit(0 if ok else 1)
assert (r == X + 1).all(), r
def of_a_child():
    signal.alarm(60)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if (pyxla.jit(lambda x: x * 7)(X) == X * 7).all() else 1)
    return os.waitpid(pid, 0)[1] + ((pyxla.jit(lambda x: x * 8)(X) == X * 8).all() - 1)
pid = os.fork()
if pid == 0:
    os._exit(1 if of_a_child() else 0)
assert os.waitpid(pid, 0)[1] == 0
"""

EXIT = """
import atexit, os, sys, threading, time, numpy as np, pyxla
X, big, n = np.arange(4.0), np.ones(1_000_000), [0]
f, long = pyxla.jit(lambda x: np.tanh(x) + 1), pyxla.jit(lambda x: np.sin(np.exp(np.tanh(x))).sum(), threads=4)
host = pyxla.jit(lambda x: np.sort(np.sin(x)).sum())
def compiles():
    n[0] += 1
    k = n[0]
    pyxla.jit(lambda x: np.tanh(x * k) + np.sin(x + k))(X)
def forever(work):
    while True: work()
for work in (lambda: long(big), compiles, lambda: host(big)): threading.Thread(target=forever, args=(work,), daemon=True).start()
atexit.register(lambda: (compiles(), long(big), host(big)))
threading.Thread(target=lambda: (time.sleep(0.1), compiles(), long(big))).start()
time.sleep(0.05)
END
"""


@pytest.mark.parametrize("code", [FIRST, RAISED, FORKS], ids=["an interrupted first call", "what a handler raises", "forks in a trace and in children"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_processes(code):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr[-3000:]


@pytest.mark.parametrize(("end", "status"), [("pass", 0), ("sys.exit(3)", 3), ("os._exit(4)", 4), ("raise ValueError", 1)])
def test_the_process_ends_in_the_middle_of_everything(end, status):
    done = subprocess.run([sys.executable, "-c", EXIT.replace("END", end)], capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stderr[-3000:]


@pytest.mark.parametrize("value", ["0", "-1", "4x"])
def test_numbers_of_threads_that_are_none(value):
    code = "import pyxla; print(pyxla.get_num_threads())"
    outs = {subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYXLA_NUM_THREADS": v}, capture_output=True, text=True, check=True).stdout
            for v in (value, "")}
    assert len(outs) == 1


def test_a_subinterpreter_is_refused():
    interpreters = pytest.importorskip("_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters")
    other = interpreters.create()
    code = f"import sys\nsys.path[:] = {sys.path!r}\nok = False\ntry:\n    import pyxla\nexcept ImportError as e:\n    ok = 'subinterpreter' in str(e)\nassert ok"
    problem = interpreters.run_string(other, code)
    interpreters.destroy(other)
    assert not problem
