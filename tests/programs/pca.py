"""Principal components: standardised data, the covariance, power iteration with deflation, and LAPACK's answer beside it."""
import numpy as np


def standardise(x):
    mean, std = x.mean(axis=0), x.std(axis=0, ddof=1)
    return (x - mean) / np.where(std == 0, 1.0, std)


def power_iteration(c, rounds):
    v = np.ones(c.shape[0]) / np.sqrt(c.shape[0])
    for _ in range(rounds):
        v = c @ v
        v /= np.linalg.norm(v)
    return v @ c @ v, v


def components(c, n, rounds=60):
    values, vectors = np.zeros(n), np.zeros((n, len(c)))
    c = c.copy()
    for k in range(n):
        values[k], vectors[k] = power_iteration(c, rounds)
        c -= values[k] * np.outer(vectors[k], vectors[k])
    return values, vectors


def program(x):
    z = standardise(x)
    c = np.cov(z, rowvar=False)
    values, vectors = components(c, 2)
    scores = z @ vectors.T
    explained = values / np.trace(c)
    rebuilt = scores @ vectors
    exact = np.linalg.eigvalsh(c)[::-1]
    return values, scores, explained, np.linalg.norm(z - rebuilt), np.corrcoef(z.T), exact


def arguments(scale=1):
    rng = np.random.default_rng(6)
    base = rng.standard_normal((60 * scale, 2)) * [3.0, 1.5]
    return (base @ rng.standard_normal((2, 5)) + 0.1 * rng.standard_normal((60 * scale, 5)),)
