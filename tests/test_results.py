"""Results: who owns them, what is a scalar, what is a view."""

import collections
import gc
import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from checking import same

import pyxla

X = np.arange(6.0).reshape(2, 3)


def test_own_memory():
    y = pyxla.jit(lambda x: x + 1)(X)
    assert type(y) is np.ndarray and y.base is None
    assert y.flags.owndata and y.flags.writeable and y.flags.c_contiguous and y.flags.aligned
    y[0, 0] = 7
    y.resize((3, 4), refcheck=False)
    assert y.shape == (3, 4) and y[0, 0] == 7 and y[2, 3] == 0
    y.resize((1,), refcheck=False)
    assert y[0] == 7


def test_memory_comes_back():
    f = pyxla.jit(lambda x: x + 1)
    x = np.zeros(100_000)
    f(x)
    gc.collect()
    before = pyxla.memory_info().in_use
    ys = [f(x) for _ in range(5)]
    assert pyxla.memory_info().in_use >= before + 5 * x.nbytes
    del ys
    assert pyxla.memory_info().in_use == before
    kept = pyxla.memory_info().cached
    assert pyxla.trim_memory() == kept
    assert pyxla.memory_info().cached == 0


@pytest.mark.skipif("san" in os.environ.get("LD_PRELOAD", "") or platform.libc_ver()[0] != "glibc", reason="another malloc")
def test_trimmed_memory_goes_back_to_the_system():
    """In a process of its own; the list is longer lived than most results, so that the heap does not end with them."""
    code = """
import gc, numpy as np, pyxla
def resident(): return int(open("/proc/self/statm").read().split()[1])
f = pyxla.jit(lambda x: x + 1)
x = np.ones(200)
f(x)
before, ys = resident(), [f(x) for _ in range(30_000)]
held, last = resident() - before, ys.pop()
del ys
gc.collect()
pyxla.trim_memory()
print((resident() - before) / held)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert float(done.stdout) < 0.4, done.stderr


def test_scalars():
    f = pyxla.jit(lambda x: (x.sum(), x[0, 0], x.max(axis=0)))
    a, b, c = f(X)
    assert type(a) is np.float64 and a == 15
    assert type(b) is np.float64 and b == 0
    assert type(c) is np.ndarray
    assert type(pyxla.jit(lambda x: x + 1)(np.float32(2))) is np.float32
    assert type(pyxla.jit(lambda x: x + 1)(np.array(2, np.int16))) is np.int16


def test_python_numbers():
    f = pyxla.jit(lambda a, b: (a + b, a, a * 2))
    assert f(1, 2.5) == (3.5, 1, 2) and type(f(1, 2.5)[1]) is int
    big = 10**30
    assert f(big, 1) == (big + 1, big, 2 * big)
    assert f(True, 1)[0] == 2
    assert f.cache_info().traces == 3


def test_argument_is_itself():
    f = pyxla.jit(lambda x, y: (y, x, x))
    y = X + 1
    got = f(X, y)
    assert got[0] is y and got[1] is X and got[2] is X


def test_views_of_arguments():
    f = pyxla.jit(lambda x: (x.T, x[1:, ::-1], x[0], x[:, None]))
    got = f(X)
    want = (X.T, X[1:, ::-1], X[0], X[:, None])
    for g, w in zip(got, want, strict=True):
        assert g.base is w.base and g.strides == w.strides and g.ctypes.data == w.ctypes.data
        np.testing.assert_array_equal(g, w)
    x = X.copy()
    f(x)[2][:] = 9
    assert (x[0] == 9).all()


def test_views_of_strided_arguments():
    x = np.arange(24.0).reshape(4, 6)[::-2, 1::2]
    got = pyxla.jit(lambda x: x[1:].T)(x)
    assert got.strides == x[1:].T.strides
    np.testing.assert_array_equal(got, x[1:].T)


def test_broadcast_view_is_read_only():
    got = pyxla.jit(lambda x: np.broadcast_to(x, (4, 2, 3)))(X)
    assert got.strides[0] == 0 and not got.flags.writeable


def test_results_share_their_base():
    def f(x):
        y = x + 1
        return y, y[1:], y.T

    y, part, t = pyxla.jit(f)(X)
    assert part.base is y and t.base is y
    y[1, 0] = -5
    assert part[0, 0] == -5 and t[0, 1] == -5


def test_a_reshape_that_may_be_a_copy_is_one_result():
    f = pyxla.jit(lambda x: (np.kron(x.T.argmin(0) + x[..., [0, 0]], [1, 2]),) * 2)
    a, b = f(X)
    assert a is b


@pytest.mark.parametrize("made", ["np.pad(np.lib.stride_tricks.sliding_window_view(x, 2, axis=0) + 0, 1)", "np.einsum('ij->ji', x)", "np.subtract.outer(x.T, x)", "x[..., [0, -1]] + x[0, 0]",
                                  "np.searchsorted([0, 1, 2], x.T)", "np.einsum('i...,i...->...', x, x)[:, None] * [1, 2]", "np.kron(x.T, x)"])
def test_reshapes_share_memory_as_numpys_do(made):
    """Which of them are views only the strides of the run show."""
    space = {"np": np}
    exec(f"def f(x):\n    v = {made}\n    r = v.reshape(-1)\n    t = v.T.reshape(-1)\n    return v, r, r[1:], v.ravel(), t, t[::-1], r.reshape(-1, 2), r[::2].ravel()", space)
    f = space["f"]
    g = pyxla.jit(f)
    for _ in range(2):
        want, got = f(X), g(X)
        for i, (a, b) in enumerate(zip(want, got)):
            np.testing.assert_array_equal(a, b)
            assert a.flags.writeable == b.flags.writeable
            for j in range(i):
                assert np.shares_memory(a, want[j]) == np.shares_memory(b, got[j]), (i, j)


def test_no_more_is_shared_where_a_size_is_data():
    """The array goes through a stage, and may not have NumPy's strides: its reshape is an array of its own."""
    def f(x):
        v = (x.T[:, ::-1] > 2).sum(axis=-1)[:, None] + x.T
        return v, v.reshape(-1), np.bincount(np.sort(v, None).astype("int64"), minlength=3)

    for want, got in zip(f(X), (r := pyxla.jit(f)(X))):
        np.testing.assert_array_equal(want, got)
    assert not np.shares_memory(r[0], r[1])


