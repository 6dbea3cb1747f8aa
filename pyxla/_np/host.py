"""NumPy's own routines on the buffers of a plan: a library call between the fused kernels.

A host function is `f(results, *inputs, *numbers)`: it fills the arrays of `results` (None: nobody reads that one). It is pure, keeps
no array, and gets its numbers from the trace. Shapes and dtypes of the results come from rules, never from running it."""
from functools import cache

import numpy as np

from .. import _core


def host(f, native=None, c_order=False):
    """Registers a host function; the result makes a call of it: `call(inputs, results, *numbers)` with (dtype, shape) pairs as results.
    `native(number)` may give it a form that needs no Python (native.c). c_order: NumPy makes its results in C order, not in that of its
    operands."""
    number = _core.host_function(f)
    if native:
        native(number)

    def call(inputs, results, *numbers):
        return _core.host(number, tuple(inputs), tuple(results), numbers, c_order)
    return call


def fill(results, values):
    """Stores NumPy's results, which must be what the rule of the function said."""
    for result, value in zip(results, values):
        if result is None:
            continue
        if value.dtype != result.dtype or value.shape != result.shape:
            raise _core.InternalError(f"a NumPy routine gave {value.dtype}{value.shape}, not {result.dtype}{result.shape}")
        result[...] = value


@cache
def whole(function, keywords):
    """A host call of a NumPy function with one result per array it returns, and these ((name, value), ...) keywords."""
    def f(results, *inputs):
        r = function(*inputs, **dict(keywords))
        fill(results, [np.asarray(v) for v in (r if isinstance(r, tuple) else (r,))])
    return host(f)
