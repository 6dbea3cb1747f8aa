"""NumPy's functions and methods on tracers, as compositions of the primitives of `pyxla._core`.

Importing this package registers them. A NumPy function that is registered nowhere raises `UnsupportedError` by name.
Nothing in here may call a NumPy creation function (`np.zeros`, `np.asarray`, ...): while a trace runs they are redirected.
"""
from . import borrow, create, einsum, elementwise, fft, host, join, lapack, linalg, manip, pad, sorting, stats, write

__all__ = ["borrow", "create", "einsum", "elementwise", "fft", "host", "join", "lapack", "linalg", "manip", "pad", "sorting", "stats",
           "write"]
