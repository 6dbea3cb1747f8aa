"""What an exception that ends a trace says besides its own message: the NumPy function with its operands, and the user's line.

Errors of C carry both already; those of NumPy's functions in `pyxla._np` are raised as NumPy raises them. csrc/py/entry.c calls `explain`
with the exception on its way to the user; one that the traced function catches, or raises itself, is left as it is."""
import dis
import os
import traceback
import types

import numpy as np

from . import _core

KINDS = (ValueError, TypeError, IndexError, AttributeError, OverflowError, ZeroDivisionError, NotImplementedError, np.linalg.LinAlgError,
         np.exceptions.AxisError, _core.Error)
FOLDERS = ("<pyxla>", *(os.path.dirname(os.path.abspath(module.__file__)) + os.sep for module in (np, _core)))
FLAT = "Error setting single item of array."
_names = {}


def internal(code):
    """Whether code is this package's or NumPy's own."""
    return code.co_filename.startswith(FOLDERS)


def names():
    """Code of an implementation -> what the user calls."""
    if not _names:
        entries = [(f, f"numpy.{name}") for name, f in _core._creators.items()]
        entries += [(f, f"ndarray.{name}") for name, f in _core._methods.items()]
        entries += [(ours, full_name(f)) for f, ours in _core._functions.items() if callable(f)]
        for f, name in entries:
            if isinstance(f, types.FunctionType):       # several functions of a family may be one code
                known = _names.setdefault(f.__code__, name)
                if known != name and known.rpartition(".")[0] == name.rpartition(".")[0]:
                    _names[f.__code__] = f"a function of {name.rpartition('.')[0]}: "
    return _names


def full_name(f):
    module = getattr(f, "__module__", None) or "numpy"
    return f"{'numpy' if module.startswith('numpy._') else module}.{getattr(f, '__name__', f)}"


def text(value):
    """An operand as messages show it: float64(3,4), 2, [float64(3), float64(4)]."""
    if _core.is_tracer(value) and not hasattr(value, "dtype"):
        return repr(value)
    if _core.is_tracer(value) or isinstance(value, (np.ndarray, np.generic)):
        return f"{value.dtype}({','.join(map(str, value.shape))})"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(text, value[:4])) + (", ..." if len(value) > 4 else "," if len(value) == 1 and type(value) is tuple else "")
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return repr(value)[:40] if isinstance(value, (bool, int, float, complex, str, type(None), slice, np.dtype)) else type(value).__name__


def operation(frames):
    """The first function of these that the user knows, with its operands."""
    for frame, _ in frames:
        code = frame.f_code
        if code in names():
            given = [frame.f_locals.get(name) for name in code.co_varnames[:code.co_argcount]]
            while given and (given[-1] is None or given[-1] is False or given[-1] is np._NoValue):
                given.pop()
            rest = frame.f_locals.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount]) if code.co_flags & 4 else ()
            return f"{names()[code]}({', '.join(map(text, (*given, *rest)))})"
    return None


def raised_by_user(frame, last):
    """Whether the instruction at which a frame was left raises."""
    return any(i.offset == last and i.opname in ("RAISE_VARARGS", "RERAISE") for i in dis.get_instructions(frame.f_code))


def explain(error):
    """The exception to raise for one that ends a trace: itself, with a longer message, or one that can have one."""
    frames = list(traceback.walk_tb(error.__traceback__))
    mine = max((k for k, (frame, _) in enumerate(frames) if not internal(frame.f_code)), default=None)
    if mine is None or not isinstance(error, KINDS):
        return error
    frame, line = frames[mine]
    links = error.__traceback__
    for _ in range(mine):
        links = links.tb_next
    message = str(error)
    if message == FLAT:                                 # NumPy puts this in the place of the tracer's
        what = "a store through .flat of traced values into an array that NumPy made of numbers alone is not supported in a jitted function"
        cure = f"make it from tracers, or an argument (at {frame.f_code.co_filename}:{line}, in {frame.f_code.co_name})"
        return _core.UnsupportedError(f"{what}; {cure}").with_traceback(error.__traceback__)
    if " (at " in message or mine == len(frames) - 1 and raised_by_user(frame, links.tb_lasti):
        return error
    called = None if isinstance(error, _core.Error) else operation(frames[mine + 1:])
    said = f" in {called}" * bool(called) + f" (at {frame.f_code.co_filename}:{line}, in {frame.f_code.co_name})"
    if isinstance(error, np.exceptions.AxisError):
        error._msg = said.strip() if error._msg is None else f"{said.strip()}: {error._msg}"
    elif str(error) == (error.args[0] if len(error.args) == 1 else None):
        error.args = (message + said,)
    elif isinstance(error, TypeError):          # NumPy's errors of ufuncs compose their message themselves
        return TypeError(message + said).with_traceback(error.__traceback__)
    return error
