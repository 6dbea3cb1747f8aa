"""What one kernel holds: launches, workspace and compiles of plans, by the public counters."""
import functools
import re
import threading

import numpy as np
import pytest

import pyxla

R = np.random.default_rng(0)


def arr(*shape, dtype="float32"):
    return R.random(shape).astype(dtype)


def plan(f, *args):
    return pyxla.jit(f).lower(*args).compile()


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def log_softmax(x):
    s = x - x.max(axis=-1, keepdims=True)
    return s - np.log(np.exp(s).sum(axis=-1, keepdims=True))


def layer_norm(x):
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def rms_norm(x):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)


def relu(x, w, b):
    return np.maximum(x @ w + b, 0)


def stencil(u):
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]


def long_chain(x):
    y = x
    for i in range(300):
        y = y * x + i
    return y, y - x, np.exp(y)


@pytest.mark.parametrize("f", [softmax, log_softmax, layer_norm, rms_norm, lambda x: x.var(-1), lambda x: x.std(-1), lambda x: x.std(0),
                               lambda x: (x.sum(0), x.max(0), x.mean(0)), stencil, long_chain, lambda x: x.T[::-1, ::2] * 2], ids=range(11))
def test_one_kernel_without_workspace(f):
    c = plan(f, arr(402, 300))                   # four rows of a stencil at once leave none over
    assert (c.launches, c.workspace_bytes) == (1, 0)


@pytest.mark.parametrize("shape", [(64, 2000), (3, 30000), (70000,), (1, 9), (5000, 3), (2, 3, 40, 50)], ids=str)
@pytest.mark.parametrize("f", [softmax, log_softmax, layer_norm, rms_norm, lambda x: x.var(-1), lambda x: x.std(-1)], ids=range(6))
def test_rows_that_fit_the_second_cache_are_read_once(f, shape):
    c = plan(f, arr(*shape))
    assert (c.launches, c.workspace_bytes) == (1, 0)


def test_fifteen_hundred_operations_are_one_kernel():
    def f(x, y):
        z = x
        for i in range(1500):
            z = z * y if i % 2 else z - x
        return z

    c = plan(f, arr(5000), arr(5000))
    assert (c.launches, c.workspace_bytes) == (1, 0)


@pytest.mark.parametrize("f", [lambda x: (x.sum(), x.max(), x.min()), lambda x: x.mean(), lambda x: x.std()])
def test_reductions_of_everything_share_a_pass(f):
    c = plan(f, arr(1000, 1000))
    assert c.workspace_bytes < 4_000_000 // 256 and c.launches <= 4            # what blocks of 8 KB leave


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (1, 2), (0, 2), (0, 1, 2)])
def test_no_reduction_has_a_temporary_of_the_inputs_size(axis):
    assert plan(lambda x: x.sum(axis), arr(60, 70, 80)).workspace_bytes < 60 * 70 * 80 * 4 // 16


FEW_OF_MANY = {
    "log of the likely": lambda x, y: -np.log(softmax(x)[np.arange(len(y)), y]).mean(),
    "likely of the logs": lambda x, y: -log_softmax(x)[np.arange(len(y)), y].sum(),
    "along an axis": lambda x, y: np.take_along_axis(log_softmax(x), y[:, None], 1),
    "weighted": lambda x, y: (x[0][y] * log_softmax(x)[np.arange(len(y)), y]).sum(),
    "greatest": lambda x, y: (lambda p: p[np.arange(len(p)), p.argmax(1)])(softmax(x)),
    "a column": lambda x, y: softmax(x)[:, 1] * 2,
    "the last column": lambda x, y: layer_norm(x)[:, -1],
    "some columns": lambda x, y: softmax(x * 3)[:, 5:60:7],
    "some rows": lambda x, y: rms_norm(x)[y[:30]],
    "a row": lambda x, y: log_softmax(x)[17],
    "an element": lambda x, y: softmax(x)[17, 3],
    "of columns": lambda x, y: ((x - x.mean(0)) / x.std(0))[:20, 3:],
    "transposed": lambda x, y: softmax(x).T[3],
    "three axes": lambda x, y: log_softmax(x.reshape(30, 10, 100))[np.arange(30)[:, None], np.arange(10), y.reshape(30, 10)],
}


