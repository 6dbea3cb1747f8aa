"""LU, with and without pivots, by loops; determinants, solutions and an inverse from it."""
import numpy as np


def lu(a):
    a = a.copy()
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            a[i, k + 1:] -= a[i, k] * a[k, k + 1:]
    return np.tril(a, -1) + np.eye(n), np.triu(a)


def lu_pivoted(a):
    a = np.array(a, dtype=float)
    n = len(a)
    order = np.arange(n)
    sign = 1.0
    for k in range(n - 1):
        p = k + np.argmax(np.abs(a[k:, k]))
        row, other = a[k].copy(), a[p].copy()
        a[p] = row
        a[k] = other
        i, j = order[k].copy(), order[p].copy()
        order[p], order[k] = i, j
        sign = np.where(p == k, sign, -sign)
        a[k + 1:, k] /= a[k, k]
        a[k + 1:, k + 1:] -= np.outer(a[k + 1:, k], a[k, k + 1:])
    return a, order, sign


def forward(l, b):
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = b[i] - l[i, :i] @ x[:i]
    return x


def backward(u, b):
    x = np.zeros_like(b)
    for i in range(len(b) - 1, -1, -1):
        x[i] = (b[i] - u[i, i + 1:] @ x[i + 1:]) / u[i, i]
    return x


def program(a, b):
    l, u = lu(a)
    x = backward(u, forward(l, b))
    packed, order, sign = lu_pivoted(a)
    det = sign * np.prod(np.diag(packed))
    inverse = np.stack([backward(u, forward(l, e)) for e in np.eye(len(a))], axis=1)
    return l, u, x, order, det, inverse @ a, np.abs(a @ x - b).max() < 1e-8


def arguments():
    rng = np.random.default_rng(12)
    return rng.standard_normal((6, 6)) + 4 * np.eye(6), rng.standard_normal(6)
