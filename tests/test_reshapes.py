"""Reshapes of computed values: no temporary where axes are split, where they are joined over arrays in C order, and where both shapes have a common refinement."""
import random

import numpy as np
import pytest

import pyxla

R = np.random.default_rng(0)


def compiled(f, *args):
    return pyxla.jit(f).lower(*args).compile()


def same(f, *args):
    for got, want in zip(leaves(pyxla.jit(f)(*args)), leaves(f(*args))):
        want = np.asarray(want)
        assert got.dtype == want.dtype and got.shape == want.shape
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=2e-5 if want.dtype == np.float32 else 1e-12, atol=1e-6 if want.dtype == np.float32 else 1e-14)
        else:
            np.testing.assert_array_equal(got, want)


def leaves(r):
    return r if isinstance(r, tuple) else (r,)


ONE_PASS = {
    "rows of eight": lambda u: (u * 2).reshape(-1, 8).sum(1),
    "rows that fit no row": lambda u: (u * 2).reshape(-1, 16).max(1),
    "blocks": lambda u: np.exp(u).reshape(u.shape[0], 4, -1).mean(1),
    "pooling": lambda u: (u - 1).reshape(u.shape[0] // 2, 2, u.shape[1] // 2, 2).sum((1, 3)),
    "pooling of a product": lambda u: (u * u.mean()).reshape(u.shape[0] // 4, 4, u.shape[1] // 4, 4).max((1, 3)),
    "a result, too": lambda u: (np.exp(u).reshape(-1, 8), np.exp(u).reshape(-1, 8).sum(1)),
    "with another array": lambda u: np.exp(u).reshape(-1, 8) * np.arange(8.0, dtype=u.dtype),
    "two of them": lambda u: (u.reshape(-1, 8) * u.reshape(-1, 8)).sum(1),
    "normal rows": lambda u: rows_of_eight(np.exp(u).reshape(-1, 8)),
    "transposed": lambda u: np.exp(u.T).reshape(-1, 4).sum(1),
    "centred": lambda u: ((u - u[0]) * 2).reshape(-1, 4).sum(1),
    "centred, by two": lambda u: ((u - u[:, :1]) * 2).reshape(-1, 2, 10).max((0, 2)),
    "a product with it": lambda u: (u * u[0]).reshape(-1) * np.arange(u.size),
    "strided": lambda u: np.exp(u[:, ::2]).reshape(-1, 10).min(1),
    "places": lambda u: (u.T * 3).reshape(-1, 4).argmax(1),
}


def rows_of_eight(y):
    return y / y.sum(1, keepdims=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ONE_PASS)
def test_no_temporary_of_the_arrays_size(name, dtype):
    u = R.random((400, 300)).astype(dtype)
    c = compiled(ONE_PASS[name], u)
    assert c.workspace_bytes < u.nbytes / 8, c.plan
    assert c.launches <= (4 if "mean" in name or "product" in name else 2)
    same(ONE_PASS[name], u)


WHOLE = {
    "product": lambda a, b: (a * b).reshape(-1).sum(),
    "every second": lambda a, b: np.sqrt(a * 2).ravel()[::2].sum(),
    "from the end": lambda a, b: (a + b).ravel()[::-3].max(),
    "transposed": lambda a, b: (a * b).T.reshape(-1).sum(),
    "flat statistics": lambda a, b: ((a - b).ravel().max(), (a - b).ravel().min(), (a - b).ravel().sum()),
}


@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("name", WHOLE)
def test_sums_of_everything(name, order):
    a, b = (R.random((600, 400)).astype("float32") for _ in range(2))
    if order == "strided":
        a, b = np.repeat(a, 2, 1)[:, ::2], np.repeat(b, 2, 0)[::2]
    elif order == "F":
        a, b = np.asfortranarray(a), np.asfortranarray(b)
    c = compiled(WHOLE[name], a, b)
    assert c.workspace_bytes < a.nbytes / 8 or (order != "C" and name in ("every second", "from the end")), c.plan
    same(WHOLE[name], a, b)


def test_a_dear_value_of_both_shapes_is_computed_once():
    c = compiled(lambda u: (np.exp(u).sum(0), np.exp(u).reshape(-1, 8).sum(1)), R.random((400, 300)))
    assert str(c.plan).count(" exp ") == 1


def test_products_keep_their_epilogues():
    x, w = R.random((64, 300)).astype("float32"), R.random((300, 128)).astype("float32")
    assert compiled(lambda x, w: np.maximum(x @ w, 0).reshape(-1, 8).sum(1), x, w).launches <= 3
    assert compiled(lambda x, w: np.maximum(x @ w, 0).reshape(-1, 8) + 1, x, w).launches == 1


def test_in_place():
    def f(x, y, out):
        out[:] = (x * y.T).reshape(out.shape)
        y += (y * 2).reshape(-1)[::-1].reshape(y.shape)
        return (x.T * 2).reshape(-1) + out

    args = [R.random(s) for s in ((30, 20), (20, 30), (600,))]
    mine, theirs = [a.copy() for a in args], [a.copy() for a in args]
    np.testing.assert_allclose(pyxla.jit(f)(*mine), f(*theirs))
    for a, b in zip(mine, theirs):
        np.testing.assert_array_equal(a, b)


def test_sizes_of_the_run():
    def f(x, m, n):
        y = x[m]
        return (y * 2).reshape(-1, 4).sum(1), (x * 3).reshape(n, -1).max(1), np.exp(x).reshape(-1).sum()

    x = R.random((40, 12))
    f(x, x[:, 0] > 0.5, 8)
    same(f, x, x[:, 0] > 0.5, 8)
    same(f, x, x[:, 0] > 0.2, 16)


def random_shape(rng, size):
    shape = []
    for p in (2, 2, 2, 2, 2, 3, 3, 5, 7):
        while size % p == 0:
            size //= p
            if shape and rng.random() < 0.6:
                shape[rng.randrange(len(shape))] *= p
            else:
                shape.insert(rng.randrange(len(shape) + 1), p)
    return tuple(shape) if rng.random() < 0.8 else (*shape, 1)


def random_array(rng, shape, dtype):
    a = np.random.default_rng(rng.randrange(2**32)).integers(0, 9, shape).astype(dtype)
    how = rng.randrange(4)
    if how == 1:
        return np.asfortranarray(a)
    if how == 2:
        return a[tuple(slice(None, None, -1) for _ in shape)]
    return np.repeat(a, 2, -1)[..., ::2] if how == 3 else a


@pytest.mark.parametrize("seed", range(60))
def test_random_reshapes(seed):
    rng = random.Random(seed)
    size = rng.choice([48, 360, 720, 1680])
    s, t = random_shape(rng, size), random_shape(rng, size)
    dtype = rng.choice(["float64", "float32", "int32", "uint8", "bool"])
    x, y, z = random_array(rng, s, dtype), random_array(rng, s, dtype), random_array(rng, t, dtype)
    axes = tuple(rng.sample(range(len(t)), rng.randrange(1, len(t) + 1)))
    perm = rng.sample(range(len(s)), len(s))
    value = rng.choice([lambda x, y: x * y, lambda x, y: x + 1, lambda x, y: (x * y).transpose(perm), lambda x, y: x[..., :1] * y, lambda x, y: x[::-1] + y[0],
                        lambda x, y: np.sqrt(x), lambda x, y: np.where(x > y, x, y)])
    reduced = rng.choice([lambda v: v.sum(axes), lambda v: v.max(axes), lambda v: v.mean(axes), lambda v: v.argmax(axes[0]), lambda v: v.var(axes),
                          lambda v: v.ravel()[::2].sum(), lambda v: v])
    result = [lambda v, x, y, z: reduced(v), lambda v, x, y, z: (reduced(v), v * z), lambda v, x, y, z: reduced(v * z),
              lambda v, x, y, z: (v, reduced(v), v.reshape(z.size)), lambda v, x, y, z: (reduced(v), value(x, y).sum(0))][seed % 5]
    same(lambda x, y, z: result(value(x, y).reshape(t), x, y, z), x, y, z)