@pytest.mark.parametrize("name", FEW_OF_MANY)
def test_few_elements_of_what_follows_reductions_are_computed_alone(name):
    f = FEW_OF_MANY[name]
    for dtype in ("float32", "float64"):
        x, y = arr(300, 100, dtype=dtype) * 5, R.integers(-100, 100, 300)
        assert plan(f, x, y).workspace_bytes < x.nbytes // 16
        np.testing.assert_allclose(pyxla.jit(f)(x, y), f(x, y), 2e-4 if dtype == "float32" else 1e-12, 1e-5 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("f", [lambda x: (lambda p: (p, p[:, 0]))(softmax(x)), lambda x: softmax(x)[:, :60] * 2, lambda x: softmax(x)[:, :5] @ x[:5], lambda x: np.exp(x)[:, 3],
                               lambda x: np.cumsum(softmax(x), 1)[:, 3], lambda x: softmax(x @ x.T[:, :90])[:, 0], lambda x: softmax(np.tanh(softmax(softmax(softmax(x)))))[:, 2]], ids=range(7))
def test_selections_that_are_not_computed_alone(f):
    """What is stored anyway, half of it, none of a reduction, of a scan, of a product, of many steps."""
    x = arr(300, 100, dtype="float64")
    for got, want in zip(*[r if isinstance(r, tuple) else (r,) for r in (pyxla.jit(f)(x), f(x))], strict=True):
        np.testing.assert_allclose(got, want, 1e-12)


@pytest.mark.parametrize("f", [lambda x: x - x.mean(0) - x.mean(1)[:, None] + x.mean(), lambda x: x - x.sum(0) * x.sum(1)[:, None] / x.sum(),
                               lambda x: (lambda e: ((x - e) ** 2 / e).sum())(x.sum(1, keepdims=True) * x.sum(0) / x.sum())], ids=["centred", "fitted", "chi square"])
def test_sums_of_rows_and_columns_together_make_no_array(f):
    """Cheap values of an element, its row's and its column's sum are not stored for the group that has the total."""
    for shape in (700, 600), (20, 30):
        x = arr(*shape, dtype="float64") + 1
        c = plan(f, x)
        assert c.workspace_bytes < x.nbytes / 4 or x.nbytes < 32768
        np.testing.assert_allclose(pyxla.jit(f)(x), f(x), 1e-11, 1e-12)


def logsumexp(x):
    m = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - m).sum(-1)) + m[..., 0]


@pytest.mark.parametrize("f", [logsumexp, lambda x: np.exp(np.log(x + 1).mean(-1)), lambda x: np.log1p(np.exp(x).sum(-1)).sum()], ids=["logsumexp", "geometric mean", "and their sum"])
def test_dear_values_of_many_rows_are_computed_with_vectors(f):
    """One at a time, after the loops over each row, the logarithm took as long as a row of 30."""
    last = re.split(r"^kernel ", plan(f, arr(5000, 100)).plan, flags=re.M)[-1]
    assert re.search(r" (log|log1p|exp) f32 ", last) and re.search(r"for a0 \w+ lanes=\d+( grid)? {\n *(store|reduce)", last)
    assert plan(logsumexp, arr(20, 100)).launches == 1
    for n in (20, 63, 64, 300, 5000):
        x = arr(n, 100)
        np.testing.assert_allclose(pyxla.jit(f)(x), f(x), 1e-5)


