"""Captured state is seen wherever it is held: each program reads something, which is changed; the next call knows, and no call traces without a change."""
import argparse
import array
import collections
import contextvars
import ctypes
import dataclasses
import enum
import functools
import logging
import multiprocessing
import operator
import os
import subprocess
import sys
import threading
import types
import weakref

import numpy as np
import pytest

import pyxla

X = np.arange(4.0)


def attribute(o, name, value):
    return lambda: setattr(o, name, value)


def item(o, key, value):
    return lambda: o.__setitem__(key, value)


class Plain:
    k = 1.0

    def method(self, x):
        return x * self.k


class Base(Plain):
    def method(self, x):
        return super().method(x) * 2

    @property
    def twice(self):
        return self.k * 2

    @staticmethod
    def fixed(x):
        return x + 1

    @classmethod
    def of_class(cls, x):
        return x * cls.k


class Child(Base):
    pass


class Holder:
    """Everything that Python looks up in the class."""

    def __init__(self):
        self.items = [1.0]

    def __getattr__(self, name):
        if name == "computed":
            return self.items[0]
        raise AttributeError(name)

    def __getitem__(self, i):
        return self.items[i]

    def __iter__(self):
        return iter(self.items)

    def __contains__(self, v):
        return v in self.items

    def __len__(self):
        return len(self.items)

    def __bool__(self):
        return self.items[0] > 1

    def __add__(self, other):
        return other + self.items[0]

    def __enter__(self):
        return self.items[0]

    def __exit__(self, *_):
        pass

    def __float__(self):
        return self.items[0]

    def __call__(self, x):
        return x * self.items[0]

    def __array__(self, dtype=None, copy=None):
        return np.array(self.items)


