"""Functions whose result's dtype or size depends on values of the run: the trace assumes, each call checks."""
import threading
import warnings

import numpy as np
import numpy.polynomial as npp
import pytest

import pyxla
from pyxla import ShapeDtype, TraceError, UnsupportedError

LA = np.linalg
TURN, ONE = np.array([[0.0, 1], [-1, 0]]), np.eye(2)      # complex eigenvalues, real ones
WAYS = len({LA.eigvals(m).dtype for m in (TURN, ONE)})     # 1 from NumPy 2.5 on: all are complex
C, Z = np.array([1.0, 2, 3, 4]), np.array([0.0, 0, 1, -3, 2, 0])


def leaves(v):
    return [w for x in v for w in leaves(x)] if isinstance(v, (tuple, list)) else [v]


def outcome(f, *args):
    try:
        return leaves(f(*args))
    except Exception as e:
        return type(e)


def same(got, want):
    if isinstance(want, type):
        return isinstance(got, type) and issubclass(want, got)
    return len(got) == len(want) and all(
        type(x) is type(y) and np.shape(x) == np.shape(y) and np.asarray(x).dtype == np.asarray(y).dtype and np.allclose(x, y, rtol=1e-6, equal_nan=True)
        for x, y in zip(got, want))


def check(f, *calls):
    """Each call twice, in turns."""
    jitted = pyxla.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for args in (*calls, *calls):
            got, want = outcome(jitted, *args), outcome(f, *args)
            assert same(got, want), (args, got, want)
    return jitted.cache_info()


@pytest.mark.parametrize("f", [LA.eig, LA.eigvals, lambda a: LA.eigvals(a @ a + a).sum()])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8"])
def test_eigenvalues(f, dtype):
    info = check(f, *((m.astype(dtype),) for m in (TURN, ONE, ONE * 2, TURN * 3, np.zeros((2, 2)))))
    assert info.traces == info.entries == WAYS


def test_stacks_and_empty_matrices():
    check(LA.eigvals, (np.stack([ONE, TURN]),), (np.stack([ONE, ONE]),), (np.zeros((0, 0)),), (np.zeros((0, 2, 2)),), (np.array([[np.nan, 1], [1, 1]]),))


@pytest.mark.parametrize("f, calls", [
    (np.roots, [(C,), (Z,), (np.zeros(4),), (np.array([5.0]),), (np.array([1, -3, 2]),), (C.astype("f4"),), (C + 1j,), (np.zeros(0),), (ONE,), (3.0,)]),
    (np.poly, [(TURN,), (ONE,), (np.array([1j, -1j]),), (np.array([1j, 2]),), (C,), (np.ones((2, 3)),)]),
    (np.real_if_close, [(np.array([1 + 1e-15j, 2]),), (np.array([1 + 1e-3j, 2]),), (C,)]),
    (np.asarray_chkfinite, [(C,), (np.array([1, np.nan, 1, 1]),), (np.array([1, 2]),)]),
    (LA.lstsq, [(np.vander(C, 2), C), (np.ones((4, 2)), C), (np.ones((2, 4)), C[:2])]),
    (lambda x, y: np.polyfit(x, y, 2, full=True), [(C, C ** 3), (np.ones(4), C)]),
    (npp.polynomial.polyadd, [(C, C), (C, -C), (C, C[:2]), (C, np.array([0, 0, 0, -4.0]))]),
    (npp.polynomial.polydiv, [(C, C[:2]), (C, np.zeros(2)), (C, C[:1])]),
    (npp.polynomial.polyroots, [(C,), (Z,), (np.array([2.0, -3, 1]),), (C[:2],)]),
    (npp.chebyshev.chebroots, [(C,), (np.array([2.0, -3, 1]),)]),
    (lambda x, y: npp.Polynomial.fit(x, y, 2).coef, [(C, C ** 2)]),
    (lambda x: (npp.Polynomial(x) * npp.Polynomial(x) + 1).roots(), [(C,), (Z,)]),
])
def test_functions(f, calls):
    check(f, *calls)


@pytest.mark.parametrize("f", [np.emath.sqrt, np.emath.log, np.emath.log2, np.emath.log10, lambda x: np.emath.logn(3, x), lambda x: np.emath.power(x, 2),
                               np.emath.arccos, np.emath.arcsin, np.emath.arctanh, lambda x: np.emath.power(2, x)])
def test_scimath(f):
    info = check(f, (C / 9,), (-C,), (C / 8,), (C,), (2.0,), (-2.0,), (3,), (-3,), (np.float32(-2),), (np.array([1, -2]),), (np.array([1, 2]),))
    assert info.traces <= 10


def test_several_in_one_function_and_nested():
    inner = pyxla.jit(LA.eigvals)
    calls = [(a, b) for a in (TURN, ONE) for b in (TURN, ONE)]
    info = check(lambda a, b: (inner(a), LA.eigvals(b), inner(a) + LA.eigvals(b)), *calls)
    assert info.traces == 2 * WAYS               # an array given twice is a signature of its own


