"""What a traced function reads besides arguments and captured objects: caches, headers of arrays, clocks, files, iterators. Seen by the next
call or refused, never frozen."""
import contextlib
import datetime
import functools
import io
import itertools
import os
import sys
import time
import types
import uuid
import warnings

import numpy as np
import pytest

import pyxla

X = np.arange(4.0)


def same_after(f, *changes):
    """f jitted gives what f gives, before and after each change; the changes are undone by the caller's objects being new."""
    g = pyxla.jit(f)
    np.testing.assert_array_equal(g(X), f(X))
    np.testing.assert_array_equal(g(X), f(X))
    for change in changes:
        change()
        np.testing.assert_array_equal(g(X), f(X))
    return g


def test_lru_cache_that_is_cleared():
    held = [2.0]

    @functools.lru_cache
    def factor():
        return held[0]

    f = same_after(lambda x: x * factor(), lambda: held.__setitem__(0, 3.0))
    assert f(X)[1] == 2.0
    factor.cache_clear()
    assert f(X)[1] == 3.0
    assert f(X)[1] == 3.0 and f.cache_info().traces == 3        # one for the list's new item


def test_lru_cache_of_arrays_keeps_arrays():
    @functools.cache
    def table(n, scale=1.0):
        return np.sin(np.arange(n)) * scale

    f = same_after(lambda x: x * table(len(x)) + table(4, scale=2.0), table.cache_clear)
    assert type(table(4)) is np.ndarray and table.cache_info().currsize == 2
    table(4)[0] = 7.0                                           # what it holds is read at every call
    np.testing.assert_array_equal(f(X), X * table(4) + table(4, scale=2.0))
    traces = f.cache_info().traces
    table(9)                                                    # others' calls are no concern
    f(X)
    assert f.cache_info().traces == traces


def test_lru_cache_of_a_traced_number_and_of_a_method():
    class Model:
        def __init__(self):
            self.k = 2.0

        @functools.lru_cache                                    # noqa: B019
        def power(self, n):
            return self.k ** n

    m = Model()
    f = pyxla.jit(lambda x, n: x * m.power(n))
    assert f(X, 2)[1] == 4.0 and f(X, 3)[1] == 8.0 and type(m.power(3)) is float
    m.k = 3.0
    assert f(X, 2)[1] == 4.0
    Model.power.cache_clear()
    assert f(X, 2)[1] == 9.0


def test_lru_cache_whose_function_raises_after_it_was_cleared():
    held = [True]

    @functools.cache
    def get():
        if not held[0]:
            raise KeyError("gone")
        return 2.0

    f = pyxla.jit(lambda x: x * get())
    f(X)
    held[0] = False
    assert f(X)[1] == 2.0
    get.cache_clear()
    with pytest.raises(KeyError, match="gone"):
        f(X)


def test_lru_cache_defined_inside_may_use_tracers():
    def f(x):
        @functools.cache
        def twice():
            return x * 2
        return twice() + twice()

    same_after(f)


def test_headers_of_arrays():
    a, b, c = np.arange(4.0), np.arange(16.0).reshape(4, 4), np.arange(4.0)
    same_after(lambda x: x * 2 if a.flags.writeable else x * 3, lambda: a.setflags(write=False), lambda: a.setflags(write=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same_after(lambda x: x * b.strides[0], lambda: setattr(b, "strides", (8, 32)), lambda: setattr(b, "strides", (32, 8)))
        same_after(lambda x: x * b.shape[0], lambda: setattr(b, "shape", (2, 8)))
    same_after(lambda x: x * len(c), lambda: c.resize(6, refcheck=False))


def test_environment_arguments_and_settings():
    os.environ["TEST_TRACE_WORLD"] = "2"
    getenv = os.getenv
    more = functools.partial(os.environ.__setitem__, "TEST_TRACE_WORLD")
    same_after(lambda x: x * float(os.getenv("TEST_TRACE_WORLD")), lambda: more("3"), lambda: more("4"))
    same_after(lambda x: x * float(getenv("TEST_TRACE_WORLD")), lambda: more("5"))
    same_after(lambda x: x * len(sys.argv), lambda: sys.argv.append("more"), sys.argv.pop)
    before = np.geterr()
    same_after(lambda x: x * len(np.geterr()["over"]), lambda: np.seterr(over="ignore"), lambda: np.seterr(**before))


def test_getattr_of_a_module():
    module, held = types.ModuleType("pyxla_test_world"), {"k": 2.0}
    module.__getattr__ = lambda name: held[name]
    same_after(lambda x: x * module.k, lambda: held.update(k=3.0), lambda: setattr(module, "k", 5.0))


READS = {
    "time.time()": lambda x: x * time.time(),
    "time.perf_counter()": lambda x: x * time.perf_counter(),
    "datetime.datetime.now()": lambda x: x * datetime.datetime.now().timestamp(),
    "os.urandom()": lambda x: x * os.urandom(1)[0],
    "os.urandom() ": lambda x: x * (uuid.uuid4().int % 7),
    "builtins.open()": lambda x: x * len(open(__file__).read()),
    "builtins.open() ": lambda x: x * np.load(__file__),
    "os.stat()": lambda x: x * os.path.exists(__file__),
    "os.listdir()": lambda x: x * len(os.listdir(".")),
    "os.getcwd()": lambda x: x * len(os.getcwd()),
}


@pytest.mark.parametrize("what", READS)
def test_reading_the_world_is_refused(what):
    f = READS[what]
    with pytest.raises(pyxla.TraceError) as e:
        pyxla.jit(f)(X)
    assert what.strip() in str(e.value) and "pass what it gives as an argument" in str(e.value)
    assert f"(at {__file__}:{f.__code__.co_firstlineno}, in <lambda>)" in str(e.value)


def test_a_refusal_that_the_function_catches():
    def f(x):
        try:
            return x * len(open(__file__).read())
        except Exception:
            return x

    with pytest.raises(pyxla.TraceError, match="builtins.open"):
        pyxla.jit(f)(X)


def test_others_read_the_world_while_a_function_is_traced():
    import logging
    log, stream = logging.getLogger("pyxla_test_world"), io.StringIO()
    log.addHandler(logging.StreamHandler(stream))

    def f(x):
        log.warning("traced")                                   # reads the clock
        with contextlib.suppress(ValueError):
            import this_module_is_not_there  # noqa: F401
        return x

    with pytest.raises(ImportError):
        pyxla.jit(f)(X)
    assert "traced" in stream.getvalue() and time.time() > 0


ITERATORS = [itertools.count, lambda: (k for k in range(9)), lambda: iter([1, 2, 3]), lambda: enumerate([1, 2]), lambda: zip([1], [2]),
             lambda: map(abs, [1, 2]), lambda: io.StringIO("1\n2\n3\n"), lambda: itertools.chain([1], [2])]


@pytest.mark.parametrize("make", ITERATORS, ids=range(len(ITERATORS)))
def test_iterators_that_were_there_before(make):
    held = make()
    assert pyxla.jit(lambda x: x * (held is not None))(X)[1] == 1
    with pytest.raises(pyxla.TraceError, match="was advanced while the function was traced"):
        pyxla.jit(lambda x: x * bool(next(held)))(X)
    same_after(lambda x: x * sum(map(abs, [1, 2])))             # one of its own
