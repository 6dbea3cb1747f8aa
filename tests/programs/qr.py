"""QR by Gram and Schmidt, by Householder and by Givens, and eigenvalues from it."""
import numpy as np


def gram_schmidt(a):
    m, n = a.shape
    q, r = np.zeros((m, n)), np.zeros((n, n))
    for j in range(n):
        v = a[:, j].copy()
        for i in range(j):
            r[i, j] = np.dot(q[:, i], v)
            v -= r[i, j] * q[:, i]
        r[j, j] = np.sqrt(np.sum(v**2))
        q[:, j] = v / r[j, j]
    return q, r


def householder(a):
    r = a.copy()
    m, n = r.shape
    q = np.eye(m)
    for k in range(n):
        x = r[k:, k]
        e = np.zeros_like(x)
        e[0] = np.copysign(np.linalg.norm(x), x[0])
        v = x + e
        v = v / np.linalg.norm(v)
        r[k:] -= 2 * np.outer(v, v @ r[k:])
        q[:, k:] -= 2 * np.outer(q[:, k:] @ v, v)
    return q, np.triu(r)


def givens(a):
    r = a.copy()
    m, n = r.shape
    for j in range(n):
        for i in range(m - 1, j, -1):
            h = np.hypot(r[i - 1, j], r[i, j])
            c, s = r[i - 1, j] / h, -r[i, j] / h
            rotation = np.array([[c, -s], [s, c]])
            r[i - 1:i + 1] = rotation @ r[i - 1:i + 1]
    return r


def eigenvalues(a, rounds):
    for _ in range(rounds):
        q, r = gram_schmidt(a)
        a = r @ q
    return np.diag(a).copy()


def program(a, symmetric):
    q1, r1 = gram_schmidt(a)
    q2, r2 = householder(a)
    r3 = givens(a)
    values = eigenvalues(symmetric, 8)
    return q1, r1, q2, r2, np.abs(r3), values, np.abs(q2 @ r2 - a).max() < 1e-12, np.linalg.norm(q1.T @ q1 - np.eye(q1.shape[1]))


def arguments():
    rng = np.random.default_rng(13)
    s = rng.standard_normal((4, 4))
    return rng.standard_normal((6, 4)), s + s.T + 8 * np.diag([4.0, 3.0, 2.0, 1.0])
