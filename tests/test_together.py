"""Reductions of one array over different axes: one pass over memory once it is past the second cache, NumPy's results, the same bits by any number of threads."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pyxla

R = np.random.default_rng(0)
SHARED = {
    "rows, columns": lambda x: (x.sum(0), x.sum(1)),
    "columns, all": lambda x: (x.sum(0), x.sum()),
    "rows, all": lambda x: (x.sum(1), x.sum()),
    "other reductions": lambda x: (x.max(1), x.mean(0), x.min()),
    "positions": lambda x: (x.argmax(0), x.argmin(1)),
    "moments": lambda x: (x.var(0), x.std(0), x.sum(1)),
    "what follows": lambda x: (x.sum(0) / 7 + 1, np.sqrt(x.max(1)), x.min() - 1),
    "computed": lambda x: (np.exp(x).sum(0), np.exp(x).sum(1), np.exp(x).max()),
    "two computed": lambda x: ((x * x).sum(0), (x - 1).sum(1)),
    "two operands": lambda x, y: ((x * y).sum(0), (x - y).max(1), y.sum()),
    "a result, too": lambda x: (np.exp(x), np.exp(x).sum(0), np.exp(x).sum(1)),
    "all by a reshape": lambda x: (x.sum(0), x.ravel().max()),
    "norms": lambda x: (np.linalg.norm(x, axis=0), np.linalg.norm(x, axis=1), np.linalg.norm(x)),
    "both variances": lambda x: (x.var(0), x.var(1)),
    "rows in several loops": lambda x: (x.mean(1), x.std(1), x.mean(0), x.max()),
    "softmax": lambda x: (x.sum(0), softmax(x)),
    "softmax first": lambda x: (softmax(x), x.max(0), x.sum(1)),
    "whole positions": lambda x: (x.argmax(), x.sum(0)),
    "positions and numbers": lambda x: (x.argmax(), x.argmin(), x.max()),
    "a transpose": lambda x: (x.sum(0), x.T.sum(0), x.T.argmax(1)),
    "whole variance": lambda x: (x.var(), x.sum(0)),
    "variances of all kinds": lambda x: (x.std(), x.var(0), x.var(1), x.mean(), x.max(0)),
    "a cheap result": lambda x: (x * 2, (x * 2).sum(0), (x * 2).sum(1)),
}
DEEP = {
    "each axis": lambda x: (x.sum(0), x.sum(1), x.sum(2)),
    "pairs": lambda x: (x.sum((0, 1)), x.max((1, 2)), x.mean((0, 2))),
    "nested": lambda x: (x.sum(1), x.sum((1, 2)), x.sum()),
    "positions": lambda x: (x.argmax(), x.argmin(1), x.sum(2)),
}


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def compiled(f, *args):
    return pyxla.jit(f).lower(*args).compile()


def reads(plan, buffer="in0"):
    return [line for line in str(plan).split("\nkernel 0")[0].splitlines() if line.startswith("launch") and f" {buffer}" in line]


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_reductions_over_different_axes_share_a_pass(name, dtype):
    f = SHARED[name]
    args = [R.random((1100, 700)).astype(dtype) for _ in range(f.__code__.co_argcount)]
    c = compiled(f, *args)
    assert all(len(reads(c.plan, f"in{k}")) == 1 for k in range(len(args))), str(c.plan)[:1000]
    assert c.workspace_bytes < args[0].nbytes / 8 and c.launches <= 3
    for got, want in zip(pyxla.jit(f)(*args), f(*(a.astype(np.float64) for a in args))):
        np.testing.assert_allclose(got, want, rtol=2e-5 if dtype == "float32" else 1e-12)


NEAR = {
    "three kinds": lambda x: (x.max(0), x.mean(1), x.sum()),
    "a computed value": lambda x: (x * 1.5 + x * x, x.min(0), x.sum(1), x.max()),
    "results that follow": lambda x: (x.sum(0) / 7 + 1, np.sqrt(x.max(1)), x.min() - x.max()),
    "counts": lambda x: ((x > 3).sum(0), (x > 3).sum(1), (x > 3).mean()),
}


@pytest.mark.parametrize("name", NEAR)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape", [(300, 310), (90, 1100), (1100, 90)], ids=str)
def test_three_reductions_share_a_pass_over_the_second_cache(name, dtype, shape):
    x = (R.random(shape) * 9).astype(dtype)
    f = NEAR[name]
    assert len(reads(compiled(f, x).plan)) <= 1 + ("computed" in name or "counts" in name)
    for got, want in zip(pyxla.jit(f)(x), f(x.astype(np.float64) if dtype == "float32" else x), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5 if dtype == "float32" else 1e-12)


def test_two_reductions_of_what_is_in_the_second_cache_are_two_passes():
    """Together they are no faster, and variances slower; of what is computed one is stored for the other elsewise."""
    x = R.random((300, 310)).astype("float32")
    assert len(reads(compiled(lambda x: (x.sum(0), x.sum(1)), x).plan)) == 2
    assert len(reads(compiled(lambda x: (x.std(0), x.std()), x).plan)) == 2


LONG = {
    "rows, columns": lambda x: (x.var(1), x.sum(0)),
    "whole, columns": lambda x: (x.var(), x.max(0), x.argmin(1)),
    "all, and what follows": lambda x: ((x.std(1) + 1) * 2, x.std(), x.std(0), x.mean(), x.sum(1)),
    "squares": lambda x: (x.var(1), (x * x).sum(1)),
    "features": lambda x: (x.mean(), x.std(), np.sqrt((x * x).mean()), np.abs(x).max(), np.count_nonzero(x > 1000)),
    "another axis": lambda x: (x.std(-1), np.sqrt(x).sum(0)),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("shape", [(150, 5200), (7, 61440), (3, 20, 6000)], ids=str)
def test_variances_of_long_rows_go_by_pieces(name, shape):
    """Rows that do not stay in the first cache: a deviation of one around a mean of 1000 shows whether they are exact."""
    x = (R.standard_normal(shape) + 1000).astype("float32")
    c = compiled(LONG[name], x)
    assert len(reads(c.plan)) == 1, str(c.plan)[:1000]
    for got, want in zip(pyxla.jit(LONG[name])(x), LONG[name](x.astype(np.float64))):
        np.testing.assert_allclose(got, want, rtol=3e-6)


def test_places_share_a_pass_with_a_variance_past_the_shared_cache():
    for shape, passes in ((1100, 4000), 1), ((300, 2400), 2):                  # of 256 KB
        x = R.standard_normal(shape).astype("float32")
        code = f"import numpy as np, pyxla; print(pyxla.jit(lambda x: (x.argmax(), x.var())).lower(np.zeros({shape}, 'f4')).compile().plan)"
        env = dict(os.environ, PYXLA_CACHES="32768,262144", PYTHONPATH=str(Path(pyxla.__file__).parent.parent))
        plan = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
        assert len(reads(plan)) == passes
        got = pyxla.jit(lambda x: (x.argmax(), x.var()))(x)
        assert got[0] == x.argmax() and abs(got[1] - x.astype("float64").var()) < 1e-6


def center(x):
    return np.abs(x - x.mean(-1, keepdims=True)).sum(-1)


def logsumexp(x, axis):
    m = x.max(axis, keepdims=True)
    return np.log(np.exp(x - m).sum(axis))


ONE_PASS = {                         # shapes without equal pieces, rows past the first cache, other layouts, values computed from one operand
    "no equal pieces": ((60, 5003), lambda x: (x.var(), x.max(0), x.argmin(1))),
    "long rows of no equal pieces": ((7, 90001), lambda x: (x.std(1), x.mean(0), x.std())),
    "a variance of all, and of a value": ((40009, 20), lambda x: (x.std(), np.nansum(x), (x * 2).var(0))),
    "a variance of a long expression": ((60, 5003), lambda x: ((x * x + 1).var(-1), x.sum(0), (x + 1).var())),
    "softmax of long rows": ((60, 20011), lambda x: (softmax(x), x.sum(0), x.max())),
    "center of long rows": ((60, 20011), lambda x: (x.argmax(0), center(x), x.min(1, keepdims=True))),
    "softmax in Fortran order": ((20, 30011), lambda x: (softmax(x.T), x.sum(0), x.T.min(0))),
    "down columns, several loops": ((20, 30011), lambda x: (logsumexp(x, 0), x.sum(1), x.argmax())),
    "a middle axis, several loops": ((30, 40, 301), lambda x: (logsumexp(x, 1), x.sum(2), x.max((0, 1)))),
    "results that are transposed": ((90, 71, 83), lambda x: (x.transpose(2, 0, 1).sum(1), x.max(1), x.swapaxes(0, 1).mean((0, 2)))),
    "variance of a transpose": ((90, 71, 83), lambda x: (x.transpose(2, 1, 0).var(-1), x.sum(1), x.T.var(0))),
    "functions that skip NaN": ((1103, 701), lambda x: (np.nanmean(x.T), x.T.argmin(1), np.nanmax(x, 0), np.nansum(x, 1))),
    "a dear value": ((1103, 701), lambda x: (np.sqrt(x).all(), np.sqrt(x.T).sum(0), softmax(np.sqrt(x)))),
    "positions in four axes": ((50, 11, 13, 80), lambda x: (x.argmax(), (x > 0.5).sum(3), x.argmin(2), x.mean((0, 3), keepdims=True))),
    "strided": ((1103, 701), lambda x: (x[::-1].argmax(), x[::-1].sum(0), (x[::-1] * 2).max(1))),
    "short last axis": ((70, 601, 7), lambda x: (x.sum(), x.sum((0, 2)), x.max(1))),
}


@pytest.mark.parametrize("name", ONE_PASS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_reductions_of_one_operand_share_a_pass(name, dtype):
    shape, f = ONE_PASS[name]
    if dtype == "float64":
        shape = (*shape[:-1], shape[-1] // 2 + 1)
    x = (R.random(shape) + 0.5).astype(dtype)
    c = compiled(f, x)
    if x.nbytes > 3 << 20:
        assert len(reads(c.plan)) == 1 and c.workspace_bytes < x.nbytes / 2, str(c.plan)[:1000]
    for got, want in zip(pyxla.jit(f)(x), f(x.astype(np.float64))):
        if not np.issubdtype(want.dtype, np.integer) and got.dtype != np.float16:
            np.testing.assert_allclose(got, want, rtol=1e-10 if dtype == "float64" else 1e-5)
        elif dtype != "float16":
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("view", [lambda x: x[::2], lambda x: x[:, ::2], lambda x: x[:, ::-1], lambda x: x.T], ids=range(4))
def test_positions_in_strided_arrays_need_no_copy(view):
    x = view(R.random((2000, 1100)))
    f = pyxla.jit(lambda x: (x.argmax(), (x * x).argmin()))
    assert f.lower(x).compile().workspace_bytes < x.nbytes / 8
    assert f(x) == (x.argmax(), (x * x).argmin())


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=str)
def test_of_three_axes_in_any_layout(name, axes):
    x = R.random((90, 70, 80)).astype("float32").transpose(axes)
    c = compiled(DEEP[name], x)
    assert len(reads(c.plan)) == 1 and c.workspace_bytes < x.nbytes / 4, str(c.plan)[:1000]
    for got, want in zip(pyxla.jit(DEEP[name])(x), DEEP[name](x.astype(np.float64))):
        np.testing.assert_allclose(got, want, rtol=2e-5)


def test_a_pass_over_a_batch_keeps_its_axis():
    x = R.random((6, 300, 200)).astype("float32")
    f = pyxla.jit(lambda x: (x.sum(1), x.max(2)))
    assert len(reads(f.lower(x).compile().plan)) == 1
    for got, want in zip(f(x), (x.sum(1, dtype="float64"), x.max(2))):
        np.testing.assert_allclose(got, want, rtol=2e-5)


def test_what_is_in_the_second_cache_is_read_again():
    x = R.random((100, 100)).astype("float32")
    assert compiled(SHARED["rows, columns"], x).launches == 2 and compiled(SHARED["rows, columns"], x[:8, :8]).launches == 1


def test_a_softmax_in_place_comes_after_its_readers():
    def f(x, y):
        s, t = x.sum(0), y.max(1)
        x[:] = softmax(x)
        y -= y.mean(1, keepdims=True)
        y /= y.std(1, keepdims=True)
        return s, t, x.max(0), y.sum(0)

    args = R.random((1100, 700)), R.random((1100, 700))
    mine, theirs = [a.copy() for a in args], [a.copy() for a in args]
    for got, want in zip((*pyxla.jit(f)(*mine), *mine), (*f(*theirs), *theirs)):
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-10)


def test_what_depends_on_a_result_comes_after_it():
    def f(x):
        s = x.sum(0)
        return s, (x - s).max(1), x.sum(1)

    x = R.random((1100, 700))
    for got, want in zip(pyxla.jit(f)(x), f(x)):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_results_written_into_arguments_wait_for_their_readers():
    def f(x, a, b):
        s = x.sum(0)
        c = a * 2 + s
        a[:] = x.max(1)[:700]
        b += x.sum(1)
        x += 1
        return c, x.sum(0), x.min(1)

    args = R.random((1100, 700)), R.random(700), R.random(1100)
    mine, theirs = [a.copy() for a in args], [a.copy() for a in args]
    for got, want in zip((*pyxla.jit(f)(*mine), *mine), (*f(*theirs), *theirs)):
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("name", SHARED)
def test_threads_do_not_change_a_bit(name):
    f = SHARED[name]
    args = [R.random((1100, 700)).astype("float32") for _ in range(f.__code__.co_argcount)]
    for one, two in zip(pyxla.jit(f, threads=1)(*args), pyxla.jit(f, threads=2)(*args)):
        np.testing.assert_array_equal(one, two)


def test_sums_are_as_accurate_as_numpys():
    x = (R.random((3000, 1100)) + 1000).astype("float32")
    exact = x.astype(np.float64)
    rows, columns, whole = pyxla.jit(lambda x: (x.sum(1), x.sum(0), x.sum()))(x)
    for got, want in ((rows, exact.sum(1)), (columns, exact.sum(0)), (whole, exact.sum())):
        assert np.max(np.abs(got - want) / want) < 2e-7


def random_case(rng):
    """Reductions of one array of a random layout, and what is done to them: source text of a function and its arguments."""
    rank = rng.choice([2, 2, 3])
    shape = [rng.choice([5, 17, 40, 130]) for _ in range(rank)]
    dtype = rng.choice(["float32", "float64", "int32", "int8", "uint64"])
    x = np.random.default_rng(rng.randrange(2**32)).integers(0, 9, [n * 2 for n in shape]).astype(dtype)
    x = x[tuple(rng.choice([slice(0, None, 2), slice(None, None, -2), slice(0, n)]) for n in shape)].transpose(rng.sample(range(rank), rank))
    v = rng.choice(["x", "(x * 2)", "np.exp(x * 0.1)", "(x - y)", "x.astype('float64')"])
    calls = []
    for _ in range(rng.randrange(2, 6)):
        axes = tuple(rng.sample(range(rank), rng.randrange(1, rank + 1)))
        op = rng.choice(["sum", "max", "mean", "min", "any", "var"] + (["argmax", "argmin"] if len(axes) == 1 else []))
        calls.append(f"{v}.{op}({axes if len(axes) > 1 else axes[0]})" + rng.choice(["", " * 2", " + 1"] if op != "any" else [""]))
    if rng.random() < 0.3:
        calls.insert(rng.randrange(len(calls)), f"({v} * 1.0 - {v}.mean(-1, keepdims=True)) / (1 + {v}.std(-1, keepdims=True))")
    if rng.random() < 0.3:
        calls.insert(rng.randrange(len(calls)), v)
    if rng.random() < 0.3:
        calls.insert(rng.randrange(len(calls)), f"logsumexp({v} * 0.5, {rng.randrange(rank)})")
    if rng.random() < 0.3:
        calls.insert(rng.randrange(len(calls)), f"{v}.T.{rng.choice(['sum', 'max', 'argmin', 'var'])}({rng.randrange(rank)}, keepdims=True)")
    return f"lambda x, y: ({', '.join(calls)},)", (x, x[::1].copy() % 5)


def test_many_reductions_of_one_array_share_a_pass():
    x = np.linspace(0.5, 1.5, 400_000)
    f = lambda x: (x.sum(), (x * x).sum(), (x**3).sum(), np.sqrt(x).sum(), np.abs(x).sum(), x.min(), x.max(), (x > 0.7).sum(), (x > 1).sum(), (x < 0.8).any(), (x > 0).all())
    assert len(reads(compiled(f, x).plan)) == 1
    for got, want in zip(pyxla.jit(f)(x), f(x)):
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_projections_on_many_columns_are_few_kernels():
    """Gram-Schmidt: a loop that carried the sums of all columns would be another kernel at each step, and past the registers."""
    def orthonormal(a):
        q = np.zeros_like(a)
        for k in range(a.shape[1]):
            v = a[:, k].copy()
            for j in range(k):
                v -= (q[:, j] @ a[:, k]) * q[:, j]
            q[:, k] = v / np.sqrt((v * v).sum())
        return q

    a = np.random.default_rng(0).random((50, 50)) + np.eye(50)
    f = pyxla.jit(orthonormal)
    np.testing.assert_allclose(f(a), orthonormal(a), rtol=1e-10, atol=1e-12)
    assert f.cache_info().compiled <= 20


CASES = """
import random, sys
import numpy as np
import pyxla
from test_together import logsumexp, random_case
for seed in range(60):
    source, args = random_case(random.Random(seed))
    f = eval(source)
    for got, want in zip(pyxla.jit(f)(*args), f(*args)):
        assert got.dtype == want.dtype and got.shape == want.shape, (seed, source)
        np.testing.assert_allclose(got, want, rtol=1e-5 if got.dtype == np.float32 else 1e-11, atol=1e-6, err_msg=f"{seed} {source}")
"""


@pytest.mark.parametrize("backend", ["llvm", "interp"])
def test_random_reductions_for_a_tiny_cache(backend):
    """Arrays that take a thousand elements are past the second cache of this machine: many blocks, cut at odd places."""
    packages = str(Path(pyxla.__file__).parent.parent)              # the build that is tested
    env = {**os.environ, "PYXLA_CACHES": "4096,4096", "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), packages]), "PYXLA_CHECK": "1"}
    if backend == "interp":
        env["PYXLA_BACKEND"] = "interp"
    r = subprocess.run([sys.executable, "-c", CASES.replace("range(60)", "range(60, 80)") if backend == "interp" else CASES], env=env, capture_output=True, text=True)
    assert r.returncode == 0, r.stderr[-3000:]
