"""Captured state is never frozen: numbers, functions and objects are guards, arrays are read at every call."""
import functools
import types

import numpy as np
import pytest

import pyxla
from pyxla import _capture

X = np.arange(4.0)
K = 2.0
W = np.ones(4)
CONFIG = {"a": 1.0, "deep": {"list": [1.0, 2.0]}}


def helper(x):
    return x + K


def test_global_number():
    global K
    f, g = pyxla.jit(lambda x: x * K), pyxla.jit(lambda x: helper(x))
    for K in (2.0, 3.0, 2.0):
        assert np.array_equal(f(X), X * K)
        assert np.array_equal(g(X), X + K)
    assert f.cache_info().traces == 2


def test_global_array():
    global W
    f = pyxla.jit(lambda x: x * W)
    for k in (1, 2, 3):
        W[:] = k
        assert np.array_equal(f(X), X * k)
    assert f.cache_info().traces == 1
    W = np.full(4, 7.0)
    assert np.array_equal(f(X), X * 7)


READS = [
    lambda x: x * W.sum(), lambda x: x * (W + 1), lambda x: x * np.exp(W), lambda x: x * W[0], lambda x: x * np.sum(W), lambda x: x + W.reshape(2, 2).max(),
    lambda x: np.stack([W, W])[0] + x, lambda x: x * W[1:].mean(), lambda x: x * sum(W), lambda x: x * np.add.reduce(W), lambda x: x + W @ W, lambda x: x - (-W),
    lambda x: x * W.T.copy(), lambda x: np.where(W > 1, x, -x), lambda x: [x * w for w in W], lambda x: x * np.array(W)[1], lambda x: x * float(W[0]),
    lambda x: x if W[0] > 1 else -x, lambda x: x if (W == 1).all() else -x, lambda x: x[int(W[2]) - 1], lambda x: x if 5 in W else -x,
]


@pytest.mark.parametrize("f", READS, ids=range(len(READS)))
def test_array_read_by_numpy(f):
    global W
    W = np.ones(4)
    g = pyxla.jit(f)
    for k in (1.0, 2.0, 3.0, 1.0):
        W[:3] = k
        np.testing.assert_allclose(g(X), f(X))


def test_container():
    f = pyxla.jit(lambda x: x * CONFIG["a"] + CONFIG["deep"]["list"][1])
    want = lambda: X * CONFIG["a"] + CONFIG["deep"]["list"][1]
    assert np.array_equal(f(X), want())
    CONFIG["a"] = 5.0
    assert np.array_equal(f(X), want())
    CONFIG["deep"]["list"][1] = 9.0
    assert np.array_equal(f(X), want())
    assert f.cache_info().traces == 3
    assert np.array_equal(f(X), want())
    assert f.cache_info().traces == 3


def test_closure():
    def make():
        n = 1

        def inner(x):
            return x + n

        def change(v):
            nonlocal n
            n = v
        return inner, change

    inner, change = make()
    f = pyxla.jit(inner)
    for n in (1, 5, 1):
        change(n)
        assert np.array_equal(f(X), X + n)


class Layer:
    def __init__(self, w):
        self.w, self.scale = w, 1.0

    @property
    def twice(self):
        return self.scale * 2

    def apply(self, x):
        return x * self.w * self.twice


class Model:
    def __init__(self):
        self.layers = [Layer(np.ones(4)), Layer(np.ones(4))]

    @pyxla.jit
    def forward(self, x):
        for layer in self.layers:
            x = layer.apply(x)
        return x


def plain(model, x):
    for layer in model.layers:
        x = layer.apply(x)
    return x


def test_objects():
    m = Model()
    same = lambda: np.array_equal(m.forward(X), plain(m, X))
    assert same()
    m.layers[1].w[:] = 3
    assert same()
    m.layers[0].scale = 4.0
    assert same()
    m.layers[0].w = np.full(4, 5.0)
    assert same()
    m.layers.append(Layer(np.full(4, 2.0)))
    assert same()
    m.layers[2].scale = 0.5
    assert same()
    Layer.apply, before = lambda self, x: x + self.w, Layer.apply
    assert same()
    Layer.apply = before


def test_partial_and_replaced_function():
    global helper
    f = pyxla.jit(functools.partial(lambda k, x: helper(x) * k, 3.0))
    assert np.array_equal(f(X), (X + K) * 3)
    before = helper
    try:
        helper = lambda x: x - 1
        assert np.array_equal(f(X), (X - 1) * 3)
    finally:
        helper = before


def test_nothing_changes_nothing_traces():
    m = Model()
    for _ in range(5):
        m.forward(X)
    info = Model.forward.cache_info()
    f = pyxla.jit(lambda x: helper(x) * CONFIG["a"] + W)
    for _ in range(5):
        f(X)
    assert f.cache_info().traces == 1
    assert info.hits >= 4


def test_array_changed_by_numpy_behind_the_trace():
    class Sneaky:
        array = np.ones(4)

        def change(self):
            np.copyto.__wrapped__ if hasattr(np.copyto, "__wrapped__") else None
            memoryview(self.array)[0] = 5.0

    s = Sneaky()
    Sneaky.array[:] = 1

    def f(x):
        y = x + s.array
        s.change()
        return y

    with pytest.raises(pyxla.TraceError, match="changed"):
        pyxla.jit(f)(X)


class Settings:
    scale = 2.0
    __slots__ = ("shift", "__dict__")


SETTINGS = Settings()
MINE = types.ModuleType("mine")


