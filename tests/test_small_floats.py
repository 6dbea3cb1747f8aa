"""float16, and ml_dtypes' bfloat16 and 8-bit floats where that package is there: every conversion over all values, rounding after each operation,
sums in float32."""
import numpy as np
import pytest
from checking import check, check_error, layouts, sample

import pyxla

ml_dtypes = pytest.importorskip("ml_dtypes")
EIGHT = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e3m4", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz"]
SMALL = [np.dtype(np.float16), *(np.dtype(getattr(ml_dtypes, n)) for n in ["bfloat16", *EIGHT])]
HALVES = SMALL[:2]
each = pytest.mark.parametrize("dtype", SMALL, ids=lambda d: d.name)
halves = pytest.mark.parametrize("dtype", HALVES, ids=lambda d: d.name)


def everything(dtype):
    return np.arange(1 << 8 * dtype.itemsize).astype(f"u{dtype.itemsize}").view(dtype)


def some(shape, dtype, seed=0):
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32).astype(dtype)


def assert_same(want, got):
    assert want.dtype == got.dtype and want.shape == got.shape
    same = (want.view(f"u{want.itemsize}") == got.view(f"u{got.itemsize}")) | (want != want) & (got != got)
    assert same.all(), (want[~same][:5], got[~same][:5])


def plain(f, *args):
    import warnings
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*args)


def compare(f, *args):
    want, got = plain(f, *args), pyxla.jit(f)(*args)
    for w, g in zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]:
        assert_same(np.asarray(w), np.asarray(g))


@each
def test_to_others(dtype):
    x = everything(dtype)
    for to in ["float32", "float64", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]:
        compare(lambda x: x.astype(to), x)
    compare(lambda x: (x.astype("complex64").real, x.astype("complex128").imag), x)


def near(dtype):
    """Values of the dtype, the middles between them, and float32 neighbours of both."""
    x = everything(dtype).astype(np.float32)
    x = np.unique(x[np.isfinite(x)])
    with np.errstate(all="ignore"):
        y = np.concatenate([x, (x[1:] + x[:-1]) / 2, [np.inf, -np.inf, np.nan, 1e38, -1e38, 1e-44, -0.0]]).astype(np.float32)
        return np.concatenate([y, np.nextafter(y, np.float32(np.inf)), np.nextafter(y, np.float32(-np.inf))])


@each
def test_from_others(dtype):
    y = near(dtype)
    compare(lambda y: y.astype(dtype), y)
    with np.errstate(all="ignore"):
        wide = np.concatenate([y.astype(float), y * (1 + 2.0**-45), y * (1 - 2.0**-45), [1e300, -1e300, 5e-324]])
    compare(lambda y: y.astype(dtype), wide)
    for other in ["int8", "uint8", "int32", "int64", "uint64", "bool"]:
        compare(lambda y: y.astype(dtype), np.concatenate([np.arange(-300, 300), 2 ** np.arange(62) + 1, 2 ** np.arange(62) - 1]).astype(other))


UNARY = ["negative", "absolute", "sqrt", "square", "sign", "floor", "ceil", "trunc", "rint", "reciprocal", "isnan", "isinf", "isfinite", "signbit", "logical_not", "positive"]


@halves
@pytest.mark.parametrize("name", UNARY)
def test_unary(dtype, name):
    if name == "sign" and dtype.name == "bfloat16":     # ml_dtypes keeps the sign of a zero
        name = "positive"
    compare(lambda x: getattr(np, name)(x), everything(dtype))


@halves
@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tanh", "arctan", "log1p", "expm1", "cbrt", "exp2", "sinh", "arcsinh"])
def test_functions(dtype, name):
    """float32's result rounded: at most the other neighbour where that lies near the middle."""
    x = everything(dtype)
    want, got = plain(getattr(np, name), x), pyxla.jit(lambda x: getattr(np, name)(x))(x)
    i, j = (v.view(np.int16).astype(int) for v in (want, got))
    far = np.where((want != want) & (got != got) | (want == got), 0, np.abs(i - j))
    assert far.max() <= 1 and (far > 0).mean() < 1e-2


@each
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "minimum", "less", "equal", "less_equal", "not_equal", "copysign",
                                  "floor_divide", "remainder", "fmax", "logical_and", "logical_or"])
def test_binary(dtype, name):
    values = everything(dtype)
    if dtype.itemsize == 2:
        values = np.concatenate([values[::311], values[-40:], values[:20], values[0x7bf0:0x7c10], values[0x3bf8:0x3c08]])
    x, y = (np.ascontiguousarray(v).ravel() for v in np.meshgrid(values, values))
    if dtype.name not in ("float16", "bfloat16") and name in ("floor_divide", "remainder"):
        x, y = x[(y != 0) & np.isfinite(x.astype("f4")) & np.isfinite(y.astype("f4"))], y[(y != 0) & np.isfinite(x.astype("f4")) & np.isfinite(y.astype("f4"))]
    if name == "copysign" and dtype.name.endswith("fnuz"):      # ml_dtypes makes -0 there, which is NaN
        x = np.where(x == 0, dtype.type(1), x)
    if name in ("maximum", "minimum", "fmax"):          # which of two zeros
        x, y = x[(x != 0) | (y != 0)], y[(x != 0) | (y != 0)]
    compare(lambda x, y: getattr(np, name)(x, y), x, y)


