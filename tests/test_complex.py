"""Complex numbers: arithmetic to NumPy's bits, functions to a few units in the last place of |w| with C99's special values, views of parts, reductions,
products; over layouts, and interpreter and machine code alike (the whole file runs at every instruction-set level)."""
import numpy as np
import pytest
from checking import OLD, check, check_error, clone, layouts, same, sample

import pyxla

DTYPES = ["complex64", "complex128"]
EXACT = ["negative", "positive", "conjugate", "reciprocal", "rint", "isnan", "isinf", "isfinite", "logical_not",
         "add", "subtract", "divide", "maximum", "minimum", "fmax", "fmin", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
         "logical_and", "logical_or", "logical_xor"]
# units in the last place of |w|, against NumPy in more precision
CLOSE = {"multiply": 1.5, "square": 1.5, "absolute": 2, "sign": 3, "sqrt": 2, "exp": 3, "exp2": 900, "expm1": 4, "log": 3, "log2": 4, "log10": 4, "log1p": 3, "sin": 3,
         "cos": 3, "tan": 4, "arcsin": 4, "arccos": 4, "arctan": 4, "sinh": 3, "cosh": 3, "tanh": 4, "arcsinh": 4, "arccosh": 4, "arctanh": 4}
WIDER = {"complex64": np.complex128, "complex128": np.clongdouble}


def ordinary(dtype, n=2000, seed=0):
    rng = np.random.default_rng(seed)
    return ((rng.standard_normal(n) + 1j * rng.standard_normal(n)) * np.exp(2 * rng.standard_normal(n))).astype(dtype)


def special(dtype):
    f = np.finfo(dtype)
    v = np.array([0.0, -0.0, 1, -1, 0.5, -2.5, np.inf, -np.inf, np.nan, 1e-30, 3e4, f.max, f.tiny / 4], f.dtype)
    z = np.empty((v.size, v.size), dtype)
    z.real, z.imag = v[:, None], v
    return z.ravel()


def sets(dtype, n):
    s = special(dtype)
    yield [ordinary(dtype, seed=k) for k in range(n)]
    yield [s] if n == 1 else [x.ravel() for x in np.meshgrid(s, s)]


def parts(a):
    return (a.real, a.imag) if a.dtype.kind == "c" else (a,)


def same_bits(want, got):
    return all(((w == g) & (np.signbit(w) == np.signbit(g)) | np.isnan(w) & np.isnan(g) if w.dtype.kind == "f" else w == g).all()
               for w, g in zip(parts(want), parts(got)))


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", DTYPES)
def test_exact(name, dtype):
    ufunc = getattr(np, name)
    f = pyxla.jit(lambda *a: ufunc(*a))
    for args in sets(dtype, ufunc.nin):
        with np.errstate(all="ignore"):
            want = ufunc(*args)
        got = f(*clone(args))
        assert got.dtype == want.dtype and same_bits(want, got), name


def error(want, got, eps, tiny):
    """Units in the last place of |w|, where both are finite."""
    known = np.isfinite(want) & np.isfinite(got)
    return np.where(known, np.abs(np.where(known, want - got, 0)) / np.maximum(np.abs(np.where(known, want, 1)), tiny) / eps, 0)


def wild(want, got):
    """Elements in which an infinity or a NaN is not NumPy's. The sign of an infinity beside a NaN is nobody's."""
    bad = np.zeros(want.shape, bool)
    lost = np.isnan(want)
    for w, g in zip(parts(want), parts(got)):
        bad |= (np.isnan(w) != np.isnan(g)) | (np.isinf(w) != np.isinf(g))
        bad |= np.isinf(w) & np.isinf(g) & ~lost & (w != g)
    return bad


