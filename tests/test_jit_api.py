"""The jitted function as an object, its options, and what it says about itself."""

import copy
import functools
import gc
import inspect
import os
import pickle
import subprocess
import sys
import weakref

import numpy as np
import pytest

import pyxla

X = np.arange(4.0)


def test_decorator_forms():
    @pyxla.jit
    def f(x):
        """Doc."""
        return x + 1

    @pyxla.jit(threads=1)
    def g(x):
        return x + 2

    np.testing.assert_array_equal(f(X), X + 1)
    np.testing.assert_array_equal(g(X), X + 2)
    assert f.__name__ == "f" and f.__doc__ == "Doc." and f.__module__ == __name__
    assert f.__wrapped__(X)[0] == 1 and "test_decorator_forms" in f.__qualname__
    assert "pyxla.jit" in repr(f)


def test_signature_is_kept():
    @pyxla.jit
    def f(a, /, b, *rest, c=1, **more):
        return b

    assert str(inspect.signature(f)) == "(a, /, b, *rest, c=1, **more)"


def test_keywords_defaults_and_rest():
    def f(a, /, b, c=3.0, *rest, d, e=5.0, **more):
        return a + 10 * b + 100 * c + 1000 * d + 10000 * e + sum(rest) + sum(more.values())

    g = pyxla.jit(f)
    for args, kw in [
        ((X, 2.0), {"d": 1.0}),
        ((X,), {"b": X, "d": X}),
        ((X, X, X), {"d": 2, "e": X}),
        ((X, 1, 2, 3, X), {"d": 4}),
        ((X, 1), {"d": 4, "z": X, "y": 2}),
    ]:
        np.testing.assert_array_equal(g(*args, **kw), f(*args, **kw))
    n = g.cache_info().traces
    g(X, d=1.0, b=2.0)
    assert g.cache_info().traces == n


@pytest.mark.parametrize(
    ("args", "kw", "text"),
    [
        ((), {}, "missing a required argument: 'a'"),
        ((1, 2, 3), {}, "takes 2 positional arguments but 3 were given"),
        ((1,), {"a": 2}, "multiple values for argument 'a'"),
        ((1,), {"z": 2}, "unexpected keyword argument 'z'"),
        ((1,), {}, "missing a required keyword-only argument: 'k'"),
    ],
)
def test_wrong_calls(args, kw, text):
    @pyxla.jit
    def f(a, b=2, *, k):
        return a

    with pytest.raises(TypeError, match=r"f\(\) .*" + text):
        f(*args, **kw)


class Model:
    def __init__(self, w):
        self.w = w

    @pyxla.jit
    def method(self, x):
        return x * self.w

    @classmethod
    @pyxla.jit
    def cls_method(cls, x):
        return x + len(cls.__name__)

    @staticmethod
    @pyxla.jit
    def static(x):
        return x + 3

    @pyxla.jit
    @staticmethod
    def static_inside(x):
        return x + 4

    @pyxla.jit
    @classmethod
    def cls_inside(cls, x):
        return x + len(cls.__name__)

    partial = staticmethod(pyxla.jit(functools.partial(np.add, 1)))
    ufunc = pyxla.jit(np.sqrt)
    descriptor = pyxla.jit(np.ndarray.sum)


def test_methods():
    m = Model(np.array(2.0))
    np.testing.assert_array_equal(m.method(X), X * 2)
    np.testing.assert_array_equal(Model.method(m, X), X * 2)
    bound = m.method
    np.testing.assert_array_equal(bound(x=X), X * 2)
    assert str(inspect.signature(m.method)) == "(x)"
    m.w = np.array(3.0)
    np.testing.assert_array_equal(m.method(X), X * 3)
    m.w[...] = 4
    np.testing.assert_array_equal(m.method(X), X * 4)
    for f in (m.cls_method, Model.cls_method, m.cls_inside):
        np.testing.assert_array_equal(f(X), X + 5)
    for f in (m.static, Model.static):
        np.testing.assert_array_equal(f(X), X + 3)
    np.testing.assert_array_equal(m.static_inside(X), X + 4)
    np.testing.assert_array_equal(m.partial(X), X + 1)
    np.testing.assert_array_equal(m.ufunc(X), np.sqrt(X))
    assert Model.descriptor(X) == 6 and Model.descriptor.__name__ == "sum"


