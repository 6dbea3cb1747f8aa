"""What a traced function must not do, since the compiled one would not do it again: change arrays that are no arguments, draw random
numbers, advance iterators, read clocks and files.

`Effects` remembers before a trace how such things are, for all that the function can reach (`_capture.py`), and compares after it. What
is clear from the names in the code is refused before."""
import gc
import io
import queue
import random
import sys
import types
import warnings
from collections.abc import Iterator

from . import _core

DRAWN = "its numbers would be drawn once, while tracing, and stay the same in every call; draw them outside and pass them as an argument"


def sources():
    """The classes of generators of random numbers."""
    numpy_random = sys.modules.get("numpy.random")
    return (random.Random,) + ((numpy_random.Generator, numpy_random.RandomState) if numpy_random else ())


def generator_of(value):
    """The generator that a value is, or is a method of; None: it is neither."""
    if isinstance(value, (types.BuiltinMethodType, types.MethodType)):
        value = value.__self__
    return value if isinstance(value, sources()) else None


def global_generators():
    """Those behind the functions of `random` and `np.random`, which a library may call."""
    numpy_random = sys.modules.get("numpy.random")
    return [random._inst] + ([numpy_random.mtrand._rand] if numpy_random else [])


def draws(value):
    """Whether a value is a source of random numbers: a module of them, a generator, or a method of one."""
    if isinstance(value, types.ModuleType):
        return value.__name__ in ("random", "numpy.random")
    return generator_of(value) is not None


def refuse_random(what, code=None):
    where = f" (at {code.co_filename}:{code.co_firstlineno}, in {code.co_name})" if code else ""
    raise _core.TraceError(f"{what} in a traced function: {DRAWN}{where}")


def state_of(generator):
    """Something that is another object's equal as long as nothing was drawn."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    bits = getattr(generator, "bit_generator", None) or generator._bit_generator
    return repr(bits.state)


def header(array):
    return array.dtype, array.shape, array.strides, _core.elements_hash(array)


# Modules whose reading of clocks and files says nothing about what the function computes; modules of C that the user knows by other names.
BYSTANDERS = {"logging", "warnings", "importlib", "_frozen_importlib", "_frozen_importlib_external", "linecache", "traceback", "inspect",
              "dis", "tokenize", "threading", "unittest", "doctest", "bdb", "pdb", "concurrent", "queue", "pyxla", "_pytest", "coverage"}
KNOWN_AS = {"posix": "os", "_io": "builtins", "datetime_datetime": "datetime.datetime"}


def world_read(effects, module, name):
    """Raises TraceError if it is the user's code that calls this function of C now; csrc/py/world.c asks."""
    frame = sys._getframe(1)
    while frame:
        where = frame.f_globals.get("__name__") or ""
        top = where.partition(".")[0]
        installed = "site-packages" in frame.f_code.co_filename
        if top in BYSTANDERS or installed and module == "time":
            return
        if not installed and (top not in sys.stdlib_module_names or top == "__main__") and top != "numpy":
            break
        frame = frame.f_back
    place = f" (at {frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name})" if frame else ""
    effects.refused = (f"{KNOWN_AS.get(module, module)}.{name}() is called in a traced function: what it gives would stay the same in "
                       f"every call; call it outside and pass what it gives as an argument{place}")
    raise _core.TraceError(effects.refused)


def identity_read(effects):
    """Raises TraceError if it is the user's code that asks for the id() of an argument; csrc/py/world.c asks."""
    frame = sys._getframe(1)
    top = (frame.f_globals.get("__name__") or "").partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__" or top in ("numpy", "pyxla") or "site-packages" in frame.f_code.co_filename:
        return                                                    # copy, pickle, ...: keys among what they go through
    effects.refused = ("id() of an array that is an argument or a captured one is asked for in a traced function: the number would stay "
                       "the same in every call; compare arrays by `is`, or pass a key of your own as an argument "
                       f"(at {frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name})")
    raise _core.TraceError(effects.refused)


def frame_read(effects):
    """Raises TraceError if it is the user's code that got hold of a caller's frame; csrc/py/frames.c asks."""
    frame, names = sys._getframe(1), set()
    while (frame.f_globals.get("__name__") or "").partition(".")[0] in ("inspect", "traceback"):
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    top = (frame.f_globals.get("__name__") or "").partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__" or top in ("numpy", "pyxla") or "site-packages" in frame.f_code.co_filename \
            or "print_stack" in names:                            # which says nothing about what the function computes
        return
    effects.refused = ("the frame of a caller of the traced function is asked for: what it tells would stay the same in every call; "
                       "ask for it outside and pass what it gives as an argument "
                       f"(at {frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name})")
    raise _core.TraceError(effects.refused)


def state_of_iterator(value):
    """Something that is another such state's equal as long as the iterator was not advanced."""
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        return None if frame is None else (frame.f_lasti, *frame.f_locals.items())
    if isinstance(value, queue.SimpleQueue):
        return value.qsize()
    if isinstance(value, io.IOBase):
        return value.tell() if not value.closed and value.seekable() else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reduced = value.__reduce__()
    except TypeError:                                             # itertools from CPython 3.14 on: what it shows, and what it draws from
        held = [part for part in gc.get_referents(value) if isinstance(part, (Iterator, list))]
        return (repr(value), *(len(part) if isinstance(part, list) else state_of_iterator(part) for part in held))
    return tuple(state_of_iterator(part) if isinstance(part, Iterator) else part for part in flattened(reduced))


def flattened(value):
    if type(value) is tuple:
        for part in value:
            yield from flattened(part)
    else:
        yield value


def state_parts(iterator):
    """The state as one tuple, for a guard."""
    return tuple(flattened((state_of_iterator(iterator),)))


def same_state(a, b):
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and all(map(same_state, a, b))
    return a is b or type(a) is type(b) and isinstance(a, (int, float, str)) and a == b


class Effects:
    def __init__(self, arrays, generators, iterators, walk):
        self.bools = walk.bools                                   # whether code asks for True or False themselves
        self.walk, self.calls, self.refused = walk, {}, None      # calls: of cached functions, that have guards; refused: a message
        self.iterators = [(i, state_of_iterator(i)) for i in iterators]
        self.arrays = [(a, header(a)) for a in arrays]
        self.generators = [(g, state_of(g)) for g in generators]

    def add(self, arrays):
        known = {id(a) for a, _ in self.arrays}
        self.arrays += [(a, header(a)) for a in arrays if id(a) not in known]

    def check(self):
        """Raises TraceError where the trace did what the compiled function would not."""
        if self.refused:                                          # and the function caught it
            raise _core.TraceError(self.refused)
        for iterator, before in self.iterators:
            if not same_state(state_of_iterator(iterator), before):
                raise _core.TraceError(
                    f"a {type(iterator).__name__} that was there before was advanced while the function was traced; the compiled function "
                    "would not repeat that: take what it gives outside and pass it as an argument, or make it a list")
        for array, before in self.arrays:
            if header(array) != before:
                shape = ",".join(map(str, array.shape))
                raise _core.TraceError(
                    f"an array that is not an argument, {array.dtype}({shape}), was changed by NumPy while the function was traced; the "
                    "compiled function would not repeat that: make it an argument, or make it from tracers (np.array, np.zeros, ...)")
        for generator, before in self.generators:
            if state_of(generator) != before:
                raise _core.TraceError(f"a {type(generator).__name__} was drawn from while the function was traced: {DRAWN}")
