"""Every ufunc of the op table over dtypes, shapes, layouts and special values: rows that say they are exact agree with NumPy bit for bit,
the others lie within the row's ulp of a result in higher precision. A new row of ops.def is tested without a line here."""
import re
from pathlib import Path

import numpy as np
import pytest
from checking import DTYPES, check, check_error, clone, extremes, layouts, sample, ulps

import pyxla

OPS = (Path(__file__).resolve().parent.parent / "csrc/ir/ops.def").read_text()
ROW = re.compile(r"^ELEMENTWISE\((\w+),\s*(\d), (\w+),\s*\"(\w+)\",\s*\w+,\s*([\d.]+),\s*([\d.]+),\s*(\w+),", re.M)
COMPOSITE = re.compile(r"^COMPOSITE\((\w+),\s*(\d),", re.M)
# id -> (inputs, ulp of float32, ulp of float64)
TABLE = {name: (int(n), float(u32), float(u64)) for name, n, _, _, u32, u64, _ in ROW.findall(OPS) if isinstance(getattr(np, name, None), np.ufunc)}
TABLE |= {name: (int(n), 0.0, 0.0) for name, n in COMPOSITE.findall(OPS)}
TABLE |= {"logaddexp": (2, 4.0, 4.0), "logaddexp2": (2, 4.0, 4.0), "float_power": (2, 4.0, 4.0), "positive": (1, 0.0, 0.0), "fabs": (1, 0.0, 0.0),
          "conjugate": (1, 0.0, 0.0)}
TABLE.pop("where", None)
SIGN_OF_ZERO_IS_FREE = {"maximum", "minimum", "fmax", "fmin"}
CASES = [(name, dtype) for name in TABLE for dtype in DTYPES]


def result_dtype(ufunc, n, dtype):
    """NumPy's result dtype, or None where it refuses."""
    try:
        types = ufunc.resolve_dtypes((*[np.dtype(dtype)] * n, None))
    except TypeError:
        return None
    return types[-1]


def special_arguments(name, n, dtype):
    """All combinations of a dtype's special values, and ordinary ones."""
    values = np.concatenate([extremes(dtype), sample(40, dtype, 1), sample(23, dtype, 2) * np.asarray(3, dtype)])
    if n == 1:
        return [values]
    x, y = (np.ascontiguousarray(v).ravel() for v in np.meshgrid(values, values))
    if name in ("power", "float_power") and np.dtype(dtype).kind == "i":
        y = np.abs(y.astype(np.int64)).clip(0, 100).astype(dtype)
    return [x, y]


def reference(ufunc, args, dtype):
    """The result in higher precision, rounded once."""
    wide = {np.float16: np.float32, np.float32: np.float64, np.float64: np.longdouble}[np.dtype(dtype).type]
    with np.errstate(all="ignore"):
        return ufunc(*[a.astype(dtype).astype(wide) for a in args]).astype(dtype)


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda v: v)
def test_values(name, dtype):
    n, ulp32, ulp64 = TABLE[name]
    ufunc = getattr(np, name)
    out = result_dtype(ufunc, n, dtype)
    if out is None:
        pytest.skip("NumPy refuses")
    args = special_arguments(name, n, dtype)
    ulp = {"float16": min(ulp32, 1), "float32": ulp32, "float64": ulp64}.get(out.name, 0)
    if not ulp:
        check(lambda *a: ufunc(*a), *args, signs=name not in SIGN_OF_ZERO_IS_FREE)
        return
    got = pyxla.jit(lambda *a: ufunc(*a))(*args)
    want = reference(ufunc, args, out)
    assert got.dtype == out
    distance = ulps(want, got)
    if name.startswith("logaddexp"):                    # it cancels where the sum of the exponentials is near 1
        scale = np.maximum(np.maximum(np.abs(args[0]), np.abs(args[1])), 1)
        with np.errstate(all="ignore"):
            distance = np.where(np.abs(want - got) <= 2 * np.spacing(scale), 0, distance)
    worst = int(np.argmax(distance))
    assert distance[worst] <= np.ceil(ulp), f"{name}({', '.join(repr(a[worst]) for a in args)}) = {got[worst]!r}, {want[worst]!r} is right"


SHAPES = {1: [((),), ((0,),), ((1,),), ((3, 0, 2),), ((7,),), ((2, 3, 5),), ((33, 17),)],
          2: [((), ()), ((0,), (1,)), ((1,), ()), ((3, 1), (1, 4)), ((5,), (2, 1, 5)), ((4, 5), (5,)), ((1, 1, 7), (6, 1)), ((37, 41), (37, 1))]}


@pytest.mark.parametrize("name", TABLE)
def test_shapes(name):
    n = TABLE[name][0]
    ufunc = getattr(np, name)
    dtype = next(d for d in ("float64", "int32", "bool") if result_dtype(ufunc, n, d) is not None)
    jitted = pyxla.jit(lambda *a: ufunc(*a))
    for shapes in SHAPES[n]:
        args = [np.asarray(np.abs(sample(s, dtype, k)) * 0.5 if dtype == "float64" else np.abs(sample(s, dtype, k))) for k, s in enumerate(shapes)]
        with np.errstate(all="ignore"):
            want = ufunc(*args)
        got = jitted(*clone(args))
        assert type(got) is type(want) and got.dtype == want.dtype and got.shape == want.shape, (name, shapes)
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_layouts():
    def f(x, y):
        return x + y, x * y - x, np.sqrt(np.abs(x)), np.where(x < y, x, y), x / y, np.floor(x), -x

    y = sample((5, 13), "float64", 1)
    for name, x in layouts(sample((5, 13), "float64", 2)):
        check(f, x, y)
        check(f, y, x), name


