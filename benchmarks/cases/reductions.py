"""Reductions, whole and by each axis, and what is built on them."""

import numpy as np

from benchmarks.cases import SQRT, case, normal, uniform


def sum_of_squares(x):
    return np.sum(x * x)


def sum_of_squares_0(x):
    return np.sum(x * x, axis=0)


def sum_of_squares_1(x):
    return np.sum(x * x, axis=1)


def largest(x):
    return np.max(x)


def largest_0(x):
    return np.max(x, axis=0)


def largest_1(x):
    return np.max(x, axis=1)


def mean(x):
    return np.mean(x)


def mean_0(x):
    return np.mean(x, axis=0)


def mean_1(x):
    return np.mean(x, axis=1)


def var(x):
    return np.var(x)


def var_0(x):
    return np.var(x, axis=0)


def var_1(x):
    return np.var(x, axis=1)


def argmax(x):
    return np.argmax(x)


def argmax_0(x):
    return np.argmax(x, axis=0)


def argmax_1(x):
    return np.argmax(x, axis=1)


def std_of_difference(x, y):
    return np.std(x - y, axis=0)


def sum_middle(x):
    return np.sum(x, axis=1)


def nearest(points, centres):
    """The index of each point's nearest centre."""
    difference = points[:, None, :] - centres[None, :, :]
    return np.argmin(np.sum(difference * difference, axis=2), axis=1)


def distances(points):
    difference = points[:, None, :] - points[None, :, :]
    return np.sqrt(np.sum(difference * difference, axis=2))


N = 2048
SQUARE = normal("float32", N, N)
SMALL = normal("float32", 256, 256)


def whole_and_by_axis(label, fn, **facts):
    names = ((f"{label} f32 {N}x{N}", fn), (f"{label} axis 0 f32 {N}x{N}", fn + "_0"), (f"{label} axis 1 f32 {N}x{N}", fn + "_1"))
    return [case(name, f, SQUARE, ops=N * N, **facts) for name, f in names]


CASES = [
    *whole_and_by_axis("sum(x*x)", "sum_of_squares"),
    case("sum(x*x) f32 256x256", "sum_of_squares", SMALL, ops=256 * 256, quick=True),
    case("sum(x*x) axis 0 f32 256x256", "sum_of_squares_0", SMALL, ops=256 * 256),
    *whole_and_by_axis("max", "largest"),
    *whole_and_by_axis("mean", "mean", tol=1e-4),
    *whole_and_by_axis("var", "var"),
    *whole_and_by_axis("argmax", "argmax"),
    case("sum axis 1 f32 64x256x64", "sum_middle", normal("float32", 64, 256, 64), ops=64 * 256 * 64),
    case(
        "std(x-y, axis=0) f64 2000x2000",
        "std_of_difference",
        normal("float64", 2000, 2000),
        normal("float64", 2000, 2000),
        ops=4 * 4 * 10**6,
    ),
    case("k-means f32 4096x64x16", "nearest", uniform("float32", 4096, 16), uniform("float32", 64, 16), ops=4096 * 64 * 33),
    case("k-means f64 200000x8x3", "nearest", uniform("float64", 200000, 3), uniform("float64", 8, 3), ops=200000 * 8 * 7),
    case("distances f64 1000x3", "distances", uniform("float64", 1000, 3), ops=10**6 * (6 + SQRT)),
]
