"""Stencils and filters written as sums of shifted slices."""

import numpy as np

from benchmarks.cases import SQRT, case, normal


def laplace(u):
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]


def smooth(u):
    """The mean over 27 neighbours, weighted by their distance."""
    n, m, k = u.shape
    total = 0.0
    for i in range(3):
        for j in range(3):
            for h in range(3):
                weight = 0.125 * 0.5 ** (abs(i - 1) + abs(j - 1) + abs(h - 1))
                total = total + weight * u[i : n - 2 + i, j : m - 2 + j, h : k - 2 + h]
    return total


def heat(u):
    """100 explicit steps; the border stays."""
    u = u.copy()
    for _ in range(100):
        u[1:-1, 1:-1] += 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])
    return u


def heat_jax(u):
    for _ in range(100):
        u = u.at[1:-1, 1:-1].add(0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]))
    return u


def wave(u, v):
    """100 steps of a string held at its ends: displacement and velocity."""
    u = u.copy()
    v = v.copy()
    for _ in range(100):
        v[1:-1] += 0.1 * (u[:-2] - 2.0 * u[1:-1] + u[2:])
        u += 0.1 * v
    return u, v


def wave_jax(u, v):
    for _ in range(100):
        v = v.at[1:-1].add(0.1 * (u[:-2] - 2.0 * u[1:-1] + u[2:]))
        u = u + 0.1 * v
    return u, v


def sobel(x):
    a, b, c = x[:-2, :-2], x[:-2, 1:-1], x[:-2, 2:]
    d, e = x[1:-1, :-2], x[1:-1, 2:]
    f, g, h = x[2:, :-2], x[2:, 1:-1], x[2:, 2:]
    gx = (c - a) + 2.0 * (e - d) + (h - f)
    gy = (f - a) + 2.0 * (g - b) + (h - c)
    return np.sqrt(gx * gx + gy * gy)


def blur(x):
    """A separable filter of five taps."""
    rows = (x[:, :-4] + x[:, 4:]) + 4.0 * (x[:, 1:-3] + x[:, 3:-1]) + 6.0 * x[:, 2:-2]
    return ((rows[:-4] + rows[4:]) + 4.0 * (rows[1:-3] + rows[3:-1]) + 6.0 * rows[2:-2]) * (1.0 / 256.0)


CASES = [
    case("laplace f64 256x256", "laplace", normal("float64", 256, 256), ops=5 * 254**2, quick=True),
    case("laplace f64 2000x2000", "laplace", normal("float64", 2000, 2000), ops=5 * 1998**2),
    case("27 points f32 34x34x130", "smooth", normal("float32", 34, 34, 130), ops=27 * 32 * 32 * 128),
    case("27 points f32 200x200x200", "smooth", normal("float32", 200, 200, 200), ops=27 * 198**3),
    case("heat 100 steps f64 128x128", "heat", normal("float64", 128, 128), ops=100 * 7 * 126**2, jax="heat_jax", tol=1e-9),
    case(
        "wave 100 steps f64 4096",
        "wave",
        normal("float64", 4096),
        normal("float64", 4096),
        ops=100 * 6 * 4096,
        jax="wave_jax",
        tol=1e-9,
    ),
    case("sobel f32 1080x1920", "sobel", normal("float32", 1080, 1920), ops=1080 * 1920 * (SQRT + 14)),
    case("blur f32 1080x1920", "blur", normal("float32", 1080, 1920), ops=1080 * 1920 * 13),
]
