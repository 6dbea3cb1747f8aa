"""Reductions inside reductions: results of short sums that another reduction takes in are never in memory."""
import itertools

import numpy as np
import pytest

import pyxla


def nearest(x, c):
    d = x[:, None, :] - c[None, :, :]
    return np.argmin(np.sum(d * d, axis=2), axis=1)


def several(x, c, w):
    """Several reductions inside and outside, values between them, and stores on all levels."""
    d = x[:, None, :] - c[None, :, :]
    s = np.sum(d * d, axis=2)
    q = np.sqrt(s) + w
    return q.min(axis=1), q.argmax(axis=1), s, (q / 2).sum(axis=1) * 2, np.max(d, axis=2).max(axis=1), d, q.var(axis=1)


def potential(x):
    d = x[:, None, :] - x[None, :, :]
    return (1 / np.sqrt(np.sum(d * d, axis=-1) + 0.1)).sum(axis=1)


def of_first_axes(x, c):
    return np.abs(x[:, :, None] - c[:, None, :]).sum(axis=0).max(axis=0)


def in_batches(x, c):
    d = x[:, :, None, :] - c[:, None, :, :]
    return (d * d).sum(-1).min(-1)


def over_two_axes(x, c):
    return np.abs(x[:, None, :, :] - c[None]).sum((2, 3)).argmin(1)


def in_place(x, c, o):
    d = x[:, None, :] - c[None]
    o[:] = (d * d).sum(2).min(1)
    x[:, 0] = o
    return x


def used_after(x, c):
    """A result of the inner reductions, less that of the outer one."""
    d = (x[:, None, :] * c[None]).sum(2)
    return d - d.max(axis=1, keepdims=True)


CASES = [
    (nearest, (130, 16), (8, 16)),
    (nearest, (70, 3), (600, 3)),
    (several, (200, 5), (11, 5), (200, 11)),
    (several, (100, 32), (530, 32), (100, 530)),
    (potential, (90, 3)),
    (of_first_axes, (8, 30), (8, 130)),
    (in_batches, (7, 40, 6), (7, 9, 6)),
    (over_two_axes, (100, 3, 4), (9, 3, 4)),
    (in_place, (150, 16), (8, 16), (150,)),
    (used_after, (100, 4), (9, 4)),
]


def check(f, *args):
    want, got = f(*[a.copy() for a in args]), pyxla.jit(f)(*[a.copy() for a in args])
    for w, g in zip(*(r if isinstance(r, tuple) else (r,) for r in (want, got)), strict=True):
        assert w.dtype == g.dtype
        if w.dtype.kind == "f":
            np.testing.assert_allclose(g, w, rtol=1e-12 if w.dtype == "f8" else 1e-5, atol=1e-12 if w.dtype == "f8" else 2e-5)
        else:
            np.testing.assert_array_equal(g, w)


def some(shape, dtype):
    return (np.random.default_rng(len(shape) + shape[-1]).random(shape) * 9).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__)
def test_equals_numpy(case, dtype):
    if dtype[0] != "f" and case[0] not in (nearest, of_first_axes, over_two_axes):
        pytest.skip("roots and quotients of integers")
    check(case[0], *(some(shape, dtype) for shape in case[1:]))


@pytest.mark.parametrize("change", [lambda a: np.asfortranarray(a), lambda a: a[::-1], lambda a: np.repeat(a, 2, 1)[:, ::2],
                                    lambda a: a.astype(a.dtype.newbyteorder()), lambda a: a[:, ::-1]])
def test_layouts(change):
    for x, k in itertools.product([some((130, 17), "f4"), some((130, 3), "f8")], (2, 70)):
        check(nearest, change(x), change(x[:k]))


def test_nearest_is_one_kernel():
    for f, *shapes in (CASES[0], CASES[1], CASES[4], CASES[5], CASES[6], CASES[7]):
        c = pyxla.jit(f).lower(*(some(s, "f4") for s in shapes)).compile()
        assert (c.launches, c.workspace_bytes) == (1, 0)


def test_what_is_large_or_read_once_is_not_nested():
    c = pyxla.jit(lambda x: x.sum(2).max(1)).lower(some((100, 20, 30), "f4")).compile()
    assert c.launches == 2
    c = pyxla.jit(nearest).lower(some((100, 300), "f4"), some((9, 300), "f4")).compile()
    assert c.launches == 2


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("f", [np.argmin, np.argmax], ids=["argmin", "argmax"])
def test_first_of_equal_and_special_values(f, special):
    """By columns, each lane meets its elements in order: the first NaN, the first of equal ones, all infinite."""
    rng = np.random.default_rng(1)
    for dtype, rows in itertools.product(("f4", "f8", "i8", "i2"), (1, 2, 30)):
        x = rng.integers(0, 4, (rows, 200)).astype(dtype)
        if dtype[0] == "f":
            x[rng.random(x.shape) < 0.1] = special
            x[:, 7] = special
        np.testing.assert_array_equal(pyxla.jit(lambda x: f(x, axis=0))(x), f(x, axis=0))


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    rng = np.random.default_rng(seed)
    n, m, k = rng.integers(65, 140), rng.integers(1, 13), rng.integers(1, 9)
    pair = [lambda x, c: x - c, lambda x, c: x * c, np.maximum, lambda x, c: np.abs(x + c) + x][rng.integers(4)]
    inner = [np.sum, np.max, np.min, np.mean][rng.integers(4)]
    between = [lambda s, w: s, lambda s, w: np.sqrt(np.abs(s)) + w, lambda s, w: s * w[:, :1], lambda s, w: np.where(s > 1, s, -w)][rng.integers(4)]
    outers = [[np.sum, np.max, np.min, np.argmin, np.argmax, np.var][i] for i in rng.integers(0, 6, 2)]
    first, after = rng.integers(2), rng.integers(3)

    def f(x, c, w):
        p = pair(x.T[:, :, None], c.T[:, None, :]) if first else pair(x[:, None, :], c[None])
        s = between(inner(p, axis=0 if first else 2), w)
        results = [outer(s, axis=1) for outer in outers]
        results[0] = results[0] * 2 + w[:, 0] if after else results[0]
        return (*results, s) if after == 2 else tuple(results)

    check(f, some((n, k), "f8") - 4, some((m, k), "f8") - 4, some((n, m), "f8"))