def test_partials_and_callables():
    class Scale:
        def __init__(self, k):
            self.k = k

        def __call__(self, x, *, plus=0.0):
            return x * self.k + plus

    np.testing.assert_array_equal(pyxla.jit(Scale(3.0))(X, plus=1.0), X * 3 + 1)
    np.testing.assert_array_equal(pyxla.jit(Scale(3.0).__call__)(X), X * 3)
    f = functools.partial(lambda a, b, c=1.0: a - b * c, 10.0, c=2.0)
    np.testing.assert_array_equal(pyxla.jit(f)(X), f(X))
    np.testing.assert_array_equal(functools.partial(pyxla.jit(lambda a, b: a - b), X)(1.0), X - 1)


def test_not_callable_or_not_compilable():
    with pytest.raises(TypeError, match="callable"):
        pyxla.jit(3)
    with pytest.raises(TypeError, match="generator"):

        @pyxla.jit
        def g(x):
            yield x


def test_nested_functions_inline():
    inner = pyxla.jit(lambda x, k: x * k, static_argnums=1)
    outer = pyxla.jit(lambda x: inner(x, 2) + inner(x=x, k=3))
    np.testing.assert_array_equal(outer(X), X * 5)
    assert inner.cache_info().traces == 0


def test_static_arguments():
    @pyxla.jit(static_argnums=1, static_argnames=("mode",))
    def f(x, n, *, mode="a"):
        for _ in range(n):
            x = x + (1 if mode == "a" else 2)
        return x

    np.testing.assert_array_equal(f(X, 3), X + 3)
    np.testing.assert_array_equal(f(X, n=2, mode="b"), X + 4)
    f(X, 3, mode="a")
    info = f.cache_info()
    assert info.traces == 2
    for bad in ([1], X):
        with pytest.raises(TypeError, match="f: argument n is a (list|numpy.ndarray): a static argument .* has to be hashable"):
            f(X, bad)


@pytest.mark.parametrize(("a", "b"), [(1, 1.0), (1, True), (0.0, -0.0), ((1,), (1.0,)), (frozenset([1]), frozenset([1.0])), ((0.0,), (-0.0,))])
def test_equal_static_values_of_other_types_trace_again(a, b):
    f = pyxla.jit(lambda s: repr(s), static_argnums=0)
    assert f(a) == repr(a) and f(b) == repr(b) and f(a) == repr(a)
    assert f.cache_info().traces == 2


def test_bad_options():
    def f(x):
        return x

    for options in ({"static_argnums": 3}, {"static_argnames": "y"}, {"static_argnums": 0, "donate_argnums": 0}, {"threads": 0}):
        with pytest.raises(ValueError):
            pyxla.jit(f, **options)
    for options in ({"static_argnames": (1,)}, {"static_argnames": None}, {"static_argnums": None}, {"donate_argnums": "x"}, {"static_argnums": 1.0},
                    {"fma": "no"}, {"fastmath": None}, {"check_nan": 1.5}, {"threads": "2"}):
        with pytest.raises(TypeError, match=f"{next(iter(options))}: .* not "):
            pyxla.jit(f, **options)
    with pytest.raises(ValueError, match="not negative"):
        pyxla.ShapeDtype((-1,), "f4")


def test_cache_info_and_clear():
    f = pyxla.jit(lambda x: x + 1)
    for x in (X, X, np.zeros(5), X.astype("f4"), np.zeros(8)[::2]):
        f(x)
    info = f.cache_info()
    assert (info.hits, info.misses, info.traces, info.entries, info.bounds) == (1, 4, 3, 3, 4)
    assert set(info.seconds) == {"trace", "plan", "compile"} and info.seconds["trace"] > 0
    f.cache_clear()
    info = f.cache_info()
    assert (info.hits, info.misses, info.entries, info.bounds, info.code_bytes) == (0, 0, 0, 0, 0)
    np.testing.assert_array_equal(f(X), X + 1)


def test_numbers_do_not_trace_again():
    f = pyxla.jit(lambda x, n, s: x * n + s)
    for n, s in ((1, 2.0), (3, -1.5), (-7, 0.0)):
        np.testing.assert_array_equal(f(X, n, s), X * n + s)
    assert f.cache_info().traces == 1
    f(X, 1.0, 2.0)
    assert f.cache_info().traces == 2


def test_guards_and_their_warning():
    f = pyxla.jit(lambda x, n: sum(x * k for k in range(n)))
    with pytest.warns(RuntimeWarning, match=r"<lambda> has been traced 8 times .*n was 7, is 8"):
        for n in range(12):
            np.testing.assert_array_equal(f(X, n), sum(X * k for k in range(n)))
    info = f.cache_info()
    assert info.traces == 12 and info.guards >= 12
    f(X, 3)
    assert f.cache_info().traces == 12


