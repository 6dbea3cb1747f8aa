"""What a traced function may return besides arrays, numbers and trees of them: objects that are the same in every call.

So constants, functions, classes and objects that were there before; not what the function makes anew each time and what can be changed
or used up, nor what holds tracers, whose values are in no such object."""
import collections
import gc
import types

import numpy as np

from . import _core

SKIPPED = (type, types.ModuleType, types.CodeType, types.FrameType)
CURE = "return it as a tuple, list or dict, or make its class known by pyxla.register_tree"


def parts(value):
    """What an object refers to; of a function what it brings along, not its module."""
    if isinstance(value, types.FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        return [*held, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    return [] if isinstance(value, SKIPPED) else gc.get_referents(value)


def holds_tracer(value, most=1000):
    """Whether a tracer is among what an object holds, or what that holds, for three steps."""
    seen, layer = {id(value)}, [value]
    for _ in range(4):
        layer = [p for v in layer for p in parts(v) if id(p) not in seen][:most]
        seen.update(map(id, layer))
        if any(map(_core.is_tracer, layer)):
            return True
    return False


def hashable(value):
    try:
        hash(value)
    except TypeError:
        return False
    return True


def refuse(value, why):
    raise _core.TraceError(f"a result of the jitted function is a {type(value).__name__}{why}")


def check(value):
    """Raises TraceError for an object that would be another one, or of another value, if the function ran again."""
    if isinstance(value, str):
        if "Tracer(" in value:
            refuse(value, " with the text of a traced value, known only when compiled code runs: return the value, and format it outside")
    elif isinstance(value, collections.abc.Iterator):
        refuse(value, f", which is used up by being read, and would be the same in every call: {CURE}")
    elif holds_tracer(value):
        refuse(value, f" that holds traced values: {CURE}")
    elif isinstance(value, collections.abc.Collection) and not hashable(value) and not isinstance(value, np.ndarray):
        refuse(value, f", which would be the same object in every call: {CURE}")


def key(value):
    """A key of a dict that is returned: today's value of a Python number, guarded."""
    if _core.is_scalar_tracer(value):
        return _core.concrete(value)
    if isinstance(value, str):
        check(value)
    elif isinstance(value, tuple):
        return type(value)(map(key, value)) if type(value) is tuple else value
    return value
