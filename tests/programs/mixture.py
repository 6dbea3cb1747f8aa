"""A mixture of Gaussians fitted by expectation and maximisation."""
import numpy as np


def program(X, mu, iters):
    n, d = X.shape
    k = len(mu)
    pi = np.full(k, 1/k)
    S = np.array([np.cov(X, rowvar=False)+1e-3*np.eye(d) for _ in range(k)])
    lls = []
    for _ in range(iters):
        diff = X[:,None,:]-mu[None]
        inv = np.linalg.inv(S)
        maha = np.einsum('nki,kij,nkj->nk', diff, inv, diff)
        sign, logdet = np.linalg.slogdet(S)
        logp = np.log(pi)-.5*(maha+logdet+d*np.log(2*np.pi))
        m = logp.max(axis=1, keepdims=True)
        ll = m.squeeze(1)+np.log(np.exp(logp-m).sum(1))
        r = np.exp(logp-ll[:,None])
        lls += [ll.sum()]
        Nk = r.sum(0)
        mu = (r.T@X)/Nk[:,None]
        diff = X[:,None,:]-mu
        S = np.einsum('nk,nki,nkj->kij', r, diff, diff)/Nk[:,None,None]
        S[:, range(d), range(d)] += 1e-6
        pi = Nk/n
    return mu, S, pi, lls, r.argmax(axis=-1), np.bincount(r.argmax(-1), minlength=k)


def arguments(scale=1):
    rng = np.random.default_rng(33)
    return rng.normal(size=(50 * scale, 3)), rng.random((4, 3)), 3