def test_entries_are_limited():
    f = pyxla.jit(lambda x, s: x, static_argnums=1)
    for k in range(300):
        f(X, k)
    assert f.cache_info().entries == 256
    f(X, 299)
    f(X, 0)
    assert f.cache_info().traces == 301


def test_bounds_are_limited():
    f = pyxla.jit(lambda x: x + 1)
    base = np.zeros(400)
    for step in range(1, 31):
        f(base[: 4 * step : step])
    info = f.cache_info()
    assert info.traces == 1 and info.bounds == 16


def test_disable_jit():
    seen = []

    @pyxla.jit
    def f(x):
        seen.append(repr(x))
        return x

    with pyxla.disable_jit():
        f(X)
        with pyxla.disable_jit():
            f(X)
        f(X)
    assert seen == [repr(X)] * 3
    f(X)
    assert seen[3].startswith("Tracer(")


def test_lower_and_compile():
    f = pyxla.jit(lambda x, y: np.exp(x) @ y)
    for lowered in (f.lower(np.zeros((4, 3)), np.zeros(3)), f.lower(pyxla.ShapeDtype((4, 3), float), y=pyxla.ShapeDtype(3, float))):
        assert "exp" in lowered.as_text() and "exp" in lowered.as_text(simplified=True)
        compiled = lowered.compile()
        assert "exp" in compiled.plan and compiled.plan == compiled.as_text()
        assert compiled.launches >= 1 and all("exp" in k or "FOR" in k.upper() for k in compiled.kernels)
        assert compiled.peak_bytes >= 32
        assert ("input", "float64", 96) in compiled.buffers
    assert f.cache_info().entries == 0


@pytest.mark.skipif("interp" in str(__import__("os").environ.get("PYXLA_BACKEND")), reason="needs LLVM")
def test_machine_code_can_be_read():
    compiled = pyxla.jit(lambda x: x + 1).lower(X).compile()
    assert "define" in compiled.llvm_ir and "ret" in compiled.assembly


def test_shape_dtype_twice_is_two_arrays():
    s = pyxla.ShapeDtype((3,), "f4")

    def f(x, y):
        x += y
        return x

    assert pyxla.eval_shape(f, s, s) == s


def test_eval_shape():
    s = pyxla.ShapeDtype((2, 3), "float32")
    got = pyxla.eval_shape(lambda x, n: {"a": x.T, "b": x.sum(), "c": x[0] + n, "d": n * 2, "e": x}, s, 7)
    assert got == {
        "a": pyxla.ShapeDtype((3, 2), "float32"),
        "b": pyxla.ShapeDtype((), "float32"),
        "c": pyxla.ShapeDtype((3,), "float32"),
        "d": 14,
        "e": s,
    }
    with pytest.raises(TypeError, match="stands for an array only in"):
        pyxla.jit(lambda x: x)(s)
    assert s.ndim == 2 and s.size == 6 and hash(s) == hash(pyxla.ShapeDtype((2, 3), "f4"))
    # Nothing is computed or allocated: four terabytes.
    huge = pyxla.ShapeDtype((1 << 20, 1 << 10), "float64")
    assert pyxla.eval_shape(lambda x: x.sum(axis=0), huge).shape == (1 << 10,)


def test_exceptions():
    assert issubclass(pyxla.UnsupportedError, pyxla.TraceError) and issubclass(pyxla.UnsupportedError, NotImplementedError)
    for cls in (pyxla.TraceError, pyxla.CompileError, pyxla.InternalError):
        assert issubclass(cls, pyxla.Error) and cls.__module__ == "pyxla"


def test_weak_references_and_cycles():
    def f(x):
        return x + 1

    g = pyxla.jit(f)
    g(X)
    f.cycle = g
    r = weakref.ref(g)
    del f, g
    gc.collect()
    assert r() is None


def test_objects_are_not_kept_alive():
    class Layer:
        def __init__(self):
            self.w = np.ones(4)

        @pyxla.jit
        def __call__(self, x):
            return x * self.w

    layer = Layer()
    layer(X)
    gone = weakref.ref(layer)
    del layer
    gc.collect()
    assert gone() is None
    for _ in range(5):
        Layer()(X)
    assert Layer.__call__.cache_info().entries <= 2