def test_labels_do_not_halve_the_lanes():
    def f(x, y):
        p = softmax(x)
        return -np.log(p[np.arange(len(y)), y]).mean(), (p - (y[:, None] == np.arange(100, dtype=y.dtype))) / len(y)

    x, y = arr(5000, 100), R.integers(0, 100, 5000)
    wide, narrow = (plan(f, x, labels).plan for labels in (y, y.astype("int32")))
    assert re.findall(r"a1 whole lanes=\d+", wide) == re.findall(r"a1 whole lanes=\d+", narrow)
    for got, want in zip(pyxla.jit(f)(x, y), f(x, y), strict=True):
        np.testing.assert_allclose(got, want, 1e-5, 1e-9)


def test_products_keep_their_rows():
    args = arr(512, 64), arr(64, 128), arr(128)
    assert plan(relu, *args).launches == 1
    c = plan(lambda x, w, b: softmax(relu(x, w, b)), *args)
    assert (c.launches, c.workspace_bytes) == (1, 0)


def test_small_programs_are_one_kernel():
    def f(x, m):
        for i in range(24):
            x = np.sin(x) + x * i
            x = x / (1 + x.sum())
            m = m @ m * 0.1 + x[:3]
        return x, m

    assert plan(f, arr(8), arr(3, 3)).launches == 1


def test_pieces_are_written_once():
    def f(a, b):
        return np.concatenate([np.concatenate([a, b])[10000:50000], np.concatenate([b, a])])

    c = plan(f, arr(30000), arr(40000))
    assert c.workspace_bytes == 0


JOINED = {
    "stack": (lambda x: np.stack([x, x + 1]) * 2, 1),
    "roll": (lambda x: np.roll(x, 3) * 2, 2),
    "roll of columns": (lambda x: np.sqrt(np.roll(x, 3, 1)) + x, 2),
    "pad": (lambda x: np.pad(x, 1) * 2, 3),
    "pad by the edge": (lambda x: np.pad(x, 1, mode="edge") * 2, 4),
    "neighbours of a torus": (lambda x: np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1) - 4 * x, 4),
    "a padded stencil": (lambda x: (lambda p: p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * p[1:-1, 1:-1])(np.pad(x, 1)), 4),
    "a padded window": (lambda x: (lambda p: sum(p[i:i + 200, j:j + 200] for i in range(3) for j in range(3)))(np.pad(x, 1)), 4),
    "joins of joins": (lambda x: np.concatenate([np.roll(x, 5, 0), x[:7]]) * 2, 3),
    "pieces of different ends": (lambda x: np.concatenate([x[:9], x * 2]) - np.concatenate([x * 3, x[:9]]), 2),
    "tile": (lambda x: np.tile(x, 3) * 2, 1),
    "flip": (lambda x: np.flip(x) * 2, 1),
    "several users": (lambda x: (lambda r: (r * 2, np.exp(r), r > 0.5))(np.roll(x, 3, 0)), 2),
    "differences": (lambda x: np.diff(x, prepend=0.0, axis=0) / 2, 2),
    "greatest of a stack": (lambda x: np.stack([x, x * x, -x]).max(0), 1),
    "mean of a stack": (lambda x: np.mean([x, x + 1, x * x], axis=0), 1),
    "greatest of joined rows": (lambda x: np.concatenate([x, x + 1], 1).max(1), 1),
}


@pytest.mark.parametrize("name", JOINED)
def test_what_is_done_to_joined_arrays_is_done_to_their_pieces(name):
    """No workspace, few kernels, and NumPy's bits, for long arrays and for short ones (whose plans may be others)."""
    f, kernels = JOINED[name]
    x = arr(200, 200)
    c = plan(f, x)
    assert c.workspace_bytes == 0 and len(c.kernels) <= kernels
    for y in (x, x.T, x[::2, ::-1].repeat(2, 0), arr(200, 200, dtype="float64"), x[:9, :7] if "window" not in name else x):
        for mine, numpys in zip(np.atleast_1d(pyxla.jit(f)(y)), np.atleast_1d(f(y)), strict=True):
            np.testing.assert_allclose(mine, numpys, rtol=1e-6)


def test_a_sum_of_joined_arrays_needs_no_array():
    c = plan(lambda x: (np.concatenate([x, x + 1]) * 3).sum(), arr(100_000))
    assert c.workspace_bytes < 4096


