"""The error of every elementary function of the code generator, at every CPU level, against wider arithmetic: float32 against
NumPy's float64, float64 against its 80-bit long double. The bounds are the rows' of ops.def."""
import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import pyxla

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
ROW = re.compile(r"^ELEMENTWISE\((\w+),\s*(\d), T, \"[a-z]+\",\s*MATH,\s*([\d.]+), ([\d.]+),", re.M)
ROWS = {m[1]: (int(m[2]), {"f32": float(m[3]), "f64": float(m[4])}) for m in ROW.finditer((CSRC / "ir/ops.def").read_text())}
TYPES = {"f32": (np.float32, np.float64), "f64": (np.float64, np.longdouble)}
LEVELS = {"sse2": (4, ""), "avx2": (8, "avx2"), "avx512": (16, "avx512dq")}
NEAREST = 6381956970095103 * 2.**797             # the float64 nearest to a multiple of pi/2
WIDEST = 128                                     # lanes of the widest vectors tested: lengths are multiples of it
UNARY = [name for name, (nin, _) in ROWS.items() if nin == 1]
BINARY = [name for name, (nin, _) in ROWS.items() if nin == 2]

pytestmark = [pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs 80-bit long double"),
              pytest.mark.filterwarnings("ignore::RuntimeWarning")]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def has_cpu(flag):
    try:
        return re.search(rf"\b{flag}\b", Path("/proc/cpuinfo").read_text()) is not None
    except OSError:
        return not flag


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """A function of level and lanes: the shared object with all functions so compiled."""
    config = next((c for c in (f"llvm-config-{v}" for v in range(22, 18, -1))
                   if subprocess.run(["which", c], capture_output=True).returncode == 0), None)
    if not config:
        pytest.skip("no llvm-config")
    tmp = tmp_path_factory.mktemp("math")
    flag = lambda *a: subprocess.check_output([config, *a], text=True).split()
    parts = [*(CSRC / "base").glob("*.c"), *(CSRC / "gen").glob("math*.c"), CSRC / "gen/emit.c", CSRC / "gen/fma.c", CSRC / "gen/cpu.c",
             CSRC / "ir/dtype.c", CSRC / "ir/minifloat.c", ROOT / "tests/c/math_functions.c"]
    subprocess.run(["gcc", "-std=gnu17", "-O1", "-ffp-contract=off", f"-I{CSRC}", f"-isystem{flag('--includedir')[0]}", *map(str, parts),
                    *flag("--ldflags", "--libs"), "-lm", "-lpthread", "-o", str(tmp / "emit")], check=True)
    made = {}

    def library(level, lanes):
        if not has_cpu(LEVELS[level][1]):
            pytest.skip(f"no {level}")
        if (level, lanes) not in made:
            out = tmp / f"{level}_{lanes}"
            subprocess.run([str(tmp / "emit"), level, str(lanes), f"{out}.o"], check=True)
            subprocess.run(["gcc", "-shared", "-Wl,-z,defs", f"{out}.o", "-o", f"{out}.so"], check=True)     # no library calls
            made[level, lanes] = ctypes.CDLL(f"{out}.so")
        return made[level, lanes]

    return library


def run(library, name, code, x, y=None):
    n = len(x) + -len(x) % WIDEST
    x, y = np.resize(x, n), np.resize(x if y is None else y, n)
    out = np.empty_like(x)
    getattr(library, f"{name}_{code}")(*(ctypes.c_void_p(v.ctypes.data) for v in (x, y, out)), ctypes.c_int64(n))
    return out


def errors(got, want):
    """In units in the last place of got's dtype, for a wider `want`; inf where a special value or the sign of a zero differs."""
    t, info = got.dtype.type, np.finfo(got.dtype)
    rounded = want.astype(t)
    exponent = np.maximum(np.frexp(np.abs(want))[1], info.minexp + 1)
    error = np.abs(got - want) / np.ldexp(want.dtype.type(1), exponent - info.nmant - 1)
    special = ~(np.isfinite(rounded) & np.isfinite(got))
    error[special] = np.where((got == rounded) | np.isnan(got) & np.isnan(rounded), 0, np.inf)[special]
    zeros = (got == 0) & (rounded == 0)
    error[zeros & (np.signbit(got) != np.signbit(rounded))] = np.inf
    return error


