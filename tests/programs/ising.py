"""The Ising model by a checkerboard of Metropolis steps, with random numbers that are passed in; a bootstrap of its errors."""
import numpy as np


def neighbours(s):
    return np.roll(s, 1, 0) + np.roll(s, -1, 0) + np.roll(s, 1, 1) + np.roll(s, -1, 1)


def sweep(s, beta, r, field):
    i, j = np.indices(s.shape)
    for colour in (0, 1):
        mine = (i + j) % 2 == colour
        cost = 2.0 * s * (neighbours(s) + field)
        flip = mine & (r[colour] < np.exp(-beta * cost))
        s[flip] *= -1


def energy(s, field):
    return -(s * (np.roll(s, 1, 0) + np.roll(s, 1, 1))).sum() - field * s.sum()


def bootstrap(values, picks):
    means = values[picks].mean(axis=1)
    return means.mean(), means.std(ddof=1), np.sort(means)[[1, -2]]


def program(spins, beta, field, numbers, picks):
    e, m = [], []
    for r in numbers:
        sweep(spins, beta, r, field)
        e.append(energy(spins, field))
        m.append(abs(spins.mean()))
    e, m = np.array(e), np.array(m)
    centred = m - m.mean()
    autocorrelation = np.correlate(centred, centred, mode="full")[len(m) - 1:]
    return e, m, beta**2 * e.var() / spins.size, bootstrap(m, picks), autocorrelation


def arguments(scale=1):
    rng = np.random.default_rng(28)
    n = 12 * scale
    return np.where(rng.random((n, n)) < 0.5, 1, -1), 0.4, 0.1, rng.random((6, 2, n, n)), rng.integers(0, 6, (20, 6))
