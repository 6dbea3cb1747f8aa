"""Nothing is left behind: every public entry, many times, in every way that it can end."""

import ctypes
import dataclasses
import functools
import gc
import sys
import warnings

import numpy as np
import pytest

import pyxla

X = np.arange(6.0).reshape(2, 3)
Y = np.ones((2, 3))
BIG = np.zeros(50_000)
SHAPES = [pyxla.ShapeDtype((2, 3), np.float64)] * 2


class MallInfo(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]


try:
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = MallInfo
except AttributeError:                                      # only glibc from 2.33 on counts
    mallinfo = MallInfo


def held():
    """Blocks of Python's allocator, bytes of C's, bytes of ours."""
    gc.collect()
    c = mallinfo()
    return sys.getallocatedblocks(), c.uordblks + c.hblkhd, pyxla.memory_info().in_use


def check(work, times):
    for _ in range(60):                                     # kernels are compiled
        work()
    for _ in range(4):                                      # caches and tables fill at first: a leak goes on
        before = held()
        for _ in range(times):
            work()
        blocks, heap, ours = (b - a for a, b in zip(before, held()))
        # one block, or one small piece of memory, in ten calls
        if blocks < times / 10 + 40 and heap < times * 3.2 + 8000 and ours == 0:
            return
    raise AssertionError(f"{blocks} blocks, {heap} bytes and {ours} bytes of results in {times} calls")


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y


pyxla.register_tree(Point, lambda p: ((p.x, p.y), None), lambda aux, children: Point(*children))


@dataclasses.dataclass
class Pair:
    x: object
    y: object


add = pyxla.jit(lambda x, y: x + y)
CASES = {}


def case(fn):
    CASES[fn.__name__.strip("_").replace("_", " ")] = fn
    return fn


def call(f, *args, **kwargs):
    return lambda: f(*args, **kwargs)


def raises(kind, f, *args, **kwargs):
    def work():
        try:
            f(*args, **kwargs)
        except kind:
            return
        raise AssertionError("no exception")
    return work


# ---- hits ----


@case
def hit():
    return call(add, X, Y)


@case
def hits_of_two_signatures():
    x = X.astype("f4")

    def work():
        add(X, Y)
        add(x, x)
    return work


@case
def scalars():
    return call(pyxla.jit(lambda x, s: (x.sum() * s, s + 1, x[0, 0])), X, 2.5)


@case
def big_integers():
    return call(pyxla.jit(lambda x, n: (x + 1, n * n, n + 1)), X, 10**30)


@case
def trees():
    f = pyxla.jit(lambda t: {"a": (t[0].x + 1, None), "b": [t[1].y, t[2]["k"]], "c": t[0], "d": t[1]})
    return call(f, (Point(X, Y), Pair(1, X), {"k": Y}))


@case
def keywords_and_defaults():
    return call(pyxla.jit(lambda x, *rest, y=2, **more: (x + y, rest, more)), X, Y, 1, y=Y, z=X)


@case
def methods():
    class Model:
        @pyxla.jit
        def step(self, x):
            return x + 1
    model = Model()
    return lambda: model.step(X)


@case
def partials():
    return call(pyxla.jit(functools.partial(lambda x, y, z: x + y + z, z=X)), X, Y)


@case
def layouts():
    views = [X, X.T, X[::-1], X[:, ::2], np.frombuffer(b"\0" * 49, np.uint8)[1:].view("f8").reshape(2, 3), np.float64(1)]

    def work():
        for v in views:
            add(v, v)
    return work


@case
def many_layouts_replan():
    wide = np.zeros((40, 90))
    views = [wide[:4 * k:k, :9] for k in range(1, 10)] + [wide[:4, : 9 * k : k] for k in range(2, 11)]
    f = pyxla.jit(lambda x: x * 2)
    turn = iter(range(10**9))
    return lambda: f(views[next(turn) % len(views)])


@case
def lent_memory():
    class Lent:
        __array_interface__ = X.__array_interface__
    lent = Lent()
    return call(add, lent, lent)


@case
def dlpack():
    class Capsule:
        def __dlpack__(self, **kwargs):
            return X.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return X.__dlpack_device__()
    lent = Capsule()
    return call(add, lent, lent)


@case
def views_as_results():
    return call(pyxla.jit(lambda x: (x, x[0], x.T, x[:, 1:], (x + 1)[0], (x + 1).T)), X)


