"""Python numbers as arguments: run-time values that Python computes with, guarded only where a value is asked for."""
import math

import numpy as np
import pytest
from checking import check

import pyxla

X = np.arange(12.0).reshape(3, 4)
I = X.astype(np.int64)
U8 = X.astype(np.uint8)


def branch(x, n):
    return x + n if n > 2 else x - n


def loop(x, n):
    for k in range(int(n)):
        x = x + k * n
    return x


PROGRAMS = [
    lambda x, n: x * n, lambda x, n: n - x, lambda x, n: (n * 2, n + 1.5, n / 2, n // 2, n % 3, -n, abs(n), n**2, n > 2, n == 3, round(n), n),
    lambda x, n: divmod(n, 2), lambda x, n: 2**-n * x, lambda x, n: (x < n, x == n, n >= x, x != n), lambda x, n: x**n, lambda x, n: x ** (n / 2),
    lambda x, n: (math.sqrt(n) * x, float(n), int(n), bool(n), math.floor(n), f"{n:.2f}"), lambda x, n: (np.sqrt(n), np.add(n, n), np.maximum(n, x)),
    lambda x, n: np.where(x > n, x, n), lambda x, n: (max(n, 2), min(n, 7), n in (1, 2, 3)), lambda x, n: np.array([n, n + 1]), lambda x, n: (n.real, n.imag),
    lambda x, n: np.full((2, 2), n), lambda x, n: (x.sum() * n, x[0, 0] > n), lambda x, n: (np.float32(n) * x, np.float32(x)), branch, loop,
]
INTEGERS = [
    lambda x, n: (x[n], x[-n], x[:n], x[n:]), lambda x, n: x[n, n], lambda x, n: (np.zeros(n), np.ones((n, 2)), np.arange(n)), lambda x, n: x.reshape(n, -1),
    lambda x, n: ([0] * n, "ab" * n, list(range(n))), lambda x, n: (n << 2, n & 1, n | 8, ~n, n ^ 3), lambda x, n: np.round(x, n), lambda x, n: x.sum(axis=n - 1),
]


@pytest.mark.parametrize("f", PROGRAMS, ids=range(len(PROGRAMS)))
@pytest.mark.parametrize("n", [2, 3, 2.5, 0.5, 2.0, 1])
@pytest.mark.parametrize("x", [X, I, X.astype(np.float32)], ids=["f64", "i64", "f32"])
def test_number(f, n, x):
    check(f, x, n, rtol=1e-6)


@pytest.mark.parametrize("f", INTEGERS, ids=range(len(INTEGERS)))
@pytest.mark.parametrize("n", [1, 2])
def test_integer(f, n):
    check(f, X, n, rtol=1e-15)


def written(x, n):
    x[n] = n
    x[0, n] += n
    return x


def test_store_at_a_number():
    g = pyxla.jit(written)
    for n in (0, 1, 2, -1, -3):
        want, got = X.copy(), X.copy()
        written(want, n)
        g(got, n)
        assert np.array_equal(want, got)
    assert g.cache_info().traces == 1
    with pytest.raises(IndexError):
        g(X.copy(), 3)


def test_a_new_value_does_not_trace():
    f = pyxla.jit(lambda x, a, b: x * a + (a - b) / 2)
    for a in np.arange(10.0).tolist():
        assert np.array_equal(f(X, a, 3), X * a + (a - 3) / 2)
    assert f.cache_info().traces == 1


def test_a_value_that_is_asked_for_is_guarded():
    f = pyxla.jit(branch)
    for n in (1, 2, 3, 4, 1):
        assert np.array_equal(f(X, n), branch(X, n))
    assert f.cache_info().traces == 2       # one per answer of `n > 2`


def test_the_exponent_is_asked_only_what_numpy_asks():
    f = pyxla.jit(lambda x, n: x**n)
    for n in (2.0, 3.0, 4.5, 0.5, 0.5, 7.0):
        np.testing.assert_allclose(f(X, n), X**n)
    assert f.cache_info().traces == 2


def test_python_errors_and_types_at_run_time():
    f = pyxla.jit(lambda x, n: x + 1 / n)
    assert np.array_equal(f(X, 2), X + 0.5)
    with pytest.raises(ZeroDivisionError):
        f(X, 0)
    g = pyxla.jit(lambda n: 10**n)
    assert g(3) == 1000
    assert g(40) == 10**40
    assert g(-1) == 0.1
    h = pyxla.jit(lambda x, n: x + n)
    assert np.array_equal(h(U8, 7), U8 + 7)
    with pytest.raises(OverflowError, match="out of bounds for uint8"):
        h(U8, 300)
    assert np.array_equal(h(U8, 8), U8 + 8)


@pytest.mark.parametrize("n", [300, -1, 7, 2**70])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "uint64"])
def test_comparison_with_a_constant_out_of_range(n, dtype):
    check(lambda x: (x < n, x <= n, x == n, x != n, x > n, n > x, n >= x, n == x), X.astype(dtype))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "uint64"])
