"""The extension `linalg` of the array API standard."""
# ruff: noqa: F401
import numpy as np
from numpy import matmul, matrix_transpose, tensordot, vecdot
from numpy.linalg import (
    det,
    diagonal,
    eigh,
    eigvalsh,
    inv,
    matrix_norm,
    matrix_power,
    outer,
    pinv,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
    trace,
    vector_norm,
)


def cholesky(x, /, *, upper=False):
    """The factor L of x = L L^H, or with `upper` its conjugate transpose."""
    return np.linalg.cholesky(x, upper=upper)


def cross(x1, x2, /, *, axis=-1):
    """Products of vectors of three elements along an axis."""
    x1, x2 = np.broadcast_arrays(x1, x2)
    if x1.shape[axis] != 3:
        raise ValueError(f"cross product axis must have size 3, got x1.shape[axis]={x1.shape[axis]} and x2.shape[axis]={x2.shape[axis]}")
    return np.linalg.cross(x1, x2, axis=axis)


def matrix_rank(x, /, *, rtol=None):
    """The number of singular values above rtol times the greatest."""
    return np.linalg.matrix_rank(x, rtol=rtol)


__all__ = sorted(name for name in globals() if not name.startswith("_") and name != "np")