@pyxla.jit
def at_top_level(x):
    return x + 1


def test_pickle_and_copy():
    assert pickle.loads(pickle.dumps(at_top_level)) is at_top_level
    assert copy.copy(at_top_level) is at_top_level and copy.deepcopy([at_top_level])[0] is at_top_level


def test_attributes():
    f = pyxla.jit(lambda x: x)
    f.note = 3
    assert f.note == 3 and f.__dict__["note"] == 3


def test_threads():
    n = pyxla.get_num_threads()
    pyxla.set_num_threads(2)
    assert pyxla.get_num_threads() == 2
    pyxla.set_num_threads(None)
    assert pyxla.get_num_threads() == n
    with pytest.raises(ValueError):
        pyxla.set_num_threads(0)


def test_memory_info():
    info = pyxla.memory_info()
    assert info.limit > 0 and info.peak >= info.in_use >= 0 and info.reused <= info.allocations


def run(code, **env):
    import os

    return subprocess.run([sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, timeout=120)


def test_report():
    r = subprocess.run([sys.executable, "-m", "pyxla"], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stderr
    for word in ("pyxla", "LLVM", "CPU", "threads", "kernels"):
        assert word in r.stdout


def test_recompile_log():
    code = """
import numpy as np, pyxla
f = pyxla.jit(lambda x, n: x['w'] * n, )
f({'w': np.zeros(3)}, 1); f({'w': np.zeros(4)}, 1); f({'w': np.zeros(4, 'f4')}, 1.0)
"""
    r = run(code, PYXLA_LOG="recompiles")
    assert r.returncode == 0, r.stderr
    assert "<lambda> traced for the first time" in r.stderr
    assert "x['w']: float64[3] -> float64[4]" in r.stderr
    assert "x['w']: float64[4] -> float32[4], n: int -> float" in r.stderr


def test_log_words():
    r = run("import pyxla", PYXLA_LOG="nonsense")
    assert r.returncode != 0 and "recompiles, passes, plan, llvm, asm" in r.stderr
    r = run("import numpy as np, pyxla; pyxla.jit(lambda x: np.tanh(x))(np.zeros(3))", PYXLA_LOG="passes,plan")
    assert r.returncode == 0 and "graph simplified" in r.stderr and "tanh" in r.stderr


def test_loading_twice_is_refused():
    r = run("import sys, pyxla\nfor m in [m for m in sys.modules if m.startswith('pyxla')]: del sys.modules[m]\nimport pyxla")
    assert r.returncode != 0 and "loaded twice" in r.stderr


def test_import_is_cheap():
    """Neither LLVM nor threads, and of pyxla and Python little, before they are needed."""
    code = "import numpy, os, sys; before, threads = set(sys.modules), len(os.listdir('/proc/self/task')); import pyxla\n" \
           "print(len(os.listdir('/proc/self/task')) - threads, *sorted(set(sys.modules) - before), end='\\n'); print(open('/proc/self/maps').read())"
    threads, rest = run(code).stdout.split(" ", 1)
    modules, maps = rest.split("\n", 1)[0].split(), rest
    assert threads == "0" and "LLVM" not in maps and "_gen.so" not in maps and len(modules) < 28, modules
    assert not {"pyxla._np", "pyxla._capture", "pyxla._creation", "pyxla._errors", "inspect", "dis", "subprocess", "ctypes", "scipy"} & set(modules)


def test_info_has_what_its_stub_says():
    for info in (pyxla.memory_info(), pyxla.jit(lambda x: x).cache_info()):
        assert info._asdict() == {name: getattr(info, name) for name in info._fields}
        assert tuple(info._asdict().values()) == tuple(info)


THREADPOOLCTL = """
controllers = []
class LibController: pass
def register(controller): controllers.append(controller)
"""


@pytest.mark.parametrize("order", ["import threadpoolctl, pyxla", "import pyxla, threadpoolctl", "import pyxla, json, threadpoolctl; import threadpoolctl"])
def test_threadpoolctl_finds_the_pool(order, tmp_path):
    (tmp_path / "threadpoolctl.py").write_text(THREADPOOLCTL)
    code = f"""{order}
import sys
(controller,) = threadpoolctl.controllers
controller.set_num_threads(None, 1)
assert pyxla.get_num_threads() == controller.get_num_threads(None) == 1
assert not [f for f in sys.meta_path if getattr(f, "__module__", "") == "pyxla._api"]
"""
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": paths})