def test_comparison_with_a_number_out_of_range(dtype):
    x = X.astype(dtype)
    f = lambda x, n: (x < n, x <= n, x == n, x != n, x > n, n > x, n >= x)
    g = pyxla.jit(f)
    for n in (3, 300, -1, -300, 2**40):
        assert all(map(np.array_equal, f(x, n), g(x, n)))
    assert g.cache_info().traces == 1


def test_signed_against_unsigned():
    u, i = np.array([0, 5, 2**63 + 1], np.uint64), np.array([-1, 5, 7], np.int64)
    check(lambda u, i: (u < i, u <= i, u == i, u != i, u > i, u >= i, i < u, i <= u, i == u, i > u), u, i)


def test_math_functions_are_recorded():
    @pyxla.jit
    def f(x, s, n):
        return x * math.sqrt(s) + math.log(s, 2) * math.hypot(s, 2.0) + math.floor(s) + math.pow(n, 0.5) - math.atan2(s, n), math.sin(s)

    x = np.arange(3.0)
    for s, n in ((2.5, 3), (7.25, 5), (0.1, 1)):
        want, got = f.__wrapped__(x, s, n), f(x, s, n)
        np.testing.assert_array_equal(got[0], want[0])
        assert got[1] == want[1] and type(got[1]) is float
    assert f.cache_info().traces == 1


def test_math_functions_raise_as_pythons_do():
    f = pyxla.jit(lambda x, s: x * math.sqrt(s))
    for _ in range(2):
        with pytest.raises(ValueError):
            f(np.ones(2), -1.0)
        np.testing.assert_array_equal(f(np.ones(2), 4.0), [2, 2])
    with pytest.raises(TypeError):
        f(np.ones(2), 1j)


def test_math_functions_of_anything_else_are_pythons():
    before = math.sqrt
    f = pyxla.jit(lambda x: x * math.sqrt(2) + math.fsum([1, 2]) + math.gcd(4, 6))
    np.testing.assert_array_equal(f(np.ones(2)), np.ones(2) * math.sqrt(2) + 5)
    with pytest.raises(pyxla.TraceError):
        pyxla.jit(lambda x: math.gamma(x[0]))(np.ones(2))
    assert math.sqrt is before and math.sqrt(9) == 3.0


