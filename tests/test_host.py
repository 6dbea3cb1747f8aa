"""Calls of host functions in a plan: between kernels, from threads, with exceptions, interrupted, in children."""
import gc
import os
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import pyxla
import pyxla._np
from pyxla import _core
from pyxla._np.host import fill, host

CALLS = []


@host
def flip_and_count(results, x, y, k):
    CALLS.append(threading.get_ident())
    assert not x.flags.writeable
    assert not y.flags.writeable
    if k == 13:
        raise LookupError("unlucky")
    if k == 14:
        time.sleep(0.3)
    fill(results, [np.flip(x) + k, np.argsort(y, axis=None)])


def call(x, y, k=1):
    x, y = _core.as_tracer(x), _core.as_tracer(y)
    return flip_and_count((x, y), ((x.dtype, x.shape), (np.int64, (y.size,))), k)


def want(x, y, k=1):
    return np.flip(x) + k, np.argsort(y, axis=None)


@pytest.fixture
def x():
    return np.random.default_rng(1).random((5, 7))


def test_between_kernels(x):
    @pyxla.jit
    def f(x, y):
        a, b = call(np.exp(x), y.T * 2)
        return np.sum(a, axis=0) + 1, b[::-1], a

    y = np.random.default_rng(2).random((3, 4))
    a, b = want(np.exp(x), y.T * 2)
    got = f(x, y)
    np.testing.assert_allclose(got[0], a.sum(0) + 1, rtol=1e-14)
    np.testing.assert_array_equal(got[1], b[::-1])
    np.testing.assert_allclose(got[2], a, rtol=1e-15)


@pytest.mark.parametrize("layout", ["c", "fortran", "reversed", "strided", "unaligned", "readonly", "swapped"])
def test_layouts_of_arguments(x, layout):
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    raw[...] = x
    y = {"c": x, "fortran": np.asfortranarray(x), "reversed": x[::-1], "strided": np.repeat(x, 2, 1)[:, ::2], "unaligned": raw, "readonly": x.copy(),
         "swapped": x.astype(">f8")}[layout]
    y.flags.writeable = layout != "readonly"
    f = pyxla.jit(lambda x: (*call(x, x.T), *call(x.reshape(-1), x, 2)))
    for a, b in zip(f(y), (*want(y, y.T), *want(y.reshape(-1), y, 2))):
        np.testing.assert_array_equal(a, b)


def test_equal_calls_are_one(x):
    @pyxla.jit
    def f(x):
        return call(x, x)[0] + call(x, x)[0] * call(x, x, 2)[0]

    CALLS.clear()
    np.testing.assert_array_equal(f(x), want(x, x)[0] + want(x, x)[0] * want(x, x, 2)[0])
    assert len(CALLS) == 2


def test_dead_calls_are_not_made(x):
    @pyxla.jit
    def f(x):
        call(x, x)
        return x + 1

    CALLS.clear()
    f(x)
    assert not CALLS


def test_result_into_the_argument(x):
    @pyxla.jit
    def f(x, y):
        x[...] = call(x, y)[0]
        y += 1

    a, b = x.copy(), x * 2
    f(a, b)
    np.testing.assert_array_equal(a, want(x, x)[0])
    np.testing.assert_array_equal(b, x * 2 + 1)


def test_exception_is_that_of_the_call_and_nothing_is_written(x):
    @pyxla.jit
    def f(x, k):
        x += 1
        y = call(x, x, 13)[0]
        x[...] = 0
        return y.sum()

    a = x.copy()
    for _ in range(3):
        with pytest.raises(LookupError, match="unlucky") as e:
            f(a, 3)
        np.testing.assert_array_equal(a, x)
    assert f"(at {__file__}:" in str(e.value)


def test_a_result_of_another_shape_is_an_error(x):
    @host
    def wrong(results, x):
        fill(results, [x[1:]])

    f = pyxla.jit(lambda x: wrong((x,), ((np.float64, (5, 7)),))[0])
    with pytest.raises(_core.InternalError, match="float64"):
        f(x)


def test_empty_and_zero_dimensional():
    f = pyxla.jit(lambda x: call(x, x))
    for x in (np.zeros((0, 3)), np.array(2.5), np.zeros(1, np.float32), np.zeros((2, 0, 3), np.int8)):
        for a, b in zip(f(x), want(x, x)):
            np.testing.assert_array_equal(a, b)
            assert a.shape == np.shape(b)
            assert a.dtype == b.dtype


