"""Arrays whose size depends on data: masks read, positions, sets, counts, and what is computed with them."""
import numpy as np
import pytest
from checking import same

import pyxla

RNG = np.random.default_rng(0)
V, M, I = RNG.standard_normal(20), RNG.standard_normal((4, 5)), RNG.integers(0, 7, 30)
EMPTY, ONES = np.zeros(0), np.ones(6)

FORMS = [
    "np.argwhere(np.asarray(x[x > 0].sum() > 0)).sum()",
    "x[x > 0]", "x[x > 0].sum()", "x[x > 0].sum() / x[x > 0].shape[0]", "x[x > 0].mean()", "x[x > 0] * 2 + 1", "x[x > 0][::-1]", "x[x > 0][1:3]",
    "x[x > 0][1:] - x[x > 0][:-1]", "x[x > 100]", "x[x > 100].sum()", "np.arange(x[x > 0].shape[0])", "np.zeros(x[x > 0].shape) + x[x > 0]",
    "np.eye(x[x > 0].shape[-1], dtype=x.dtype)", "np.eye(4, x[x > 0].size, k=-1)",
    "np.logaddexp.reduce(x[x > 0])", "np.hypot.reduce(x[x > 0], keepdims=True)", "np.subtract.reduce(x[x > 0], initial=2.0)", "np.logaddexp.reduce(x[x > 0], where=x[x > 0] > 0.5)",
    "np.logical_xor.reduce(x[x > 0] > 0.5)", "np.array_split(x[x > 0], 3)[1]", "np.array_split(x[x > 0], 30)[20]", "np.kron(x[x > 0], [1, 2])", "np.kron(x, x[x > 0])",
    "np.split(np.concatenate([x[x > 0], x[x > 0]]), 2)[1]", "np.squeeze(x[x > 0][:, None], 1)",
    "np.eye(N=x[x > 0].size, M=2, dtype=int)", "np.identity(x[x > 0].size, bool)",
    "np.broadcast_shapes(np.unique(np.full(3, 2)).shape, (3, 1))[0] * x", "np.tri(x[x > 0].size, 4, 1)",
    "np.arange(2, x[x > 0].shape[0])", "x[x > 0][x[x > 0] < 0.5]", "np.concatenate([x[x > 0], x[x < 0]])", "np.flatnonzero(x > 0)", "np.nonzero(x)",
    "np.where(x > 0)[0] * 2", "np.sort(x[x > 0])", "np.cumsum(x[x > 0])", "np.median(x[x > 0])", "x[x > -9].std()", "np.exp(x[x > -9]).max()",
    "x[x > -9].argmax()", "x[x > 1.5].max(initial=-3)", "x[x > 100].min(initial=2.5)", "(x[x > 0] > 0.5).any()", "x[x > 0].size", "x[x > 0].nbytes", "x[x > 0].size * 2 + 1", "x[x > 0].shape[0] / 4", "x[np.flatnonzero(x > 0)]",
    "np.extract(x > 0, x)", "x.compress(x > 0)", "np.where(x[x > 0] > 0.5, x[x > 0], 0)", "np.trim_zeros(np.where(x > 0.2, x, 0))",
    "np.interp(x, np.flatnonzero(x > -9), x[x > -9])",
    "np.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * 2])", "np.piecewise(x, [x < 0], [1, 2])", "x[x > 0].reshape(-1, 1) * np.ones(3)",
    "x[x > 0].astype('float32') / x[x > 0].shape[0]", "(x > 0).nonzero()[0].shape[0] + x", "x[x > 0].copy() + x[x > 0]", "np.unique(x > 0)", "x[~np.isnan(x)].sum()",
    "x[:, None][x > 0]", "np.outer(x[x > 0], x[x > 0])", "x[x > 0][None, :] + x[x > 0][:, None]", "np.diff(x[x > 0])", "np.maximum(x, x[x > 0].size)", "np.where(x > 0, x[x > 0].size, x)", "np.full(3, x[x > 0].size)",
    "np.resize(x[x > 0], (3, 2))", "np.resize(x[x > 0], 50)", "np.resize(x[:3], x[x > 0].shape)", "np.resize(x[x > 0], x[x < 0].shape)", "np.resize(x[x > 0], 0)", "np.einsum('...i->i...', x[x > 0])", "np.einsum('i,j->ij', x[x > 0], x)",
    "np.logical_xor.accumulate(x[x > 0] > 0.5)", "np.divide.accumulate(x[x > 0])", "np.logaddexp.accumulate(x[x > 0])", "np.pad(x[x > 0], 2)", "np.pad(x[x > 0], 2, 'edge')",
    "divmod(x[x > 0].size, 3)", "x[x > 0].size & 3", "1 << x[x > 100].size", "np.repeat(x[x > 0], 3)", "np.repeat(x[x > 0], x[x > 0].shape[0])", "np.repeat(x[x > 100], 3)",
    "np.maximum.accumulate(x[x > 0] - x[x > 0][::-1] * 1j)", "np.cumprod(x[x > 0] * 1j)", "np.minimum.accumulate(x[x > 0][None] * 1j)",
    "np.concatenate([x[x > 0], [1.0], x[x > 0]]).ravel()", "np.pad(np.argwhere(x > 0), 1).ravel()", "x[x > 0][:, None][:, [True]]",
    "np.add(np.flatnonzero(x > 0), np.where(np.diff(x[x > 100]) > 0)[-1])",
    "np.where(np.unique(x).shape[0], x.astype('f2'), x[x > 0].size)", "np.stack([x[x > 0], x[x > 0] * 2])", "x[:0].reshape(4, 0)[:, :x[x > 0].size].sum()", "x[:0].reshape(4, 0)[-2:, :x[x > 0].size] + 1", "np.stack([np.sort(x)[x > 0], x[~(x <= 0)]])", "np.column_stack([np.flatnonzero(x > 0), x[~(x <= 0)]])", "np.vstack([x[x > -9], x])",
    "np.concatenate([x[None, x > -9], x[None]])", "np.broadcast_to(x[x > 0], (2, x[~(x <= 0)].size))", "np.broadcast_to(x, (2, x[x > -9].size)).sum(0)", "np.broadcast_to(x[x > -9], x.shape)",
    "np.searchsorted(np.sort(x[x > 0]), x)", "np.searchsorted(np.sort(x[x > 0]), x[x < 0.5], 'right')", "np.searchsorted(x[x > 100], x)",
]
MATRIX = [
    "X[X > 0]", "X[X[:, 0] > 0]", "X[:, X[0] > 0]", "X[X[:, 0] > 0, 1]", "X[1, X[1] > 0]", "np.nonzero(X > 0)", "np.argwhere(X > 0)", "np.where(X > 0)",
    "np.compress(X[:, 0] > 0, X, axis=0)", "np.compress([True, False], X, axis=1)", "np.extract(X > 0, X)", "X[X[:, 0] > 0].sum(1)", "X[X[:, 0] > 0].sum(0)",
    "X[X[:, 0] > 0].T", "X[X[:, 0] > 0] @ np.ones((5, 2))", "X[X[:, 0] > 0][:, 1]", "X[X[:, 0] > 0][:, ::2]", "X[X[:, 0] > 0].mean(axis=0, keepdims=True)",
    "X[np.nonzero(X > 0)]", "X[X > 0].reshape(1, -1)", "X[(X > 0).any(1)][:, (X > 0).all(0)]", "np.count_nonzero(X[X > 0] > 1)",
]
INTEGERS = [
    "np.bincount(i % 5, minlength=9) + np.bincount(i % 3, minlength=9)", "np.bincount(i)", "np.bincount(i, minlength=20)", "np.bincount(i, weights=i * 0.5)", "np.bincount(i[i > 3])", "np.unique(i)", "np.unique(i, True, True, True)",
    "np.unique(i.reshape(5, 6), return_inverse=True)", "np.unique_counts(i)", "np.unique_all(i)", "np.unique_inverse(i)", "np.sort(np.unique_values(i))", "np.union1d(i, i + 3)",
    "np.intersect1d(i, i + 3)", "np.setdiff1d(i, i + 3)", "np.setxor1d(i, i + 3)", "np.repeat(i, i)", "np.repeat(i.reshape(5, 6), i[:5], axis=0)", "np.repeat(i, i).sum()",
    "np.unique(i[i > 2])", "np.bincount(np.unique(i, return_inverse=True)[1])", "i[i > 3] // 2", "np.unique(np.where(i > 3, np.nan, i))", "np.unique(i * 0.5, equal_nan=False)",
    "np.ones(np.unique(i).shape[0], 'int8')[0]", "np.unique([3, 1, 3])", "np.eye(7)[np.unique(i)]",
]


