"""Many operations on few elements: the cost of a call, and of going from one operation to the next."""

import numpy as np

from benchmarks.cases import TANH, case, normal, uniform


def add(x, y):
    return x + y


def polynomial(x):
    y = x * 0.0
    for i in range(20):
        y = y * x + 1.0 / (i + 1)
    return y


def many(x, y):
    """200 operations."""
    for i in range(50):
        x = x * 0.9 + y * (0.01 * i)
        y = y - x * 0.1 + 1.0
    return x, y


def rotation(angles):
    """The product of three rotations, entry by entry."""
    c, s = np.cos(angles), np.sin(angles)
    a, b, g = 0, 1, 2
    return np.stack(
        (
            c[a] * c[b],
            c[a] * s[b] * s[g] - s[a] * c[g],
            c[a] * s[b] * c[g] + s[a] * s[g],
            s[a] * c[b],
            s[a] * s[b] * s[g] + c[a] * c[g],
            s[a] * s[b] * c[g] - c[a] * s[g],
            -s[b],
            c[b] * s[g],
            c[b] * c[g],
        )
    ).reshape(3, 3)


def recurrent(x, w, h):
    """Eight steps of a small recurrent network."""
    for i in range(8):
        h = np.tanh(w @ h + x[i])
    return h


CASES = [
    case("x + y f64 8", "add", normal("float64", 8), normal("float64", 8), numexpr="x + y"),
    case("polynomial (40 ops) f64 64", "polynomial", uniform("float64", 64), ops=20 * 64, quick=True),
    case("200 ops f64 8", "many", normal("float64", 8), normal("float64", 8), ops=200 * 8),
    case("200 ops f32 64", "many", normal("float32", 64), normal("float32", 64), ops=200 * 64, tol=1e-4),
    case("rotation f64 3x3", "rotation", normal("float64", 3)),
    case(
        "recurrent f32 8x16",
        "recurrent",
        normal("float32", 8, 16),
        normal("float32", 16, 16),
        normal("float32", 16),
        ops=8 * 16 * (16 + TANH),
    ),
]
