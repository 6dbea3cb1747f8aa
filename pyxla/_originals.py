"""NumPy's functions as they were when pyxla was imported.

A program may put others in their places before it traces for the first time (tests do), and before it imports pyxla. What
pyxla knows of NumPy's functions is of NumPy's own, whatever their names stand for by then."""
import contextlib
import types

import numpy as np


def theirs(function):
    return str(function.__globals__.get("__name__")).startswith("numpy")


def own(value):
    """NumPy's function behind one that was put around it by functools.wraps; any other value itself."""
    while isinstance(value, types.FunctionType) and hasattr(value, "__wrapped__") and not theirs(value):
        value = value.__wrapped__
    return value


_HELD = [(module, {name: own(value) for name, value in vars(module).items()}) for module in (np, np.linalg, np.fft)]


@contextlib.contextmanager
def in_place():
    """While this lasts NumPy's names stand for its own functions."""
    replaced = [(module, name, vars(module)[name], value) for module, held in _HELD for name, value in held.items()
                if vars(module).get(name, value) is not value]
    for module, name, _, value in replaced:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, other, _ in replaced:
            setattr(module, name, other)
