"""Reductions and scans: axes, dtypes, sizes around every block, ties and NaN, accuracy, and bits that do not depend on the run."""
import math
import re

import numpy as np
import pytest
from checking import DTYPES, FLOATS, INTS, check, check_error, extremes, layouts, same, sample, unaligned

import pyxla

SIZES = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 511, 513, 1000, 4095, 4096, 4097, 8192, 12289, 100003]
AXES = [None, 0, 1, 2, -1, (0, 1), (0, 2), (1, 2), (2, 0), (0, 1, 2), ()]


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes(axis, keepdims):
    def f(x, i, b):
        options = {"axis": axis, "keepdims": keepdims}
        return (i.sum(**options), i.max(**options), x.min(**options), b.any(**options), b.all(**options), np.prod(i, **options))

    check(f, sample((5, 6, 7), "float64", 1), sample((5, 6, 7), "int32", 2), sample((5, 6, 7), "bool", 3))


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_float_axes(axis):
    check(lambda x: (x.sum(axis), x.mean(axis), x.var(axis), x.std(axis, ddof=1), x.prod(axis)), sample((5, 6, 7), "float64", 1), rtol=1e-14)
    check(lambda x: (x.sum(axis), x.mean(axis), x.var(axis)), sample((5, 6, 7), "float32", 1), rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    x = sample((9, 11), dtype, 1)
    check(lambda x: (x.sum(), x.sum(0), x.prod(1), x.mean(0), x.cumsum(1), x.cumprod(0)), x, rtol=1e-6 if dtype == "float32" else 1e-14)
    check(lambda x: (x.max(), x.min(0), x.argmax(1), x.argmin(), x.any(0), x.all(1), np.count_nonzero(x, 1)), x)


def test_deviation_in_integers_is_refused():
    x = sample((4, 5), "int32", 1)
    check(lambda x: np.std(x, dtype="int32"), x)
    assert "Cannot cast ufunc 'sqrt' output" in check_error(lambda x: np.std(x, axis=0, dtype="int32"), x)
    check_error(lambda x: x.std(dtype=np.uint16, keepdims=True), x)


@pytest.mark.parametrize("dtype", INTS)
def test_integers_wrap(dtype):
    x = np.tile(extremes(dtype), 40)
    check(lambda x: (x.sum(), x.sum(dtype=x.dtype), x.prod(), np.cumsum(x), np.cumsum(x, dtype=x.dtype), x.max(), x.min()), x)


@pytest.mark.parametrize("n", SIZES)
def test_sizes(n):
    x, i = sample(n, "float64", n), sample(n, "int64", n)
    check(lambda x, i: (i.sum(), x.max(), x.min(), x.argmax(), x.argmin(), (x > 9).any(), (x < 9).all(), i.cumsum()), x, i)
    check(lambda x: (x.sum(), x.mean(), x.var(), x.cumsum()), x, rtol=1e-13 if n < 10 ** 5 else 1e-11)


@pytest.mark.parametrize("shape", [(1, 1), (1, 100), (100, 1), (3, 5000), (5000, 3), (513, 65), (64, 64), (2, 3, 1000), (1000, 2, 3), (0, 5), (5, 0)], ids=str)
def test_shapes(shape):
    x = sample(shape, "float64", 1)
    for axis in range(len(shape)):
        check(lambda x: (x.sum(axis), x.mean(axis), x.var(axis)), x, rtol=1e-13)
        if 0 not in shape:
            check(lambda x: (x.max(axis), x.argmin(axis), x.cumsum(axis)), x, rtol=1e-14)


@pytest.mark.parametrize("dtype", FLOATS + ["int16"])
def test_layouts(dtype):
    for _, x in layouts(sample((37, 41), dtype, 4)):
        check(lambda x: (x.sum(0), x.sum(1), x.sum(), x.var(0)), x, rtol=2e-6 if dtype == "float32" else 1e-13)
        check(lambda x: (x.max(0), x.min(1), x.argmax(), x.argmax(0), np.any(x, 1)), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_wide_columns(dtype):
    x = sample((5, 3001), dtype, 1)
    check(lambda x: (x.max(0), x.argmin(0), x.cumsum(0), x.sum(0, dtype="int64"), x.any(0)), x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_ties(dtype):
    x = np.array([[1, np.nan, 3, np.nan], [2, 2, 1, 1], [-np.inf, 0, np.inf, np.inf], [np.nan] * 4, [0.0, -0.0, 0.0, -0.0]], dtype)
    check(lambda x: (x.max(1), x.min(1), x.argmax(1), x.argmin(1), x.max(), x.argmax(), x.max(0), x.argmin(0)), x, signs=False)
    check(lambda x: (x.sum(1), x.prod(1), x.any(1), x.all(1)), x, signs=False)
    wide = np.tile(x[:, :1], (1, 1000))
    wide[0, 777] = np.nan
    wide[1, [5, 900]] = 9
    check(lambda x: (x.argmax(1), x.argmin(1), x.max(1)), wide, signs=False)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float32", "float64"])
def test_argmax_of_lanes_and_blocks(dtype):
    """The first of equal ones and the first NaN, wherever it stands: in every lane, in the tail, in another block."""
    least = -np.inf if dtype.startswith("float") else 0 if dtype == "bool" else np.iinfo(dtype).min
    f = pyxla.jit(lambda x: (np.argmax(x), np.argmin(x), np.argmax(x, axis=1), np.argmin(x, axis=1)))
    for shape in ((3, 5), (2, 300), (2, 2049), (70, 1100), (3, 9000), (1, 70001)):
        for where in (0, 1, 63, 64, 127, 129, 4095, 4097, shape[1] - 2, shape[1] - 1):
            x = np.full(shape, least, dtype)
            x[-1, where % shape[1] :: 131] = 1
            for y in (x, x.T.copy().T, np.repeat(x, 2, axis=1)[:, ::2], ~x if dtype == "bool" else -x):
                assert all(np.array_equal(a, b) for a, b in zip(f(y), (y.argmax(), y.argmin(), y.argmax(1), y.argmin(1))))
            if dtype.startswith("float"):
                x[0, where % shape[1] :: 7] = np.nan
                assert all(np.array_equal(a, b) for a, b in zip(f(x), (x.argmax(), x.argmin(), x.argmax(1), x.argmin(1))))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1000, 4096, 100000])
def test_sum_is_as_accurate_as_pairwise(dtype, n):
    rng = np.random.default_rng(n)
    x = (rng.random(n) * 10.0 ** rng.integers(-3, 4, n)).astype(dtype)
    exact = math.fsum(x.astype(float))
    mine, numpys = (abs(float(s) - exact) for s in (pyxla.jit(lambda x: x.sum())(x), x.sum()))
    assert mine <= max(2 * numpys, 8 * np.finfo(dtype).eps * exact)
    rows = np.tile(x, (3, 1))
    assert (np.abs(pyxla.jit(lambda x: x.sum(1))(rows).astype(float) - exact) <= 16 * np.finfo(dtype).eps * exact).all()
    columns = pyxla.jit(lambda x: x.sum(0))(np.ascontiguousarray(rows.T))
    assert (np.abs(columns.astype(float) - exact) <= 16 * np.finfo(dtype).eps * exact).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [100, 512, 1000, 4096, 10000, 70000])