def run(form, names, *args):
    space = {"np": np}
    exec(f"def f({names}):\n    return {form}", space)
    f, g = space["f"], pyxla.jit(space["f"])
    for call in args:
        try:
            want = f(*call)
        except ValueError:
            with pytest.raises(ValueError):
                g(*call)
            continue
        same(want, g(*call), rtol=1e-12, where=form)
    return g


@pytest.mark.parametrize("form", FORMS)
def test_vectors(form):
    g = run(form, "x", (V,), (-V,), (V * 0.5,), (np.where(V > 0, V, 1),), (V[::-1],), (np.full(20, -1.0),))
    assert g.cache_info().traces == 1


@pytest.mark.parametrize("form", MATRIX)
def test_matrices(form):
    run(form, "X", (M,), (-M,), (np.asfortranarray(M),), (M * 0 - 1,))


@pytest.mark.parametrize("form", INTEGERS)
def test_integers(form):
    run(form, "i", (I,), (I[::-1],), (I % 3 + 4,))


def test_a_new_size_neither_traces_nor_compiles():
    f = pyxla.jit(lambda x: (x[x > 0] * 2).sum())
    f(V), f(-V)
    compiled = f.cache_info().compiled
    for _ in range(5):
        x = RNG.standard_normal(20)
        np.testing.assert_allclose(f(x), (x[x > 0] * 2).sum())
    assert (f.cache_info().traces, f.cache_info().compiled) == (1, compiled)