def test_isin_is_c_contiguous():
    a, b = pyxla.jit(lambda x: (v := np.isin(x.T, x), v.reshape(-1)))(X)
    assert a.flags.c_contiguous and np.shares_memory(a, b)


def test_same_result_twice():
    def f(x):
        y = x + 1
        return y, y, x + 1

    a, b, c = pyxla.jit(f)(X)
    assert a is b and c is not a
    c[:] = 0
    np.testing.assert_array_equal(a, X + 1)


def test_empty_and_zero_rank():
    f = pyxla.jit(lambda x: x + 1)
    assert f(np.zeros((0, 3))).shape == (0, 3)
    assert f(np.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert pyxla.jit(lambda x: np.array([x, x]).sum())(np.float64(2)) == 4


def test_one_view_is_one_result():
    def f(x):
        y, v = x * 2, x[1:]
        part = y[0]
        return v, part, v, (y, part), x[1:]

    a, b, c = pyxla.jit(lambda x: (x[1:], np.ascontiguousarray(v := x[:, 0]), v))(np.asfortranarray(X))
    assert b is c and a is not b
    v, part, again, (y, other), third = pyxla.jit(f)(X)
    assert again is v and other is part and third is not v and part.base is y
    assert pyxla.eval_shape(f, pyxla.ShapeDtype((2, 3), float))[2] == pyxla.ShapeDtype((1, 3), float)


def test_a_copy_that_is_returned_twice_owns_its_memory():
    for make in (lambda x: x.ravel("F"), lambda x: x.T.ravel(), lambda x: (x + 1).T):
        a, b = pyxla.jit(lambda x: (r := make(x), r))(X)
        assert a is b and a.flags.owndata and a.base is None
        np.testing.assert_array_equal(a, make(X))


def test_arrays_that_numpy_makes_of_numbers_are_new_in_every_call():
    def f(x):
        w = np.hanning(4)
        return w, w, np.fft.fftfreq(4), np.triu_indices(3), np.float64(3) + x[0, 0]

    g = pyxla.jit(f)
    for _ in range(3):
        got = g(X)
        assert got[0] is got[1]
        for r, w in zip((*got[1:3], *got[3]), ((want := f(X))[1], want[2], *want[3])):
            np.testing.assert_array_equal(r, w)
            r[...] = 9
    for make in (lambda x: np.array(["a"]), lambda x: np.array([1, None]), lambda x: np.ma.array([1, 2])):
        with pytest.raises(pyxla.UnsupportedError, match="was made in the jitted function"):
            pyxla.jit(make)(X)


class Value:
    def __init__(self, v):
        self.v = v

    def __eq__(self, other):
        return self.v == other.v

    def __hash__(self):
        return hash(self.v)


def test_objects_that_are_arguments():
    f = pyxla.jit(lambda o, x: (x, o))
    for o in (Value(1), Value(1), Value(2)):
        assert f(o, X)[1] is o
    assert f.cache_info().traces == 2


@pytest.mark.parametrize("make", [lambda x: (v for v in x), lambda x: {1, 2}, lambda x: collections.deque([1]), lambda x: Value(x + 1), lambda x: lambda: x,
                                  lambda x: x.sum, lambda x: str(x.sum()), lambda x: {f"{x}": 1}, lambda x: map(np.sin, x), lambda x: [iter(x)]], ids=range(10))
def test_what_would_be_another_object_in_another_call_is_refused(make):
    with pytest.raises(pyxla.TraceError, match="a result of the jitted function is a"):
        pyxla.jit(make)(X)


def test_text_of_numbers():
    f = pyxla.jit(lambda n, x: ({f"layer{n}": x, n: x, (n, "a"): 1}, str(n), repr(n), f"{n}/", f"{n!r:>4}"))
    for n in (1, 2, 2.5, True):
        assert repr(f(n, X)) == repr(f.__wrapped__(n, X))


def test_none_and_constants():
    f = pyxla.jit(lambda x: (None, "text", 3, x))
    assert f(X) == (None, "text", 3, X)


def test_donated_argument():
    f = pyxla.jit(lambda x, y: x * 2 + y, donate_argnums=0)
    y = np.ones(1000)
    for _ in range(3):
        x = np.arange(1000.0)
        want = x * 2 + y
        got = f(x, y)
        np.testing.assert_array_equal(got, want)
        assert got is not x and got.flags.writeable
    frozen = np.arange(1000.0)
    frozen.flags.writeable = False
    np.testing.assert_array_equal(f(frozen, y), want)
    np.testing.assert_array_equal(frozen, np.arange(1000.0))
    same = pyxla.jit(lambda x: (x, x + 1), donate_argnums=0)
    x = np.arange(4.0)
    got = same(x)
    assert got[0] is x
    np.testing.assert_array_equal(got[1], np.arange(4.0) + 1)
    np.testing.assert_array_equal(x, np.arange(4.0))


def test_failed_allocation_is_memory_error():
    from pyxla import _core

    f = pyxla.jit(lambda x: (x + 1, x * 2))
    f(X)
    before = pyxla.memory_info().in_use
    for n in (1, 2):
        _core._fail_at(0, n)
        try:
            with pytest.raises(MemoryError):
                f(X)
        finally:
            _core._fail_at(0, 0)
    assert pyxla.memory_info().in_use == before
    np.testing.assert_array_equal(f(X)[1], X * 2)


def test_read_only_is_refused_for_stores_that_change_nothing():
    frozen = X.copy()
    frozen.flags.writeable = False
    for store in (lambda x: x.__imul__(1), lambda x: x[2:].fill(3), lambda x: x.__setitem__(..., x)):
        f = pyxla.jit(lambda x: store(x) is None)
        for _ in range(2):
            f(X.copy())
            with pytest.raises(ValueError, match="argument x is read-only"):
                f(frozen)


# ---- views and copies whose being one depends on the layout ----

LAYOUTS = [("c", lambda a: a.copy()), ("fortran", np.asfortranarray), ("strided", lambda a: np.repeat(a, 2, 1)[:, ::2]), ("reversed", lambda a: a[::-1].copy()[::-1]),
           ("row", lambda a: a[:1].copy()), ("empty", lambda a: a[:, :0].copy())]
MAYBE_COPIES = [lambda x: np.ascontiguousarray(x), lambda x: np.asfortranarray(x), lambda x: np.require(x, requirements="C"), lambda x: np.require(x, float, ["F", "W"]),
                lambda x: np.require(x), lambda x: np.asarray(x, order="F"), lambda x: np.asarray(x, order="C"), lambda x: np.array(x, copy=None, order="F"),
                lambda x: np.asfortranarray(x.T), lambda x: np.ascontiguousarray(x[:, ::-1]), lambda x: np.asfortranarray(x[1:].T), lambda x: np.diagonal(x),
                lambda x: np.diag(x, 1), lambda x: x.diagonal(-1), lambda x: x.T.diagonal(2)[::2], lambda x: np.diagonal(x[None], 1, 2, 0), lambda x: np.linalg.diagonal(x[:, ::-1]),
                lambda x: np.einsum("ii->i", x[:min(x.shape), :min(x.shape)]),
                lambda x: np.einsum("iij->ij", x[:min(x.shape), :min(x.shape), None]), lambda x: np.broadcast_arrays(x, 2.0)[0], lambda x: np.broadcast_to(x, x.shape), lambda x: np.broadcast_to(x, (2, *x.shape))[0], lambda x: np.asfortranarray(x + 1),
                lambda x: np.ascontiguousarray(x + 1), lambda x: np.ascontiguousarray((x + 1).T), lambda x: np.diag(x * 2)]


@pytest.mark.parametrize("make", MAYBE_COPIES, ids=range(len(MAYBE_COPIES)))
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda v: v[0])
def test_views_by_layout(make, layout):
    """The argument itself, a view of it or a copy, as in NumPy, whatever the layout of the call before; results own their memory."""
    f = pyxla.jit(make)
    for _, change in (LAYOUTS[0], layout, LAYOUTS[0], layout):
        x, y = change(X), change(X)
        want, got = make(x), f(y)
        np.testing.assert_array_equal(got, want)
        assert (got is y) == (want is x) and np.shares_memory(got, y) == np.shares_memory(want, x)
        assert got.flags.owndata >= want.flags.owndata
        if np.shares_memory(want, x):
            assert all(s == r or n == 1 for s, r, n in zip(got.strides, want.strides, want.shape)) and got.flags.writeable == want.flags.writeable


