"""matmul, dot and einsum over sizes, dtypes, layouts and batches."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import random_products
from checking import DTYPES, FLOATS, check, sample

import pyxla

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 64, 65, 100]


def close(dtype, k):
    return {"rtol": (1e-6 if dtype == "float32" else 3e-15) * max(4, k ** 0.5)} if dtype in FLOATS else {}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_square(n, dtype):
    check(lambda a, b: a @ b, sample((n, n), dtype, 1), sample((n, n), dtype, 2), **close(dtype, n))


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 9, 5), (5, 9, 1), (1, 1, 8), (8, 1, 1), (3, 200, 2), (200, 3, 2), (2, 3, 200), (129, 257, 65), (5, 0, 5), (0, 3, 4), (3, 4, 0)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_oblong(shape, dtype):
    m, k, n = shape
    check(lambda a, b: a @ b, sample((m, k), dtype, 1), sample((k, n), dtype, 2), **close(dtype, k))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    a, b, v = sample((6, 7), dtype, 1), sample((7, 5), dtype, 2), sample(7, dtype, 3)
    check(lambda a, b, v: (a @ b, a @ v, v @ b, v @ v, np.dot(a, b), np.inner(a, v), np.vecdot(a, v)), a, b, v, **close(dtype, 7))


@pytest.mark.parametrize("other", DTYPES)
def test_promotion(other):
    check(lambda a, b: a @ b, sample((4, 5), "float32", 1), sample((5, 3), other, 2), rtol=1e-5)
    check(lambda a, b: a @ b, sample((4, 5), "int8", 1), sample((5, 3), other, 2), rtol=1e-5)


@pytest.mark.parametrize("left", ["c", "t", "strided", "reversed"])
@pytest.mark.parametrize("right", ["c", "t", "strided", "reversed"])
def test_layouts(left, right):
    views = {"c": lambda x: x, "t": lambda x: np.ascontiguousarray(x.T).T, "strided": lambda x: np.repeat(x, 2, 1)[:, ::2],
             "reversed": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]}
    a, b = views[left](sample((33, 40), "float64", 1)), views[right](sample((40, 29), "float64", 2))
    check(lambda a, b: a @ b, a, b, **close("float64", 40))
    check(lambda a, b: (a.T @ b.T if a.shape[0] == b.shape[1] else a @ b) + 1, a, b, **close("float64", 40))
    check(lambda a: a @ a.T, a, **close("float64", 40))


@pytest.mark.parametrize("shapes", [((3, 4, 5), (5, 6)), ((3, 4, 5), (3, 5, 6)), ((4, 5), (3, 5, 6)), ((2, 1, 4, 5), (3, 5, 6)), ((0, 4, 5), (0, 5, 2)), ((3, 4, 5), (5,)),
                                    ((5,), (3, 5, 2)), ((2, 3, 16, 8), (2, 3, 8, 16))], ids=str)
def test_batches(shapes):
    check(lambda a, b: a @ b, sample(shapes[0], "float64", 1), sample(shapes[1], "float64", 2), **close("float64", 8))


def test_prologue_and_epilogue():
    def f(x, w, b, scale):
        h = np.maximum((x * scale - 0.5) @ w + b, 0)
        return h, h.sum(0), h.max(1), np.exp(h - h.max(-1, keepdims=True))

    check(f, sample((50, 64), "float64", 1), sample((64, 33), "float64", 2), sample(33, "float64", 3), 0.25, rtol=1e-13)


def test_two_layers_and_their_gradient():
    def step(x, y, w1, b1, w2, b2):
        h = np.tanh(x @ w1 + b1)
        p = h @ w2 + b2
        p = np.exp(p - p.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        d = (p - y) / len(x)
        dh = (d @ w2.T) * (1 - h * h)
        w2 -= 0.1 * (h.T @ d)
        b2 -= 0.1 * d.sum(0)
        w1 -= 0.1 * (x.T @ dh)
        b1 -= 0.1 * dh.sum(0)
        return -(y * np.log(p)).sum() / len(x)

    y = np.eye(10)[np.arange(32) % 10]
    check(step, sample((32, 64), "float64", 1), y, sample((64, 20), "float64", 2) / 8, np.zeros(20), sample((20, 10), "float64", 3) / 8, np.zeros(10), rtol=1e-12)


def test_attention():
    def f(q, k, v):
        s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        s = np.exp(s - s.max(-1, keepdims=True))
        return (s / s.sum(-1, keepdims=True)) @ v

    check(f, *[sample((2, 3, 17, 8), "float64", k) for k in (1, 2, 3)], rtol=1e-13)


def test_nan_and_inf_spread_as_in_numpy():
    a, b = np.ones((5, 6)), np.ones((6, 4))
    a[1, 2], a[3, 3], b[0, 1] = np.nan, np.inf, -np.inf
    check(lambda a, b: a @ b, a, b)


def test_same_bits_on_every_call():
    f = pyxla.jit(lambda a, b: a @ b)
    a, b = sample((65, 130), "float32", 1), sample((130, 70), "float32", 2)
    assert len({f(a, b).tobytes() for _ in range(5)}) == 1
    assert f(a.copy(), np.asfortranarray(b)).shape == (65, 70)


def test_small_products_in_a_long_function():
    def f(a):
        for _ in range(10):
            a = a @ a * 0.5 + 0.1
        return a

    check(f, sample((3, 3), "float64", 1) / 3, rtol=1e-13)


# ---- packed operands: transposed ones, large ones; blocks of k beyond 512 ----

VIEWS = {"c": lambda x: x, "t": lambda x: np.ascontiguousarray(np.swapaxes(x, -1, -2)).swapaxes(-1, -2), "strided": lambda x: np.repeat(x, 2, -1)[..., ::2],
         "reversed": lambda x: np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1], "rows": lambda x: np.repeat(x, 3, -2)[..., ::3, :]}


def bounded(f, a, b, *rest, k):
    """jit(f) against f of float64, within k * eps times the absolute product, where f is a @ b with what raises no magnitudes."""
    got = pyxla.jit(f)(a, b, *rest)
    want = f(a.astype("float64"), b.astype("float64"), *(x.astype("float64") for x in rest))
    size = np.abs(a.astype("float64")) @ np.abs(b.astype("float64")) + sum(np.abs(x).max(initial=0) for x in rest)
    assert got.dtype == a.dtype and got.shape == want.shape
    assert (np.abs(got - want) <= (k + 4) * np.finfo(a.dtype).eps * size).all()


@pytest.mark.parametrize("seed", range(24))
def test_random_products(seed):
    rng = np.random.default_rng(seed)
    m, n, k = (int(rng.choice([1, 2, 3, 5, 8, 13, 16, 17, 31, 48, 70, 101])) for _ in range(3))
    k = int(rng.choice([k, k, 530, 1100]))
    dtype, batch = rng.choice(FLOATS), [(), (3,), (2, 3)][rng.integers(3)]
    a = VIEWS[rng.choice(list(VIEWS))](sample((*batch[rng.integers(2):], m, k), dtype, seed))
    b = VIEWS[rng.choice(list(VIEWS))](sample((*batch[rng.integers(2):], k, n), dtype, seed + 100))
    c = sample(n, dtype, seed + 200)
    bounded(lambda a, b: a @ b, a, b, k=k)
    bounded(lambda a, b, c: np.maximum(a @ b + c, 0), a, b, c, k=k)


@pytest.mark.parametrize("shape", [(64, 530, 400), (70, 1000, 300), (130, 40, 2100), (513, 33, 65), (40, 700, 33), (16, 16, 16), (24, 47, 31), (50, 70, 17)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
def test_packed(shape, dtype):
    m, k, n = shape
    a, b, c = sample((m, k), dtype, 1), sample((k, n), dtype, 2), sample(n, dtype, 3)
    for x in (a, np.asfortranarray(a)):
        for y in (b, np.asfortranarray(b), b[::-1, ::-1]):
            check(lambda a, b, c: (a @ b, np.maximum(a @ b + c, 0)), x, y, c, calls=1, **close(dtype, k))


def test_packed_with_reductions_of_rows():
    def f(x, w, b):
        h = np.maximum(x @ w + b, 0)
        e = np.exp(h - h.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True), h.argmax(1)

    for m, k, n in [(70, 600, 500), (33, 20, 1300)]:
        check(f, sample((m, k), "float64", 1), np.asfortranarray(sample((k, n), "float64", 2)) / 20, sample(n, "float64", 3), rtol=1e-13)


def test_bits_do_not_depend_on_threads():
    def f(a, b, c):
        return a @ b, np.maximum(a @ b.T + c, 0), a.T @ b, (a @ b).sum(1)

    args = sample((300, 300), "float32", 1), sample((300, 300), "float32", 2), sample(300, "float32", 3)
    results = []
    for threads in (1, 2, 5):
        pyxla.set_num_threads(threads)
        results.append([r.tobytes() for r in pyxla.jit(f)(*args)])
    pyxla.set_num_threads(None)
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("dtype", FLOATS)
def test_large_matrices_times_vectors(dtype):
    def f(a, x, y):
        return a @ x, y @ a, np.maximum(a @ x + y, 0), y @ a * 2 - x, (y @ a).sum(), (a @ x).max(), np.exp(a @ x / 100), a.T @ y, x @ a.T

    a, x, y = sample((300, 257), dtype, 1), sample(257, dtype, 2), sample(300, dtype, 3)
    for m in (a, np.asfortranarray(a), a[::-1, ::-1], np.repeat(a, 2, 1)[:, ::2]):
        check(f, m, x, y, rtol=1e-5 if dtype == "float32" else 1e-13)
    check(lambda a, x: a @ x[..., None], np.stack([a, a + 1]), np.stack([x, 2 * x]), rtol=1e-5 if dtype == "float32" else 1e-13)
    check(lambda a, x: (x[:, None, :] @ a).argmax(-1), np.stack([a.T, a.T + 1]), np.stack([x, 2 * x]))


@pytest.mark.parametrize("m", [2, 5, 17, 31, 33, 40])
def test_few_rows(m):
    a, b, c = sample((m, 200), "float32", 1), sample((200, 1500), "float32", 2), sample(1500, "float32", 3)
    check(lambda a, b, c: (a @ b, np.maximum(a @ b + c, 0), b.T @ a.T, (b.T @ a.T).sum(0)), a, b, c, **close("float32", 200))


@pytest.mark.parametrize("size", [(5, 7, 3), (64, 128, 10), (33, 70, 129), (300, 700, 260)], ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_finished_into_the_argument_it_updates(size, transposed):
    """As gradients are: the weights are read at the very element that is written, so no copy is made."""
    m, k, n = size
    x, w, v = sample((k, m) if transposed else (m, k), "float64", 1), sample((m, n), "float64", 3), sample((m, n), "float64", 4)
    g = sample((k, n), "float64", 2)

    def update(w, v, x, g):
        gradient = (x.T if transposed else x) @ g
        v *= 0.9
        v -= 0.1 * gradient
        w += v

    copies = [w.copy(), v.copy()]
    update(*copies, x, g)
    step = pyxla.jit(update)
    plan = step.lower(w, v, x, g).compile()
    assert plan.launches <= 3                                         # two that pack, and the product
    assert plan.peak_bytes < (m * k + k * n + 2 * 64 * 1024) * 8      # packed operands, no second w or v
    step(w, v, x, g)
    np.testing.assert_allclose([w, v], copies, rtol=1e-13, atol=1e-12)


def test_a_product_of_what_it_updates_reads_the_old_contents():
    def update(w, x):
        w += x @ w
        return w.sum()

    w, x = sample((40, 40), "float64", 1), sample((40, 40), "float64", 2)
    expected = w.copy()
    total = update(expected, x)
    assert np.isclose(pyxla.jit(update)(w, x), total)
    np.testing.assert_allclose(w, expected, rtol=1e-12)


# ---- attention: a product, its softmax by rows, a product, in one kernel whose tiles are rows ----

def softmax_rows(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q, k, v, *mask):
    s = q @ k.swapaxes(-1, -2) * 0.125
    return softmax_rows(s + mask[0] if mask else s) @ v


def launches(f, *args):
    return pyxla.jit(f).lower(*args).compile().launches


@pytest.mark.parametrize("shape", [(6, 8, 5), (70, 90, 33), (130, 40, 64), (33, 600, 3), (17, 1, 4)], ids=str)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
def test_attention_shapes(shape, batch):
    t, u, d = shape
    q, k, v, bias = (sample(s, "float64", i) for i, s in enumerate([(*batch, t, 16), (*batch, u, 16), (*batch, u, d), (t, u)]))
    check(attend, q, k, v, rtol=1e-13)
    check(attend, q, k, v, bias, rtol=1e-13)
    check(lambda q, k, v: attend(q, k, v) * 2 + 1, q, k, v, rtol=1e-13)
    check(attend, q, *(np.ascontiguousarray(x[..., ::-1])[..., ::-1] for x in (k, v)), rtol=1e-13)
    check(lambda q, k, v: (softmax_rows(q @ k.swapaxes(-1, -2)), attend(q, k, v), softmax_rows(q @ k.swapaxes(-1, -2)) @ v), q, k, v, rtol=1e-13)


def test_causal_attention_and_heads_in_one_array():
    def f(x, w, mask):
        b, t, width = x.shape
        q, k, v = (np.swapaxes(y.reshape(b, t, 4, -1), 1, 2) for y in np.split(x @ w, 3, axis=-1))
        s = np.where(mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(8.0), -np.inf)
        return x + np.swapaxes(softmax_rows(s) @ v, 1, 2).reshape(b, t, width)

    check(f, sample((2, 50, 32), "float64", 1), sample((32, 96), "float64", 2) / 6, np.tri(50, dtype=bool), rtol=1e-13)
    check(lambda q, k, v: softmax_rows(q @ k[:, :, None].swapaxes(-1, -2)) @ v[:, :, None], sample((2, 3, 4, 20, 8), "float64", 1),
          sample((2, 3, 30, 8), "float64", 2), sample((2, 3, 30, 5), "float64", 3), rtol=1e-13)                     # heads that share keys


def test_attention_into_an_argument():
    def f(q, k, v):
        q[...] = attend(q, k, v)
        return k + 1

    check(f, *(sample((2, 40, 16), "float64", i) for i in range(3)), rtol=1e-13)


def test_attention_needs_no_square_in_memory():
    args = [np.zeros((2, 4000, 16), "float32")] * 3
    plan = pyxla.jit(attend).lower(*args).compile()
    assert plan.launches == 2 and plan.peak_bytes < 4 * 2 * 4000 * 16 * 4
    assert launches(attend, *[np.zeros((2, 3, 100, 16))] * 3) == 2


# ---- operands computed while they are packed ----

PROLOGUES = {
    "plain": lambda x, r: x, "exp": lambda x, r: np.exp(x), "scaled": lambda x, r: x * r - 1, "turned": lambda x, r: np.exp(x.T * np.float32(0.5)).T,
    "where": lambda x, r: np.where(x > 0, x, r / 4), "cast": lambda x, r: x.astype("float16").astype("float32"), "half": lambda x, r: (x[::-1, ::-1] / 2)[::-1],
    "counted": lambda x, r: x + np.arange(x.shape[-1], dtype="float32") / 64, "gathered": lambda x, r: x[np.arange(len(x)) // 2] * r,
    "stats": lambda x, r: (x - x.mean(0)) / (1 + x.std(0)),
}


@pytest.mark.parametrize("left,right", [(a, list(PROLOGUES)[(i + by) % len(PROLOGUES)]) for i, a in enumerate(PROLOGUES) for by in (0, 3)])
def test_operands_computed_while_packed(left, right):
    p, q = PROLOGUES[left], PROLOGUES[right]

    def f(x, r, y, s):
        return p(x, r) @ q(y, s)

    for m, k, n in [(70, 90, 80), (5, 1100, 40), (33, 600, 500)]:
        x, r, y, s = sample((m, k), "float32", 1), sample(k, "float32", 2), sample((k, n), "float32", 3), sample(n, "float32", 4)
        a, b = p(x, r).astype("float64"), q(y, s).astype("float64")
        for u, v in ((x, y), (np.asfortranarray(x), np.asfortranarray(y))):
            got = pyxla.jit(f)(u, r, v, s)
            assert got.dtype == np.float32
            assert (np.abs(got - a @ b) <= (k + 30) * np.finfo("float32").eps * (np.abs(a) @ np.abs(b) + 1e-3)).all()


def test_computed_operands_of_stacks():
    def f(x, w, s, g):
        return (x * s) @ np.tanh(w), np.tanh(x) @ (w[None] * g), np.matmul(x.transpose(1, 0, 2) * 2, np.abs(w)), np.einsum("bik,kj->bij", x - 1, w * 3)

    check(f, sample((3, 40, 60), "float64", 1), sample((60, 50), "float64", 2), sample((3, 1, 60), "float64", 3), sample((3, 1, 1), "float64", 4), rtol=1e-11)


def test_computed_operands_of_what_is_updated():
    """The arrays of an operand's formula keep their old contents until the product has read them."""
    def f(x, w):
        g = (x * 2).T @ (x @ np.exp(w))
        w -= g * 0.001
        x += 1
        return (x - 2) @ (w * 2)

    check(f, sample((80, 70), "float64", 1), sample((70, 70), "float64", 2), rtol=1e-10)


