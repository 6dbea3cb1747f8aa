"""The extension `fft` of the array API standard."""
import numpy as np
from numpy.fft import fft, fftn, fftshift, hfft, ifft, ifftn, ifftshift, ihfft, irfft, irfftn, rfft, rfftn


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies that the places of `fft` stand for.

    Parameters
    ----------
    n : int
        Points of the transform.
    d : float
        The distance of samples.
    dtype : real floating dtype or None
        None: float64.
    device : "cpu" or None

    Returns
    -------
    array, shape (n,)

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.fft.fftfreq(4, d=0.5, dtype=xp.float32)
    array([ 0. ,  0.5, -1. , -0.5], dtype=float32)
    """
    r = np.fft.fftfreq(n, d, device=device)
    return r if dtype is None else r.astype(dtype)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies that the places of `rfft` stand for.

    Parameters
    ----------
    n : int
        Points of the transform.
    d : float
        The distance of samples.
    dtype : real floating dtype or None
        None: float64.
    device : "cpu" or None

    Returns
    -------
    array, shape (n // 2 + 1,)

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.fft.rfftfreq(4)
    array([0.  , 0.25, 0.5 ])
    """
    r = np.fft.rfftfreq(n, d, device=device)
    return r if dtype is None else r.astype(dtype)


__all__ = ["fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft", "rfftfreq",
           "rfftn"]
