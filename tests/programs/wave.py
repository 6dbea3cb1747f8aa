"""A wave in one and two dimensions, with absorbing and reflecting ends."""
import numpy as np


def initial(x, centre, width):
    return np.exp(-((x - centre) ** 2) / (2 * width**2))


def string(n, steps, c, centre):
    x = np.linspace(0, 1, n)
    dx = x[1] - x[0]
    dt = 0.9 * dx / c
    r2 = (c * dt / dx) ** 2
    u = initial(x, centre, 0.05)
    before = u.copy()
    record = np.empty((steps, n))
    for k in range(steps):
        after = np.zeros_like(u)
        after[1:-1] = 2 * u[1:-1] - before[1:-1] + r2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        after[-1] = u[-2] + (np.sqrt(r2) - 1) / (np.sqrt(r2) + 1) * (after[-2] - u[-1])
        before, u = u, after
        record[k] = u
    return record


def membrane(u, v, damping, steps):
    for _ in range(steps):
        lap = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4.0 * u
        v = (1 - damping) * v + 0.25 * lap
        u = u + v
    return u, v


def program(u, v, c, centre):
    record = string(101, 30, c, centre)
    u, v = membrane(u, v, np.linspace(0, 0.1, u.shape[1]), 15)
    energy = 0.5 * (v**2).sum() + 0.5 * (np.diff(u, axis=0) ** 2).sum() + 0.5 * (np.diff(u, axis=1) ** 2).sum()
    return record, u, energy, np.abs(record).max(axis=1)


def arguments(scale=1):
    rng = np.random.default_rng(2)
    shape = 17 * scale, 19 * scale
    return rng.standard_normal(shape), np.zeros(shape), 1.5, 0.3
