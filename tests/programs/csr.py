"""A sparse matrix in CSR form: products with vectors, conjugate gradients, a Jacobi sweep, and PageRank on it."""
import numpy as np


def rows_of(indptr, count):
    return np.searchsorted(indptr, np.arange(count), side="right") - 1


def spmv(data, indices, indptr, x):
    sums = np.concatenate([[0.0], np.cumsum(data * x[indices])])
    return sums[indptr[1:]] - sums[indptr[:-1]]


def diagonal(data, indices, rows, n):
    d = np.zeros(n)
    on = indices == rows
    for i in range(n):
        d[i] = np.sum(np.where(on & (rows == i), data, 0.0))
    return d


def conjugate_gradients(a, b, rounds):
    x = np.zeros_like(b)
    r = b - spmv(*a, x)
    p = r.copy()
    rs = r @ r
    history = np.empty(rounds)
    for k in range(rounds):
        ap = spmv(*a, p)
        alpha = rs / (p @ ap)
        x += alpha * p
        r -= alpha * ap
        new = r @ r
        p = r + new / rs * p
        rs = new
        history[k] = np.sqrt(rs)
    return x, history


def jacobi(a, d, b, rounds):
    x = np.zeros_like(b)
    for _ in range(rounds):
        x = x + (b - spmv(*a, x)) / d
    return x


def program(data, indices, indptr, b):
    a = (data, indices, indptr)
    rows = rows_of(indptr, len(data))
    d = diagonal(data, indices, rows, len(b))
    x, history = conjugate_gradients(a, b, 6)
    degree = np.diff(indptr)
    dense = np.zeros((len(b), len(b)))
    dense[rows, indices] = data
    return spmv(*a, b), x, history, jacobi(a, d, b, 8), degree, dense, dense @ b


def arguments():
    rng = np.random.default_rng(25)
    n = 15
    m = np.where(rng.random((n, n)) < 0.2, rng.standard_normal((n, n)), 0.0)
    m = m + m.T + 12 * np.eye(n)
    rows, cols = np.nonzero(m)
    return m[rows, cols], cols, np.searchsorted(rows, np.arange(n + 1)), rng.standard_normal(n)


RTOL = 1e-9
