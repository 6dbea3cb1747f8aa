"""A long short-term memory cell over a sequence, and a gated recurrent unit, in float32."""
from typing import NamedTuple

import numpy as np


class Cell(NamedTuple):
    wx: np.ndarray
    wh: np.ndarray
    b: np.ndarray


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(cell, xs, h, c):
    hs = []
    for x in xs:
        gates = x @ cell.wx + h @ cell.wh + cell.b
        i, f, g, o = np.split(gates, 4, axis=-1)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        hs.append(h)
    return np.stack(hs), h, c


def gru(cell, xs, h):
    for x in xs:
        a, b = x @ cell.wx + cell.b, h @ cell.wh
        (r1, z1, n1), (r2, z2, n2) = np.array_split(a, 3, axis=1), np.array_split(b, 3, axis=1)
        r, z = sigmoid(r1 + r2), sigmoid(z1 + z2)
        n = np.tanh(n1 + r * n2)
        h = (1 - z) * n + z * h
    return h


def program(long, gated, xs, head):
    batch, width = xs.shape[1], long.wh.shape[0]
    zero = np.zeros((batch, width), dtype=xs.dtype)
    hs, h, c = lstm(long, xs, zero, zero)
    backwards, _, _ = lstm(long, xs[::-1], zero, zero)
    both = np.concatenate([hs, backwards[::-1]], axis=-1)
    scores = both @ head
    attention = np.exp(scores - scores.max(axis=0))
    attention /= attention.sum(axis=0)
    return h, c, gru(gated, xs, zero), (attention * both).sum(axis=0), attention


def arguments(scale=1):
    rng = np.random.default_rng(17)

    def normal(*shape):
        return (rng.standard_normal(shape) * 0.3).astype(np.float32)

    n, d = 8 * scale, 5 * scale
    return Cell(normal(d, 4 * n), normal(n, 4 * n), normal(4 * n)), Cell(normal(d, 3 * n), normal(n, 3 * n), normal(3 * n)), normal(6, 3, d), normal(2 * n, 1)


RTOL = 1e-5
