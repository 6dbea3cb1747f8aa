"""fma=True fuses by a rule of the graph: a product that one sum uses. fastmath=True has rules of its own, with bounds."""
import re

import numpy as np
import pytest

import pyxla

X = 1 + np.arange(8) * 2.0**-30


def test_product_and_sum_round_once():
    plain, fused = pyxla.jit(lambda x, y: x * x - y), pyxla.jit(lambda x, y: x * x - y, fma=True)
    assert not plain(X, X * X).any()
    exact = np.array([float((int(x * 2**30) ** 2) - int(x * x * 2**52) * 2**8) / 2**60 for x in X])
    np.testing.assert_array_equal(fused(X, X * X), exact)


def test_product_used_twice_is_rounded():
    f = pyxla.jit(lambda x, y: (x * x - y, x * x), fma=True)
    assert not f(X, X * X)[0].any()


def test_product_on_the_right():
    f = pyxla.jit(lambda x, y: y - x * x, fma=True)
    assert (f(X, X * X)[1:] < 0).all()


FAST = {                                                    # function, operation that goes, most units in the last place
    "a constant divisor": (lambda x: x / 3, "divide", 1.5),
    "a divisor by rows": (lambda x: x / (x[:, :1] + 1), None, 1.5),
    "a divisor by columns": (lambda x: x / x[0], None, 1.5),
    "a cube": (lambda x: x**3, "power", 3),
    "a power": (lambda x: x**13, "power", 13),
    "a root": (lambda x: x**1.5, "power", 2.5),
    "a negative power": (lambda x: x**-2, "power", 3),
    "a negative root": (lambda x: x**-2.5, "power", 4.5),
    "constants": (lambda x: x * 3 * 7 * 1.1, None, 2),
    "terms": (lambda x: x + 3 + 0.7, None, 1.5),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FAST)
def test_fastmath_stays_within_its_bounds(name, dtype):
    f, gone, bound = FAST[name]
    x = np.random.default_rng(0).uniform(0.5, 4, (40, 60)).astype(dtype)
    fast = pyxla.jit(f, fastmath=True)
    wide = f(x.astype(np.longdouble)) if dtype == "float64" else f(x.astype(np.float64))
    got = fast(x)
    assert got.dtype == dtype
    # Constants are rounded to the dtype first.
    assert np.max(np.abs(got - wide) / np.spacing(np.abs(got))) <= bound + 1
    if gone:
        assert gone not in fast.lower(x).compile().plan
        assert gone in pyxla.jit(f).lower(x).compile().plan


def test_fastmath_divides_once_per_row():
    def softmax(x):
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    x = np.random.default_rng(0).normal(size=(30, 50))
    np.testing.assert_allclose(pyxla.jit(softmax, fastmath=True)(x), softmax(x), rtol=1e-14)


def test_fastmath_is_off_by_default_and_implies_fma():
    np.testing.assert_array_equal(pyxla.jit(lambda x: x / 3 * 7 * 0.1 + x**13)(X), X / 3 * 7 * 0.1 + X**13)
    assert pyxla.jit(lambda x, y: x * x - y, fastmath=True)(X, X * X).any()


def test_fastmath_keeps_what_it_cannot_do():
    """Divisors without a normal reciprocal, integers, and powers that are no half integers."""
    x = np.array([1.0, -3.0, np.inf, np.nan, 0.0, 1e-310])
    for f in (lambda x: x / 0.0, lambda x: x / 5e-324, lambda x: x / 1.7e308, lambda x: x**0.3, lambda x: (x - x), lambda x: x * 0.0):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(pyxla.jit(f, fastmath=True)(x), f(x))
    n = np.arange(-9, 9)
    np.testing.assert_array_equal(pyxla.jit(lambda n: n // 3 + n**3, fastmath=True)(n), n // 3 + n**3)


def test_fastmath_of_special_values():
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 2.0])
    with np.errstate(all="ignore"):
        for f in (lambda x: x / 3, lambda x: x**3, lambda x: x**-2, lambda x: x + 3 + 4, lambda x: x[None] / np.array([[2.0], [0.0], [np.inf]])):
            np.testing.assert_allclose(pyxla.jit(f, fastmath=True)(x), f(x), rtol=1e-15)


CHAINS = {
    "from the right": lambda a, b, c, v: ((a @ b) @ c) @ v, "from the left": lambda a, b, c, v: v[:20] @ (a @ (b @ c)), "as it is": lambda a, b, c, v: a @ (b @ (c @ v)),
    "batches": lambda a, b, c, v: np.stack([a, a * 2]) @ np.stack([b, b]) @ np.stack([c, -c])[..., :2], "equal": lambda a, b, c, v: (a[:, :20] @ b[:20, :20]) @ c[:20, :20],
}


@pytest.mark.parametrize("name", CHAINS)
def test_fastmath_multiplies_chains_in_the_cheaper_order(name):
    f, r = CHAINS[name], np.random.default_rng(3)
    a, b, c, v = (r.standard_normal(s) for s in ((20, 300), (300, 400), (400, 250), 250))
    exact, fast, want = pyxla.jit(f), pyxla.jit(f, fastmath=True), f(a, b, c, v)
    np.testing.assert_allclose(fast(a, b, c, v), want, 1e-10, 1e-10 * np.abs(want).max())
    if name.startswith("from"):                                 # vectors, not matrices, between the products
        assert fast.lower(a, b, c, v).compile().workspace_bytes < 10000 < exact.lower(a, b, c, v).compile().workspace_bytes


def test_einsum_contracts_in_a_good_order():
    r = np.random.default_rng(3)
    a, b, c = (r.standard_normal(s) for s in ((20, 300), (300, 300), (300, 5)))
    f = pyxla.jit(lambda a, b, c: np.maximum(np.einsum("ij,jk,kl->il", a, b, c), 0))
    np.testing.assert_allclose(f(a, b, c), np.maximum(a @ b @ c, 0), 1e-10, 1e-10)
    assert "f64[20,300]" not in "".join(re.findall("dot .*", f.lower(a, b, c).as_text()))