STORES = [
    "y = x[x > 0]; np.place(y, y > 0.5, [1.0, 2.0]); x[0] = y.sum()",
    "x[x > 0] += 1", "x[x > 0] = np.sqrt(x[x > 0])", "x[x > 0] = x[x > 0][::-1]", "x[x > 0] *= x[x > 0]", "x[np.flatnonzero(x > 0)] = 0", "x[np.nonzero(x > 0)] += 5",
    "y = x[x > 0]; y += 1; y *= 2; x[0] = y[:2].sum()", "x[x > 0] = 0; x[x == 0] -= 1", "y = x[x > 0]; y[...] = 3; x[0] = y.sum()",
    "np.add.at(x, np.flatnonzero(x > 0), 1)", "y = x[x > 0]; y[y > 1] = 0; x[0] = y.sum()", "y = x[x > 0]; y[[0, 1]] = 7; x[0] = y.sum()",
    "x[np.argmax(x):][0] = 1", "x[np.argmin(x):][-1:] = 1", "y = x[x > 0]; y[0] = 3; y[1:] = 5; x[0] = y.sum()", "i = np.argmax(x > 1); y = x[i:i + 3]; y[0] = 1; y[1:] = 4",
]


@pytest.mark.parametrize("line", STORES)
def test_stores(line):
    space = {"np": np}
    exec("def f(x):\n    " + line.replace("; ", "\n    ") + "\n    return x.sum()", space)
    g = pyxla.jit(space["f"])
    for x in (V, -V):
        want, got = x.copy(), x.copy()
        np.testing.assert_allclose(g(got), space["f"](want), rtol=1e-12)
        same(want, got, rtol=1e-12)


def test_results_are_exact_and_own_their_memory():
    r = pyxla.jit(lambda x: x[x > 0])(V)
    assert r.base is None
    assert r.shape == V[V > 0].shape
    assert r.flags.writeable