def test_steps_over_a_torus_store_one_array_each():
    def f(u):
        for _ in range(8):
            u = u + 0.1 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u)
        return u

    u = arr(200, 200)
    c = plan(f, u)
    assert c.workspace_bytes <= 2 * u.nbytes + 128 and len(c.kernels) <= 8
    assert np.array_equal(pyxla.jit(f)(u), f(u))


NUMBERS_OF_ROWS = [5, 6, 7, 9, 16, 17, 31, 63, 64, 100, 127, 128, 199]


@pytest.mark.parametrize("f", [
    lambda x: x.var(0), lambda x: (x - x.mean()) / x.std(), lambda x: layer_norm(x.T.copy()) * 3, lambda x: ((x - 1) ** 2).mean(), lambda x: x.std(0, ddof=1),
    lambda x: np.abs(x - x.mean(0)) / len(x), lambda x: np.repeat(x, 64, 1).mean(), lambda x: (x * x).sum(),
])
def test_kernels_do_not_know_the_number_of_elements(f):
    jitted, numpys = pyxla.jit(f), f
    for n in NUMBERS_OF_ROWS:
        x = arr(n, 30, dtype="float64")
        np.testing.assert_allclose(jitted(x), numpys(x), 1e-10, 1e-12)
    kernels = len(re.findall(r"^kernel \d+:", jitted.lower(x).compile().as_text(), re.M))
    assert jitted.cache_info().compiled <= 4 * kernels


@pytest.mark.parametrize("n", [300, 100_000])
def test_a_chain_of_concatenates_and_slices_writes_each_element_once(n):
    a, b, *more = (arr(n) for _ in range(12))
    chains = [
        lambda a, b, *more: np.concatenate([np.concatenate([a, b])[5:], more[0][3:]])[2:-2],
        lambda a, b, *more: functools.reduce(lambda u, v: np.concatenate([u[1:], v]), more, a),
        lambda a, b, *more: functools.reduce(lambda u, i: np.concatenate([u[1:], b[i : i + 1]]), range(12), a),
        lambda a, b, *more: np.concatenate(np.split(a, 10)[::-1]),
    ]
    for f in chains:
        assert plan(f, a, b, *more).workspace_bytes == 0
        np.testing.assert_array_equal(pyxla.jit(f)(a, b, *more), f(a, b, *more))


def test_many_pieces_and_several_uses_make_no_temporary():
    xs = [arr(20_000) for _ in range(12)]
    for f in (lambda *xs: np.concatenate(xs) * 2, lambda *xs: np.exp(np.stack(xs)), lambda *xs: np.stack(xs).sum(0),
              lambda *xs: (lambda z: (z * 2, z + 1, z.max(), z.min()))(np.concatenate(xs)), lambda *xs: np.concatenate(np.split(xs[0], 10)[::-1]) * xs[1]):
        assert plan(f, *xs).workspace_bytes <= 16384
        mine, numpys = (r if isinstance(r, tuple) else (r,) for r in (pyxla.jit(f)(*xs), f(*xs)))
        for a, b in zip(mine, numpys, strict=True):
            np.testing.assert_allclose(a, b, 1e-5)


def test_softmax_of_joined_rows_stays_one_kernel():
    assert plan(lambda x: softmax(np.concatenate([x, x + 1], 1) * 2), arr(200, 300)).launches == 2


UPDATES = """
a[3] = 1; a[10:-10] *= 2; a += 1
a *= b; a[:, 0] = 0; a[0] = b[1]; a.T[3] += 1
a[:] = np.exp(a); a[0] = 0; a[-1] = a[5]
a[0] += a[1]
a[0] += a[1]; a[1] += a[2]; a[2] -= a[3] * 2
a[::2] += a[1::2]
a[:, 1:3] = a[:, 5:7]; a[0, 0] = 9
a[b > 0.5] = 0
a /= a.sum(1, keepdims=True)
a.T[::-1][2] = b[:, 4]
""".strip().splitlines()