def specials(t):
    info = np.finfo(t)
    v = [0, np.inf, np.nan, 1, 2, .5, 3, 1.5, np.pi, np.e, 10, 100, 1000, 1e10, 1e30, info.tiny, info.smallest_subnormal, 3 * info.smallest_subnormal,
         info.max, info.eps, 1 - info.epsneg, 1 + info.eps, 2**23, 2**23 + 1, 2**24, 2**24 + 2, 2.**52, 2.**52 + 1, 2.**53, 2.**53 + 2, 2.**64]
    return np.array([*v, *(-u for u in v)], t)


def logspace(rng, t, n, low, high, sign=True):
    x = np.ldexp(rng.uniform(1, 2, n), rng.integers(low, high + 1, n)).astype(t)
    return x * np.where(rng.random(n) < .5, -1, 1).astype(t) if sign else x


def float64_points(rng, n):
    """Over all exponents and where functions are interesting: near 1, near multiples of pi/2, in exp's range, powers."""
    multiples = np.concatenate([np.arange(1, n), rng.integers(1, 2**26, n)]) * (np.pi / 2)
    parts = [logspace(rng, np.float64, n, low, high) for low, high in ((-1074, 1023), (-60, 10), (-10, 10), (-2, 2), (-1, 1), (0, 30))]
    parts += [2. ** (rng.integers(-2, 3, n) + .5) * (1 + logspace(rng, np.float64, n, -10, -6)), (rng.integers(-90, 90, n) + .5) * (1 + rng.uniform(-.02, .02, n))]
    parts += [(rng.integers(-90, 90, n) + .5) * np.log(2) * (1 + rng.uniform(-1e-3, 1e-3, n))]      # where arguments are reduced by a unit more
    parts += [rng.uniform(-750, 750, n), rng.uniform(-40, 40, n), rng.uniform(-1, 1, n), rng.uniform(.5, 1.5, n), 1 + logspace(rng, np.float64, n, -50, -5)]
    parts += [multiples, np.nextafter(multiples, 0), 2. ** np.arange(-1074, 1024), 10. ** np.arange(-300, 300), [NEAREST]]
    return np.concatenate(parts)


def unary_points(rng, code, step=99991):
    """Every step-th bit pattern of float32."""
    if code == "f64":
        return np.concatenate([specials(np.float64), float64_points(rng, 20000)])
    patterns = np.arange(rng.integers(step), 2**32, step, np.uint64).astype(np.uint32).view(np.float32)
    multiples = (np.append(np.arange(1, 100000), 16367173 * 2.**72 / (np.pi / 2)) * (np.pi / 2)).astype(np.float32)
    return np.concatenate([specials(np.float32), patterns, multiples, np.float32(2) ** np.arange(-149, 128, dtype=np.float32)])


def binary_points(rng, name, code, n=50000):
    t = TYPES[code][0]
    low, high = (-149, 127) if code == "f32" else (-1074, 1023)
    pairs = [[g.ravel() for g in np.meshgrid(specials(t), specials(t))]]
    pairs += [[logspace(rng, t, n, a, b), logspace(rng, t, n, a, b)] for a, b in ((low, high), (-20, 20), (-2, 2))]
    if name == "power":
        most = 88 if code == "f32" else 709
        for x in (logspace(rng, t, n, low, high, False), (1 + rng.uniform(-.3, .4, n)).astype(t), (1 + logspace(rng, np.float64, n, -22, -3)).astype(t)):
            pairs.append([x, (rng.uniform(-1.1 * most, 1.06 * most, n) / np.log(x.astype(np.longdouble))).astype(t)])
        pairs.append([logspace(rng, t, n, -3, 5), rng.integers(-30, 30, n).astype(t)])
    return [np.concatenate(v) for v in zip(*pairs)]