@case
def in_place():
    def f(x, y):
        x[0] += y[0]
        x *= 0.5
        return x
    return call(pyxla.jit(f), X.copy(), Y)


@case
def donated():
    f = pyxla.jit(lambda x: x + 1, donate_argnums=0)
    return lambda: f(X.copy())


@case
def large_results():
    return call(pyxla.jit(lambda x: x + 1), BIG)


@case
def results_that_are_resized():
    f = pyxla.jit(lambda x: x + 1)

    def work():
        y = f(X)
        y.resize((50, 50), refcheck=False)
        y.resize((1,), refcheck=False)
    return work


@case
def captured():
    table = {"w": Y.copy()}
    other = Y.copy()
    f = pyxla.jit(lambda x: x @ table["w"].T + table["w"].sum())

    def work():
        nonlocal other
        f(X)
        table["w"], other = other, table["w"]
        f(X)
    return work


@case
def captured_anew():
    """Each new array in a captured dict is traced again."""
    table = {}
    f = pyxla.jit(lambda x: x @ table["w"].T)

    def work():
        table["w"] = Y.copy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f(X)
    return work


@case
def statics():
    return call(pyxla.jit(lambda x, mode, fn: fn(x) if mode == "a" else x, static_argnums=(1, 2)), X, "a", np.tanh)


@case
def inlined():
    return call(pyxla.jit(lambda x: add(add(x, x), x)), X)


@case
def disabled():
    def work():
        with pyxla.disable_jit():
            add(X, Y)
    return work


@case
def in_a_failing_check():
    return raises(ValueError, pyxla.jit(lambda x, n: x ** n), np.arange(3), np.array([1, -1, 2]))


@case
def results_that_do_not_fit():
    from pyxla import _core

    f = pyxla.jit(lambda x: (x + 1, x + 2, x.sum()))
    f(X)

    def work():
        _core._fail_at(0, 2)
        try:
            f(X)
        except MemoryError:
            return
        finally:
            _core._fail_at(0, 0)
        raise AssertionError("no exception")
    return work


# ---- misses ----


@case
def miss_clear():
    f = pyxla.jit(lambda x, y: (np.tanh(x) + y).sum(axis=0))

    def work():
        f(X, Y)
        f.cache_clear()
    return work


@case
def miss_new_function():
    def work():
        def f(x, t):
            z = np.zeros(3)
            z[1:] = x[0, 1:]
            return {"z": z, "x": x[0], "n": t["n"] + 1}
        pyxla.jit(f)(X, {"n": 2})
    return work


@case
def miss_in_a_cycle():
    def work():
        class Model:
            def __init__(self):
                self.w = X.copy()
                self.step = pyxla.jit(self.run)

            def run(self, x):
                return x @ self.w.T
        Model().step(X)
    return work


@case
def miss_shapes():
    """More signatures than the cache holds."""
    f = pyxla.jit(lambda x: x + 1)
    turn = iter(range(10**9))
    return lambda: f(BIG[: 1 + next(turn) % 300])


@case
def miss_guards():
    f = pyxla.jit(lambda x, n: x * sum(range(n)))
    turn = iter(range(10**9))

    def work():
        if (k := next(turn)) % 7 == 0:
            f.cache_clear()
        f(X, k % 7)
    return work


@case
def miss_statics():
    class Mode:
        pass
    f = pyxla.jit(lambda x, mode: x + 1, static_argnums=1)
    return lambda: f(X, Mode())


@case
def kernels_compiled():
    f = pyxla.jit(lambda x: x + 1)

    def work():
        f.cache_clear()
        pyxla.clear_kernels()
        f(X)
    return work


# ---- errors ----


@case
def wrong_types():
    return raises(TypeError, add, X, [object()].__iter__())


@case
def wrong_arguments():
    return raises(TypeError, add, X, Y, X, z=1)


@case
def wrong_arrays():
    return raises(TypeError, add, X, np.array(["a"]))


@case
def wrong_shapes():
    return raises(ValueError, add, X, np.zeros(7))


@case
def exception_in_the_function():
    def f(x):
        y = np.exp(x) + np.zeros(3)
        raise KeyError(str(y.shape))
    return raises(KeyError, pyxla.jit(f), X)


@case
def trace_error():
    return raises(pyxla.TraceError, pyxla.jit(lambda x: x if x.sum() > 0 else -x), X)