def function(body, result):
    space = {"np": np}
    exec(f"def f(a, b):\n    {body}\n    return {result}", space)
    return space["f"]


@pytest.mark.parametrize("body", UPDATES)
def test_update_in_place_copies_nothing(body):
    c = plan(function(body, "a"), arr(400, 300), arr(400, 300))
    assert c.workspace_bytes == 0 and c.peak_bytes == 0


@pytest.mark.parametrize("body", ["z = a * b; z[3:] += 1; z[0] = 0; z[:, ::2] *= 3", "z = np.zeros_like(a); z[1:-1] = a[1:-1] * b[2:]; z[0] = z[1]",
                                  "z = np.empty((2, *a.shape), a.dtype); z[0] = a; z[1] = b * 2"])
def test_update_of_a_result_copies_nothing(body):
    c = plan(function(body, "z"), arr(400, 300), arr(400, 300))
    assert c.workspace_bytes == 0


def test_a_small_update_by_its_neighbours_copies_little():
    def f(a):
        a[1:3] += a[0:2]
        for i in range(3, 7):
            a[i] -= a[i - 1] * 0.5

    assert plan(f, arr(400, 300)).workspace_bytes < 20000
    x, y = arr(400, 300), None
    y = x.copy()
    f(x)
    pyxla.jit(f)(y)
    np.testing.assert_array_equal(x, y)


def test_batch_sizes_share_kernels():
    f, g = pyxla.jit(softmax), pyxla.jit(relu)
    w, b = arr(24, 40), arr(40)
    for n in range(1, 201):
        f(arr(n, 48))
        g(arr(n, 24), w, b)
    assert f.cache_info().compiled <= 4 and g.cache_info().compiled <= 4 * len(plan(relu, arr(9, 24), w, b).kernels)


def test_equal_layers_and_steps_compile_once():
    def layers(x, ws):
        for w in ws:
            x = np.tanh(x @ w)
        return x

    def steps(u, n):
        u = u.copy()
        for _ in range(n):
            u[1:-1, 1:-1] += 0.1 * stencil(u)
        return u

    one, twelve = pyxla.jit(layers), pyxla.jit(layers)
    one(arr(64, 56), [arr(56, 56)])
    twelve(arr(64, 56), [arr(56, 56)] * 12)
    assert twelve.cache_info().compiled == 0
    few, many = pyxla.jit(steps, static_argnums=1), pyxla.jit(steps, static_argnums=1)
    few(arr(150, 250), 4)
    many(arr(150, 250), 100)
    assert many.cache_info().compiled == 0


def test_loops_without_a_period_compile_their_step():
    """Of triangular loops the steps come again and again, the whole has no period; each step is a launch's, or some are."""
    def f(x):
        for i in range(1, x.shape[0]):
            for j in range(i):
                x[i] = np.cumsum(x[i] - x[j] * 0.01)
            x[i] /= np.abs(x[i]).max()

    x, y = arr(90, 50), arr(90, 50)
    y[...] = x
    g = pyxla.jit(f)
    g(x)
    f(y)
    np.testing.assert_allclose(x, y, rtol=1e-9)
    assert g.cache_info().compiled <= 30


def test_kernels_that_come_often_stay_alone():
    """Cholesky's sums grow by an element each, eight to a loop, beside rests of one to seven: no step is like the one before."""
    def f(a):
        l = np.zeros_like(a)
        for i in range(a.shape[0]):
            for j in range(i + 1):
                s = a[i, j] - (l[i, :j] * l[j, :j]).sum()
                l[i, j] = np.sqrt(s) if i == j else s / l[j, j]
        return l

    a = arr(50, 50).astype("f8")
    a = a @ a.T + 50 * np.eye(50)
    g = pyxla.jit(f)
    np.testing.assert_allclose(g(a), f(a), rtol=1e-12, atol=1e-14)
    assert g.cache_info().compiled <= 18