def test_empty_temporaries():
    """They may have no address, and are no results that nobody reads."""
    f = pyxla.jit(lambda x: (call(x, x)[0].sum(), call(x, call(x, x, 2)[0])[1] + 1))
    total, order = f(np.zeros((0, 3)))
    assert total == 0 and order.shape == (0,)


def test_in_a_jitted_function_that_is_inlined(x):
    inner = pyxla.jit(lambda x: call(x, x)[0])
    f = pyxla.jit(lambda x: inner(x + 1) * 2)
    np.testing.assert_array_equal(f(x), want(x + 1, x)[0] * 2)


def test_value_asked_for_while_tracing():
    """Depends on no argument, so it is computed on the spot; the host function sees NumPy as it is outside of a trace."""
    @host
    def makes_arrays(results, x):
        a = np.zeros(3)
        assert type(a) is np.ndarray
        fill(results, [x + a])

    @pyxla.jit
    def f(y):
        (a,) = makes_arrays((_core.as_tracer(np.arange(3.0)),), ((np.float64, (3,)),))
        return y * float(a[2])

    assert f(np.float64(4)) == 8


def test_exception_while_tracing(x):
    @pyxla.jit
    def f(y):
        return y * float(call(np.arange(3.0), np.arange(3.0), 13)[0][0])

    with pytest.raises(LookupError, match="unlucky"):
        f(x)


def test_threads():
    f = pyxla.jit(lambda x: call(np.sqrt(x), x)[0] + 1)
    errors = []

    def run(seed):
        x = np.random.default_rng(seed).random((40, 50))
        for _ in range(30):
            if not np.array_equal(f(x), want(np.sqrt(x), x)[0] + 1):
                errors.append(seed)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_other_threads_run_meanwhile(x):
    """A long host call that lets go of the GIL does not keep it."""
    f = pyxla.jit(lambda x: call(x, x, 14)[0])
    f(x)
    seen = []
    t = threading.Thread(target=lambda: f(x))
    t.start()
    while t.is_alive():
        seen.append(time.monotonic())
        time.sleep(0.01)
    assert len(seen) > 5


def long_plan():
    """Of more than a tenth of a second by its estimate: it runs in a thread of its own."""
    big = np.zeros(60_000_000)
    f = pyxla.jit(lambda x, b, k: (call(x, x, k)[0], np.sqrt(b).sum()), static_argnames="k")
    return f, big


def test_exception_in_a_long_run(x):
    f, big = long_plan()
    f(x, big, k=1)
    with pytest.raises(LookupError, match="unlucky"):
        f(x, big, k=13)
    np.testing.assert_array_equal(f(x, big, k=1)[0], want(x, x)[0])


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
@pytest.mark.parametrize("long", [False, True])
def test_keyboard_interrupt(x, long):
    f, big = long_plan()
    big = big if long else big[:10]
    f(x, big, k=14)

    def interrupt(*_):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            for _ in range(100):
                f(x, big, k=14)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    np.testing.assert_array_equal(f(x, big, k=1)[0], want(x, x)[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_in_a_child(x):
    f = pyxla.jit(lambda x: call(x, x)[0] * 2)
    f(x)
    pid = os.fork()
    if not pid:
        os._exit(0 if np.array_equal(f(x), want(x, x)[0] * 2) else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_no_leaks(x):
    """Neither the arrays of a call nor what a failed one raised stay."""
    class Token(LookupError):
        pass

    born = []

    @host
    def fails(results, x):
        e = Token("once")
        born.append(weakref.ref(e))
        raise e

    f = pyxla.jit(lambda x: fails((x,), ((np.float64, (5, 7)),))[0])
    for _ in range(3):
        with pytest.raises(Token):
            f(x)
    gc.collect()
    assert [r() for r in born] == [None] * 3
    g = pyxla.jit(lambda x: call(x, x))
    g(x)
    for _ in range(3):
        before = sys.getrefcount(np.dtype(np.float64))
        for _ in range(100):
            g(x)
        assert abs(sys.getrefcount(np.dtype(np.float64)) - before) < 20


def test_bounds_checks_and_the_plan_text(x):
    f = pyxla.jit(lambda x: call(np.exp(x), x)[0].sum())
    plan = f.lower(x).compile().as_text()
    assert plan.count("host function") == 1
    assert "op host" not in plan
    assert "host" in f.lower(x).as_text(simplified=True)
