"""Trees of arguments and results."""

import collections
import dataclasses
import enum
import gc
import weakref

import numpy as np
import pytest

import pyxla


class Point(collections.namedtuple("Point", "x y")):
    __slots__ = ()


@dataclasses.dataclass
class State:
    weights: dict
    step: int
    name: str = "state"


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: np.ndarray
    b: np.ndarray


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Pair:
    def __init__(self, left, right, label):
        self.left, self.right, self.label = left, right, label


pyxla.register_tree(Pair, lambda p: ((p.left, p.right), p.label), lambda label, children: Pair(*children, label))

X = np.arange(4.0)


@pytest.mark.parametrize(
    "tree",
    [
        (X, X + 1),
        [X, [X + 1, (X + 2,)]],
        {"b": X, "a": {"c": X + 1}},
        {1: X, (2, "k"): X + 1},
        collections.OrderedDict(z=X, a=X + 1),
        Point(X, X + 1),
        None,
        (X, None, []),
        (),
        {},
    ],
    ids=lambda t: type(t).__name__,
)
def test_round_trip(tree):
    f = pyxla.jit(lambda t: t)
    got = f(tree)
    assert type(got) is type(tree)
    assert str(got) == str(tree)
    f(tree)
    assert f.cache_info().traces == 1


def test_dict_order_is_kept():
    f = pyxla.jit(lambda d: {k: v + 1 for k, v in d.items()})
    assert list(f({"b": X, "a": X})) == ["b", "a"]
    assert list(f({"a": X, "b": X})) == ["a", "b"]
    assert f.cache_info().traces == 2


def test_dataclass():
    @pyxla.jit
    def step(s, g):
        return State({k: v - 0.5 * g for k, v in s.weights.items()}, s.step + 1, s.name)

    s = State({"w": X.copy(), "b": X + 1}, 3)
    for _ in range(3):
        s = step(s, np.ones(4))
    assert s.step == 6 and s.name == "state"
    np.testing.assert_array_equal(s.weights["w"], X - 1.5)
    assert step.cache_info().traces == 1
    step(State(s.weights, 0, "other"), np.ones(4))
    assert step.cache_info().traces == 2


def test_frozen_dataclass_with_slots():
    f = pyxla.jit(lambda s: Frozen(s.b, s.a * 2))
    got = f(Frozen(X, X + 1))
    assert type(got) is Frozen
    np.testing.assert_array_equal(got.b, X * 2)


def test_dataclass_is_written_to():
    @pyxla.jit
    def f(s):
        s.weights["w"] += 1

    s = State({"w": X.copy()}, 1)
    f(s)
    np.testing.assert_array_equal(s.weights["w"], X + 1)


def test_registered_class():
    f = pyxla.jit(lambda p: Pair(p.right + 1, p.left, p.label * 2))
    got = f(Pair(X, X + 1, "ab"))
    assert got.label == "abab"
    np.testing.assert_array_equal(got.left, X + 2)
    f(Pair(X, X + 5, "ab"))
    assert f.cache_info().traces == 1
    f(Pair(X, X + 5, "cd"))
    assert f.cache_info().traces == 2


def test_register_tree_refuses():
    with pytest.raises(TypeError, match="a class and two functions"):
        pyxla.register_tree(Pair(1, 2, 3), len, len)
    for known in (int, dict, np.ndarray, pyxla.ShapeDtype):
        with pytest.raises(ValueError, match="knows"):
            pyxla.register_tree(known, len, len)


def test_unhashable_aux_is_named():
    class C:
        pass

    pyxla.register_tree(C, lambda c: ((), ["unhashable"]), lambda aux, children: C())
    with pytest.raises(TypeError, match=r"argument c.* is a list: aux, which flatten\(\) gives .*, has to be hashable"):
        pyxla.jit(lambda c: 1)(C())


def test_bad_flatten_function():
    class Odd:
        pass

    pyxla.register_tree(Odd, lambda o: [1, 2, 3], lambda aux, children: Odd())
    with pytest.raises(TypeError, match=r"pair \(children, aux\)"):
        pyxla.jit(lambda o: 1)(Odd())


def test_slices_are_trees():
    f = pyxla.jit(lambda x, s: x[s])
    np.testing.assert_array_equal(f(X, slice(1, 3)), X[1:3])
    np.testing.assert_array_equal(f(X, slice(None, None, -1)), X[::-1])


def test_static_leaves():
    @pyxla.jit
    def f(x, mode, kind, function, dtype):
        y = function(x).astype(dtype)
        return y + 1 if mode == "plus" and kind is Color.RED else y

    np.testing.assert_array_equal(f(X, "plus", Color.RED, np.sqrt, np.float32), np.sqrt(X).astype("f4") + 1)
    f(X, "pl" + "us", Color.RED, np.sqrt, np.float32)
    assert f.cache_info().traces == 1
    np.testing.assert_array_equal(f(X, "plus", Color.BLUE, np.sqrt, np.float64), np.sqrt(X))
    assert f.cache_info().traces == 2


@pytest.mark.parametrize("bad", [set(), bytearray(b"x"), iter([1]), np.random.default_rng(0), collections.defaultdict(list)])
def test_refused_leaf_is_named(bad):
    @pyxla.jit
    def f(x):
        return x["w"][1]

    with pytest.raises(TypeError, match=r"f: argument x\['w'\]\[0\] is a "):
        f({"w": [bad, X]})


def test_changed_containers_are_refused():
    @pyxla.jit
    def append(items, x):
        items.append(x)

    @pyxla.jit
    def replace(d):
        d["w"] = d["w"] + 1

    with pytest.raises(pyxla.TraceError, match="changes a container"):
        append([X], X)
    with pytest.raises(pyxla.TraceError, match="d.*changes a container|changes a container.*d"):
        replace({"w": X})


def test_cyclic_and_deep():
    loop = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        pyxla.jit(lambda t: t)(loop)


def test_large_tree():
    tree = {f"k{i}": [X + i, (X - i, i)] for i in range(300)}
    f = pyxla.jit(lambda t: {k: [v[0] + v[1][0], v[1][1]] for k, v in t.items()})
    for _ in range(2):
        got = f(tree)
    np.testing.assert_array_equal(got["k7"][0], 2 * X)
    assert got["k299"][1] == 299
    assert f.cache_info().traces == 1


def test_classes_are_not_kept_alive():
    def use():
        cls = dataclasses.make_dataclass("Temporary", ["x"])
        f = pyxla.jit(lambda t: t.x + 1)
        f(cls(X))
        return weakref.ref(cls)

    refs = [use() for _ in range(3)]
    gc.collect()
    gc.collect()
    assert not any(r() for r in refs)