@pytest.mark.parametrize("x", ["float32", "int8", "uint16", "bool"])
@pytest.mark.parametrize("y", DTYPES)
def test_promotion(x, y):
    a, b = sample(9, x, 1), sample(9, y, 2)
    check(lambda a, b: (a + b, a * b, np.maximum(a, b), a == b, a < b, np.where(a > 0, a, b)), a, b, signs=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", [2, 3.5, True, -1])
def test_python_numbers(dtype, number):
    x = sample(9, dtype, 1)

    def f(x, s):
        return x + s, s - x.astype("float32"), x * s, x / s if x.dtype.itemsize > 1 else x, x == s, x > s, np.maximum(x, s)

    if number == -1 and np.dtype(dtype).kind == "u":
        check_error(f, x, number)
        check_error(lambda x: x + -1, x)
        return
    check(f, x, number, signs=False)
    check(lambda x: (x + number, number * x, x == number), x)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, 0.5, 2.0, -0.5])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_constant_powers(dtype, exponent):
    x = np.abs(sample(20, dtype, 3)) + np.asarray(1, dtype)
    if exponent < 0 and np.dtype(dtype).kind in "iu" and isinstance(exponent, int):
        check_error(lambda x: x ** exponent, x)
        return
    check(lambda x: x ** exponent, x, ulp=4)


@pytest.mark.parametrize("f", [lambda x: x.round(1), lambda x: np.around(x, -1), lambda x: x.__ipow__(2), lambda x: x.__ipow__(1)])
def test_truth_values_are_not_made_of_numbers(f):
    check_error(f, sample(5, "bool", 1))
    check(lambda x: (x.round(), x ** 2), sample(5, "bool", 1))


def test_negative_integer_power_is_an_error():
    check_error(lambda x, y: x ** y, np.array([1, 2, 3]), np.array([1, -1, 2]))


@pytest.mark.parametrize("src", DTYPES)
def test_casts(src):
    x = sample(50, src, 1)
    if np.dtype(src).kind == "f":
        x = np.concatenate([x * 3, [0.0, -0.0, 0.5, -0.5, 1e4]]).astype(src)
    check(lambda x: [x.astype(d) for d in DTYPES if not (x.dtype.kind == "f" and d[0] == "u" or d == "int8")], x)


@pytest.mark.parametrize("src", [d for d in DTYPES if d != "bool"])
def test_casts_of_extremes(src):
    x = extremes(src)
    if np.dtype(src).kind != "f":
        check(lambda x: [x.astype(d) for d in DTYPES], x)
    else:
        check(lambda x: [x.astype(d) for d in ("bool", "float32", "float64")], x)


def test_unary_operators_and_methods():
    check(lambda x: (-x, +x, abs(x), x // 2, x % 3, divmod(x, 2.0), x ** 2, 2 ** x), sample(9, "float64", 1), ulp=4)
    check(lambda x: (~x, x & 3, x | 4, x ^ x, x << 2, x >> 1, -x), sample(9, "int32", 1))
    check(lambda x: (~x, x & x, x | True, x ^ x), sample(9, "bool", 1))


def test_two_results():
    check(lambda x: (np.divmod(x, 3), np.modf(x.astype(float))), sample(9, "int64", 1))
    check(lambda x: np.modf(x), extremes("float64"))
    check(lambda x: np.divmod(x, 0.7), sample(50, "float32", 1))


def test_ufunc_keywords():
    x, y = sample((3, 4), "float64", 1), sample((3, 4), "float64", 2)
    check(lambda x, y: np.add(x, y, dtype="float32"), x, y)
    check(lambda x, y: np.add(x, y, out=x), x, y)
    check(lambda x, y: np.multiply(x, y, out=np.zeros((3, 4))), x, y)
    check_error(lambda x, y: np.add(x, y, out=np.zeros(3)), x, y)


def test_numpy_scalars():
    check(lambda a, b: (a + b, a * 2, np.sqrt(a), a > b), np.float64(2.0), np.float32(1.5))
    check(lambda a, x: (a * x, x + a), np.float64(2.0), sample(4, "float32", 1))


def test_0d():
    check(lambda a, b: (a + b, np.exp(a), a[()], a[...]), np.array(2.0), np.array(3.0), ulp=2)


def longs(dtype, n):
    """Numbers of all magnitudes, and those where quotients and their floats change."""
    r, info = np.random.default_rng(n), np.iinfo(dtype)
    edges = [v + d for v in (0, 2**31, 2**32, 2**53, 2**62, 2**63, 2**64, -2**31, -2**53, -2**63) for d in (-2, -1, 0, 1, 2) if info.min <= v + d <= info.max]
    x = (r.integers(0, 2**63, n).astype("uint64") * 2 + 1) >> r.integers(0, 64, n).astype("uint64")
    return np.concatenate([np.array(edges, dtype), x.astype(dtype), (np.uint64(0) - x).astype(dtype)])


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("f", [np.floor_divide, np.remainder, np.fmod, np.divmod], ids=lambda f: f.__name__)
def test_long_quotients(dtype, f):
    """Vectors divide 64-bit integers by floats and mend, or multiply by what stands for a constant."""
    a, b = np.meshgrid(longs(dtype, 60), longs(dtype, 61))
    check(lambda a, b: f(a, b), a.ravel(), b.ravel())
    x = longs(dtype, 200)
    for d in (1, 2, 3, 7, 10, 641, 1000, 6700417, 2**31, 2**32 - 1, 2**32 + 1, 2**53, 2**62 + 1, 2**63 - 1, 0, *([-1, -3, -2**40] if dtype == "int64" else [2**63, 2**63 + 1, 2**64 - 1])):
        d = np.array(d, dtype)[()]
        check(lambda a, d=d: f(a, d), x)
        check(lambda a, d: f(a, d), x, d)
