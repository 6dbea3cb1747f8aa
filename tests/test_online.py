"""Softmax by blocks of a row between two products: rows too long for the cache are never whole in memory, and nobody can tell but for rounding."""
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import pyxla

L2 = pyxla._core.system_info()["caches"][1]               # the sizes below are made for a megabyte


def normal(shape, dtype, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def scores(q, k):
    return q @ k.swapaxes(-1, -2) * q.dtype.type(0.3)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def divided_after(x, v):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e @ v / e.sum(-1, keepdims=True)


def log_sum(x, v):
    m = x.max(-1, keepdims=True)
    return np.exp(x - (m + np.log(np.exp(x - m).sum(-1, keepdims=True)))) @ v


def guarded(x, v):
    m = x.max(-1, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(m), m, x.dtype.type(0)))
    s = e.sum(-1, keepdims=True)
    return e / np.where(s == 0, x.dtype.type(1), s) @ v


def one_more(x, v):
    m = x.max(-1, keepdims=True)
    e = np.exp(x - m)
    return e / (np.exp(-m) + e.sum(-1, keepdims=True)) @ v


def sums_too(x, v):
    m = x.max(-1, keepdims=True)
    e = np.exp(x - m)
    s = e.sum(-1, keepdims=True)
    return e / s @ v, m + np.log(s), m


SPELLINGS = [lambda x, v: softmax(x) @ v, divided_after, log_sum, guarded, one_more, sums_too]

MASKS = {
    "none": lambda x, b, m: x,
    "data": lambda x, b, m: np.where(m, x, x.dtype.type(-1e9)),
    "infinite data": lambda x, b, m: np.where(m, x, x.dtype.type(-np.inf)),
    "bias": lambda x, b, m: x + b,
    "causal": lambda x, b, m: np.where(np.tril(np.ones(x.shape[-2:], bool)), x, x.dtype.type(-np.inf)),
    "causal, added": lambda x, b, m: x + np.where(np.tri(x.shape[-2], x.shape[-1], dtype=bool), x.dtype.type(0), x.dtype.type(-1e9)),
    "window": lambda x, b, m: np.where(abs(np.arange(x.shape[-2])[:, None] - np.arange(x.shape[-1])) < 40, x, x.dtype.type(-np.inf)),
}


def of_blocks(f, *args):
    """Whether the plan has a number per row in scratch, of rows that go by blocks."""
    return " ordered" in f.lower(*args).compile().plan


