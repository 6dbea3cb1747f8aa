"""Rows of stencils made together: results bit for bit, rows left over, and where it must not happen."""
import re

import numpy as np
import pytest

import pyxla

R = np.random.default_rng(4)


def five(u):
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]


def nine(u):
    total = 0
    for i in range(3):
        for j in range(3):
            total = total + (i + 2 * j) * u[..., i : u.shape[-2] - 2 + i, j : u.shape[-1] - 2 + j]
    return total


def padded(u):
    z = np.zeros_like(u)
    z[1:-1, 1:-1] = five(u)
    return z


def with_places(u):
    inner = five(u)
    return inner * np.arange(inner.shape[0])[:, None] + np.arange(inner.shape[1]), inner - u[1:-1, 1:-1]


def in_place(u):
    u[1:-1, 1:-1] += nine(u)
    return u


FUNCTIONS = [five, nine, padded, with_places, in_place, lambda u: five(u.T), lambda u: five(u[::-1, ::-1]), lambda u: nine(np.stack([u, u * 2])),
             lambda u: five(np.where(u > 0, u, 0)), lambda u: np.concatenate([five(u), u[1:-1, 1:-1]])]


@pytest.mark.parametrize("f", FUNCTIONS, ids=range(len(FUNCTIONS)))
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_results(f, dtype):
    for shape in ((130, 140), (131, 141), (132, 9000 if dtype == "int16" else 200), (133, 160)):
        u = (R.standard_normal(shape) * 100).astype(dtype)
        want, got = f(u.copy()), pyxla.jit(f)(u.copy())
        for a, b in zip(want if isinstance(want, tuple) else (want,), got if isinstance(got, tuple) else (got,)):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def rows_at_once(f, *args):
    """Stores of the first kernel, and the grids of all."""
    plan = pyxla.jit(f).lower(*args).compile().plan
    return plan.split("kernel 1:")[0].count("  store "), [int(n) for n in re.findall(r"grid (\d+)", plan)]


def test_schedule():
    assert rows_at_once(five, np.ones((1002, 500))) == (4, [250])
    assert rows_at_once(five, np.ones((1001, 500))) == (4, [249, 3])
    assert rows_at_once(five, np.ones((52, 50)))[0] == 1                # small
    assert rows_at_once(lambda u: u[1:] - u[:-1], np.ones((1001, 500)))[0] == 1      # few loads


def test_threads_give_the_same():
    u = R.standard_normal((1003, 1001))
    one, two = pyxla.jit(nine, threads=1)(u), pyxla.jit(nine, threads=2)(u)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, nine(u))
