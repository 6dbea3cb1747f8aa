"""Values that lie where a temporary was: plans whose peak memory is the results, and what may not be written over."""
import numpy as np
import pytest
from checking import check

import pyxla

R = np.random.default_rng(0)
X, Y, I = R.standard_normal((300, 400)), R.integers(0, 400, 300), np.arange(300)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def gradient(x, y):
    p = softmax(x, 1)
    p[np.arange(len(x)), y] -= 1
    p /= len(x)
    return p


def one_hot(x, y):
    t = np.zeros_like(x)
    t[np.arange(len(x)), y] = 1
    return softmax(x, 1) - t


def scatter(x, y):
    g = np.tanh(x)
    np.add.at(g, y[:20] % 300, x[:20])
    return g * 0.5


def scaled(x):
    t = np.tanh(x)
    return t / np.sqrt((t * t).sum())


RESULT_ALONE = [(lambda x: softmax(x, 0), (R.random((2000, 300)),)), (lambda x: softmax(x, 1), (R.random((2, 400_000)),)), (lambda x: softmax(x, 0), (R.random(900_000),)), (scaled, (R.random((500, 600)),)),
                (gradient, (X, Y)), (one_hot, (X, Y)), (scatter, (X, Y))]


@pytest.mark.parametrize("k", range(len(RESULT_ALONE)))
def test_peak_is_the_result(k):
    f, args = RESULT_ALONE[k]
    c = pyxla.jit(f).lower(*args).compile()
    assert c.peak_bytes < 1.1 * args[0].nbytes
    check(f, *args, rtol=1e-12, atol=1e-15)


def silu(z):
    return z / (1 + np.exp(-z))


def layer_norm(x):
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def swiglu(x, w, v):
    return silu(x @ w) * (x @ v)


def residual(x, w, v):
    h = x + np.tanh(x @ w)
    return h + layer_norm(h) @ v


def rows_of_what_is_added(x, w, v):
    """The product's rows are made of the array that its result is added to: a block of columns must not change it for the next."""
    h = np.tanh(x)
    return h + layer_norm(h) @ v[:, :300]


@pytest.mark.parametrize("f", [swiglu, residual, rows_of_what_is_added], ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [300, 40])
def test_products_are_finished_where_an_operand_of_that_lies(f, n):
    x, w, v = R.standard_normal((n, 300)), R.standard_normal((300, 300)), R.standard_normal((300, 300))
    c = pyxla.jit(f).lower(x, w, v).compile()
    assert c.peak_bytes < 2 * x.nbytes + 2.1 * w.nbytes + 60_000           # the result, rows of a norm, packed matrices
    check(f, x, w, v, rtol=1e-9, atol=1e-11)


def test_labels_are_changed_in_place():
    """A chosen element of each row: the softmax is computed into the result, which the scatter changes."""
    def f(x, y):
        p = softmax(x, 1)
        p[I, y] -= 1
        return p

    c = pyxla.jit(f).lower(X, Y).compile()
    assert c.peak_bytes < 1.1 * X.nbytes
    check(f, X, Y, rtol=1e-12)


def moved(x):
    """The temporary is read at other elements than its place is written at."""
    t = np.exp(x)
    s = t.sum(0)
    return t / s, t[::-1] / s


def read_later(x):
    t = np.exp(x)
    u = t / t.sum(0)
    return u / u.sum(0) + t


def both_kept(x):
    t = np.exp(x)
    return t / t.sum(0), t


def old_contents(x):
    """What an update copies from another array is copied, though a temporary lay in its place."""
    t = np.exp(x)
    w = x + 1
    w += t / t.sum(0)
    w[[3, 0, 3]] -= 1
    return w, w.sum()


@pytest.mark.parametrize("f", [moved, read_later, both_kept, old_contents], ids=lambda f: f.__name__)
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_is_still_read_stays(f, order):
    check(f, np.array(X, order=order), rtol=1e-12)


def test_what_is_kept_of_constants_stays():
    """exp(w) is computed once: what is made of it takes other memory."""
    w = pyxla.constant(X)
    f = pyxla.jit(lambda x, w: (lambda t: t / t.sum(0) * x.sum())(np.exp(w)))
    for s in (1.0, 2.0):
        np.testing.assert_allclose(f(X * s, w), np.exp(X) / np.exp(X).sum(0) * (X * s).sum(), rtol=1e-10)