CAUGHT = [
    (lambda n, m: n / m, (1, 0), (1, 2)), (lambda n, m: n // m, (1, 0), (7, 2)), (lambda n, m: divmod(n, m), (1, 0), (7, 2)), (lambda n, m: n**m, (0, -1), (2, -1)),
    (lambda n, m: n << m, (1, -1), (1, 2)), (lambda n, m: math.sqrt(n) + m, (-1.0, 1), (4.0, 1)), (lambda n, m: math.exp(n) + m, (1000.0, 1), (1.0, 1)),
    (lambda n, m: round(n) + m, (np.inf, 1), (2.5, 1)), (lambda n, m: n * (m + 0.5), (10**400, 1), (3, 1)),
]


@pytest.mark.parametrize(("f", "bad", "good"), CAUGHT)
def test_exceptions_that_the_function_catches(f, bad, good):
    """What raised for some numbers may not raise for others: neither way is taken for both."""
    def caught(x, n, m):
        try:
            return x * f(n, m)[0] if isinstance(f(n, m), tuple) else x * f(n, m)
        except (ArithmeticError, ValueError):
            return x - 1
    for order in ((bad, good, bad), (good, bad, good)):
        jitted = pyxla.jit(caught)
        for numbers in order:
            np.testing.assert_array_equal(jitted(np.ones(2), *numbers), caught(np.ones(2), *numbers), strict=True)


# Python's numbers that become elements of integer arrays do so by int(), with Python's exceptions.
ELEMENTS = [
    lambda n: np.int8(n), lambda n: np.full(2, n, "i1"), lambda n: np.full((), n, "i1"), lambda n: np.full_like(np.zeros(2, "i1"), n), lambda n: np.array([n, 1], "i1"),
    lambda n: np.insert(np.zeros(2, "i1"), 0, n), lambda n: np.insert(np.zeros(2, "i1"), [0, 1], n), lambda n: np.r_[np.zeros(1, "i1"), n],
    lambda n: in_place(np.put, [0], n), lambda n: in_place(np.place, [True, False], n), lambda n: in_place(np.place, [True, False], [n]), lambda n: in_place(np.putmask, [True, False], n),
    lambda n: in_place(np.copyto, n) if isinstance(n, int) else 0, lambda n: in_place(lambda z, n: z.fill(n), n), lambda n: np.max(np.zeros(2, "i1"), initial=n),
    lambda n: np.clip(np.zeros(2, "i1"), n, None) if isinstance(n, int) else 0,
]


def in_place(f, *args):
    z = np.zeros(2, "i1")
    f(z, *args)
    return z


@pytest.mark.parametrize("f", ELEMENTS)
def test_numbers_as_elements_of_integers(f):
    jitted = pyxla.jit(f)
    for n in (5, 300, -1, -129, 2.5, 1e300, -300.7, np.nan, 6):
        try:
            want = f(n)
        except (OverflowError, ValueError) as e:
            with pytest.raises(type(e)):
                jitted(n)
        else:
            np.testing.assert_array_equal(jitted(n), want, strict=True)


def test_a_number_times_an_array_in_dot():
    """NumPy adds the products to zeros, by BLAS: none is -0."""
    for x in (np.zeros(2), np.zeros((2, 2), "f4"), np.zeros(1), np.zeros((2, 2, 2)), np.zeros(2, "c8")):
        for f in (lambda x, n: np.dot(x, n), lambda x, n: np.dot(n, x), lambda x, n: np.inner(x, n)):
            want, got = f(x, -3.0), pyxla.jit(f)(x, -3.0)
            np.testing.assert_array_equal(np.signbit(got.real), np.signbit(want.real))


@pytest.mark.parametrize("f", [
    lambda x, n: np.full(3, n, "u8"), lambda x, n: np.full_like(x, n), lambda x, n: np.asarray([n, 1], "u8"), lambda x, n: np.uint64(n), lambda x, n: np.where(x > 2, x, n),
    lambda x, n: np.clip(x, 1, n), lambda x, n: x ^ n, lambda x, n: np.maximum(x, n)])
@pytest.mark.parametrize("n", [2**63, 2**64 - 1, 5])
def test_integers_past_int64_where_uint64_takes_them(f, n):
    x = np.arange(6, dtype="u8")
    want, got = f(x, n), pyxla.jit(f)(x, n)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("f", [lambda x, n: np.full(3, n), lambda x, n: np.array([n]), lambda x, n: x + n, lambda x, n: np.full(3, n, "u8")])
@pytest.mark.parametrize("n", [2**64, 10**30])
def test_integers_that_no_dtype_takes_are_refused(f, n):
    with pytest.raises(OverflowError, match=f"Python integer {n} out of bounds"):
        pyxla.jit(f)(np.arange(6, dtype="u8"), n)


@pytest.mark.parametrize("f", [
    lambda x, n: np.array(n), lambda x, n: np.asarray([n, n]), lambda x, n: np.full(3, n), lambda x, n: np.sum([n, 1]), lambda x, n: np.array([n]) // 3,
    lambda x, n: x < n, lambda x, n: n <= x, lambda x, n: x.astype("i1") != n, lambda x, n: x.astype("u8") < n, lambda x, n: np.array(n + 1 - 1)])
def test_the_value_of_an_int_past_int64_chooses_its_dtype(f):
    jitted, x = pyxla.jit(f), np.arange(-2, 4)
    for n in (3, 2**63, 2**64 - 1, 5, -4):
        np.testing.assert_array_equal(jitted(x, n), f(x, n), strict=True)
    assert jitted.cache_info().traces <= 3                # within int64, past it (n + 1 - 1: also by way of 2**64)


def test_ints_past_uint64_are_compared_and_no_arrays():
    x = np.arange(-2, 4)
    for n in (2**64, -2**63 - 1, 10**30, -10**30):
        np.testing.assert_array_equal(pyxla.jit(lambda x, n: x < n)(x, n), x < n)
        with pytest.raises(OverflowError, match="out of bounds"):
            pyxla.jit(lambda n: np.array(n))(n)


def put_at(x, key):
    x[key] = 7
    return x


def add_at(x, key):
    x[key] += x[key] * 2
    return x


@pytest.mark.parametrize("key", [lambda f: f, lambda f: (f, slice(1, None)), lambda f: (slice(1, None), f), lambda f: ([1], f), lambda f: (f, not f),
                                 lambda f: (None, f), lambda f: (..., f), lambda f: (f, 2)])
def test_a_bool_that_is_an_argument_as_an_index(key):
    jitted = [pyxla.jit(lambda x, f, op=op: op(x * 1, key(f))) for op in (lambda x, k: x[k], put_at, add_at)]
    for flag in (True, False, True):
        for f in jitted:
            np.testing.assert_array_equal(f(np.arange(5.0), flag), f.__wrapped__(np.arange(5.0), flag), strict=True)
    assert all(f.cache_info().traces == 2 for f in jitted)


@pytest.mark.parametrize("n", [300, -1, 2**40, 1.5, True])
def test_choose_wraps_integers_around(n):
    i, x = np.arange(5) % 2, np.arange(5, dtype="u1")
    for f in (lambda i, x, n: np.choose(i, [x, n]), lambda i, x, n: np.choose(i, (n, x), mode="wrap")):
        np.testing.assert_array_equal(pyxla.jit(f)(i, x, n), f(i, x, n), strict=True)
