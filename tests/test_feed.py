"""Rows that a product takes as they come: norms, gathered rows and joined pieces are in no memory but the product's own tile."""
import os
import subprocess
import sys

import numpy as np
import pytest

import pyxla


def normal(shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def layer_norm(x, g, b):
    m = x.mean(-1, keepdims=True)
    d = x - m
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b


def rms_norm(x, g):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


def cell(x, h, c, w, b):
    i, f, g, o = np.split(np.concatenate([x, h], axis=-1) @ w + b, 4, axis=-1)
    c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
    return np.tanh(c) / (1 + np.exp(-o)), c


def wide(a):
    return a.astype("float64") if a.dtype == "float32" else a


def check(f, *args, launches=None, fed=True):
    """f, jitted, within k * eps of the product of absolute values (all of about 1 here); where `fed`, no temporary is written by a launch of its own."""
    want, jitted = f(*map(wide, args)), pyxla.jit(f)
    got, plan = jitted(*args), jitted.lower(*args).compile()
    for w, g in zip(want if isinstance(want, tuple) else (want,), got if isinstance(got, tuple) else (got,)):
        eps = np.finfo(g.dtype).eps
        np.testing.assert_allclose(g, w, rtol=200 * eps, atol=200 * eps * (1 + np.abs(w).max(initial=0)))
    assert launches is None or plan.launches == launches
    outputs = sum(-(-g.nbytes // 64) * 64 for g in (got if isinstance(got, tuple) else (got,)))
    assert not fed or plan.peak_bytes < outputs + 2048, (plan.peak_bytes, outputs)          # indices, at most


# Shapes with a right operand that is read in place, so that any temporary would be the left one.

@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [(16,), (33,), (200,), (3, 40)], ids=str)
def test_norms(rows, dtype):
    x, g, b, w = normal((*rows, 200), dtype), normal(200, dtype, 1), normal(200, dtype, 2), normal((200, 300), dtype, 3)
    check(lambda x, g, b, w: layer_norm(x, g, b) @ w, x, g, b, w, launches=1)
    check(lambda x, g, w: rms_norm(x, g) @ w, x, g, w, launches=1)
    check(lambda x, g, b, w: np.maximum(layer_norm(x, g, b) @ w + 1, 0), x, g, b, w, launches=1)
    check(lambda x, g, b, w: layer_norm(layer_norm(x, g, b) @ w[:, :200], g, b), x, g, b, w, launches=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("parts", [(100, 150), (64, 64, 64), (1, 300), (300, 7)], ids=str)
@pytest.mark.parametrize("rows", [(16,), (100,), (3, 40)], ids=str)
def test_pieces(parts, rows, dtype):
    xs, w = [normal((*rows, n), dtype, n) for n in parts], normal((sum(parts), 120), dtype, 5)
    check(lambda w, *xs: np.concatenate(xs, axis=-1) @ w, w, *xs, launches=1)
    check(lambda w, *xs: np.concatenate([np.exp(x * 0.5) for x in xs], axis=-1) @ w + 1, w, *xs, launches=1)


def test_lstm_cell():
    x, h, c = normal((16, 96)), normal((16, 128), seed=1), normal((16, 128), seed=2)
    check(cell, x, h, c, normal((224, 512), seed=3) / 8, normal(512, seed=4), fed=False)
    plan = pyxla.jit(lambda x, h, w, b: np.tanh(np.concatenate([x, h], axis=-1) @ w + b)).lower(x, h, normal((224, 512)), normal(512)).compile()
    assert plan.launches == 1 and plan.peak_bytes == 16 * 512 * 4 and "dot" in plan.plan


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gathered_rows(dtype):
    table, w = normal((500, 100), dtype), normal((100, 130), dtype, 1)
    index = np.random.default_rng(2).integers(-500, 500, 140)
    odd = index[:70] + 500                                       # of another size than the columns: its remainder is computed once, before
    check(lambda e, i, w: e[i] @ w, table, index, w, launches=2)                    # a check of the indices, and the product
    check(lambda e, i, w: np.maximum(e[i] * 2 - 1, 0) @ w, table, index, w, fed=False)      # computed while it is packed
    check(lambda e, i, w: e[i] @ w, table, index.reshape(2, 70), w, launches=2)
    check(lambda e, i, w: layer_norm(e[i], 1, 0) @ w, table, index, w, launches=2)
    check(lambda e, i, w: e[i % 500] @ w, table, odd, w, launches=2, fed=False)


def test_long_products():
    """The right operand is packed: blocks of columns run inside blocks of rows, or find their rows again."""
    x, g, b = normal((600, 256)), normal(256, seed=1), normal(256, seed=2)
    w = normal((256, 1536), seed=3) / 16
    fed = pyxla.jit(lambda x, g, b, w: layer_norm(x, g, b) @ w)
    np.testing.assert_allclose(fed(x, g, b, w), layer_norm(*map(wide, (x, g, b))) @ wide(w), rtol=1e-4, atol=1e-4)
    plan = fed.lower(x, g, b, w).compile()
    assert plan.launches == 2 and plan.peak_bytes < 600 * 1536 * 4 + 1.2 * w.nbytes
    check(lambda x, i, w: x[i % 600] @ w, x, np.arange(700)[::-1].copy(), w, fed=False)
    check(lambda x, y, w: np.concatenate([x, y], axis=-1) @ w, x[:, :100], x[:, 100:], w, fed=False)
    check(lambda x, g, b, w: layer_norm(x, g, b) @ w, normal((40, 3000)), normal(3000, seed=1), normal(3000, seed=2), normal((3000, 500), seed=3) / 50, fed=False)


def test_what_is_read_again():
    """Rows that are a result, that two products read, or that the right operand is."""
    x, g, b, w = normal((60, 200)), normal(200, seed=1), normal(200, seed=2), normal((200, 100), seed=3)

    def result(x, g, b, w):
        y = layer_norm(x, g, b)
        return y, y @ w

    def twice(x, g, b, w):
        y = layer_norm(x, g, b)
        return y @ w, y @ (w * 2)

    def gram(x, g, b, w):
        y = layer_norm(x, g, b)
        return y @ y.T

    for f in (result, twice, gram, lambda x, g, b, w: w.T @ layer_norm(x, g, b).T):
        check(f, x, g, b, w, fed=False)


def test_arguments_that_are_written():
    """Nothing is read after it was written over."""
    x, g, b, w = normal((90, 90)), normal(90, seed=1), normal(90, seed=2), normal((90, 90), seed=3)

    def into(x, g, b, w):
        x[...] = layer_norm(x, g, b) @ w
        return g + 1

    def before(x, g, b, w):
        y = layer_norm(x, g, b)
        x += 1
        return y @ w

    def rows(x, g, b, w):
        x[10:50] = np.concatenate([x[:40, :30], x[20:60, 30:]], axis=-1) @ w
        return b * 2

    for f in (into, before, rows):
        mine, theirs = x.copy(), x.astype("float64")
        want, got = f(theirs, wide(g), wide(b), wide(w)), pyxla.jit(f)(mine, g, b, w)
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_attention_of_norms_and_pieces():
    """The rows of queries are normalised, or joined of rotated halves, before both products."""
    q, k, v, g = normal((2, 100, 64)), normal((2, 120, 64), seed=1), normal((2, 120, 40), seed=2), normal(64, seed=3)

    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def rotated(q, g):
        return np.concatenate([q[..., :32] * g[:32] - q[..., 32:] * g[32:], q[..., 32:] * g[:32] + q[..., :32] * g[32:]], axis=-1)

    for f in (rms_norm, rotated):
        check(lambda q, k, v, g, f=f: softmax(f(q, g) @ k.swapaxes(-1, -2) * 0.125) @ v, q, k, v, g, fed=False)


def test_odd_shapes():
    for m, k, n in ((0, 100, 50), (1, 3000, 50), (2, 2500, 1), (5000, 2, 3), (300, 100, 1), (40, 9000, 20)):
        x, y, w = normal((m, k)), normal((m, 3), seed=1), normal((k + 3, n), seed=2) / np.float32(np.sqrt(k))
        check(lambda x, y, w: np.concatenate([x, y], axis=-1) @ w, x, y, w, fed=False)
        check(lambda x, w: rms_norm(x, 1) @ w, x, w[:k], fed=False)


def test_threads_give_the_same_bits():
    args = normal((600, 256)), normal(256, seed=1), normal(256, seed=2), normal((256, 1536), seed=3)
    one, two = (pyxla.jit(lambda x, g, b, w: layer_norm(x, g, b) @ w, threads=n)(*args) for n in (1, 2))
    assert one.tobytes() == two.tobytes()


LEVELS = """
import test_feed as t
for dtype in ("float32", "float64"):
    t.test_norms((33,), dtype), t.test_pieces((100, 150), (3, 40), dtype), t.test_gathered_rows(dtype)
t.test_arguments_that_are_written()
"""


@pytest.mark.parametrize("env", [{"PYXLA_CPU": "sse2"}, {"PYXLA_CPU": "avx2"}, {"PYXLA_BACKEND": "interp"}, {"PYXLA_CHECK": "1"}], ids=str)
def test_levels(env):
    here = os.path.dirname(os.path.abspath(__file__))
    subprocess.run([sys.executable, "-c", LEVELS], env=os.environ | env | {"PYTHONPATH": os.pathsep.join([here, os.path.dirname(os.path.dirname(pyxla.__file__))])}, check=True)


@pytest.mark.parametrize("place", [np.s_[:1], np.s_[:3], np.s_[2:4], np.s_[:, :2], np.s_[:, 3:], np.s_[:, :, :5], np.s_[:2, :, :5], np.s_[:1, :3]], ids=str)
@pytest.mark.parametrize("shape", [(33, 8, 17), (3, 7, 5, 40), (100, 64, 1), (90, 60)], ids=str)
def test_stores_into_the_first_rows_or_batches(shape, place):
    """A piece that begins where the operand does, but has fewer rows or batches: they are not each block's."""
    place = place if isinstance(place, tuple) else (place,)
    place = place[:len(shape)]
    x, w, m = normal(shape, "float64"), normal((shape[-1], 9), "float64", 1), np.float64(3.5)

    def f(x, w, m):
        a, b, c = np.zeros(shape), x * 2, np.full(shape, m)
        a[...] = m
        a[place] = m * 2
        b[place] = m
        c[place] = x[place] + 1
        return a @ w, b @ w, c @ w

    for got, want in zip(pyxla.jit(f)(x, w, m), f(x, w, m)):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form,fed", [("np.maximum(x, 0) @ w", True), ("np.exp(x - b) @ w", True), ("(x * x[:, :1] + 1) @ w", True), ("np.maximum(x[::-1], 0) @ w", False),
                                      ("np.maximum(y.T, 0) @ w", False), ("np.maximum(y, 0).T @ w", False), ("np.maximum(x[:, ::-1], 0) @ w", False)])
def test_rows_computed_element_by_element_are_in_no_other_memory(form, fed):
    """Where what they are computed from lies along them; else they are packed, across memory but once."""
    r = np.random.default_rng(3)
    x, y, w, b = (r.standard_normal(s).astype("float32") for s in ((512, 128), (128, 512), (128, 64), (128,)))
    f = eval(f"lambda x, y, w, b: {form}")
    c = pyxla.jit(f).lower(x, y, w, b).compile()
    assert (c.workspace_bytes == 0) == fed and (c.launches == 1) == fed
    np.testing.assert_allclose(pyxla.jit(f)(x, y, w, b), f(x, y, w, b), rtol=1e-4, atol=1e-3)