@pytest.mark.parametrize("name", CLOSE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions(name, dtype):
    ufunc, info = getattr(np, name), np.finfo(dtype)
    f = pyxla.jit(lambda *a: ufunc(*a))
    for args in sets(dtype, ufunc.nin):
        with np.errstate(all="ignore"):
            plain = ufunc(*args)
            want = ufunc(*[a.astype(WIDER[dtype]) for a in args])
            got = f(*clone(args))
            assert got.dtype == plain.dtype
            if name == "log1p":             # NumPy's loses z to 1 + z
                want = np.where(np.abs(want) < 1e-8, args[0], want)
            far = np.minimum(error(want, got, info.eps, info.tiny), error(plain, got, info.eps, info.tiny))
            if name == "exp2":              # NumPy rounds z log 2 to the dtype first
                far = far * (np.abs(args[0]) < 1e3)
            assert far.max() <= CLOSE[name], (args[0][far.argmax()], want[far.argmax()], got[far.argmax()])
            bad = wild(plain, got) & wild(want.astype(plain.dtype), got)
            if name in ("multiply", "square"):      # inf - inf hangs on the machine's fused operations in NumPy
                bad &= np.abs(args[0]) * np.abs(args[-1]) < info.max
            if OLD and name == "arccosh":            # of 0 + nan j
                bad &= ~np.isnan(args[0].imag)
        assert not bad.any(), (args[0][bad][:3], plain[bad][:3], got[bad][:3])


@pytest.mark.parametrize("name", ["sqrt", "log", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"])
def test_branch_cuts(name):
    x = np.array([-3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0])
    edge = np.concatenate([x + 0j, np.conj(x + 0j), 1j * x, np.conj(1j * x)])
    edge = np.concatenate([edge, [complex(a, s) for a in x for s in (0.0, -0.0)], [complex(s, a) for a in x for s in (0.0, -0.0)]])
    with np.errstate(all="ignore"):
        want = getattr(np, name)(edge)
    got = pyxla.jit(lambda z: getattr(np, name)(z))(edge)
    np.testing.assert_allclose(got, want, rtol=1e-15, atol=1e-15)
    for w, g in zip(parts(want), parts(got)):
        assert (np.signbit(w) == np.signbit(g)).all(), edge[np.signbit(w) != np.signbit(g)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers(dtype):
    x = ordinary(dtype, 200)
    x /= np.abs(x)
    for y in [0, 1, 2, 3, -1, -2, 7, 0.5, 2.0, 1j, -0.25 + 2j, 99, -99]:
        check(lambda x: x ** y, x, rtol=3e-5 if dtype == "complex64" else 3e-13)
    y = np.tile(np.array([0, 1, 2, 3, -1, -2, 5, 0.5], dtype), 25)
    z = x / np.abs(x) * np.asarray(1.5, x.real.dtype)
    check(lambda x, y: (x ** y, np.float_power(x, y)), z, y, rtol=1e-5 if dtype == "complex64" else 1e-13)
    check(lambda x, y: x ** y, np.zeros(7, dtype), np.array([0, 1, -1, 1j, 1 + 2j, -1 + 2j, complex(2, np.nan)], dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(dtype):
    def f(x, y):
        return x + y, -x, np.where(x.real < y.real, x, y), x.imag, x.conj(), abs(x - x.real), x == y, np.concatenate([x, y], 1)

    x, y = sample((5, 13), dtype, 1), sample((5, 13), dtype, 2)
    for _, a in [*layouts(x), ("swapped", x.astype(x.dtype.newbyteorder()))]:
        check(f, a, y)
        check(f, y, a)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 15, 16, 17, 33, 100, 1000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes(dtype, n):
    x, y = sample(n, dtype, 1), sample(n, dtype, 2)
    check(lambda x, y: (x + y, y.real - x.imag, x / (y + 3)), x, y)
    check(lambda x, y: (x[::2] + y[::2], x[::-1] - y), x, y)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("other", ["bool", "int8", "int64", "uint16", "float32", "float64", "complex64", "complex128"])
def test_promotion_and_casts(dtype, other):
    x, y = sample(9, dtype, 1), sample(9, other, 2)
    check(lambda x, y: (x + y, y - x, x == y, np.where(y != 0, x, y), x.astype(other), y.astype(dtype)), x, y)


def test_casts_of_special_values():
    z = np.array([0, -0.0, 1j, complex(np.nan, 0), complex(0, np.nan), complex(np.inf, 1), 3.7 - 2j])
    check(lambda z: (z.astype("complex64"), z.astype(bool), z.astype(float), z.astype("float32"), (z * 0 + 2.5).astype(int)), z)


@pytest.mark.parametrize("number", [2, 1.5, True, 2j, 1 - 3j])
def test_python_numbers(number):
    for dtype in ("float32", "int32", "complex64", "complex128", "float64", "bool"):
        x = sample(9, dtype, 1)
        check(lambda x: (x + number, number * x, x == number), x)
        check(lambda x, s: (x + s, s - x if x.dtype != bool else x, s * x), x, number)
    check(lambda s: (s.real, s.imag, abs(s)), number)


def test_numpy_scalars_and_0d():
    check(lambda a, b: (a + b, a.real, b.imag, a.conj(), np.abs(a), a * 1j), np.complex64(1 + 2j), np.complex128(2 - 1j))
    check(lambda a: (a + 1, a.real, a[()], a.imag[...]), np.array(1 + 2j))
    check(lambda x: x * np.complex64(1 - 2j) + np.complex128(1j), sample(5, "complex64", 1))


def test_parts_are_views():
    def halves(z):
        z.real = 3
        z.imag[::2] += z.real[::2]
        z[1:].real *= 2
        return z.real + z.imag

    def returned(z):
        return z.real, z[1:, ::2].imag, z.imag[0], z.T.real

    z = sample((4, 5), "complex128", 1)
    check(halves, z)
    check(returned, z)
    f = pyxla.jit(returned)
    re, im, row, t = f(z)
    assert re.base is z and np.shares_memory(im, z) and np.shares_memory(row, z) and np.shares_memory(t, z)
    for got, want in zip((re, im, row, t), returned(z)):
        assert got.strides == want.strides and got.ctypes.data == want.ctypes.data
    check_error(lambda x: setattr(x, "imag", 1), sample(3, "float64"))
    check(lambda x: (x.real, x.imag, np.real(x), np.imag(x), np.conj(x), np.angle(x)), sample(3, "float64"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_array_functions(dtype):
    z = sample((3, 4), dtype, 1)
    check(lambda z: (np.real(z), np.imag(z), np.conj(z), np.angle(z), np.iscomplex(z), np.isreal(z), np.round(z, 1), z.round()), z, rtol=1e-6)
    check(lambda z: (np.angle(z, deg=True), np.abs(z), np.absolute(z).sum()), z, rtol=1e-5)
    check(lambda z: (z.T, z.reshape(4, 3), z[None, ::-1], np.stack([z, z]), np.zeros_like(z), np.ones_like(z), np.pad(z, 1), np.roll(z, 1, 0)), z)


def in_place(z, w):
    z += w
    z *= 2j
    z[0] = w[1] - z[0]
    z[:, 1] = 7
    z[1:] -= z[:-1].conj()
    return z


@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place(dtype):
    check(in_place, sample((4, 5), dtype, 1), sample((4, 5), dtype, 2))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 64, 1000, 5003])
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(dtype, n):
    z = sample(n, dtype, 3)
    unit = z / np.maximum(abs(z), 1e-6)
    tol = {"rtol": 2e-5 if dtype == "complex64" else 1e-12, "atol": 1e-5 if dtype == "complex64" else 1e-13}
    check(lambda z: (z.sum(), np.cumsum(z), (z != 0).any(), z.any(), z.all()), z, **tol)
    check(lambda z: (z.prod(), np.cumprod(z)), unit.astype(dtype), rtol=1e-3 if dtype == "complex64" else 1e-11)
    if n:
        check(lambda z: (z.mean(), z.var(), z.std()), z, **tol)
        check(lambda z: (z.max(), z.min(), z.argmax(), z.argmin(), np.max(z)), z)


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), None])
def test_reductions_over_axes(axis):
    z = sample((4, 3, 6), "complex128", 3)
    z.real = np.round(z.real)
    check(lambda z: (z.sum(axis), z.mean(axis), z.var(axis, ddof=1), z.any(axis)), z, rtol=1e-13)
    check(lambda z: (z.max(axis), z.min(axis, keepdims=True)), z, signs=False)
    check(lambda z: z.prod(axis), z, rtol=1e-12)
    if not isinstance(axis, tuple):
        check(lambda z: (z.argmax(axis), z.argmin(axis)), z)
        check(lambda z: (np.cumsum(z, axis), np.cumprod(z, axis)), z, rtol=1e-12)


def test_variance_of_one_number():
    check(lambda z: (z.var(), z.std()), np.array(1 + 2j))
    check(lambda z: (np.var(z, where=z.real > 0), z.var(0, mean=z.mean(0, keepdims=True))), sample((4, 3), "complex128", 1), rtol=1e-13)


def test_extremes_with_nan():
    z = np.array([1 + 1j, complex(2, np.nan), 3, complex(np.nan, 0), complex(-np.inf, -np.inf)])
    f = pyxla.jit(lambda z: (z.max(), z.min(), z.argmax(), z.argmin()))
    most, least, first, last = f(z)
    assert np.isnan(most) and np.isnan(least) and first == 1 and last == 1
    check(lambda z: (z.max(), z.min(), z.argmax(), z.argmin()), np.array([complex(-np.inf, -np.inf), complex(-np.inf, 2)]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_products(dtype):
    tol = 2e-5 if dtype == "complex64" else 1e-13
    for m, k, n in [(1, 1, 1), (3, 4, 5), (17, 33, 9), (64, 64, 64), (2, 0, 3)]:
        a, b = sample((m, k), dtype, 1), sample((k, n), dtype, 2)
        check(lambda a, b: a @ b, a, b, rtol=tol)
    check(lambda a, b: (np.dot(a, b), np.vdot(a, b), np.inner(a, b), np.outer(a, b)), sample(7, dtype, 1), sample(7, dtype, 2), rtol=tol)
    check(lambda a, b: (np.linalg.norm(a), np.linalg.norm(a, axis=0), np.linalg.norm(a, 1), np.linalg.vecdot(a, b), np.nan_to_num(a)),
          sample((3, 4), dtype, 1), sample((3, 4), dtype, 2), rtol=tol)
    check(lambda a, b: (np.einsum("ij,jk->ik", a, b), a.conj().T @ a), sample((4, 4), dtype, 1), sample((4, 4), dtype, 2), rtol=tol)


def test_captured_and_created():
    table = sample(6, "complex128", 5)

    def f(x):
        z = np.zeros(6, complex)
        z[1:3] = x[:2] + 1j
        return z + table, np.full(3, 1 + 2j), np.array([1j, 2.0]), np.array([x[0], 1j]), 1j * np.arange(3)

    check(f, sample(6, "float64", 1))


def test_at():
    def f(z, w):
        z = z + 0
        np.add.at(z, [0, 0, 2], w)
        np.subtract.at(z, [1, 1], w[0])
        z[[0, 1]] += 1j
        return z, z[[2, 0]]

    check(f, sample((3, 4), "complex128", 1), sample((3, 4), "complex128", 2))

    def product(z):
        z = z + 0
        np.multiply.at(z, [0, 0], 2j)
        return z

    check(product, sample(3, "complex128"))


def test_a_program():
    """A hand-written Fourier transform, step by step."""
    def fft(x):
        n = x.shape[0]
        if n == 1:
            return x
        even, odd = fft(x[::2]), fft(x[1::2])
        turned = np.exp(-2j * np.pi * np.arange(n // 2) / n) * odd
        return np.concatenate([even + turned, even - turned])

    x = sample(64, "complex128", 1)
    np.testing.assert_allclose(pyxla.jit(fft)(x), np.fft.fft(x), atol=1e-13)


def test_refused():
    for f in (lambda z: np.floor(z), lambda z: z // 2, lambda z: z % 2, lambda z: np.arctan2(z, z), lambda z: np.cbrt(z), lambda z: z & 1):
        check_error(f, sample(3, "complex128"))


@pytest.mark.parametrize("form", ["x.max()", "x.min(0)", "x.max(1)", "x[:, :1].max(1)", "np.ptp(x[:, 2:3], 1)", "x[x == x].max()", "x[x != 5].min()", "x.T.max(0)", "np.max(x, axis=(0, 1), keepdims=True)"])
def test_the_extremes_with_a_nan_are_the_first_one(form):
    n = np.nan
    f = eval(f"lambda x: {form}", {"np": np})
    x = np.array([[1 + 2j, complex(n, 3), complex(0.25, n), 5], [1 + 2j, 0, complex(n, 1), 5]])
    same(f(x), pyxla.jit(f)(x))


@pytest.mark.parametrize("other", ["?", "i2", "i8", "u8", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scalars_have_an_order_of_their_own(dtype, other):
    """Beside an imaginary NaN different real parts decide, where NumPy compares scalars and no arrays."""
    def f(a, b):
        x, y = a[()], b[()]
        return x < y, x <= y, x > y, x >= y, y < x, y >= x, x == y, x > 1, 1.5 >= x, x < b, a > y, np.greater(x, y)

    g = pyxla.jit(f)
    for z in (complex(1, np.nan), complex(2.5, np.nan), complex(np.nan, 1), complex(np.inf, np.nan), 1 + 2j):
        for b in (0, 1, 2):
            args = np.array(z, dtype), np.array(b).astype(other)
            same(f(*args), g(*args))


# A Python complex number and an np.float64, a float to it: the result is Python's.
WEAK = """
1j * x[0], 1j + x[0], 1j - x[1], 2j / x[1], 1j ** x[1], c * x.sum(), (1j * x[0]) * y, (c - x[1] + x[2]) * y, -(1j * x[1]) * y
(2j * x[1]).real * y, (2j * x[1]).imag, (c * x[1]).conjugate() * y, abs(2j * x[1]) * y, (1j * x[1]) ** 2 * y, 3 / (1j * x[1]), 2 ** (1j * x[1])
np.exp(1j * x[1] * y), np.exp(1j * x[1]) * y, np.add(1j * x[1], y), np.where(y > 2, 1j * x[1], y), np.full(2, 1j * x[1]), np.float32(2) * (1j * x[1])
x[1] + 1j * x[2], x[1] * (1j * x[2]) * y, (1j * x[1] + 1) * y[0], sum([1j * v for v in x]), np.sum([1j * v for v in x]), np.prod([c * x[1], 2.0])
np.array(1j * x[1]), np.array([1j * v for v in x]), np.concatenate([[1j * x[1]], y]), np.stack([c * x[1], x[2]]), np.diag([c * x[1], x[1]]), np.complex64(c * x[1])
x[1] * 1j * y, y[1] * 1j * y, 1j * y[1] * y, 1j * x[:1] * y, isinstance(1j * x[1], complex), np.iscomplexobj(1j * x[1]), 1j == x[1]
""".strip().splitlines()


@pytest.mark.parametrize("form", WEAK)
def test_pythons_complex_numbers_and_float64(form):
    f = eval(f"lambda x, y, c: ({form})")
    x = np.arange(4.0)
    for c in (2.5 - 1j, 3.0):
        for got, want in zip(pyxla.jit(f)(x, x.astype("f4"), c), f(x, x.astype("f4"), c), strict=True):
            assert type(got) is type(want) or type(want) is bool
            assert getattr(got, "dtype", None) == getattr(want, "dtype", None) or type(want) is bool
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_pythons_complex_numbers_divide_and_compare_as_pythons():
    x = np.zeros(3)
    with pytest.raises(ZeroDivisionError):
        pyxla.jit(lambda x: 1j / x[0])(x)
    with pytest.raises(TypeError):
        pyxla.jit(lambda x: 1j * x[0] < 3)(x)
    with pytest.raises(TypeError):
        pyxla.jit(lambda x: 1j * x[0] // 3)(x)