def test_errors_of_sums_beside_numpys(dtype, n):
    """The root mean square of the errors, on numbers around zero and on positive ones: that of NumPy's pairwise sum or less, and far less than
    its sum in order where rows are added up."""
    rng = np.random.default_rng(n)
    rows, columns, whole = (pyxla.jit(f) for f in (lambda x: x.sum(1), lambda x: x.sum(0), lambda x: x.sum()))
    for x in (rng.standard_normal((max(60, 1_000_000 // n), n)), rng.random((max(60, 1_000_000 // n), n))):
        x = x.astype(dtype)
        exact = x.astype(np.longdouble).sum(1)

        def rms(sums):
            return float(np.sqrt(np.mean(np.square(np.asarray(sums) - exact))))

        pairwise = rms(x.sum(1))
        assert rms(rows(x)) <= 1.2 * pairwise
        assert rms([whole(row) for row in x]) <= 1.2 * pairwise
        assert rms(columns(np.ascontiguousarray(x.T))) <= 1.2 * pairwise


@pytest.mark.parametrize("dtype", FLOATS)
def test_errors_of_sums_are_below_numpys(dtype):
    """Over lengths around every change of schedule, by rows, columns and middle axes: no more than NumPy's pairwise sums err, 2 % for the number of trials."""
    rows, columns = pyxla.jit(lambda x: x.sum(1)), pyxla.jit(lambda x: x.sum(0))
    rng = np.random.default_rng(11)
    for numbers in (rng.standard_normal(400_000), 1 + rng.random(400_000)):
        ratios = []
        for n in (16, 31, 33, 64, 130, 200, 288, 330, 512, 640, 1000, 1100, 1300, 1800, 2500):
            x = numbers[: len(numbers) // (n * 8) * n * 8].reshape(-1, n).astype(dtype)
            exact = x.astype(np.longdouble).sum(1)
            middle = np.ascontiguousarray(x.reshape(-1, 8, n).transpose(0, 2, 1))
            mine = [np.mean(np.square(s - exact)) for s in (rows(x), columns(np.ascontiguousarray(x.T)), rows(middle).ravel())]
            ratios.append(np.array(mine, float) / float(np.mean(np.square(x.sum(1) - exact))))
        assert (np.mean(ratios, 0) <= 1.02).all(), np.mean(ratios, 0)


SHORT_SUMS = {
    "columns": (lambda x: x.sum(0), lambda x: np.ascontiguousarray(x.T)),
    "strided rows": (lambda x: x[:, ::2].sum(1), lambda x: np.repeat(x, 2, axis=1)),
    "two axes": (lambda x: x.sum((0, 2)), lambda x: np.ascontiguousarray(x.reshape(len(x), -1, 4).transpose(1, 0, 2))),
    "an expression": (lambda x: np.where(x > -9, x, 0).sum(0), lambda x: np.ascontiguousarray(x.T)),
    "where": (lambda x: x.sum(0, where=x > -9), lambda x: np.ascontiguousarray(x.T)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("how", SHORT_SUMS)
def test_errors_of_few_terms_beside_numpys(dtype, how):
    """8 to 64 terms have no wider total: all depends on the order of the additions. Numbers around zero, and all of one size, whose sums round most."""
    f, layout = SHORT_SUMS[how]
    jitted = pyxla.jit(f)
    rng = np.random.default_rng(1)
    for n in (8, 16, 24, 32, 48, 64):
        for x in (rng.standard_normal((4000, n)), 1 + rng.random((4000, n))):
            x = x.astype(dtype)
            exact = x.astype(np.longdouble).sum(1)
            mine, pairwise = (float(np.sqrt(np.mean(np.square(sums - exact)))) for sums in (jitted(layout(x)), x.sum(1)))
            assert mine <= 1.1 * pairwise, n


@pytest.mark.parametrize("f", [lambda x: x.sum((0, 2)), lambda x: x[:, :, 0].max(0), lambda x: x[:, ::2, 1].sum(0)])
def test_strided_columns_are_few_vectors(f):
    """Each lane is a load of its own there: 256 lanes of them took seconds to compile."""
    lanes = re.findall(r"lanes=(\d+)", pyxla.jit(f).lower(sample((6, 4000, 4), "float32")).compile().as_text())
    assert lanes and max(map(int, lanes)) <= 64


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [65, 72, 80, 100, 127, 130, 4100, 5000, 5400, 10000])
def test_no_block_rounds_where_the_whole_does(dtype, n):
    """Numbers of one size: a block's sum is smaller than the whole by a place at least."""
    x = (1 + np.random.default_rng(n).random((min(8000, 8_000_000 // n), n))).astype(dtype)
    exact = x.astype(np.longdouble).sum(1)
    pairwise, rows, columns = (float(np.sqrt(np.mean(np.square(sums - exact)))) for sums in (
        x.sum(1), pyxla.jit(lambda x: x.sum(1))(x), pyxla.jit(lambda x: x.sum(0))(np.ascontiguousarray(x.T))))
    assert rows <= 1.05 * pairwise and columns <= 1.05 * pairwise


@pytest.mark.parametrize("n", [1, 2, 3, 7, 9, 31, 33, 127, 130, 1000])
def test_sums_by_columns_of_any_length(n):
    """Spans, an odd last row, rows of no lanes; some states side by side; zeros keep NumPy's sign."""
    def f(x, y):
        return x.sum(0), (x * y).sum(0), np.exp(x).sum(0), x.max(0), x[:, ::2].sum(1), (x[:, None, :3] * y[:, :3, None]).sum((0, 2)), x.T.sum(1)

    for dtype in FLOATS:
        check(f, sample((n, 37), dtype, 1), sample((n, 37), dtype, 2), rtol=3e-5 if dtype == "float32" else 1e-12)
    zeros = pyxla.jit(lambda x: x.sum(0))(np.full((n, 5), -0.0))
    assert not np.signbit(zeros).any()


def test_variance_far_from_zero():
    x = sample((50, 300), "float64", 1) + 1e8
    check(lambda x: (x.var(), x.var(0), x.var(1), x.std(1)), x, rtol=1e-6)


def test_bits_do_not_depend_on_alignment_or_run():
    f = pyxla.jit(lambda x: (x.sum(), x.sum(0), x.sum(1), x.var(1), np.cumsum(x)))
    x = sample((129, 257), "float32", 1)
    first = [np.asarray(v).tobytes() for v in f(x)]
    for y in (x.copy(), unaligned(x)):
        assert [np.asarray(v).tobytes() for v in f(y)] == first


def test_scan_bits_are_numpys():
    x = sample(5000, "float64", 1)
    check(lambda x: (np.cumsum(x), np.cumprod(1 + x / 100)), x)
    check(lambda x: (np.cumsum(x, 0), np.cumsum(x, 1)), sample((70, 80), "float32", 2))


def test_reductions_of_expressions():
    def f(x, w):
        centered = x - x.mean(-1, keepdims=True)
        e = np.exp(centered - centered.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        return p, -(p * np.log(p)).sum(), (p * w).sum(0), np.sqrt((x * x).sum()), (x > 0).sum(), np.argmax(p, -1)

    check(f, sample((20, 30), "float64", 1), sample(30, "float64", 2), rtol=1e-13)


def test_several_reductions_of_one_array():
    check(lambda x: {"sum": x.sum(0), "max": x.max(0), "var": x.var(0), "all": x.sum()}, sample((300, 40), "float64", 1), rtol=1e-13)


def test_variance_of_nothing_reads_nothing():
    x = np.zeros((0, 5))
    check(lambda x: (x.var(0), x.std(0, ddof=1), x.var(0, ddof=-1)), x)
    assert " load " not in pyxla.jit(lambda x: x.var(0)).lower(x).compile().as_text()


@pytest.mark.parametrize("f", [lambda x: (x.sum(), x.mean(), x.var(), x.std(1)), lambda x: (x.sum(0), x.var(0)), lambda x: np.cumsum(x, 0),
                               lambda x: np.exp(x - x.max(1, keepdims=True)).sum(1), lambda x: (x @ x[:300].T).sum(0)], ids=range(5))
def test_bits_do_not_depend_on_threads(f):
    flat = lambda r: [np.asarray(v).tobytes() for v in (r if isinstance(r, tuple) else (r,))]
    x = sample((700, 300), "float32", 1)
    want = flat(pyxla.jit(f, threads=1)(x))
    for threads in (2, 5):
        assert flat(pyxla.jit(f, threads=threads)(x)) == want == flat(pyxla.jit(f, threads=threads)(unaligned(x)))


def test_variance_of_one_element():
    x = sample((16, 1, 3), "float32", 1)
    x[3, 0, 1], x[4, 0, 2] = np.inf, np.nan
    check(lambda x: (x.var(1), x.var(1).sum(0), np.tanh(x).var(axis=1, keepdims=True).sum(), x.var(1, ddof=1), x.std(1, ddof=0.5)), x)


def test_rows_against_rows():
    """A result of a row, seen along both axes of what comes next."""
    x = sample((4, 5), "float64", 1)
    check(lambda x: (lambda s: s - s.T)(x.sum(1, keepdims=True)), x, rtol=1e-14)
    check(lambda x: (lambda y: y @ y.T)(x - x.mean(1, keepdims=True)), x, rtol=1e-13)
    check(lambda x: (lambda s: np.abs(s[:, None] - s[None, :]).sum(1))(x.max(1)), x, rtol=1e-14)


@pytest.mark.parametrize("line", ["np.sum(x)", "x.sum(axis=())", "np.sum(x[None])", "np.sum(x[None, None], axis=0)", "np.mean(x)", "np.prod(x)", "np.prod(x[None])", "np.prod(x[None], axis=())"])
def test_one_element_is_joined_to_the_identity(line):
    """NumPy adds to 0 and multiplies 1, also where nothing is reduced."""
    f = eval(f"lambda x: {line}", {"np": np})
    for x in (-0.0, complex(-0.0, -0.0), complex(np.nan, 0), np.float32(-0.0)):
        same(f(np.array(x)), pyxla.jit(f)(np.array(x)))


@pytest.mark.parametrize("n", [0, 1, 5, 31, 32, 33, 63, 64, 65, 127, 1000, 70_001])
def test_counts(n):
    """Sums of bools count the bits of masks where these have registers, also where the last vector is not full."""
    x = sample((n,), "float32", n)
    for f in (lambda x: (x > 0).sum(), lambda x: np.count_nonzero(x), lambda x: (x > 0).sum(dtype="int8"), lambda x: (x[::2] > 0).sum(dtype="uint16"), lambda x: (x > 0) @ (x < 9),
              lambda x: ((x > 0).sum(), (x > .5).mean(), x.sum() > 0, (x > 1).astype(float).sum(), np.logical_not(x).std()) if n else 0,
              lambda x: (x[:, None] > np.arange(3)).sum(0) if n < 2000 else 0, lambda x: (np.arange(3)[:, None] < x).sum(1)):
        for a in (x, x.astype("float64"), x.astype("int8"), x > 0):
            check(f, a, rtol=1e-13)


def test_a_mean_of_bools_counts():
    plan = pyxla.jit(lambda x: (x > 0).mean()).lower(np.ones(100)).compile().plan
    assert "sum i64" in plan and "sum f64" not in plan


@pytest.mark.parametrize("columns", [600, 1100, 2500])
def test_bands_of_rows_from_memory(columns):
    """Narrow elements of more than the caches hold: bands of rows over wide blocks of columns, the last of either cut off."""
    rows = 20_000_003 // columns
    rng = np.random.default_rng(columns)
    x, w = rng.integers(-100, 100, (rows, columns)).astype(np.int8), rng.standard_normal(rows).astype("f")

    @pyxla.jit
    def sums(x, w):
        x = x.astype(np.float32)
        return (x * w[:, None]).sum(0), w @ x, 2 * np.sqrt(np.abs(x)).sum(0) + 1

    weighted, product, roots = sums(x, w)
    exact = w.astype("d") @ x
    for got in (weighted, product):
        np.testing.assert_allclose(got, exact, rtol=1e-6, atol=1e-5 * np.abs(exact).max())
    np.testing.assert_allclose(roots, 2 * np.sqrt(np.abs(x), dtype="f").sum(0, dtype="d") + 1, rtol=3e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [2, 3, 4, 5, 8])
def test_loops_over_short_rows(dtype, columns):
    """Rows of a part of a vector that several loops run over go side by side: no row sees its neighbours, and the last vector is cut off."""
    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    x = sample((1003, columns), dtype, 1)
    x[3, 0], x[7, 1], x[1002, -1] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        for f in (softmax, lambda x: x - x.mean(-1, keepdims=True), lambda x: (x.max(-1), x / np.sqrt((x * x).sum(-1, keepdims=True)), x.argmax(-1))):
            check(f, x, rtol=1e-6 if dtype == "float32" else 1e-14)
            check(f, np.asfortranarray(x)[::2], rtol=1e-6 if dtype == "float32" else 1e-14)
        check(lambda a, b: (softmax(a @ b), (a @ b).max(-1)), sample((40, columns, columns), dtype, 2), sample((40, columns, columns), dtype, 3), rtol=1e-4 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("shape", [(300, 1500), (150, 2048), (1300, 200), (40, 60, 150)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_columns_do_not_depend_on_where_the_array_begins(shape, dtype):
    """Past the second cache pieces of rows begin at lines of memory."""
    n = int(np.prod(shape))
    copies = 4 * 2**20 // (n * np.dtype(dtype).itemsize) + 1
    values = (np.random.default_rng(3).standard_normal((copies * shape[0], *shape[1:])) * 100).astype(dtype)
    axis = len(shape) - 2
    f = pyxla.jit(lambda x: (x.max(axis), x.argmin(axis), x.sum(axis), x.var(axis) if dtype[0] == "f" else x.min(axis)))
    raw = np.zeros(values.nbytes + 128, "u1")
    first = None
    for offset in (0, 2, 16, 24, 60):
        x = np.frombuffer(raw, dtype, values.size, offset=-raw.ctypes.data % 64 + offset).reshape(values.shape)
        x[:] = values
        got = f(x)
        first = first or got
        for a, b in zip(got, first):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(got[0], values.max(axis))
        np.testing.assert_array_equal(got[1], values.argmin(axis))