def test_hundreds_of_reductions_are_cut_into_loops():
    """A convolution window by window: LLVM's loops carry a register for each reduction, which has an end."""
    def f(x, w):
        out = np.empty((1, 25, 25, 2), "f4")
        for i in range(25):
            for j in range(25):
                out[:, i, j] = (x[:, i : i + 2, j : j + 2, :, None] * w).sum((1, 2, 3))
        return out

    x, w = arr(1, 26, 26, 2), arr(2, 2, 2, 2)
    np.testing.assert_allclose(pyxla.jit(f)(x, w), f(x, w), rtol=1e-5, atol=1e-6)


def test_places_within_an_array_share_kernels():
    x = arr(100)
    pyxla.jit(lambda x: np.cbrt(x[1:31] + x[1:31] * x[2:32]))(x)
    for k in range(2, 60, 3):
        f = pyxla.jit(eval(f"lambda x: np.cbrt(x[{k}:{k + 30}] + x[{k}:{k + 30}] * x[{k + 1}:{k + 31}])", {"np": np}))
        f(x)
        assert f.cache_info().compiled == 0


def test_new_strides_do_not_trace():
    f = pyxla.jit(softmax)
    f(arr(50, 60))
    f(arr(60, 50).T)
    f(arr(100, 60)[::2])
    assert f.cache_info().traces == 1


def test_neighbours_share_a_pointer():
    """The points of a stencil that lie in one row differ by a literal offset: one word of arguments per row."""
    def f(u):
        return sum(u[1 + i : u.shape[0] - 1 + i, 1 + j : u.shape[1] - 1 + j] for i in (-1, 0, 1) for j in (-1, 0, 1))

    c = plan(f, arr(20, 300))
    words = {w for w in re.findall(r"^access .*\+(arg\d+)", c.plan, re.M)}
    assert c.plan.count("access ") == 10 and len(words) <= 3
    c = plan(f, arr(102, 300))                   # of four rows at once: six rows are read
    assert c.plan.count("access ") == 18 + 4 and len({w for w in re.findall(r"^access .*\+(arg\d+)", c.plan, re.M)}) <= 5 + 3
    for shape in (100, 300), (40, 9), (12, 5):
        x = arr(*shape)
        np.testing.assert_array_equal(pyxla.jit(f)(x), f(x))


def in_place(x):
    x[...] = softmax(x) + x
    return x


def with_gain(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) + x


def twice(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    s = e.sum(axis=-1, keepdims=True)
    return e / s, e * 2 / s


def joined(x):
    return np.concatenate([softmax(x), x], axis=1)


@pytest.mark.parametrize("f, kept", [(softmax, True), (with_gain, True), (twice, True), (in_place, False), (joined, False),
                                     (lambda x: softmax(x).astype("float32"), False), (lambda x: softmax(x).T, True), (lambda x: softmax(x)[:, ::-1], True)], ids=range(8))
def test_long_rows_wait_in_the_result(f, kept):
    x = arr(3, 30000, dtype="float64") * 9
    assert ("ordered" in plan(f, x.copy()).plan) == kept
    jitted = pyxla.jit(f, donate_argnums=0) if f is with_gain else pyxla.jit(f)
    for got, want in zip(jitted(x.copy()), f(x.copy())):
        np.testing.assert_allclose(got, want, rtol=1e-6 if want.dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("step", [lambda z, x, y: z * y - x, lambda z, x, y: z[::-1] * y, lambda z, x, y: z.reshape(10, -1).T.reshape(-1) + y], ids=["values", "views", "reshapes"])
def test_deep_values_take_little_stack(step):
    """A thread of 4 MB is enough for a thousand operations on each other."""
    def f(x, y):
        z = x
        for _ in range(1000):
            z = step(z, x, y)
        return z

    x, y = np.linspace(0.5, 1, 500), np.linspace(0.9, 1.1, 500)
    results, old = [], threading.stack_size(4 << 20)
    try:
        thread = threading.Thread(target=lambda: results.append(pyxla.jit(f)(x, y)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(old)
    assert np.array_equal(results[0], f(x, y))
