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


def onto(u, v=None):
    u[1:-1, 1:-1] += five(u[::-1] * 1 if v is None else v)
    return u


def red_and_black(u):
    u[2:-2:2] -= u[:-4:2] + u[4::2] + u[1:-3:2] + u[3:-1:2] * 2
    u[1:-1:2] += (u[:-2:2] + u[2::2]) * 2 + u[:-2:2, ::-1]
    return u


FUNCTIONS = [five, onto, red_and_black, nine, padded, with_places, in_place, lambda u: five(u.T), lambda u: five(u[::-1, ::-1]), lambda u: nine(np.stack([u, u * 2])),
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
    assert rows_at_once(five, np.ones((1001, 500))) == (5, [250])       # the rows left over are made in the same launch
    assert rows_at_once(onto, np.ones((1002, 500)), np.ones((1002, 500))) == (4, [250])
    assert rows_at_once(onto, np.ones((1001, 500)), np.ones((1001, 500))) == (5, [250])
    assert rows_at_once(five, np.ones((52, 50)))[0] == 1                # small
    assert rows_at_once(lambda u: u[1:] - u[:-1], np.ones((1001, 500)))[0] == 1      # few loads


def steps(u, n=12, border=1):
    for _ in range(n):
        u[border:-1, 1:-1] += u[: -1 - border, 1:-1] - u[1 + border :, 1:-1] + 3 * u[border:-1, :-2] - u[border:-1, 2:]
    return u


def two_fields(u, v, n=8):
    u, v = u.copy(), v.copy()
    for _ in range(n):
        u[1:-1] += v[2:] - v[:-2] + u[2:]
        v[1:-1] -= u[2:] - u[:-2] + v[2:]
    return u, v


def held(u):
    """Each state but the last is read once more, long after."""
    u, old = u.copy(), []
    for _ in range(6):
        old.append(u.copy())
        u[1:-1] = u[2:] + u[:-2]
    return u, np.stack([x[3] for x in old])


def borders_change(u):
    u = u.copy()
    for i in range(6):
        u[1:-1] = u[2:] - u[:-2] * 2
        u[0] = u[1] + i
        u[-1] = u[-2] * 2
    return u


def other_places(u):
    u = u.copy()
    for i in range(1, 7):
        u[i:-i] = u[i + 1 : u.shape[0] - i + 1] + u[i - 1 : -i - 1]
    return u


def moving(u, k):
    u = u.copy()
    for _ in range(5):
        u[k : k + 3] = u[k + 1 : k + 4] + u[k - 1 : k + 2] * 2
        u[1:-1] += u[2:] + u[:-2]
    return u


def launches(f, *args):
    return int(pyxla.jit(f).lower(*args).compile().plan.split()[1])


@pytest.mark.parametrize("f", [steps, lambda u: steps(u.copy()), held, borders_change, other_places, lambda u: moving(u, 4), lambda u: two_fields(u, u * 2),
                               lambda u: (steps(u.copy(), 5), steps(u.copy(), 6, 2))], ids=range(8))
@pytest.mark.parametrize("shape", [(20, 30), (101, 130), (102, 99)])
def test_steps(f, shape):
    for dtype in ("float64", "int32", "uint8"):
        u = (R.standard_normal(shape) * 9).astype(dtype)
        want, got = f(u.copy()), pyxla.jit(f)(u.copy())
        for a, b in zip(want if isinstance(want, tuple) else (want,), got if isinstance(got, tuple) else (got,)):
            np.testing.assert_array_equal(a, b)


def test_steps_take_turns_in_two_arrays():
    """What no step changes is in both arrays after the first two steps: none copies it again."""
    u = np.ones((300, 300))
    few, many = launches(lambda u: steps(u.copy(), 10), u), launches(lambda u: steps(u.copy(), 60), u)
    assert many - few == 50
    compiled = pyxla.jit(lambda u: steps(u.copy(), 60)).lower(u).compile()
    assert compiled.peak_bytes <= 2 * u.nbytes + 4096
    assert launches(lambda u: steps(u, 60), u) <= many
    v = np.ones(9000)
    assert launches(two_fields, v, v, 20) - launches(two_fields, v, v, 8) == 24


def test_rows_of_an_array_that_is_merged():
    """Small arrays in place: a launch with others."""
    def f(u, v):
        u[1:-1, 1:-1] += five(v)
        return u, v[0] * 2, v[1] + 1

    u, v = (R.integers(0, 99, (102, 100)).astype("uint8") for _ in range(2))
    want, got = f(u.copy(), v), pyxla.jit(f)(u.copy(), v)
    for a, b in zip(want, got):
        np.testing.assert_array_equal(a, b)


def test_threads_give_the_same():
    u = R.standard_normal((1003, 1001))
    one, two = pyxla.jit(nine, threads=1)(u), pyxla.jit(nine, threads=2)(u)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, nine(u))