class AttrDict(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class Meta(type):
    k = 1.0

    @property
    def twice(cls):
        return cls.k * 2


class Descriptor:
    def __init__(self):
        self.value = 1.0

    def __get__(self, o, cls):
        return self.value


@dataclasses.dataclass
class Data:
    k: float = 1.0
    items: list = dataclasses.field(default_factory=lambda: [1.0])


class Slots:
    __slots__ = ("k", "other")


Pair = collections.namedtuple("Pair", "a b")
made = []


def program(f):
    """f() makes a program and a list of changes."""
    made.append(pytest.param(f, id=f.__name__))
    return f


@program
def attribute_that_hides_that_of_the_class():
    o = Plain()
    return lambda x: o.method(x), [attribute(o, "k", 2.0), lambda: delattr(o, "k"), attribute(o, "method", lambda x: x - 1)]


@program
def inherited():
    class A:
        k = 1.0

    class B(A):
        pass

    return lambda x: x * B.k * B().k, [attribute(A, "k", 2.0), attribute(B, "k", 3.0), attribute(B, "__bases__", (Plain,))]


@program
def methods():
    class A(Plain):
        pass

    class B(A):
        def method(self, x):
            return super().method(x) * 2

    b = B()
    return lambda x: b.method(x), [attribute(A, "method", lambda self, x: x + 5), attribute(b, "__class__", Plain), attribute(b, "k", 7.0)]


@program
def descriptors_of_the_class():
    class C(Base):
        k = 2.0
        d = Descriptor()

    c = C()
    return lambda x: c.fixed(x) + c.of_class(x) * c.twice + c.d, [
        attribute(C, "fixed", staticmethod(lambda x: x + 9)), attribute(C, "k", 4.0), attribute(C, "twice", property(lambda s: 8.0)),
        attribute(C.__dict__["d"], "value", 3.0), attribute(c, "d", 6.0)]


@program
def metaclass():
    M = type("M", (Meta,), {})
    C = M("C", (), {})
    return lambda x: x * C.k * C.twice, [attribute(M, "k", 2.0), attribute(C, "k", 3.0)]


@program
def slots():
    s = Slots()
    return lambda x: x * getattr(s, "k", 1.0), [attribute(s, "k", 2.0), lambda: delattr(s, "k")]


@program
def data_classes():
    d, s = Data(), dataclasses.make_dataclass("D", ["k"], slots=True)(1.0)
    return lambda x: x * d.k * d.items[0] + s.k, [attribute(d, "k", 2.0), item(d.items, 0, 4.0), attribute(s, "k", 3.0)]


@program
def what_the_class_computes():
    h = Holder()

    def f(x):
        with h as entered:
            return h(x) + [entered, h.computed, h[0], *h, 5.0 in h, len(h), bool(h), h + 1, float(h)] @ np.ones(9) + np.array(h)

    return f, [item(h.items, 0, 2.0), item(h.items, 0, 5.0), attribute(h, "items", [7.0])]


@program
def missing_attributes():
    o = types.SimpleNamespace()

    def f(x):
        try:
            x = x * o.caught
        except AttributeError:
            pass
        return x * getattr(o, "asked", 2.0) + hasattr(o, "has")

    return f, [attribute(o, "asked", 3.0), attribute(o, "has", None), attribute(o, "caught", 5.0), lambda: delattr(o, "has")]


@program
def attributes_by_computed_names():
    o = Plain()
    o.w0, o.w1 = 1.0, [2.0]
    return lambda x: x * sum(getattr(o, f"w{i}") for i in range(1)) * vars(o)["w1"][0], [attribute(o, "w0", 3.0), item(o.w1, 0, 4.0)]


@program
def patterns():
    d = Data()

    def f(x):
        return x * (lambda k: k)(d.__dict__.get("k", 0.0)) + d.__dict__.get("late", 0.0)

    return f, [attribute(d, "k", 2.0), attribute(d, "late", 3.0)]


@program
def namespaces():
    n, a, t = types.SimpleNamespace(k=1.0, sub=types.SimpleNamespace(items=[1.0])), argparse.Namespace(k=1.0), threading.local()
    t.k = 1.0
    return lambda x: x * n.k * n.sub.items[0] + a.k + t.k, [
        attribute(n, "k", 2.0), item(n.sub.items, 0, 3.0), attribute(n, "sub", types.SimpleNamespace(items=[5.0])), attribute(a, "k", 2.0),
        attribute(t, "k", 4.0)]


@program
def dictionaries():
    o, d, c = collections.OrderedDict(a=1.0, b=2.0), collections.defaultdict(float, a=1.0), collections.Counter("ab")
    m, u, plain = collections.ChainMap({}, {"a": 1.0}), collections.UserDict(a=1.0), {"a": 1.0}
    proxy, values, a = types.MappingProxyType(plain), plain.values(), AttrDict(k=1.0, deep=AttrDict(k=1.0))
    return lambda x: x * o["a"] - list(o)[0].count("a") + d["a"] + c["a"] + m["a"] + u["a"] + proxy["a"] + sum(values) + a.k + a.deep.k, [
        item(o, "a", 2.0), lambda: o.move_to_end("a"), item(d, "a", 2.0), lambda: c.update("a"), item(m, "a", 3.0), item(m.maps[1], "b", 1.0),
        item(u, "a", 5.0), item(plain, "a", 6.0), attribute(a, "k", 7.0), attribute(a.deep, "k", 8.0)]


@program
def sequences():
    s, q, u, t = {1.0}, collections.deque([1.0]), collections.UserList([1.0]), ([1.0], {"a": [2.0]})
    p, sub = Pair([1.0], 2.0), type("L", (list,), {"k": 1.0})([1.0])
    return lambda x: x * sum(s) + sum(q) + u[0] + t[0][0] + t[1]["a"][0] + p.a[0] + sub[0] + sub.k, [
        lambda: s.add(5.0), lambda: q.append(2.0), item(u, 0, 3.0), item(t[0], 0, 4.0), item(t[1]["a"], 0, 5.0), item(p.a, 0, 6.0), item(sub, 0, 7.0),
        attribute(sub, "k", 8.0)]


@program
def memory():
    a, b, m, c, v = array.array("d", [1.0]), bytearray(b"\1"), np.ones(4), (ctypes.c_double * 1)(1.0), ctypes.c_double(1.0)
    view, buffer, objects = memoryview(m), np.ones(4), np.array([1.0, [2.0]], object)
    return lambda x: x * a[0] + b[0] + view[1] + c[0] + v.value + memoryview(buffer)[2] + objects[0] + objects[1][0] + buffer.tobytes()[7], [
        item(a, 0, 2.0), item(b, 0, 3), item(m, 1, 4.0), item(c, 0, 5.0), attribute(v, "value", 6.0), item(buffer, 2, 7.0), item(objects, 0, 8.0),
        item(objects[1], 0, 9.0), item(buffer, 0, -1.0)]


@program
def lent_memory():
    a, m = array.array("d", range(4)), np.arange(4.0)
    view, lender = memoryview(m), type("Lender", (), {"__array_interface__": property(lambda self: m.__array_interface__)})()
    return lambda x: x + np.array(a) * np.asarray(view) + np.asarray(lender) + np.frombuffer(a), [item(a, 0, 5.0), item(m, 1, 7.0)]


@program
def references():
    o, v = Plain(), contextvars.ContextVar("v", default=1.0)
    ref, proxy, table, method = weakref.ref(o), weakref.proxy(o), weakref.WeakValueDictionary(a=o), o.method
    return lambda x: x * ref().k + proxy.k + table["a"].k + v.get() + method(x), [attribute(o, "k", 2.0), lambda: v.set(3.0)]


@program
def functions():
    def helper(x, k=1.0, *, c=1.0):
        return x * k + c + getattr(helper, "extra", 0.0)

    return lambda x: helper(x), [
        attribute(helper, "__defaults__", (2.0,)), lambda: helper.__kwdefaults__.update(c=3.0), attribute(helper, "__kwdefaults__", {"c": 4.0}),
        attribute(helper, "extra", 5.0), attribute(helper, "__code__", (lambda x, k, *, c: x * 7 * k * c + (helper is None)).__code__)]


@program
def modules():
    module, other = types.ModuleType("pyxla_test_module"), types.ModuleType("other")
    module.k, other.k = 1.0, 9.0
    sys.modules["pyxla_test_module"] = module
    held = [module]

    def f(x):
        import pyxla_test_module
        from pyxla_test_module import k
        return x * pyxla_test_module.k + k + held[0].k + float(os.environ.get("CAPTURED_IN_A_TEST", "1"))

    return f, [attribute(module, "k", 2.0), item(held, 0, other), item(os.environ, "CAPTURED_IN_A_TEST", "3"), lambda: os.environ.pop("CAPTURED_IN_A_TEST")]


@program
def globals_of_every_kind():
    def f(x):
        try:
            return x * not_there_yet * float(abs(-2.0)) + globals().get("another", 0.0)
        except NameError:
            return x * float(abs(-2.0)) * eval("holders[0]") + globals().get("another", 0.0)

    g = globals()
    g["holders"] = [1.0]
    return f, [item(g["holders"], 0, 2.0), item(g, "abs", lambda v: 7.0), lambda: g.pop("abs"), item(g, "another", 3.0), item(g, "not_there_yet", 5.0),
               lambda: (g.pop("not_there_yet"), g.pop("another"))]


@program
def headers_of_arrays():
    a, b, c = np.ones((2, 2)), np.ones(4), np.array(3.0)
    return lambda x: x * a.ndim * a.ravel() + b.size + b.sum() + c + float(c), [
        attribute(a, "shape", (4,)), lambda: b.resize(6, refcheck=False), item(c, (), 5.0), attribute(a, "dtype", np.dtype("i8"))]


@program
def partials_and_getters():
    p, o, d = functools.partial(lambda x, a: x * a, a=1.0), types.SimpleNamespace(deep=Plain()), {"a": 1.0}
    get, call = operator.attrgetter("deep.k"), operator.methodcaller("get", "late", 2.0)
    return lambda x: p(x) * get(o) + call(d), [lambda: p.keywords.update(a=2.0), attribute(o.deep, "k", 3.0), attribute(o, "deep", Plain()), item(d, "late", 5.0)]


@program
def methods_looked_up_before():
    a, d, v = np.ones(4), {"a": 1.0}, [1.0]
    total, get, third, items = a.sum, d.get, v.__getitem__, [a.mean]
    return lambda x: x * total() + get("a") + third(0) + items[0](), [item(a, 0, 5.0), item(d, "a", 2.0), item(v, 0, 3.0)]


@program
def elements_of_other_dtypes():
    days, names, pairs = np.array(["2020-01-01"], "M8[D]"), np.array(["a", "b"]), np.zeros(2, [("k", "f8"), ("n", "i4")])
    return lambda x: x * days.astype("i8")[0] + (names[0] == "a") + pairs[0]["k"] + sum(p["n"] for p in pairs) + pairs["k"][1], [
        item(days, 0, np.datetime64("2021-01-01")), item(names, 0, "z"), lambda: pairs["k"].fill(2.0), item(pairs["n"], 1, 7)]


@program
def names_in_texts():
    class C:
        w0, w1 = 1.0, 2.0

    o, module = C(), types.ModuleType("pyxla_text_module")
    module.k, module.k0, sys.modules["pyxla_text_module"] = 1.0, 1.0, module
    return lambda x: (x * sum(getattr(o, n) for n in ("w0", "w1")) + getattr(C, f"w{0}") + C.__dict__["w1"] + vars(module)["k"] + getattr(module, f"k{0}")
                      + sys.modules["pyxla_text_module"].k), [
        attribute(C, "w0", 3.0), attribute(C, "w1", 4.0), attribute(o, "w1", 5.0), attribute(module, "k", 6.0), attribute(module, "k0", 7.0)]


@program
def what_pythons_own_objects_hold():
    @functools.singledispatch
    def kind(v):
        return 1.0

    factor, value = [1.0], multiprocessing.Value("d", 1.0)
    each = np.vectorize(lambda v: v * factor[0])
    return lambda x: each(x) + value.value + kind("text"), [item(factor, 0, 2.0), attribute(value, "value", 3.0), lambda: kind.register(str, lambda v: 4.0)]


@program
def members_of_enumerations():
    class Kind(enum.Enum):
        A, B = 1.0, [2.0]

    for member in Kind:
        member.weight = 1.0
    more = object.__new__(Kind)
    more._name_, more._value_, more.weight = "C", 3.0, 1.0
    return lambda x: x * sum(member.weight for member in Kind) + len(Kind) + Kind["B"].value[0] + (Kind(1.0) is Kind.A), [
        attribute(Kind.A, "weight", 5.0), item(Kind.B.value, 0, 4.0), lambda: (item(Kind._member_map_, "C", more)(), Kind._member_names_.append("C")),
        item(Kind._value2member_map_, 1.0, Kind.B)]


@program
def what_classes_tell_of_themselves():
    class Root:
        pass

    class Leaf(Root):
        k = 1.0

    class Pair:
        __match_args__ = ("a", "b")
        a, b = 2.0, 3.0

    class Lends:
        held = np.ones(4)

        @property
        def __array_interface__(self):
            return self.held.__array_interface__

    pair, lends = Pair(), Lends()

    def f(x):
        match pair:
            case Pair(a, _):
                return x * sum(k.k for k in Root.__subclasses__()) * a + np.asarray(lends)

    return f, [attribute(Leaf, "k", 2.0), lambda: setattr(Root, "kept", type("New", (Root,), {"k": 5.0})), attribute(Pair, "__match_args__", ("b", "a")),
               attribute(lends, "held", np.zeros(4))]


@pytest.mark.filterwarnings("ignore:.*has been traced 8 times", "ignore:Setting the")
@pytest.mark.parametrize("make", made)
def test_changes_are_seen(make):
    f, changes = make()
    g = pyxla.jit(f)
    for k, change in enumerate([lambda: None, *changes]):
        change()
        for _ in range(3):
            np.testing.assert_array_equal(g(X), f(X), err_msg=f"after change {k}")
        assert g.cache_info().traces <= k + 1


def test_installed_packages(tmp_path, monkeypatch):
    """Their data is followed, their functions are taken as they are: nothing in them is refused that the program does not do."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_for_a_test.py").write_text(
        "import numpy as np\nK, ITEMS = 1.0, [1.0]\ndef draw(): return np.random.rand()\n"
        "def scaled(x, noisy=False): return x * K + ITEMS[0] + (draw() if noisy else 0)\n"
        "class Array:\n    a = np.arange(4.0)\n    __array_interface__ = property(lambda self: self.a.__array_interface__)\n")
    monkeypatch.syspath_prepend(folder)
    import installed_for_a_test as package
    array = package.Array()
    f = lambda x: package.scaled(x) + np.asarray(array)
    g = pyxla.jit(f)
    for k, change in enumerate([lambda: None, attribute(package, "K", 2.0), item(package.ITEMS, 0, 3.0), attribute(package, "ITEMS", [4.0]), item(array.a, 0, 5.0)]):
        change()
        for _ in range(2):
            np.testing.assert_array_equal(g(X), f(X), err_msg=str(k))
    assert g.cache_info().traces == 4


def test_own_defaults_are_arguments():
    def f(x, k=1.0, *, c=2.0):
        return x * k + c

    g = pyxla.jit(f)
    for change in (lambda: None, attribute(f, "__defaults__", (3.0,)), lambda: f.__kwdefaults__.update(c=4.0), attribute(f, "__kwdefaults__", {"c": 5.0})):
        change()
        np.testing.assert_array_equal(g(X), f(X))
    assert g.cache_info().traces == 1
    f.__defaults__ = f.__kwdefaults__ = None
    with pytest.raises(TypeError, match="missing a required"):
        g(X)


def test_what_the_function_does_not_read_may_change():
    o = Base()
    g = pyxla.jit(lambda x: o.method(x) * o.twice)
    for n in range(5):
        g(X)
        o.calls = Base.calls = n
        setattr(o, f"unread{n}", n)
    assert g.cache_info().traces == 1
    del Base.calls


def test_a_cached_property_and_a_logger():
    class C:
        @functools.cached_property
        def v(self):
            return 2.0

    c, log = C(), logging.getLogger("pyxla.test")

    @pyxla.jit
    def f(x):
        log.debug("traced")
        return x * c.v

    for _ in range(4):
        f(X)
    assert f.cache_info().traces <= 2           # the first trace itself stored the property


def test_the_reason_names_what_changed():
    code = "import numpy as np, pyxla\nclass C: k = 1.0\no = C()\nf = pyxla.jit(lambda x: x * o.k)\nf(np.ones(2)); o.k = 2.0; f(np.ones(2)); C.k = 5.0; del o.k; f(np.ones(2))"
    out = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYXLA_LOG": "recompiles"}, capture_output=True, text=True, check=True).stderr
    assert out.count("o.k changed") == 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Float(float):
    pass


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "float32", "float64", "complex64"])
@pytest.mark.parametrize("v", [Level.HIGH, Float(2.5)], ids=["IntEnum", "float"])
def test_subclasses_of_numbers_are_no_weak_numbers(v, dtype):
    x = np.ones(3, dtype)
    for f in (lambda x: x * v, lambda x: v + x, lambda x: np.multiply(x, v), lambda x: x > v):
        got, want = pyxla.jit(f)(x), f(x)
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype
    assert pyxla.jit(lambda x, v: x * v)(x, v).dtype == (x * v).dtype


def test_methods_of_c_are_jitted_like_functions():
    a = np.ones(4)
    f, g = pyxla.jit(a.sum), pyxla.jit(a.__getitem__)
    for value in (1.0, 2.0, 2.0, 3.0):
        a[1] = value
        assert f() == a.sum() and g(1) == value
