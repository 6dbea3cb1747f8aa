"""Shortest paths between all pairs, the closure of a relation, and the centre of the graph."""
import numpy as np


def floyd_warshall(w):
    d = w.copy()
    n = d.shape[0]
    via = np.full((n, n), -1)
    for k in range(n):
        through = d[:, k, None] + d[None, k, :]
        shorter = through < d
        via[shorter] = k
        d = np.minimum(d, through)
    return d, via


def closure(a):
    reach = a | np.eye(len(a), dtype=bool)
    for k in range(len(a)):
        reach |= reach[:, k:k + 1] & reach[k:k + 1, :]
    return reach


def program(w):
    d, via = floyd_warshall(w)
    reach = closure(np.isfinite(w))
    eccentricity = np.where(reach, d, 0).max(axis=1)
    return d, via, reach, eccentricity.argmin(), np.isinf(d).sum(), np.nanmean(np.where(np.isinf(d), np.nan, d))


def arguments(scale=1):
    rng = np.random.default_rng(10)
    n = 14 * scale
    w = np.where(rng.random((n, n)) < 0.25, rng.integers(1, 20, (n, n)).astype(float), np.inf)
    np.fill_diagonal(w, 0)
    return (w,)