@pytest.mark.parametrize("make", MAYBE_COPIES, ids=range(len(MAYBE_COPIES)))
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda v: v[0])
def test_views_by_layout_are_written_through(make, layout):
    """So are stores into them, and what they show after a store into the argument."""
    def f(x):
        v = make(x)
        x[...] = x[::-1] + 1
        w = v * 2
        try:
            v[...] = 7
        except ValueError:
            return x, w, "read-only"
        return x, w, v

    g = pyxla.jit(f)
    for _ in range(2):
        x, y = layout[1](X), layout[1](X)
        want = f(x)
        try:
            got = g(y)
        except pyxla.UnsupportedError as e:
            assert "depends on the memory layout" in str(e)
            return
        for w, r in zip(want, got):
            np.testing.assert_array_equal(w, r)
        np.testing.assert_array_equal(x, y)


def test_a_permuted_result_is_the_base_of_the_others():
    f = pyxla.jit(lambda x: (v := np.copy(x, order="F"), v[0], v.T[1:], v.ravel("F"), v[..., None]))
    for _ in range(3):
        before = pyxla.memory_info().in_use
        v, *parts = f(X)
        assert v.base is None and v.flags.owndata and all(p.base is v for p in parts)
        v[0, 1] = 9
        del v
        assert parts[0][1] == parts[2][2] == 9 and parts[1][0, 0] == 9
        del parts
        assert pyxla.memory_info().in_use == before
    a, b, c = pyxla.jit(lambda x: ((y := x + 1)[0], y.T, y))(X)
    assert c.flags.owndata and a.base is c and b.base is c


