"""While a function is traced, `isinstance` and `__class__` say what they say when it is not."""
import collections.abc
import functools
import numbers

import numpy as np
import pytest

import pyxla

VALUES = [np.ones(3), np.ones(()), np.float32(2), np.int8(3), np.bool_(True), np.float64(2.5), True, 3, 2.5, 1 + 2j]
CLASSES = [np.ndarray, np.generic, np.floating, np.integer, np.float64, numbers.Number, numbers.Integral, bool, int, float, complex, list]


@pytest.mark.parametrize("x", VALUES, ids=lambda x: type(x).__name__)
def test_isinstance(x):
    def classes(x):
        return [isinstance(x, c) for c in CLASSES]
    assert pyxla.jit(classes)(x) == classes(x)


def test_computed_values_have_numpys_class():
    def classes(x, n):
        return [v.__class__.__name__ for v in (x + 1, x.sum(), x.astype("i2")[0], x[0] > 1, n + 1, n / 2, n * x, x.reshape(1, -1))]
    assert pyxla.jit(classes)(np.ones(3), 3) == classes(np.ones(3), 3)


def test_a_branch_by_class_is_the_one_of_numpy():
    def norm(x):
        if not isinstance(x, np.ndarray):
            x = np.array([x, x])
        return (x * x).sum()
    for x in (np.arange(3.0), np.float64(2), 2.0):
        assert pyxla.jit(norm)(x) == norm(x)


CONTAINERS = [getattr(collections.abc, name) for name in ("Iterable", "Sized", "Container", "Collection", "Sequence", "Mapping", "Hashable", "Callable", "Iterator", "Reversible")]
PROTOCOLS = """__len__ __iter__ __contains__ __getitem__ __setitem__ __delitem__ __index__ __complex__ __round__ __floor__ __trunc__ __matmul__ __iadd__ __hash__ __call__ __next__
    shape dtype ndim T dot partition tolist keys append""".split()


@pytest.mark.parametrize("x", VALUES, ids=lambda x: type(x).__name__)
def test_protocols_are_those_of_the_value(x):
    """Such as of containers, which NumPy's scalars and Python's numbers are not, though tracers have a length and are iterated over."""
    def protocols(x):
        return [isinstance(x, c) for c in CONTAINERS] + [hasattr(x, name) for name in PROTOCOLS]
    assert pyxla.jit(protocols)(x) == protocols(x)


def test_what_pyxla_lacks_is_not_denied():
    with pytest.raises(pyxla.UnsupportedError, match=r"ndarray.is_integer is not supported"):
        pyxla.jit(lambda x: x * 2 if hasattr(x[0], "is_integer") else x)(np.ones(3))


def test_slots_without_names_still_work():
    def f(x):
        return [len(x), list(x)[1], 2 in range(3), x.__len__(), x.__iter__(), x.__contains__, x[1:].__getitem__(0)][:4]
    assert pyxla.jit(f)(np.arange(3)) == f(np.arange(3))


@pytest.mark.parametrize("sequence", [[1, 2], (1, 2)], ids=["list", "tuple"])
@pytest.mark.parametrize("x", [np.array([2, 3]), np.array([True]), np.array([2.5])], ids=lambda x: x.dtype.name)
def test_a_list_times_a_numpy_scalar_is_repeated(sequence, x):
    """And times an array it is an array."""
    for f in (lambda x: sequence * x[0], lambda x: x[0] * sequence, lambda x: np.concatenate([[0], sequence * x[0]])):
        with pytest.raises(pyxla.TraceError, match="a value that is known only when the compiled function runs"):
            pyxla.jit(f)(x)
    np.testing.assert_array_equal(pyxla.jit(lambda x: sequence * x[0, ...])(x), sequence * x[0, ...], strict=True)


def by_type(x):
    if type(x) is np.ndarray:
        return 2
    return {int: 3, float: 5, bool: 7, np.float32: 11, np.int8: 13, np.bool_: 17}.get(type(x), 1) + (type(x) in (int, float)) + len(type(x).__name__)


@pytest.mark.parametrize("x", VALUES, ids=lambda x: type(x).__name__)
def test_type_is_the_values(x):
    assert pyxla.jit(lambda x: (by_type(x), type(x + 1)))(x) == (by_type(x), type(x + 1))
    assert type(type) is type and type.__name__ == "type"


def test_type_in_code_that_ran_many_times():
    """Python 3.11 and later replaces calls of type() in such code by an instruction that does not call it."""
    def double(v):
        return v * (2 if type(v) is np.ndarray else 3)

    def f(x):
        for _ in range(40):
            x = double(x)
        return x, [type(v) is np.ndarray for v in [x] * 40]

    x = np.arange(3.0)
    for _ in range(20):
        want, types = f(x)
    for shape in (3, 4):
        got, mine = pyxla.jit(f)(np.arange(float(shape)))
        np.testing.assert_array_equal(got[:3], want)
        assert mine == types


def test_types_of_other_things_are_python_s():
    class Model:
        scale = 3.0

        def apply(self, x):
            return type(self).scale * x, type(self).__name__, type([x]), type("New", (), {"k": 4}).k
    assert repr(pyxla.jit(Model().apply)(np.ones(2))) == repr(Model().apply(np.ones(2)))
    with pytest.raises(TypeError, match="immutable type"):
        type.changed = 1


def match(x):
    match x:
        case True:
            return "yes"
        case False:
            return "no"
        case int():
            return "int"
    return "else"


@pytest.mark.parametrize("f", [lambda b: 1 if b is True else 2, lambda b: 1 if b is False else 2, lambda b: 1 if b is not True else 2, lambda b: 1 if True is b else 2, match,
                               lambda b: (lambda c: c is True)(b), lambda b: [c is True for c in (b, not b, b == 1)]])
def test_identity_of_true_and_false(f):
    jitted = pyxla.jit(lambda b, x: (f(b), x + 1)[0])
    for b in (True, False, True, 1, 0, 2.5):
        assert jitted(b, np.ones(2)) == f(b), b
    assert jitted.cache_info().traces <= 6


def test_singledispatch():
    @functools.singledispatch
    def kind(x):
        return 0
    kind.register(np.ndarray, lambda x: x + 1)
    kind.register(float, lambda x: x + 2)
    assert pyxla.jit(lambda x: kind(x))(1.0) == 3.0
    np.testing.assert_array_equal(pyxla.jit(lambda x: kind(x))(np.ones(2)), [2, 2])


def test_a_leaked_tracer_is_no_array():
    kept = []
    pyxla.jit(lambda x: kept.append(x) or x + 1)(np.ones(2))
    assert not isinstance(kept[0], np.ndarray)


def test_numbers_that_depend_on_data_are_pythons():
    def f(x):
        n, z = x[x > 1].shape[0], 1j * x[1]
        return (isinstance(n, int), isinstance(n, numbers.Integral), isinstance(n / 2, float), isinstance(n, float), isinstance(z, complex),
                type(n) is int, type(n * 1.5) is float, type(z) is complex, type(n).__name__)

    x = np.arange(4.0)
    assert pyxla.jit(f)(x) == f(x)