def test_squeeze_asks_whether_a_size_is_one():
    for f in (lambda x: np.squeeze(x[x > 0]), lambda x: x[x > 0][None].squeeze() * 2, lambda x: np.squeeze(x[x > 0][:, None] + x[:1])):
        g = pyxla.jit(f)
        for x in (V, np.where(V == V.max(), 1.0, -1.0), -V, np.full(20, -1.0)):
            got, want = g(x), f(x)
            np.testing.assert_allclose(got, want)
            assert got.shape == want.shape
        assert g.cache_info().traces == 2
    g = pyxla.jit(lambda x: np.squeeze(x[x > 0], 0))
    assert g(np.array([-1.0, 2.0])) == 2.0
    with pytest.raises(ValueError, match="cannot select an axis to squeeze out"):
        g(np.array([1.0, 2.0]))


@pytest.mark.parametrize("f", [
    lambda x, n: np.eye(n), lambda x, n: np.eye(n, 3, 1), lambda x, n: np.eye(2, M=n), lambda x, n: np.identity(n, int), lambda x, n: np.tri(n), lambda x, n: np.tri(3, n),
    lambda x, n: np.linspace(0, x.sum(), n), lambda x, n: np.linspace(1, 2, num=n, endpoint=False)])
def test_sizes_that_are_integers_of_the_run(f):
    g = pyxla.jit(lambda x: f(x, (x > 0).sum()))
    for x in (V, -V, np.abs(V), np.full(20, -1.0)):
        np.testing.assert_allclose(g(x), f(x, (x > 0).sum()), strict=True)
    assert g.cache_info().traces == 1


def test_matrices_of_some_rows():
    for f in (lambda x: np.linalg.pinv(x[x[:, 0] > 0]), lambda x: np.linalg.pinv(x[x[:, 0] > 0].T, rtol=None), lambda x: np.linalg.cond(x[x[:, 0] > 0]),
              lambda x: np.histogram2d(x[x > 0], x[x > 0] * 2, 3)[0]):
        g = pyxla.jit(f)
        for x in (M, -M):
            np.testing.assert_allclose(g(x), f(x), rtol=1e-9, atol=1e-12)
    assert pyxla.jit(lambda x: np.linalg.pinv(x[x[:, 0] > 9]))(M).shape == (5, 0)
    with pytest.raises(ValueError, match="empty arrays"):
        pyxla.jit(lambda x: np.linalg.cond(x[x[:, 0] > 9]))(M)


def test_the_text_of_a_size():
    texts = []
    pyxla.jit(lambda x: texts.append(f"{x[x > 0].size} {x[x > 0].size / 2}") or x)(V)
    assert texts == ["<int known only in the run> <float known only in the run>"]


def test_parts_that_are_not_equal():
    with pytest.raises(ValueError, match="equal division"):
        pyxla.jit(lambda x: np.split(x[x > 0], 2)[0])(np.arange(4.0))


def test_what_is_refused():
    with pytest.raises(pyxla.TraceError, match="number depends on data"):
        pyxla.jit(lambda x: range(x[x > 0].shape[0]))(V)
    with pytest.raises(pyxla.TraceError, match="shape"):
        pyxla.jit(lambda x: len(x[x > 0]))(V)
    with pytest.raises(pyxla.UnsupportedError, match="depends on data"):
        pyxla.jit(lambda x: x[x > 0][1:].__setitem__(0, 1))(V)

    def f(x):
        y = x[x > 0]
        z = y[1:]
        y += 1
        return z

    with pytest.raises(pyxla.UnsupportedError, match="copy"):
        pyxla.jit(f)(V)