def test_permuted_results_own_their_memory():
    f = pyxla.jit(lambda x: ((x + 1).T, (x * 2).T[None]))
    for _ in range(3):
        a, b = f(X)
        assert a.base is None and a.flags.owndata and a.flags.f_contiguous and a.flags.writeable
        np.testing.assert_array_equal(a, (X + 1).T)
        np.testing.assert_array_equal(b, (X * 2).T[None])
        before = pyxla.memory_info().in_use
        a.resize((1,), refcheck=False)
        assert a[0] == 1
        del a
        assert pyxla.memory_info().in_use < before


def test_results_share_memory_that_numpy_made_of_numbers():
    def f(x):
        a = np.hanning(6)
        b = a.reshape(2, 3)
        return a, b, b.T[1:], a[::-2], x + 1, a[1:1], np.broadcast_to(a, (2, 6)), np.eye(2)

    for g in (f, pyxla.jit(f)):
        first, second = g(np.ones(2)), g(np.ones(2))
        first[0][2] = 9
        assert first[1][0, 2] == first[2][1, 0] == first[6][1, 2] == 9 and second[0][2] != 9
        assert [v.strides for v in first] == [v.strides for v in f(np.ones(2))]
        same(list(f(np.ones(2))), list(second))
        assert first[0].flags.writeable and not first[6].flags.writeable
        assert [v.flags.owndata for v in first[:5]] == [True, False, False, False, True]
    with pytest.raises(pyxla.UnsupportedError, match="share memory"):             # of another dtype
        pyxla.jit(lambda x: ((w := np.fromiter([1.0, 2.0], float)), w.view(np.int64)))(X)


