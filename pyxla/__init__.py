"""Ordinary NumPy functions as fused machine code.

Examples
--------
>>> import numpy as np
>>> import pyxla
>>> @pyxla.jit
... def scaled(x, y):
...     return np.tanh(x) * y + 1
>>> scaled(np.zeros(3), np.ones(3))
array([1., 1., 1.])

`help(pyxla.jit)` has the options; docs/user_guide.md has everything else.
"""

from . import _core, _originals, nn, xp  # noqa: F401
from ._api import (
    ShapeDtype,
    clear_kernels,
    constant,
    disable_jit,
    eval_shape,
    get_num_threads,
    jit,
    memory_info,
    register_tree,
    set_num_threads,
    trim_memory,
)
from ._core import (
    CacheInfo,
    Compiled,
    CompileError,
    Error,
    InternalError,
    Jit,
    Lowered,
    MemoryInfo,
    TraceError,
    UnsupportedError,
)
from ._tune import load_tuning, tune

__version__ = "0.1.0"

__all__ = [
    "CacheInfo",
    "CompileError",
    "Compiled",
    "Error",
    "InternalError",
    "Jit",
    "Lowered",
    "MemoryInfo",
    "ShapeDtype",
    "TraceError",
    "UnsupportedError",
    "clear_kernels",
    "constant",
    "disable_jit",
    "eval_shape",
    "get_num_threads",
    "jit",
    "load_tuning",
    "memory_info",
    "nn",
    "register_tree",
    "set_num_threads",
    "trim_memory",
    "tune",
    "xp",
]

_core._set_shape_dtype(ShapeDtype)