def test_different_extents_broadcast_in_the_run():
    f = pyxla.jit(lambda x, y: (x[x > 0][:, None] * y[y > 0], x[x > 0] + y[y > 0]))
    x = np.array([1.0, 2, -1])
    assert f(x, np.array([3.0, -4, 5]))[1].tolist() == [4, 7]
    assert f(x, np.array([3.0, -4, -5]))[1].tolist() == [4, 5]
    assert f(-x, np.array([3.0, 1, 5]))[1].tolist() == [4, 2, 6]
    assert f(x - 9, np.array([3.0, -1, -5]))[1].shape == (0,)
    assert f(x, x.copy())[0].tolist() == [[1, 2], [2, 4]]
    for y in ([3.0, 1, 5], [-3.0, -1, -5]):
        with pytest.raises(ValueError, match="broadcast"):
            f(x, np.array(y))
    assert f.cache_info().traces == 1


def test_nothing_is_written_before_extents_are_known_to_fit():
    @pyxla.jit
    def f(x, y):
        x[0] = 9
        x[:] = y[y > 0]

    x = np.zeros(3)
    with pytest.raises(ValueError, match="broadcast"):
        f(x, np.array([1.0, 2, -1]))
    assert x.tolist() == [0, 0, 0]
    f(x, np.array([1.0, 2, -1, 3]))
    assert x.tolist() == [1, 2, 3]


def test_errors_of_the_run():
    with pytest.raises(IndexError):
        pyxla.jit(lambda x: x[x > 0][9])(np.array([1.0, -1, 2]))
    with pytest.raises(ValueError, match="no identity"):
        pyxla.jit(lambda x: x[x > 9].max())(V)
    with pytest.raises(ValueError, match="no negative elements"):
        pyxla.jit(lambda i: np.bincount(i))(np.array([1, -1]))


def test_numbers_of_the_run_yield_to_arrays():
    f = pyxla.jit(lambda x: (x / x[x > 0].shape[0], x[x > 0].shape[0] + x[0], np.sqrt(x[x > 0].shape[0]), x[x > 0].shape[0] // 2 * 1.5))
    got = f(V.astype("float32"))
    assert [type(g).__name__ if isinstance(g, float) and type(g) is float else g.dtype.name for g in got] == ["float32", "float32", "float64", "float"]


def test_threads_and_many_sizes():
    from concurrent.futures import ThreadPoolExecutor
    f = pyxla.jit(lambda x: np.cumsum(x[x > 0]))
    arrays = [RNG.standard_normal(300) for _ in range(200)]
    with ThreadPoolExecutor(4) as pool:
        for a, r in zip(arrays, pool.map(f, arrays)):
            np.testing.assert_allclose(r, np.cumsum(a[a > 0]))


def test_functions_that_call_functions():
    @pyxla.jit
    def positive(x):
        return x[x > 0]

    f = pyxla.jit(lambda x: positive(x).sum() + positive(-x).sum())
    np.testing.assert_allclose(f(V), np.abs(V).sum())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "float32"])
@pytest.mark.parametrize("offset", [0, -500])
def test_an_extent_meets_a_narrow_integer_as_a_python_integer_does(dtype, offset):
    def added(x, y):
        return y + (x[x > 0].shape[0] + offset)

    def stored(x, y):
        y[0] = x[x > 0].shape[0] + offset
        return y

    for f in (added, stored):
        jitted = pyxla.jit(f)
        for n in (300, 20):
            y = np.zeros(3, dtype)
            try:
                want = f(np.ones(n), y.copy())
            except OverflowError:
                with pytest.raises(OverflowError, match="test_sizes.py"):
                    jitted(np.ones(n), y)
                assert not y.any()
            else:
                got = jitted(np.ones(n), y)
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("form", ["np.clip(n, -3, 3)", "np.clip(np.nan_to_num(n), -100, 100).astype('i2')", "np.round(n)", "np.stack([n, n])", "np.ravel(n)"])
def test_array_functions_of_extents(form):
    f = eval(f"lambda x: (lambda n: {form})(x[x > 0].shape[0])")
    same(f(V), pyxla.jit(f)(V))


