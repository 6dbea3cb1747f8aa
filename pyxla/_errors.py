"""What messages say besides what is wrong: the operation with its operands, the cure, the user's line.

`explain` is called by csrc/py/entry.c with an exception that ends a trace, `of_run` by csrc/py/host.c with one of NumPy's own routines in
the run, `here` by csrc/py/operation.c for the checks that a run makes. An exception that the traced function catches, or raises itself, is
left as it is."""
import dis
import os
import re
import sys
import traceback
import types

import numpy as np

from . import _core
from ._cures import cure_of

KINDS = (ValueError, TypeError, IndexError, AttributeError, OverflowError, ZeroDivisionError, FloatingPointError, NotImplementedError,
         np.linalg.LinAlgError, np.exceptions.AxisError, _core.Error)
FOLDERS = ("<pyxla>", *(os.path.dirname(os.path.abspath(module.__file__)) + os.sep for module in (np, _core)))
FLAT = "Error setting single item of array."
NAMED = re.compile(r" in (a function of )?[\w.]+:? ?\(|, an argument$|, the result of |\(`\w+` of ")      # a message with its operation
FAMILY = "a function of "
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
                    _names[f.__code__] = f"{FAMILY}{name.rpartition('.')[0]}: "
    return _names


def full_name(f):
    if isinstance(f, np.ufunc):
        return f.__name__
    module = getattr(f, "__module__", None) or "numpy"
    return f"{'numpy' if module.startswith('numpy._') else module}.{getattr(f, '__name__', f)}"


def operation(frames, known=None):
    """The first function of these that the user knows, with its operands. known: what C says, if these do not tell."""
    for frame in frames:
        code = frame.f_code
        if code in names():
            if known and names()[code].startswith(FAMILY):
                return known
            given = [frame.f_locals.get(name) for name in code.co_varnames[:code.co_argcount]]
            while given and (given[-1] is None or given[-1] is False or given[-1] is np._NoValue):
                given.pop()
            rest = frame.f_locals.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount]) if code.co_flags & 4 else ()
            return f"{names()[code]}({', '.join(map(_core.describe, (*given, *rest)))})"
    return known


def here(known):
    """The operation that the user's innermost function asked for. known: as C knows it."""
    frame, frames = sys._getframe(1), []
    while frame and internal(frame.f_code):
        frames.append(frame)
        frame = frame.f_back
    return operation(reversed(frames), known)


def raised_by_user(frame, last):
    """Whether the instruction at which a frame was left raises."""
    return any(i.offset == last and i.opname in ("RAISE_VARARGS", "RERAISE") for i in dis.get_instructions(frame.f_code))


def whole(error, message, what, place):
    """A message with its operation, its cure and the place."""
    ours = isinstance(error, _core.Error)
    what = what if what and not NAMED.search(message) else ""
    head, mark, cure = message.partition("; ") if ours else (message, "", "")
    if mark:
        return f"{head}{': ' * bool(what)}{what}; {cure}{place}"
    return f"{message}{' in ' * bool(what)}{what}{'' if ours else '; ' + cure_of(message)}{place}"


def replaced(error, message):
    """The exception with another message; one of NumPy's that compose theirs themselves becomes a plain one."""
    if str(error) == (error.args[0] if len(error.args) == 1 else None):
        error.args = (message,)
    elif isinstance(error, TypeError):
        return TypeError(message).with_traceback(error.__traceback__)
    return error


def axis_error(error, what, place):
    said = f"{'in ' * bool(what)}{what or ''}{place}".strip()
    if error._msg is None or " (at " not in error._msg:
        axes = f", whose axes are 0 to {error.ndim - 1}" if error.ndim else ""
        error._msg = said + axes if error._msg is None else f"{said}{axes}: {error._msg}"
    return error


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
    if mine == len(frames) - 1 and raised_by_user(frame, links.tb_lasti):
        return error
    message, at, place = str(error).partition(" (at ")
    place = at + place or f" (at {frame.f_code.co_filename}:{line}, in {frame.f_code.co_name})"
    if message == FLAT:                                 # NumPy puts this in the place of the tracer's
        what = "a store through .flat of traced values into an array that NumPy made of numbers alone is not supported in a jitted function"
        return _core.UnsupportedError(f"{what}; make it from tracers, or an argument{place}").with_traceback(error.__traceback__)
    if message.startswith("unsupported operand type"):
        message, known = message.replace("pyxla._core.Tracer", "numpy.ndarray"), _core.declined()
    else:
        known = getattr(error, "_operation", (0, None))[1]
    what = operation([frame for frame, _ in frames[mine + 1:]], known)
    if isinstance(error, np.exceptions.AxisError):
        return axis_error(error, what, place)
    return replaced(error, message if "; " in message and at and not isinstance(error, _core.Error) else whole(error, message, what, place))


def of_run(error, what, file, line, function):
    """The exception of a routine in the run, with the operation and the place."""
    place = f" (at {file}:{line}, in {function})"
    return replaced(error, whole(error, str(error), what, place) if isinstance(error, KINDS) else f"{error}{place}")


def code_of(function):
    """The code of a function, also of a partial, a method or an object that is called; None: it is not Python's."""
    for _ in range(8):
        if function is None or hasattr(function, "__code__"):
            break
        inner = next((v for name in ("__wrapped__", "func", "__func__") if (v := getattr(function, name, None))), None)
        function = inner or type(function).__dict__.get("__call__")
    return getattr(function, "__code__", None)


def of_function(error, function):
    """Adds the place of a jitted function to an exception about what it reads or returns."""
    code = code_of(function)
    if code and isinstance(error, KINDS) and " (at " not in str(error):
        replaced(error, f"{error} (at {code.co_filename}:{code.co_firstlineno}, in {code.co_name})")