def test_an_array_of_uncertain_order_leaves_others_alone():
    """Which of the results share memory, beside an array whose axes NumPy may order otherwise than the plan."""
    big, x = np.ones((3, 4), "int16"), np.arange(12.0).reshape(4, 3)

    def f(x, k):
        g = np.where(k > 0, big, big)
        y = np.tril(x.T)
        return y.reshape(-1), y, g + 1, (g.T + 1).reshape(-1)

    got = pyxla.jit(f)(x, 2)
    assert np.shares_memory(got[0], got[1]) and not np.shares_memory(got[2], got[3])


def filled(x, k):
    g = np.zeros((3, 4))
    g[...] = x.T
    return g


def numbered(x, k):
    g = np.where(k > 0, x, x).T
    g[...] = x[0, 0]
    return g


@pytest.mark.parametrize("make", [filled, numbered, lambda x, k: np.resize(x[:1, :1], (3, 4)) + 0])
@pytest.mark.parametrize("use", [lambda g: g.T + 1, lambda g: np.stack((g.T, g.T)), lambda g: g + g])
def test_an_array_keeps_its_order_under_another_value(make, use):
    """What is stored over all of an array does not give it its axes' order: a reshape of what is made of it shares memory in NumPy only."""
    def f(x, k):
        y = use(make(x, k))
        return y, y.reshape(-1)

    for x in (np.arange(12.0).reshape(4, 3), np.arange(12.0).reshape(3, 4).T):
        want, got = f(x.copy("K"), 2), pyxla.jit(f)(x.copy("K"), 2)
        same(want, got)
        assert np.shares_memory(*want) or not np.shares_memory(*got)


@pytest.mark.parametrize("order", "CFAK")
@pytest.mark.parametrize("copy", [False, True])
def test_astype_to_its_own_dtype_is_the_array_itself_where_the_order_fits(order, copy):
    f = lambda x: x.astype(float, order=order, copy=copy)
    g = pyxla.jit(f)
    x = np.arange(12.0).reshape(3, 4)
    for a in (x, x.T, x[:, ::2], x[:1], x[0], x[0, ::2], np.broadcast_to(x[0], (2, 4))):
        got, want = g(a), f(a)
        assert (got is a, np.shares_memory(got, a), got.strides) == (want is a, np.shares_memory(want, a), want.strides)
        np.testing.assert_array_equal(got, want)