@pytest.mark.parametrize("form", ["s > n", "s == n", "n <= s", "x.astype('float32') * (s + n)", "x.astype('float32') - s ** n % 7", "(s / n, n // s, s % n, s - n)", "divmod(s, n)"])
def test_a_number_meets_an_extent_as_a_number(form):
    f = eval(f"lambda x, s: (lambda n: np.where({form}, 1, 2) if '>' in form or '=' in form else {form})(x[x > 0].shape[0])", {"form": form, "np": np})
    for s in (3, 20):
        same(f(V, s), pyxla.jit(f)(V, s))


@pytest.mark.parametrize("form", ["np.minimum(n, y)", "np.add(y, n)", "np.multiply(n, C)", "np.maximum(n, np.int8(3))", "np.add(n, 2)", "np.multiply(n, 0.5)", "np.less(n, y)", "n + y", "np.add.outer(y, y) + n",
                                  "np.where(y > 3, n, y)"])
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32"])
def test_the_dtype_of_arrays_wins_over_an_extent(form, dtype):
    space = {"np": np, "C": np.arange(3, dtype=dtype)}
    f = eval(f"lambda x, y: (lambda n: {form})(x[x > 0].shape[0])", space)
    y = np.arange(5).astype(dtype)
    same(f(V, y), pyxla.jit(f)(V, y))


@pytest.mark.parametrize("shape", [(5,), (1,), (0,), (3,), (2, 3), (5, 2), ()])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5])
def test_storing_a_size_that_depends_on_data(shape, n):
    """It has to be the size of what is written to, or 1: the run checks it, before anything is written."""
    def whole(x, v):
        x[...] = v[v > 0]
        return x

    def part(x, v):
        x[1:4] = v[v > 0][:3]
        return x

    def at(x, v):
        x[[0, -1, 0]] = v[v > 0]
        return x

    def columns(x, v):
        x[:] = v[v > 0][:, None]
        return x

    def chosen(x, v):
        np.copyto(x, v[v > 0], where=x == 0)
        return x

    v = np.array([-1.0] * (6 - n) + list(range(1, n + 1)))
    for f in (whole, part, at, columns, chosen):
        mine, numpys = np.zeros(shape), np.zeros(shape)
        try:
            want = f(numpys, v)
        except (ValueError, IndexError):
            with pytest.raises((ValueError, IndexError)):
                pyxla.jit(f)(mine, v)
            assert not mine.any()
        else:
            same(want, pyxla.jit(f)(mine, v))
            same(numpys, mine)


def test_complex_numbers_in_tables_and_sets():
    r = np.random.default_rng(0)
    x = r.integers(0, 3, 60) + 1j * r.integers(0, 3, 60)
    x[[3, 9]], x[7], x[8] = complex(1, np.nan), complex(np.nan, 2), complex(np.nan, np.nan)
    for f in (lambda x: np.unique(x), lambda x: np.unique(x, True, True, True), lambda x: np.searchsorted(np.sort(x), x), lambda x: np.searchsorted(np.sort(x), x, "right"),
              lambda x: np.unique(x, equal_nan=False), lambda x: np.union1d(x, x[:3] + 1)):
        same(f(x), pyxla.jit(f)(x))


def test_numbers_of_numpy_win_over_an_extent():
    def f(x):
        n, y = np.unique(x).shape[0], x.astype("float32")
        return n - (x[x > 0] * 2).max(initial=0), n * x.sum(), np.float64(2) + n, n + np.float64(2), np.float32(2) * n, n - y[0], y * (n * x[0]), n * np.int8(2)

    same(f(V), pyxla.jit(f)(V), rtol=1e-12)


def test_rows_of_an_array_of_run_time_columns():
    def f(x):
        rows = [row.sum() for row in np.stack([x[x > 0], x[x > 0]])]
        return rows[0], np.unstack(x[x > 0][None])[0], len(rows)

    whole = np.rint(4 * V)                          # whose sums are exact
    same(f(whole), pyxla.jit(f)(whole))
    with pytest.raises(IndexError):
        pyxla.jit(lambda x: x[x > 0][None][1])(V)


