"""Finite elements: stiffness of triangles, assembled by repeated indices, boundary conditions, a solve."""
import numpy as np


def program(nodes, tris, fixed):
    n = nodes.shape[0]
    p = nodes[tris]
    e = np.stack([p[:,2]-p[:,1], p[:,0]-p[:,2], p[:,1]-p[:,0]], axis=1)
    area = 0.5*np.abs(e[:,0,0]*e[:,1,1]-e[:,0,1]*e[:,1,0])+0.01
    grads = np.stack([-e[...,1], e[...,0]], axis=-1)/(2*area[:,None,None])
    ke = np.einsum('tid,tjd,t->tij', grads, grads, area)
    I = np.repeat(tris, 3, axis=1).ravel()
    J = np.tile(tris, (1,3)).ravel()
    K = np.zeros((n,n))
    np.add.at(K, (I,J), ke.ravel())
    M = np.bincount(tris.ravel(), weights=np.repeat(area/3,3), minlength=n)
    b = M.copy()
    free = np.setdiff1d(np.arange(n), fixed)
    A = K.copy()
    A[fixed,:] = 0
    A[fixed, fixed] = 1
    b[fixed] = 0
    A[np.diag_indices(n)] += 1e-3
    u = np.linalg.solve(A, b)
    return K, M, u, np.abs(K - K.T).max(), free, area.sum()


def arguments(scale=1):
    rng = np.random.default_rng(31)
    n = 12 * scale
    triangles = rng.permuted(np.tile(np.arange(n), (15 * scale, 1)), axis=1)[:, :3].copy()
    return rng.random((n, 2)), triangles, np.array([0, 3, 7])