@case
def leaked_tracer():
    kept = []

    def f(x):
        kept[:] = [x]
        return x + 1
    f = pyxla.jit(f)

    def work():
        f.cache_clear()
        f(X)
        try:
            kept[0] + 1
        except pyxla.TraceError:
            return
        raise AssertionError("no exception")
    return work


@case
def unsupported():
    return raises(pyxla.UnsupportedError, pyxla.jit(lambda x: np.busday_count(x, x)), X)


@case
def overlap():
    @pyxla.jit
    def f(x, y):
        x[:] = y
    z = np.zeros(8)
    return raises(ValueError, f, z[:5], z[2:7])


@case
def compile_without_memory():
    from pyxla import _core

    f = pyxla.jit(lambda x: np.exp(x).sum(axis=0))
    turn = iter(range(10**9))

    def work():
        f.cache_clear()
        _core._fail_at(1 + next(turn) % 97, 0)
        try:
            f(X)
        except MemoryError:
            pass
        finally:
            _core._fail_at(0, 0)
    return work


# ---- the rest of what is public ----


@case
def jit_itself():
    return lambda: pyxla.jit(add.__wrapped__, static_argnames="y", donate_argnums=0, threads=2, fma=True, fastmath=True)


@case
def jit_refused():
    return raises(TypeError, pyxla.jit, 3)


@case
def introspection():
    def work():
        repr(add), hash(add)
        return add.cache_info(), add.__wrapped__, add.__name__, add.__doc__, pyxla.memory_info(), pyxla.get_num_threads()
    return work


@case
def lower():
    def work():
        lowered = add.lower(X, Y)
        lowered.as_text()
        lowered.as_text(simplified=True)
    return work


@case
def compiled():
    f = pyxla.jit(lambda x: np.exp(x).sum(axis=1))

    def work():
        c = f.lower(X).compile()
        return c.plan, c.kernels, c.launches, c.buffers, c.peak_bytes, c.workspace_bytes, c.as_text()
    return work


@case
def compiled_code():
    c = add.lower(X, Y).compile()
    return lambda: (c.llvm_ir, c.assembly)


@case
def eval_shape():
    return lambda: pyxla.eval_shape(lambda x, y: {"z": x @ y.T, "n": (x[0], 1)}, *SHAPES)


@case
def eval_shape_fails():
    return raises(ValueError, pyxla.eval_shape, lambda x, y: x @ y, *SHAPES)


@case
def shape_dtype():
    return lambda: (repr(pyxla.ShapeDtype((2, 3), "f4")), hash(SHAPES[0]), SHAPES[0] == SHAPES[1])


@case
def register_tree():
    def work():
        class Node:
            def __init__(self, x):
                self.x = x
        pyxla.register_tree(Node, lambda n: ((n.x,), type(n)), lambda cls, c: cls(*c))
        assert type(pyxla.jit(lambda n: Node(n.x + 1))(Node(X))) is Node
    return work


@case
def register_tree_refused():
    return raises((TypeError, ValueError), pyxla.register_tree, 3, None, None)


@case
def trees_that_fail():
    class Bad:
        pass
    pyxla.register_tree(Bad, lambda b: 1 / 0, lambda aux, c: Bad())
    return raises(ZeroDivisionError, add, X, Bad())


@case
def trim():
    def work():
        add(BIG, BIG)
        pyxla.trim_memory()
    return work


@case
def threads():
    def work():
        pyxla.set_num_threads(2)
        pyxla.set_num_threads(None)
    return work


SLOW = {"compiled code", "kernels compiled", "compile without memory"}    # LLVM works each time


@pytest.mark.parametrize("name", CASES)
def test_no_leak(name):
    check(CASES[name](), 60 if name in SLOW else 2000)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_leak_in_many_calls(name):
    check(CASES[name](), 1000 if name in SLOW else 10_000)


@pytest.mark.slow
def test_a_million_calls():
    """Nothing that grows too slowly for the counts above."""
    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    for _ in range(100_000):
        add(X, Y)
    before = resident()
    for _ in range(1_000_000):
        add(X, Y)
    assert resident() - before < 1 << 20


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_large_result_takes_the_memory_of_its_elements():
    """Huge pages hold the whole 2 MB parts of it: no page is filled with what is not there."""
    f = pyxla.jit(lambda x: x + 1.0)
    x = np.ones(950_000)                                     # 7.25 MiB
    first = f(x)
    before = resident()
    results = [f(x) for _ in range(8)]
    assert resident() - before < len(results) * first.nbytes + (2 << 20)