@each
def test_products(dtype):
    """Of matrices in float32 where NumPy finds no loop of the dtype; small whole numbers, whose sums are exact."""
    x, y = (np.random.default_rng(k).integers(-2, 3, shape).astype(dtype) for k, shape in enumerate([(5, 4), (4, 3)]))
    compare(lambda x, y: (x @ y, np.matmul(x[0], y), np.vecdot(x, x), np.linalg.matmul(x, y), np.linalg.matrix_power(x[:4], 3)), x, y)
    compare(lambda x, y: (np.dot(x, y), np.inner(x, x), np.vdot(y, y), np.tensordot(x, y, 1), np.linalg.multi_dot([x, y])), x, y)
    compare(lambda x, y: (np.clip(x, 0, 1.5), x.clip(-1, x[0]), np.linalg.norm(x), x.round(1), x ** 0.5, np.nanmax(x), np.nanmedian(x)), x, y)


@halves
def test_each_operation_rounds(dtype):
    x, y = some(1000, dtype, 1), some(1000, dtype, 2)
    compare(lambda x, y: (x * y + x, (x + y) * (x - y), x / (y + x), -x * 2 + y, np.where(x < y, x, y) * x), x, y)


@each
def test_layouts(dtype):
    def f(x):
        return x + x, x.astype("float32"), np.concatenate([x, x[::-1]]), x.T, x[1:, ::2]

    for _, x in layouts(some((5, 13), dtype, 1)):
        for want, got in zip(f(x), pyxla.jit(f)(x), strict=True):
            assert_same(np.asarray(want, order="C"), np.asarray(got, order="C"))


@each
def test_in_place(dtype):
    def f(x):
        x[0] = 2
        x[:, 1] += x[:, 2]
        x *= x
        return x

    a, b = some((4, 5), dtype), some((4, 5), dtype)
    plain(f, a)
    assert pyxla.jit(f)(b) is b
    assert_same(a, b)


@pytest.mark.parametrize("other", ["bool", "int8", "int64", "uint8", "float16", "float32", "float64", "complex64"])
@halves
def test_promotion(dtype, other):
    x, y = some(9, dtype), sample(9, other, 2)
    f = lambda x, y: (x + y, y * x, x < y if y.dtype.kind != "c" else x == y)
    for want, got in zip(plain(f, x, y), pyxla.jit(f)(x, y), strict=True):
        assert want.dtype == got.dtype and (want == got).all()


@halves
@pytest.mark.parametrize("number", [2, 1.5, True, 3])
def test_python_numbers(dtype, number):
    x = some(9, dtype)
    for f in (lambda x: (x + number, number * x, x < number, np.maximum(x, number)), lambda x: x / number):
        compare(f, x)
    want, got = x + number, pyxla.jit(lambda x, s: x + s)(x, number)
    assert_same(np.asarray(want), np.asarray(got))


@halves
@pytest.mark.parametrize("n", [0, 1, 5, 100, 5000])
def test_sums_are_of_float32(dtype, n):
    x = np.abs(some(n, dtype, 3))
    total = pyxla.jit(lambda x: x.sum())(x)
    assert_same(np.asarray(x.astype(np.float64).sum().astype(np.float32)).astype(dtype), np.asarray(total)) if n < 1000 else None
    assert total.dtype == dtype and abs(float(total) - x.astype(float).sum()) <= 2**-7 * max(x.astype(float).sum(), 1)
    if n:
        for f in (lambda x: x.max(), lambda x: x.min(), lambda x: x.argmax(), lambda x: (x != 0).any()):
            assert np.asarray(plain(f, x)) == np.asarray(pyxla.jit(f)(x))
    compare(lambda x: np.cumsum(x), x[:100])


def test_mean_of_float16():
    x = np.full(5000, 60000, np.float16)
    check(lambda x: (x.mean(), x.mean(0, keepdims=True)), x)
    check(lambda x: (x.var(), x.std()), some(1000, "float16"), rtol=4e-3)
    check(lambda x: x @ x.T, some((5, 7), "float16"), rtol=4e-3)


def test_float16_comes_of_small_integers():
    check(lambda x: (np.sqrt(x), np.exp(x), x / np.float16(3)), np.arange(-5, 20, dtype=np.int8), ulp=1)
    check(lambda x: np.sin(x), np.arange(250, dtype=np.uint8), ulp=1)


def test_captured_created_and_scalars():
    bf = ml_dtypes.bfloat16
    table = some(5, bf)

    def f(x):
        z = np.zeros(5, bf)
        z[1:] = x[1:]
        return z + table, np.full(3, 1.5, bf), x[0], x[1] * x[2], np.ones(2, np.float16)

    compare(f, some(5, bf, 2))
    compare(lambda a, x: a * x, bf(1.5), some(3, bf))
    assert pyxla.jit(lambda x: x[0])(table).dtype == table.dtype


def test_refused():
    check_error(lambda x: x << 1, some(3, "float16"))
    check_error(lambda x: x & x, some(3, ml_dtypes.bfloat16))
