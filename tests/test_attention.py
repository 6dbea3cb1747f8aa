"""Attention under a mask that compares coordinates: columns that it empties are not computed, and nobody can tell."""
import warnings

import numpy as np
import pytest
from checking import check, sample

import pyxla


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rows_columns(s):
    return np.arange(s.shape[-2])[:, None], np.arange(s.shape[-1])


def tril(s):
    return np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf).astype(s.dtype)


def by_index(s):
    i, j = rows_columns(s)
    return np.where(j <= i, s, s.dtype.type(-np.inf))


def hidden(s):
    i, j = rows_columns(s)
    return np.where(i < j, s.dtype.type(-np.inf), s)


def negated(s):
    i, j = rows_columns(s)
    return np.where(~(j > i), s, s.dtype.type(-np.inf))


def longer(s):
    i, j = rows_columns(s)
    return np.where(j - 20 <= i, s, s.dtype.type(-np.inf))


def window(s):
    i, j = rows_columns(s)
    return np.where((j <= i) & (j > i - 30), s, s.dtype.type(-np.inf))


def assigned(s):
    s[..., ~np.tril(np.ones(s.shape[-2:], bool))] = -np.inf
    return s


MASKS = [tril, by_index, hidden, negated, longer, window]


def attend(mask):
    return lambda q, k, v: softmax(mask(q @ k.swapaxes(-1, -2) * q.dtype.type(0.3))) @ v


def skips(f, *args):
    plan = f.lower(*args).compile().plan
    return " to a" in plan and " rest a" in plan


@pytest.mark.parametrize("mask", MASKS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("length", [2, 47, 100, 129, 300])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_masks(mask, length, dtype):
    q, k, v = (sample((2, length, 20), dtype, s) for s in (1, 2, 3))
    check(attend(mask), q, k, v, rtol=1e-5 if dtype == "float32" else 1e-13)
    assert skips(pyxla.jit(attend(mask)), q, k, v) == (length > 48)


@pytest.mark.parametrize("mask", [tril, longer], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(90, 200), (200, 90), (200, 210)], ids=str)
def test_lengths_differ(mask, shape):
    q, k, v = sample((shape[0], 16), "float64", 1), sample((shape[1], 16), "float64", 2), sample((shape[1], 33), "float64", 3)
    check(attend(mask), q, k, v, rtol=1e-13)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [0, 60, 100, 149])
@pytest.mark.parametrize("which", "qkv")
def test_not_finite(value, where, which):
    """0 times infinity is NaN, also where the 0 is a softmax under a mask."""
    args = dict(zip("qkv", (sample((2, 150, 24), "float32", s) for s in (1, 2, 3))))
    args[which][1, where, 5] = value
    f = attend(tril)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = f(**args)
        got = pyxla.jit(f)(**args)
    assert np.array_equal(np.isnan(want), np.isnan(got)) and np.array_equal(np.isinf(want), np.isinf(got))
    finite = np.isfinite(want)
    np.testing.assert_allclose(got[finite], want[finite], rtol=1e-4, atol=1e-5)


def test_what_is_no_such_mask():
    """A mask that is data, another fill, a mask of another axis, results that see the softmax: all columns are computed."""
    q, k, v = (sample((2, 100, 16), "float64", s) for s in (1, 2, 3))

    def fill(s):
        i, j = rows_columns(s)
        return np.where(j <= i, s, -1e9)

    def upper(s):
        i, j = rows_columns(s)
        return np.where(j >= i, s, -np.inf)

    def unseeing(s):
        i, j = rows_columns(s)
        return np.where(j < i, s, -np.inf)

    for mask in (fill, upper, lambda s: tril(s) + 0.5 * s):
        check(attend(mask), q, k, v, rtol=1e-13)
        assert not skips(pyxla.jit(attend(mask)), q, k, v)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want, got = attend(unseeing)(q, k, v), pyxla.jit(attend(unseeing))(q, k, v)    # the first row sees nothing
    np.testing.assert_allclose(got, want, rtol=1e-12)

    def both(q, k, v):
        p = softmax(tril(q @ k.swapaxes(-1, -2)))
        return p, p @ v

    check(both, q, k, v, rtol=1e-13)


def test_layouts_of_the_values():
    """Values read backwards, transposed or broadcast."""
    q, k, v = (sample((100, 16), "float64", s) for s in (1, 2, 3))
    for values in (v[::-1], np.asfortranarray(v), np.broadcast_to(v[0], v.shape), v[:, ::-2]):
        check(attend(tril), q, k, values, rtol=1e-13)


def test_assigned_mask():
    q, k, v = (sample((2, 100, 16), "float64", s) for s in (1, 2, 3))
    check(attend(assigned), q, k, v, rtol=1e-13)


def test_threads_give_the_same_bits():
    q, k, v = (sample((3, 200, 64), "float32", s) for s in (1, 2, 3))
    one, two = (pyxla.jit(attend(tril), threads=n)(q, k, v) for n in (1, 2))
    assert one.tobytes() == two.tobytes()