def changes():
    """(function, what changes it): with what is found by a walk that later traces take over."""
    global K, W, helper
    cell, old = 1.0, helper

    def set_global(name, value):
        globals()[name] = value

    def set_cell(value):
        nonlocal cell
        cell = value

    return {
        "global": (lambda x: x * K, lambda: set_global("K", K + 1)), "array": (lambda x: x * W[0], lambda: set_global("W", np.full(4, 9.0))),
        "elements": (lambda x: x * W[0], lambda: W.__setitem__(0, 7.0)), "cell": (lambda x: x * cell, lambda: set_cell(5.0)),
        "function": (lambda x: helper(x), lambda: set_global("helper", lambda x: x - 1 if helper is not old else x)),
        "code": (lambda x: helper(x), lambda: setattr(helper, "__code__", (lambda x: x * 3).__code__)),
        "item": (lambda x: x * CONFIG["deep"]["list"][1], lambda: CONFIG["deep"]["list"].__setitem__(1, 4.0)),
        "class": (lambda x: x * SETTINGS.scale, lambda: setattr(Settings, "scale", 6.0)), "own": (lambda x: x * SETTINGS.scale, lambda: setattr(SETTINGS, "scale", 8.0)),
        "slot": (lambda x: x * getattr(SETTINGS, "shift", 1.0), lambda: setattr(SETTINGS, "shift", 3.0)),
        "missing": (lambda x: x * globals().get("NOT_THERE", 1.0), lambda: set_global("NOT_THERE", 2.0)),
        "module": (lambda x: x * MINE.some if hasattr(MINE, "some") else x, lambda: setattr(MINE, "some", 3.0)),
        "text": (lambda x: x * getattr(SETTINGS, "-".join("ab"), 1.0), lambda: setattr(SETTINGS, "a-b", 3.0)),
    }


@pytest.fixture
def put_back(monkeypatch):
    for name in ("K", "W", "helper"):
        monkeypatch.setitem(globals(), name, globals()[name])
    mine, code, config, scale = helper, helper.__code__, list(CONFIG["deep"]["list"]), Settings.scale
    yield
    mine.__code__, CONFIG["deep"]["list"][:], Settings.scale = code, config, scale
    globals().pop("NOT_THERE", None)
    vars(MINE).pop("some", None)
    vars(SETTINGS).clear()
    if hasattr(SETTINGS, "shift"):
        del SETTINGS.shift


@pytest.mark.parametrize("what", changes())
def test_what_changes_between_shapes(what, put_back):
    """A trace takes over what the one before found, as long as it holds; its own guards are as complete."""
    f, change = changes()[what]
    g = pyxla.jit(f)
    shapes = [np.arange(float(n)) for n in range(2, 8)]
    for x in shapes[:3]:
        np.testing.assert_array_equal(g(x), f(x))
    change()
    for x in (*shapes[:5], shapes[0]):
        np.testing.assert_array_equal(g(x), f(x))
    change()
    for x in shapes:
        np.testing.assert_array_equal(g(x), f(x))


def test_a_new_shape_looks_for_nothing_again(monkeypatch):
    from pyxla import _capture
    walks = []

    class Counted(_capture.Walk):
        def __init__(self):
            walks.append(self)
            super().__init__()

    monkeypatch.setattr(_capture, "Walk", Counted)
    f, g = pyxla.jit(lambda x: helper(x) * W[0]), pyxla.jit(lambda x, name: x + len(name))
    for n in range(1, 6):
        f(np.ones(n))
    assert len(walks) == 1 and f.cache_info().traces == 5
    for n in range(1, 4):
        g(np.ones(n), "text")                    # names of attributes may be in it
    assert len(walks) == 4


def test_attributes_are_not_looked_up_one_by_one_in_every_object(monkeypatch):
    """300 names in the code and 300 objects: what a package of pandas' size has of each made a first call take a minute."""
    class Leaf:
        def __init__(self, k):
            self.value = k

    leaves = [Leaf(float(k)) for k in range(300)]
    space = {"leaves": leaves}
    exec("def f(x, other=None):\n    if other is not None:\n        " + "; ".join(f"other.name{k}" for k in range(300)) + "\n    return x * leaves[7].value", space)
    asked, attribute = [], _capture.Walk.attribute
    monkeypatch.setattr(_capture.Walk, "attribute", lambda self, *a: asked.append(a) or attribute(self, *a))
    g, x = pyxla.jit(space["f"]), np.ones(2)
    np.testing.assert_array_equal(g(x), 7 * x)
    assert len(asked) < 1000
    leaves[7].value = 9.0
    np.testing.assert_array_equal(g(x), 9 * x)
    leaves[7] = leaves[8]
    np.testing.assert_array_equal(g(x), 8 * x)


def test_too_many_objects_are_an_error_that_names_whose_they_are(monkeypatch):
    class Leaf:
        value = 2.0

    leaves = [Leaf() for _ in range(100)]
    monkeypatch.setattr(_capture, "LIMIT", 50)
    with pytest.raises(pyxla.TraceError, match=f"more than 50 objects .* most of them of {__name__}; .*{__file__}"):
        pyxla.jit(lambda x: x * leaves[3].value)(np.ones(2))


def test_the_subclasses_of_a_metaclass():
    """type.__subclasses__() is another method than that of a class."""
    class Meta(type):
        pass

    class Made(metaclass=Meta):
        pass

    def f(x):
        return x * len(Made.__subclasses__()) + len(type.__subclasses__(Meta)) + (Meta is type)

    x = np.ones(2)
    np.testing.assert_array_equal(pyxla.jit(f)(x), f(x))
