"""Advection by following the flow backwards: departure points, bilinear interpolation by index arrays, periodic edges."""
import numpy as np


def interpolate(q, x, y):
    i, j = np.floor(x).astype(int), np.floor(y).astype(int)
    fx, fy = x - i, y - j
    n, m = q.shape
    i0, i1 = i % n, (i + 1) % n
    j0, j1 = j % m, (j + 1) % m
    return (1 - fx) * ((1 - fy) * q[i0, j0] + fy * q[i0, j1]) + fx * ((1 - fy) * q[i1, j0] + fy * q[i1, j1])


def departure(u, v, dt, rounds):
    x, y = np.meshgrid(np.arange(u.shape[0]), np.arange(u.shape[1]), indexing="ij")
    dx, dy = dt * u, dt * v
    for _ in range(rounds):
        xm, ym = x - dx / 2, y - dy / 2
        dx, dy = dt * interpolate(u, xm, ym), dt * interpolate(v, xm, ym)
    return x - dx, y - dy


def program(q, u, v, dt, steps):
    x, y = departure(u, v, dt, 3)
    start = q.sum()
    for _ in range(steps):
        q = interpolate(q, x, y)
        q = np.clip(q, 0, None)
        q *= start / q.sum()
    row = q[np.argmax(q) // q.shape[1]]
    order = np.argsort(row)[::-1]
    return q, x, row[order], np.take(row, order[:3]), q[::2, [0, 3, -1]]


def arguments(scale=1):
    rng = np.random.default_rng(27)
    x, y = np.meshgrid(np.arange(14 * scale), np.arange(18 * scale), indexing="ij")
    q = np.exp(-((x - 5) ** 2 + (y - 7) ** 2) / 6)
    return q, np.sin(2 * np.pi * y / 18) + 0.1 * rng.random(x.shape), np.cos(2 * np.pi * x / 14), 0.7, 4


RTOL = 1e-10