def test_sizes_that_captured_arrays_decide():
    a = np.array([1, 3, 4])

    def f():
        counts = np.bincount(a[a > 1], minlength=3)
        return np.resize(counts, (3, 2)), np.repeat(a[a > 2], 2), np.logical_xor.accumulate(counts > 0)

    g = pyxla.jit(f)
    for a[0] in (1, 7):
        same(f(), g())


def test_text_of_a_graph_with_sizes_of_the_run():
    lowered = pyxla.jit(lambda x: x[x > 0] * 2).lower(np.arange(-3.0, 3))
    assert "f64[%" in lowered.as_text()
    with pytest.raises(pyxla.UnsupportedError, match="depend on data"):
        lowered.as_text(simplified=True)


def test_an_array_of_one_element_squeezed_is_no_scalar():
    a = np.array([1, 0, 0])
    f = lambda: (np.squeeze(a[a > 0]), np.squeeze(np.nonzero(a)[0]), a[a > 0][0], a[a > 0][0, ...])
    same(f(), pyxla.jit(f)())


def test_a_known_mask_of_an_axis_of_the_run():
    f = lambda x: x[x > 2][[True, False, True]]
    g = pyxla.jit(f)
    same(f(V := np.arange(6.0)), g(V))
    for short in (V - 1, V + 1):
        with pytest.raises(IndexError):
            g(short)


def test_a_part_of_an_extent_may_be_negative():
    """An index that only a wrong bound of the extent would take for one in range."""
    def f(x):
        n = np.flatnonzero(x > 3).shape[0]
        return x[np.arange(n - (-n))]

    g, x = pyxla.jit(f), np.arange(5.0)
    same(f(x), g(x))
    with pytest.raises(IndexError):
        g(x + 9)


@pytest.mark.parametrize("line", ["np.stack([x[x > 0], x[x < 0]])", "np.vstack([x[x > 0], x])", "np.column_stack([x, x[x > 0]])", "np.broadcast_to(x[x > 0], x.shape)"])
def test_extents_that_differ_are_an_error_of_the_run(line):
    with pytest.raises(ValueError, match="extents known only in the run differ"):
        pyxla.jit(eval(f"lambda x: {line}", {"np": np}))(V)


PARTS = ["np.piecewise(x[x > 3], x[x > 3] < 6, [1.0, 2.0])", "np.piecewise(x[x > 3], [x[x > 3] < 6, x[x > 3] >= 6], [1.0, 2.0])", "np.piecewise(x[x > 3], [x[x > 3] < 6], [lambda v: v * 2, lambda v: -v])",
         "np.gradient(x[x > 3])", "np.gradient(x[x > 3], 2.0)", "np.gradient(x[x > 3], x[x > 3] ** 2)", "np.gradient(x[x > 3], edge_order=2)",
         "np.gradient(m[m[:, 0] > 3])", "np.trace(m[m[:, 0] > 3])", "np.trace(m[:, m[0] > 1], 1)", "np.trace(m[m[:, 0] > 3], -1)",
         "np.diagonal(m[m[:, 0] > 3], 2)", "np.diagonal(m[m[:, 0] > 3], 9)", "np.diag(m[:, m[0] > 1])",
         "np.trace(np.stack([m[m[:, 0] > 3]] * 2), axis1=1, axis2=2)"]


@pytest.mark.parametrize("line", PARTS)
def test_parts_of_arrays_of_unknown_size(line):
    f = eval(f"lambda x, m: {line}")
    g = pyxla.jit(f)
    for scale in (1.0, 2.0):
        x, m = np.arange(12.0) * scale, np.arange(20.0).reshape(4, 5) * scale
        for got, want in zip(np.atleast_2d(g(x, m)), np.atleast_2d(f(x, m))):
            np.testing.assert_allclose(got, want, rtol=1e-14)


def test_a_gradient_of_too_few_elements():
    with pytest.raises(ValueError, match="Shape of array too small"):
        pyxla.jit(lambda x: np.gradient(x[x > 10]))(np.arange(12.0))
    with pytest.raises(pyxla.TraceError, match="iteration over an array whose size depends on data"):
        pyxla.jit(lambda x: [v for v in x[x > 3]])(np.arange(12.0))