def test_computed_operands_are_one_launch():
    def f(x, w, s):
        return x @ (w.astype("float32") * s)

    x, w, s = sample((128, 600), "float32", 1), sample((600, 600), "int8", 2), sample(600, "float32", 3)
    assert pyxla.jit(f).lower(x, w, s).compile().launches == 2

def test_few_rows_read_a_matrix_in_place():
    """It is packed for more rows, and a constant once."""
    x, w = sample((128, 520), "float32", 1), sample((520, 520), "float32", 2)
    f = pyxla.jit(lambda x, w: np.maximum(x @ w, 0))
    assert f.lower(x, w).compile().launches == 1
    check(lambda x, w: np.maximum(x @ w, 0), x, w, **close("float32", 520))


@pytest.mark.parametrize("k, n", [(1100, 700), (300, 1024), (2100, 300), (2100, 512)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_rows_at_once(k, n, dtype):
    """Of a matrix larger than the second cache, in tiles of five to eight rows; its rows a page apart or not, more terms than a block has."""
    w = sample((k, n), dtype, 1)
    for m in (9, 11, 12, 14, 16, 27, 64, 130):
        x = sample((m, k), dtype, m)
        bounded(lambda x, w: x @ w, x, w, k=k)
        bounded(lambda x, w: np.maximum(x @ w, 0), x, w, k=k)
    bounded(lambda x, w: x @ w, np.asfortranarray(x), w, k=k)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_terms_of_rows_a_page_apart(dtype):
    """B's rows share their sets of the first cache, and are packed from as many on as these hold."""
    for m, k, n in ((70, 8, 1024), (70, 20, 1024), (200, 32, 512), (64, 16, 2048)):
        bounded(lambda a, b: a @ b, sample((m, k), dtype, 1), sample((k, n), dtype, 2), k=k)
    a, b = sample((128, 24), dtype, 1), sample((24, 1024), dtype, 2)
    assert pyxla.jit(lambda a, b: a @ b).lower(a, b).compile().launches == 2
    assert pyxla.jit(lambda a, b: a @ b).lower(a, b[:, :1000].copy()).compile().launches == 1

@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_columns_and_few_terms_of_transposed_operands(dtype):
    """A across its lines by blocks of k and of rows, B along k by blocks of columns, packed B of few terms along the rows."""
    for m, k, n in ((1100, 1000, 5), (1030, 1030, 40), (1500, 800, 2)):
        bounded(lambda a, b: a @ b, sample((k, m), dtype, 1).T, sample((k, n), dtype, 2), k=k)
        bounded(lambda a, b: np.maximum(a @ b, 0), sample((k, m), dtype, 1).T, sample((k, n), dtype, 2), k=k)
    for m, k, n in ((5, 700, 801), (11, 1024, 520), (15, 300, 3000), (1100, 8, 1024), (900, 21, 1500), (18, 1100, 1100), (23, 600, 2100)):
        bounded(lambda a, b: a @ b, sample((m, k), dtype, 1), sample((n, k), dtype, 2).T, k=k)
        bounded(lambda a, b: np.maximum(a @ b, 0), sample((m, k), dtype, 1), sample((n, k), dtype, 2).T, k=k)
        bounded(lambda a, b: a @ b, sample((m, k), dtype, 1), sample((k, n), dtype, 2), k=k)


def test_a_matrix_of_several_products_is_packed_once():
    def f(x, y, w):
        for _ in range(3):
            x = np.tanh(x @ w)
        return x + y @ w, x @ w.T

    args = sample((64, 600), "float64", 1) / 20, sample((64, 600), "float64", 2), sample((600, 600), "float64", 3) / 20
    assert pyxla.jit(f).lower(*args).compile().launches == 3 + 2 + 2
    check(f, *args, rtol=1e-11)

    def g(x, w):
        y = x @ w
        w *= 2
        return y + x @ w

    assert pyxla.jit(g).lower(*args[::2]).compile().launches >= 4
    check(g, *args[::2], rtol=1e-12)


@pytest.mark.parametrize("m,k", [(70, 1100), (250, 1100), (128, 390), (65, 385)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_matrices_that_few_rows_use(m, k, dtype):
    """B is packed block by block inside the product."""
    n = 1 << 22 >> (k > 1000) * 2 >> (dtype == "float64")
    n = n // k + 5
    a, b, c = sample((m, k), dtype, 1), sample((k, n), dtype, 2), sample(n, dtype, 3)
    assert pyxla.jit(lambda a, b: a @ b).lower(a, b).compile().launches <= 2
    bounded(lambda a, b: a @ b, a, b, k=k)
    bounded(lambda a, b, c: np.maximum(a @ b + c, 0), np.asfortranarray(a), b, c, k=k)
    bounded(lambda a, b: a @ (b * 2 - b), a, b[::-1], k=k)
    bounded(lambda a, b: a @ b[:, ::-1], a, b, k=k)

# ---- products of bytes ----

def test_equal_layers_are_equal_kernels():
    """Norms around large matrices, from memory, that few rows use: neither reads the matrix in place, and the first layer is like the others."""
    def norm(x):
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5)

    def layers(x, weights):
        for up, down in weights:
            x = x + np.maximum(0.5 * (norm(x) @ up), 0) @ down
        return x

    rng = np.random.default_rng(5)
    x = rng.standard_normal((64, 360)).astype("f")
    weights = [[(rng.standard_normal(s) / 20).astype("f") for s in ((360, 2400), (2400, 360))] for _ in range(5)]
    for n in (3, 5):
        compiled = pyxla.jit(layers)
        np.testing.assert_allclose(compiled(x, weights[:n]), layers(x, weights[:n]), rtol=2e-4, atol=2e-4)
        info = compiled.cache_info()
        if os.environ.get("PYXLA_BACKEND") != "interp":
            assert info.compiled + info.reused == 3 and (n == 3 or not info.compiled)


@pytest.mark.parametrize("left", ["int8", "uint8"])
@pytest.mark.parametrize("right", ["int8", "uint8"])
def test_products_of_bytes(left, right):
    """With an instruction or without: int32's bits, where k is no multiple of four and bytes do not lie side by side along k, too."""
    def f(a, b):
        return a.astype("int32") @ b.astype("int32")

    def g(a, b, c):
        return np.maximum((a.astype("int32") @ b.astype("int32")) * np.float32(0.01) + c, 0), np.matmul(a, b, dtype="int32").sum(1)

    for m, k, n in [(20, 64, 33), (3, 17, 300), (65, 130, 70), (70, 1027, 600)]:
        a, b = sample((m, k), left, 1), sample((k, n), right, 2)
        a[0], b[:, 0] = np.iinfo(left).min, np.iinfo(right).min
        a[1], b[:, 1] = np.iinfo(left).max, np.iinfo(right).max
        for x in (a, np.asfortranarray(a), np.repeat(a, 2, 1)[:, ::2], a[:, ::-1]):
            check(f, x, b)
            check(f, x, np.asfortranarray(b)[::-1])
        check(g, a, b, sample(n, "float32", 3))


def test_stacks_and_views_of_bytes():
    a, b = sample((4, 6, 40), "int8", 1), sample((4, 40, 50), "int8", 2)
    check(lambda a, b: a.astype("int32") @ b.astype("int32"), a, b)
    check(lambda a, b: a.astype("int32") @ b.astype("int32")[0], a, b)
    check(lambda a, b: a.astype("int32").reshape(24, 40) @ b.astype("int32").transpose(0, 2, 1).reshape(200, 40).T, a, b)
    check(lambda a, b: a[:, 1:, 3:].astype("int32") @ b[:, 3:, ::2].astype("int32"), a, b)
    check(lambda a, b: np.einsum("bik,bkj->bij", (a * 2).astype("int32"), np.clip(b, -9, 9).astype("int32")), a, b)


def test_bytes_written_before_their_product():
    def f(a, b):
        a[2] = 7
        c = a.astype("int32") @ b.astype("int32")
        a[:, 1] -= 1
        return c, a.astype("int32") @ b.astype("int32") + a.sum()

    for a in (sample((16, 48), "uint8", 1), np.asfortranarray(sample((16, 48), "uint8", 1))):
        check(f, a, sample((48, 20), "int8", 2))


@pytest.mark.parametrize("dtype", ["float16", "int8", "float32"])
@pytest.mark.parametrize("form", ["x @ w", "w @ x", "x @ w.T", "(x[None] @ w)[0]"])
def test_narrow_weights_of_a_vector_are_cast_as_they_are_read(dtype, form):
    w, x = sample((300, 300), dtype, 1), sample((300,), "float64" if dtype == "float32" else "float32", 2)
    f = pyxla.jit(eval(f"lambda x, w: (lambda x, w: {form})(x, w.astype(x.dtype))"))
    want = eval(form, {"x": x.astype("float64"), "w": w.astype("float64")})
    bound = 300 * np.finfo(x.dtype).eps * eval(form, {"x": abs(x).astype("float64"), "w": abs(w.astype("float64"))})
    assert (abs(f(x, w) - want) <= bound).all()
    assert f.lower(x, w).compile().workspace_bytes < w.nbytes


def within_terms(f, *args, terms=None):
    """f's result by pyxla lies within `terms` (k) * eps of the product of float64, element by element."""
    got, want = pyxla.jit(f)(*args), f(*(x.astype("float64") for x in args))
    most = f(*(abs(x).astype("float64") for x in args))
    assert got.shape == want.shape and got.dtype == f(*args).dtype
    assert (abs(got - want) <= (terms or args[0].shape[-1]) * np.finfo(got.dtype).eps * most).all()


SMALL = [(3, 3, 3), (4, 4, 4), (5, 5, 5), (2, 16, 2), (16, 16, 16), (7, 3, 11), (12, 12, 12), (13, 2, 9), (16, 15, 8), (2, 2, 16), (9, 11, 6)]


@pytest.mark.parametrize("m,k,n", SMALL)
@pytest.mark.parametrize("dtype", FLOATS)
def test_many_small_products(dtype, m, k, n):
    """Products of a few known rows and columns: B in registers, the next matrices asked for ahead where there are many."""
    for count in (16, 33, 40000 // (m + k + n) ** 2):
        a, b = sample((count, m, k), dtype, 1), sample((count, k, n), dtype, 2)
        within_terms(lambda a, b: a @ b, a, b)
    wide, padded = np.repeat(a, 2, 2)[:, :, ::2], np.zeros((count, k + 1, n + 3), dtype)[:, 1:, 2:-1]
    padded[...] = b
    for x, y in [(wide, b), (a[::-1, ::-1], padded), (a, b[0]), (a[0], padded), (np.ascontiguousarray(a.swapaxes(1, 2)).swapaxes(1, 2), b[:, ::-1]),
                 (a, np.ascontiguousarray(b.swapaxes(1, 2)).swapaxes(1, 2)), (a.reshape(count, 1, m, k)[:2], b[:20])]:
        within_terms(lambda a, b: a @ b, x, y)
    within_terms(lambda a, b: a @ b @ np.swapaxes(b, 1, 2) + 0 * a[..., :1, :1], a, b, terms=k + n + 1)


@pytest.mark.parametrize("level", ["sse2", "avx2"])
def test_small_products_in_narrow_vectors(level):
    """All columns of up to 16, in vectors of two numbers as well."""
    code = """
import numpy as np, pyxla
r = np.random.default_rng(0)
for n in range(2, 17):
    for k in (1, 2, 3):
        for dtype in ("float64", "float32"):
            a, b = r.integers(-9, 9, (20, 2, k)).astype(dtype), r.integers(-9, 9, (20, k, n)).astype(dtype)
            assert (pyxla.jit(lambda a, b: a @ b)(a, b) == a @ b).all(), (n, k, dtype)
"""
    env = {**os.environ, "PYXLA_CPU": level, "PYTHONPATH": str(Path(pyxla.__file__).parent.parent)}
    r = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert r.returncode == 0, r.stderr[-2000:]


def test_small_products_and_what_is_around_them():
    a, b = sample((50, 6, 7), "float32", 1), sample((50, 7, 5), "float32", 2)
    for f in (lambda a, b: np.maximum(a @ b, 0), lambda a, b: np.exp(a) @ b, lambda a, b: (a @ b).sum((0, 1)), lambda a, b: (a @ b, (a @ b).max(-1)), lambda a, b: ((a @ b) ** 2).sum((1, 2)),
              lambda a, b: (a @ b) * b[:, :1] + a[0, 0, 0], lambda a, b: (lambda e: e / e.sum(-1, keepdims=True))(np.exp(a @ b)), lambda a, b: np.einsum("bik,bkj->bji", a, b)):
        check(f, a, b, rtol=1e-5, atol=1e-5)
    for k in (1, 11, 13, 16):
        check(lambda a, b: (a @ b) * 2, sample((14, k), "float64", 1), sample((k, 15), "float64", 2), **close("float64", k))


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 7, 11, 20, 64, 100, 131])
@pytest.mark.parametrize("dtype", FLOATS)
def test_panels(dtype, m):
    """Columns in panels of three to eight vectors, whole and not, with all rows of tiles."""
    lanes = 64 // np.dtype(dtype).itemsize
    for vectors in range(3, 12):
        for n in (vectors * lanes, vectors * lanes - 3, vectors * lanes - lanes + 1):
            a, b = sample((m, 19), dtype, m), sample((19, n), dtype, n)
            within_terms(lambda a, b: a @ b, a, b)
    within_terms(lambda a, b: a @ b, sample((m, 70), dtype, 1), sample((70, n), dtype, 2))


LEVELS = """
import test_products as t
for dtype in t.FLOATS:
    for shape in t.SMALL[:8]:
        t.test_many_small_products(dtype, *shape)
    t.test_panels(dtype, 3), t.test_panels(dtype, 20)
t.test_small_products_and_what_is_around_them()
"""


@pytest.mark.parametrize("env", [{"PYXLA_CPU": "sse2"}, {"PYXLA_CPU": "avx2"}, {"PYXLA_BACKEND": "interp"}, {"PYXLA_CHECK": "1"}, {"PYXLA_CHECK": "1", "PYXLA_BACKEND": "interp"}], ids=str)
def test_levels(env):
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.pathsep.join([here, os.path.dirname(os.path.dirname(pyxla.__file__))])
    subprocess.run([sys.executable, "-c", LEVELS], env=os.environ | env | {"PYTHONPATH": path}, check=True)


@pytest.mark.parametrize("first", range(0, 240, 40))
def test_random_programs(first):
    """Functions around products (random_products.py): stores into operands, joins, gathers, norms, views; finished, reduced, multiplied again."""
    assert [text for text in map(random_products.difference, range(first, first + 40)) if text] == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 21000, 1000))
def test_many_random_programs(first):
    assert [text for text in map(random_products.difference, range(first, first + 1000)) if text] == []
