"""A self-consistent field with second-order perturbation theory, over random integrals."""
import numpy as np

RTOL = 1e-9


def program(S0, eri, H0):
    S = S0@S0.T+6*np.eye(len(S0))
    Hc = -(H0+H0.T)*3
    eri = .01*(eri+eri.transpose(1,0,2,3))
    eri = eri+eri.transpose(0,1,3,2)
    eri = eri+eri.transpose(2,3,0,1)
    s, U = np.linalg.eigh(S)
    X = U@np.diag(s**-.5)@U.T
    D = np.zeros_like(S0)
    E = []
    nocc = 2
    for _ in range(4):
        J = np.einsum('pqrs,rs->pq', eri, D, optimize=True)
        K = np.einsum('prqs,rs->pq', eri, D, optimize=True)
        F = Hc+2*J-K
        eps, Cp = np.linalg.eigh(X.T.dot(F).dot(X))
        Cc = X.dot(Cp)
        Co = Cc[:, :nocc]
        D = Co@Co.T
        E.append(np.einsum('pq,pq->', F+Hc, D))
    mo = np.einsum('pi,qj,pqrs,rk,sl->ijkl', Cc, Cc, eri, Cc, Cc, optimize='greedy')
    e = eps
    denom = e[:nocc,None,None,None]+e[None,None,:nocc,None]-e[None,nocc:,None,None]-e[nocc:]
    ov = mo[:nocc,nocc:,:nocc,nocc:]
    mp2 = (ov*(2*ov-ov.swapaxes(1,3))/denom).sum()
    return E, eps, mp2, np.abs(D)


def arguments(scale=1):
    rng = np.random.default_rng(34)
    n = 6 * scale
    return rng.random((n, n)), rng.random((n, n, n, n)), rng.random((n, n))
