"""What one kernel holds: launches, workspace and compiles of plans, by the public counters."""
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
    c = plan(f, arr(400, 300))
    assert (c.launches, c.workspace_bytes) == (1, 0)


@pytest.mark.parametrize("f", [lambda x: (x.sum(), x.max(), x.min()), lambda x: x.mean(), lambda x: x.std()])
def test_reductions_of_everything_share_a_pass(f):
    c = plan(f, arr(1000, 1000))
    assert c.workspace_bytes < 8192 and c.launches <= 4


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (1, 2), (0, 2), (0, 1, 2)])
def test_no_reduction_has_a_temporary_of_the_inputs_size(axis):
    assert plan(lambda x: x.sum(axis), arr(60, 70, 80)).workspace_bytes < 60 * 70 * 80 * 4 // 16


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


def test_update_in_place_copies_nothing():
    def f(a):
        a[3] = 1
        a[100:-100] *= 2
        a += 1

    c = plan(f, arr(100000))
    assert c.workspace_bytes == 0 and c.peak_bytes == 0


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


def test_new_strides_do_not_trace():
    f = pyxla.jit(softmax)
    f(arr(50, 60))
    f(arr(60, 50).T)
    f(arr(100, 60)[::2])
    assert f.cache_info().traces == 1