def check(library, name, code, x, y=None):
    args = (x,) if y is None else (x, y)
    want = getattr(np, name)(*(a.astype(TYPES[code][1]) for a in args))
    error = errors(run(library, name, code, *args)[:len(x)], want)
    worst = int(np.argmax(error))
    assert error[worst] <= ROWS[name][1][code], f"{name} of {[a[worst].item().hex() for a in args]}: {error[worst]} ulp"
    return error[worst]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("code", TYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(libraries, rng, name, code, level):
    check(libraries(level, LEVELS[level][0]), name, code, unary_points(rng, code))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("code", TYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(libraries, rng, name, code, level):
    check(libraries(level, LEVELS[level][0]), name, code, *binary_points(rng, name, code))


@pytest.mark.parametrize("name", ROWS)
def test_bounds_are_not_too_wide(libraries, rng, name):
    """A bound in ops.def says no more than half a unit more than what is met."""
    points = (unary_points(rng, "f64"),) if name in UNARY else binary_points(rng, name, "f64", 100000)
    worst = max(check(libraries(level, LEVELS[level][0]), name, "f64", *points) for level in LEVELS if has_cpu(LEVELS[level][1]))
    assert len([v for v in LEVELS if has_cpu(LEVELS[v][1])]) < 3 or worst >= ROWS[name][1]["f64"] - .5


@pytest.mark.slow
@pytest.mark.parametrize("name", UNARY)
def test_hard_arguments_against_mpmath(libraries, rng, name):
    """Random bit patterns and, for circular functions, the greatest arguments, in 200 bits."""
    mp = pytest.importorskip("mpmath")
    mp.mp.prec = 1300 if name in ("sin", "cos", "tan") else 200
    f = getattr(mp, {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "exp2": "exp"}.get(name, name), None)
    if name in ("exp2", "log2", "cbrt"):
        f = {"exp2": lambda v: mp.mpf(2) ** v, "log2": lambda v: mp.log(v, 2), "cbrt": lambda v: mp.sign(v) * mp.cbrt(abs(v))}[name]
    x = np.concatenate([logspace(rng, np.float64, 1500, low, high) for low, high in ((-1074, 1023), (-30, 5), (-3, 3), (900, 1023))])
    with np.errstate(all="ignore"):
        rough = getattr(np, name)(x)
    x = x[np.isfinite(rough) & (np.abs(rough) > 1e-300) & (np.abs(x) > 1e-300)]
    exact = [f(mp.mpf(float(v))) for v in x]
    for level in LEVELS:
        if has_cpu(LEVELS[level][1]):
            got = run(libraries(level, LEVELS[level][0]), name, "f64", x)[:len(x)]
            far = [float(abs(mp.mpf(float(g)) - w) / mp.mpf(float(np.spacing(abs(float(w)))))) for g, w in zip(got, exact)]
            worst = int(np.argmax(far))
            assert far[worst] <= ROWS[name][1]["f64"], (level, x[worst].hex(), far[worst])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("code", TYPES)
@pytest.mark.parametrize("name", ROWS)
def test_bits_do_not_depend_on_lanes(libraries, rng, name, code, level):
    """Scalars, narrow, native and double width agree, whatever stands in the other lanes."""
    x = rng.permutation(np.concatenate([specials(TYPES[code][0]), unary_points(rng, code, 2999999)[::7]]))
    y = rng.permutation(x)
    lanes = LEVELS[level][0]
    want = run(libraries(level, lanes), name, code, x, y)
    for other in (0, lanes // 2, 2 * lanes, 4 * lanes):
        got = run(libraries(level, other), name, code, x, y)
        different = np.flatnonzero(~((got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)))
        assert not different.size, f"{other} lanes: {name} of {x[different[0]]!r}, {y[different[0]]!r}: {got[different[0]]!r}, {want[different[0]]!r}"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_one_huge_argument_in_each_lane(libraries, name, level):
    lanes = LEVELS[level][0]
    for code, width in (("f32", 2 * lanes), ("f64", lanes)):
        t = TYPES[code][0]
        x = np.full((width, width), .5, t)
        np.fill_diagonal(x, t(1e30) + np.arange(width, dtype=t) * t(1e29))
        check(libraries(level, 2 * lanes), name, code, x.ravel())


@pytest.mark.parametrize("level", LEVELS)
def test_integer_power(libraries, rng, level):
    for code, kind in (("i8", "i1"), ("i16", "i2"), ("i32", "i4"), ("i64", "i8"), ("u8", "u1"), ("u16", "u2"), ("u32", "u4"), ("u64", "u8")):
        info = np.iinfo(kind)
        x = np.concatenate([rng.integers(info.min, info.max, 2048, kind, True), rng.integers(0, 5, 2048).astype(kind)])
        y = rng.integers(0, min(100, info.max), 4096).astype(kind)
        y[:64], y[64:128] = info.max, 0
        for lanes in (0, LEVELS[level][0]):
            np.testing.assert_array_equal(run(libraries(level, lanes), "power", code, x, y), x**y)
            if info.min:
                down = -np.maximum(y, 1)
                want = np.where(x == 1, 1, np.where(x == -1, np.where(y % 2, -1, 1), 0))
                want[y == 0] = np.where(x == 1, 1, np.where(x == -1, -1, 0))[y == 0]
                np.testing.assert_array_equal(run(libraries(level, lanes), "power", code, x, down), want)


# libm's names, where they are not NumPy's.
LIBM = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh"}


@pytest.fixture(scope="module")
def worst_float32(tmp_path_factory):
    """The largest error of a function of the library on a range of bit patterns, and the argument."""
    out = tmp_path_factory.mktemp("every") / "every.so"
    subprocess.run(["gcc", "-std=gnu17", "-O2", "-fPIC", "-shared", str(ROOT / "tests/c/every_float32.c"), "-o", str(out)], check=True)
    every, libm = ctypes.CDLL(str(out)), ctypes.CDLL("libm.so.6")
    every.worst_float32.restype = ctypes.c_double

    def worst(library, name, first, count):
        at, address = ctypes.c_uint32(), lambda lib, f: ctypes.cast(getattr(lib, f), ctypes.c_void_p)
        error = every.worst_float32(address(library, f"{name}_f32"), address(libm, LIBM.get(name, name)), ctypes.c_uint64(first),
                                    ctypes.c_uint64(count), ctypes.byref(at))
        return error, np.uint32(at.value).view(np.float32)

    return worst


@pytest.mark.parametrize("name", ["exp", "arctanh"])
def test_every_float32_finds_an_error(libraries, worst_float32, name):
    """The judge of the slow test beside errors(), on patterns around 1 and on negative ones."""
    level = next(v for v in ("avx512", "avx2", "sse2") if has_cpu(LEVELS[v][1]))
    library = libraries(level, LEVELS[level][0])
    for first in (0x3f7f0000, 0x80000000, 0xbf000000, 0x00000000):
        x = np.arange(first, first + 2**16, dtype=np.uint32).view(np.float32)
        error = errors(run(library, name, "f32", x), getattr(np, name)(x.astype(np.float64)))
        assert worst_float32(library, name, first, 2**16)[0] == pytest.approx(error.max(), rel=1e-6, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", UNARY)
def test_every_float32(libraries, worst_float32, name):
    level = next(v for v in ("avx512", "avx2", "sse2") if has_cpu(LEVELS[v][1]))
    library, worst = libraries(level, LEVELS[level][0]), (0, 0)
    for first in range(0, 2**32, 2**26):
        worst = max(worst, worst_float32(library, name, first, 2**26))
    print(f"{name}: {worst[0]:.3f} ulp at {float(worst[1]).hex()} ({level})", flush=True)
    assert worst[0] <= ROWS[name][1]["f32"]


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("code", TYPES)
@pytest.mark.parametrize("name", BINARY)
def test_many_pairs(libraries, rng, name, code, level):
    """30 million pairs and more, of all exponents and where results are near the ends of the range."""
    library, worst = libraries(level, LEVELS[level][0]), 0
    for _ in range(10):
        worst = max(worst, check(library, name, code, *binary_points(rng, name, code, 1_000_000)))
    print(f"{name} {code}: {worst:.3f} ulp ({level})", flush=True)


@pytest.mark.parametrize("f", [np.exp, np.tan, np.arctanh, lambda x: np.sin(x) * np.exp(x) + np.tanh(x)], ids=["exp", "tan", "arctanh", "three"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_bits_do_not_depend_on_the_extent(f, dtype):
    """Long loops run over more registers at once than short ones, their rests over fewer."""
    x = (np.random.default_rng(0).random(20011) * 0.9).astype(dtype)
    g = pyxla.jit(f)
    assert g(x).tobytes() == np.concatenate([g(x[i : i + 997]) for i in range(0, len(x), 997)]).tobytes()
