"""Long elementwise loops make their values in the program's order where fewer of them then wait for registers."""

import re

import numpy as np

import pyxla

COEFFICIENTS = np.random.default_rng(0).uniform(0.1, 1.0, (6, 6, 6)).tolist()


def with_slope(s, t, p):
    """A polynomial and its derivative, side by side: the second store's values are ready when the first one's are."""
    value = slope = 0.0
    for plane in COEFFICIENTS:
        inner = inner_slope = 0.0
        for row in plane:
            poly = poly_slope = 0.0
            for c in row:
                poly_slope = poly_slope * p + poly
                poly = poly * p + c
            inner, inner_slope = inner * t + poly, inner_slope * t + poly_slope
        value, slope = value * s + inner, slope * s + inner_slope
    return value, slope / value


def arguments(n):
    return [np.random.default_rng(k).uniform(0.0, 1.0, n) for k in range(3)]


def spills(fn, *args):
    """Vector instructions of the code that use the stack."""
    code = pyxla.jit(fn).lower(*args).compile().assembly
    return len(re.findall(r"^.*\(%rsp\).*%[xyz]mm|^.*%[xyz]mm.*\(%rsp\)", code, re.M))


def test_a_polynomial_and_its_derivative_need_no_stack():
    assert spills(with_slope, *arguments(1000)) < 40                     # from the stores backwards: some 200


def test_bits_do_not_depend_on_the_order():
    for n in (1, 7, 8, 1000):
        for got, want in zip(pyxla.jit(with_slope)(*arguments(n)), with_slope(*arguments(n))):
            np.testing.assert_array_equal(got, want)


def test_in_place_the_old_elements_are_read():
    def step(u, v):
        new, other = with_slope(u, v, u * v)
        u[:] = new
        v[:] = other
        return u + v

    got, want = arguments(1000)[:2], arguments(1000)[:2]
    np.testing.assert_array_equal(pyxla.jit(step)(*got), step(*want))
    np.testing.assert_array_equal(got, want)


def test_stores_of_different_places_and_dtypes():
    def parts(x, y):
        wide, slope = with_slope(x, y, x - y)
        out = np.zeros((2, len(x)))
        out[0], out[1] = wide, slope
        return out, wide.astype(np.float32), (slope > 0.5), wide[::-1] * slope

    for got, want in zip(pyxla.jit(parts)(*arguments(100)[:2]), parts(*arguments(100)[:2])):
        np.testing.assert_array_equal(got, want)
