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
    """The factor L of x = L L^H, or with `upper` its conjugate transpose.

    Parameters
    ----------
    x : array, shape (..., n, n)
        Hermitian and positive definite.
    upper : bool

    Returns
    -------
    array, shape (..., n, n)

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.linalg.cholesky(xp.asarray([[4.0, 0.0], [0.0, 9.0]]))
    array([[2., 0.],
           [0., 3.]])
    """
    return np.linalg.cholesky(x, upper=upper)


def cross(x1, x2, /, *, axis=-1):
    """Products of vectors of three elements along an axis.

    Parameters
    ----------
    x1, x2 : array
        With 3 elements along the axis.
    axis : int

    Returns
    -------
    array

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.linalg.cross(xp.asarray([1, 0, 0]), xp.asarray([0, 1, 0]))
    array([0, 0, 1])
    """
    x1, x2 = np.broadcast_arrays(x1, x2)
    if x1.shape[axis] != 3:
        raise ValueError(f"cross product axis must have size 3, got x1.shape[axis]={x1.shape[axis]} and x2.shape[axis]={x2.shape[axis]}")
    return np.linalg.cross(x1, x2, axis=axis)


def matrix_rank(x, /, *, rtol=None):
    """The number of singular values above rtol times the greatest.

    Parameters
    ----------
    x : array, shape (..., m, n)
    rtol : float, array or None
        None: the greater of m and n, times the dtype's epsilon.

    Returns
    -------
    array of int64, shape (...)

    Examples
    --------
    >>> from pyxla import xp
    >>> int(xp.linalg.matrix_rank(xp.asarray([[1.0, 2.0], [2.0, 4.0]])))
    1
    """
    return np.linalg.matrix_rank(x, rtol=rtol)


def eig(x, /):
    """Eigenvalues and eigenvectors (of version 2025.12 of the standard): complex ones, of real matrices too.

    Parameters
    ----------
    x : array, shape (..., n, n)

    Returns
    -------
    namedtuple of `eigenvalues` (..., n) and `eigenvectors` (..., n, n), whose columns they are

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.linalg.eig(xp.asarray([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    array([2.+0.j, 3.+0.j])
    """
    return np.linalg.eig(x.astype(np.result_type(x.dtype, np.complex64)))


def eigvals(x, /):
    """Eigenvalues (of version 2025.12 of the standard): complex ones, of real matrices too.

    Parameters
    ----------
    x : array, shape (..., n, n)

    Returns
    -------
    complex array, shape (..., n)

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.linalg.eigvals(xp.asarray([[2.0, 0.0], [0.0, 3.0]]))
    array([2.+0.j, 3.+0.j])
    """
    return np.linalg.eigvals(x.astype(np.result_type(x.dtype, np.complex64)))


__all__ = sorted(name for name in globals() if not name.startswith("_") and name != "np")