def test_arguments_that_are_written_or_donated():
    def f(a, out):
        out *= 2
        w = LA.eigvals(a)
        out += w.size
        a += 1
        return w

    jitted = pyxla.jit(f)
    for m in (ONE, TURN, ONE, TURN):
        mine, out, its, want = m.copy(), np.ones(3), m.copy(), np.ones(3)
        assert same([jitted(mine, out), mine, out], [f(its, want), its, want])
    given = pyxla.jit(lambda a: (LA.eigvals(a), a * 2), donate_argnums=0)
    for m in (ONE, TURN, ONE, TURN):
        assert same(list(given(m.copy())), [LA.eigvals(m), m * 2])


def test_what_fails_where_the_assumption_does_not_hold():
    def f(a, x, i):
        w = LA.eigvals(a)
        return x[i] if w.dtype.kind == "c" else x[i + 5]

    check(f, (ONE, C, np.int64(-4)), (TURN, C, np.int64(3)), (ONE, C, np.int64(3)), (TURN, C, np.int64(4)))

    def g(a, out):
        out += LA.eigvals(a)        # no complex numbers into real ones
        return out

    check(g, (ONE, np.ones(2)), (TURN, np.ones(2)))


def test_captured_arrays():
    a = np.eye(2)
    f = pyxla.jit(lambda x: LA.eigvals(a) + x)
    for m in (ONE, TURN, ONE):
        a[...] = m
        assert same([f(1.0)], [LA.eigvals(m) + 1.0])


def test_options():
    for option in ({"check_nan": True}, {"fastmath": True}, {"tune": 0.05}):
        f = pyxla.jit(LA.eigvals, **option)
        for m in (ONE, TURN, ONE):
            assert same([f(m)], [LA.eigvals(m)])
    with pyxla.disable_jit():
        assert same([f(TURN)], [LA.eigvals(TURN)])


def test_without_a_call():
    f = pyxla.jit(LA.eigvals)
    shapes = [pyxla.eval_shape(f, x).dtype for x in (ONE, TURN, ShapeDtype((2, 2), np.float64))]
    assert shapes == [LA.eigvals(m).dtype for m in (ONE, TURN, ONE)]
    assert ("logical_not" in f.lower(TURN).as_text()) == (WAYS == 2) and f.lower(ONE).compile().launches
    assert pyxla.eval_shape(pyxla.jit(np.emath.sqrt), ShapeDtype((3,), np.float64)).dtype == np.float64
    for g in (np.roots, npp.polynomial.polyroots):
        with pytest.raises(TraceError, match="ShapeDtype"):
            pyxla.eval_shape(pyxla.jit(g), ShapeDtype((3,), np.float64))


def test_refused():
    with pytest.raises(UnsupportedError, match="values of one call"):
        pyxla.jit(lambda x: np.apply_along_axis(np.roots, 1, x))(ONE)
    with pytest.raises(TraceError, match="bool"):
        pyxla.jit(lambda x: x if x[0] > 0 else -x)(C)           # an `if` of the user's is none of NumPy's


@pytest.mark.parametrize("f", [
    lambda x: np.roots(x[x > 0]), lambda x: np.poly(x[x > 0]), lambda x: np.emath.sqrt(x[x < 3]), lambda x: npp.polynomial.polyroots(x[x > 0]),
    lambda x: LA.eigvals(np.outer(x, x)[x > 0][:, x > 0] + np.tri(4)[x > 0][:, x > 0]), lambda x: np.real_if_close(x[x > 1] + 0j), lambda x: np.emath.log(x[x > 0] + x[x > 0]),
    lambda x: LA.lstsq(np.vander(x, 2)[x > 0], x[x > 0])[2], lambda x: np.polyval(x[x > 0], 2.0), lambda x: np.cross(x[:3], np.vander(x, 3)[x > 0])])
def test_sizes_that_depend_on_data(f):
    """What is assumed of such arrays is computed by stages; a size that decides is assumed, too."""
    check(f, (C,), (np.array([2.0, -3, 1, 5]),), (np.array([-1.0, 4, 2, 1]),), (np.array([-1.0, -1, 1, 1]),))


def test_other_results_of_a_call_that_decides():
    """The rank is asked for before sizes are known, the solution after."""
    check(lambda a, b, n: (np.repeat(b, n), *LA.lstsq(a, b)), (np.vander(C, 2), C, np.array([1, 3, 0, 2])), (np.ones((4, 2)), C, np.array([1, 3, 1, 2])))


def test_threads():
    f = pyxla.jit(lambda a: LA.eig(a)[0])
    wrong = []

    def work():
        for m in (TURN, ONE) * 50:
            if not same([f(m)], [LA.eigvals(m)]):
                wrong.append(m)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and f.cache_info().traces == WAYS


def test_many_outcomes_warn():
    f = pyxla.jit(np.roots)
    with pytest.warns(RuntimeWarning, match="traced 8 times.*how many coefficients"):
        for k in range(10):
            p = np.r_[np.zeros(k), 1.0, 2.0, np.zeros(10 - k)]
            assert same([f(p)], [np.roots(p)])