def check(f, *args, rtol=None):
    """f, jitted, against f in float64."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want, got = f(*(a.astype("float64") if a.dtype == "float32" else a for a in args)), pyxla.jit(f)(*args)
    for w, g in zip(want if isinstance(want, tuple) else (want,), got if isinstance(got, tuple) else (got,)):
        assert np.array_equal(np.isnan(w), np.isnan(g)) and np.array_equal(np.isinf(w), np.isinf(g))
        finite = np.isfinite(w)
        np.testing.assert_allclose(g[finite], w[finite], rtol=rtol or (2e-5 if g.dtype == "float32" else 1e-13), atol=(2e-5 if g.dtype == "float32" else 1e-13))


def operands(dtype, t, u, d=20, batch=(2,)):
    q, k, v = normal((*batch, t, 16), dtype, 1), normal((*batch, u, 16), dtype, 2), normal((*batch, u, d), dtype, 3)
    bias, mask = normal((t, u), dtype, 4), np.random.default_rng(5).random((t, u)) < 0.7
    mask[:, -1] = True
    return q, k, v, bias, mask


@pytest.mark.parametrize("spelling", SPELLINGS, ids=["plain", "divided after", "log_sum", "guarded", "one more", "sums too"])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_spellings_and_masks(spelling, mask, dtype):
    args = operands(dtype, 70, 1100 if dtype == "float32" else 600)

    def f(q, k, v, b, m):
        return spelling(MASKS[mask](scores(q, k), b, m), v)

    check(f, *args)
    assert of_blocks(pyxla.jit(f), *args) or L2 > 1 << 20


@pytest.mark.parametrize("shape", [(64, 1025, 64), (65, 1536, 3), (130, 1600, 130), (700, 1030, 33), (20, 4000, 16), (3, 23000, 8)], ids=str)
def test_shapes(shape):
    t, u, d = shape
    args = operands("float32", t, u, d, ())[:3]
    f = lambda q, k, v: softmax(scores(q, k)) @ v
    check(f, *args)
    assert of_blocks(pyxla.jit(f), *args) or L2 > 1 << 20


def test_rows_that_fit_stay_whole():
    for t, u in ((200, 1024), (5, 8000), (1, 8000)):
        assert not of_blocks(pyxla.jit(lambda q, k, v: softmax(scores(q, k)) @ v), *operands("float32", t, u)[:3]) or L2 < 1 << 20


def test_heads_and_layouts():
    """Heads split off one array, keys that are shared, values backwards and transposed."""
    def f(x, w):
        b, t, _ = x.shape
        q, k, v = (np.swapaxes(y.reshape(b, t, 4, -1), 1, 2) for y in np.split(x @ w, 3, axis=-1))
        y = softmax(np.where(np.tri(t, dtype=bool), scores(q, k), x.dtype.type(-np.inf))) @ v
        return x + np.swapaxes(y, 1, 2).reshape(b, t, -1)

    x, w = normal((1, 1100, 32), "float32", 1), normal((32, 96), "float32", 2) / np.float32(6)
    check(f, x, w)
    assert of_blocks(pyxla.jit(f), x, w) or L2 > 1 << 20
    q, k, v = operands("float64", 70, 600)[:3]
    for values in (v[:, ::-1], np.asfortranarray(v), v[..., ::-2], np.broadcast_to(v[:, :1], v.shape)):
        check(lambda q, k, v: softmax(scores(q, k)) @ v, q, k, values)
    check(lambda q, k, v: softmax(scores(q, k[:1])) @ v[:1], q, k, v)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [0, 300, 599])
@pytest.mark.parametrize("which", "qkv")
def test_not_finite(value, where, which):
    args = dict(zip("qkv", operands("float64", 600, 600)[:3]))
    args[which][1, where, 5] = value
    for mask in ("none", "causal"):
        check(lambda q, k, v: softmax(MASKS[mask](scores(q, k), None, None)) @ v, *args.values(), rtol=1e-11)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("spelling", SPELLINGS, ids=["plain", "divided after", "log_sum", "guarded", "one more", "sums too"])
def test_rows_not_finite(spelling, value):
    """Rows that are all -inf, start with blocks of -inf, hold one inf, end with NaN."""
    q, k, v, bias, _ = operands("float64", 70, 1300)
    bias[3, :] = value
    bias[4, :900] = value
    bias[5, 700] = value
    bias[6, -1] = value
    bias[7, :-1] = value
    check(lambda q, k, v, b: spelling(scores(q, k) + b, v), q, k, v, bias)


def test_great_scores_and_values():
    """Maxima that rise from block to block, and values whose sum overflows: their mean does not."""
    q, k, v, bias, _ = operands("float32", 70, 2000)
    rising = np.float32(0.05) * np.arange(2000, dtype="float32") * np.where(np.arange(70) % 2, 1, -1).astype("float32")[:, None]
    f = lambda q, k, v, b: softmax(scores(q, k) + b) @ v
    check(f, q, k, v, bias + rising, rtol=1e-4)
    for value in (3e38, 1e-36):
        got = pyxla.jit(f)(q, k, np.full_like(v, value), bias)
        np.testing.assert_allclose(got, np.full_like(got, value), rtol=1e-5)


def test_weights_times_data():
    """Dropout, and a mask that multiplies."""
    q, k, v, _, keep = operands("float64", 70, 600)

    def dropped(q, k, v, keep):
        return softmax(scores(q, k)) * keep / 0.7 @ v

    def multiplied(q, k, v, keep):
        x = scores(q, k)
        e = np.exp(x - x.max(-1, keepdims=True)) * keep
        return e / e.sum(-1, keepdims=True) @ v

    for f in (dropped, multiplied):
        check(f, q, k, v, keep)
        assert of_blocks(pyxla.jit(f), q, k, v, keep) or L2 > 1 << 20


def test_what_is_no_such_softmax():
    """All weights are a result, they are cubed, the maximum is another one's, there is none: rows stay whole."""
    q, k, v = operands("float64", 70, 600)[:3]

    def weights_too(x, v):
        p = softmax(x)
        return p, p @ v

    def cubed(x, v):
        return softmax(x) ** 3 @ v

    def other_maximum(x, v):
        e = np.exp(x * 0.5 - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v

    def no_maximum(x, v):
        e = np.exp(x)
        return e / e.sum(-1, keepdims=True) @ v

    for g in (weights_too, cubed, other_maximum, no_maximum):
        f = lambda q, k, v, g=g: g(scores(q, k), v)
        check(f, q, k, v)
        assert not of_blocks(pyxla.jit(f), q, k, v)


def test_threads_give_the_same_bits():
    q, k, v = operands("float32", 300, 1100, 64)[:3]
    f = lambda q, k, v: softmax(MASKS["causal"](scores(q, k), None, None)) @ v
    one, two = (pyxla.jit(f, threads=n)(q, k, v) for n in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_memory_grows_with_the_length():
    """Scratch is bounded, and temporaries hold the keys, turned."""
    scratch = []
    for t in (2048, 8192, 32768):
        plan = pyxla.jit(lambda q, k, v: softmax(scores(q, k)) @ v).lower(*[np.zeros((2, t, 64), "float32")] * 3).compile()
        scratch.append(max(int(n) for n in re.findall(r"scratch (\d+)", plan.plan)))
        assert plan.peak_bytes < 2.5 * 2 * t * 64 * 4
    assert max(scratch) < 300_000 or L2 > 1 << 20


LEVELS = """
import test_online as t
for mask in ("none", "infinite data", "causal"):
    t.test_spellings_and_masks(t.SPELLINGS[0], mask, "float32")
t.test_rows_not_finite(t.SPELLINGS[5], -float("inf"))
t.test_shapes((65, 1536, 3))
t.test_heads_and_layouts()
"""


@pytest.mark.parametrize("env", [{"PYXLA_CPU": "sse2"}, {"PYXLA_CPU": "avx2"}, {"PYXLA_BACKEND": "interp"}, {"PYXLA_CHECK": "1"}, {"PYXLA_CACHES": "32768,65536"}], ids=str)
def test_levels(env):
    """Lower instruction levels, the interpreter, bounds that are checked, and blocks of a few columns."""
    here = os.path.dirname(os.path.abspath(__file__))
    subprocess.run([sys.executable, "-c", LEVELS], env=os.environ | env | {"PYTHONPATH": os.pathsep.join([here, os.path.dirname(os.path.dirname(pyxla.__file__))])}, check=True)


