"""What a traced function must not do, since the compiled one would not do it again: change arrays that are no arguments, draw random
numbers.

`Effects` remembers before a trace how such things are, for all that the function can reach (`_capture.py`), and compares after it. What
is clear from the names in the code is refused before."""
import random
import sys
import types

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


class Effects:
    def __init__(self, arrays, generators):
        self.arrays = [(a, header(a)) for a in arrays]
        self.generators = [(g, state_of(g)) for g in generators]

    def check(self):
        """Raises TraceError where the trace did what the compiled function would not."""
        for array, before in self.arrays:
            if header(array) != before:
                shape = ",".join(map(str, array.shape))
                raise _core.TraceError(
                    f"an array that is not an argument, {array.dtype}({shape}), was changed by NumPy while the function was traced; the "
                    "compiled function would not repeat that: make it an argument, or make it from tracers (np.array, np.zeros, ...)")
        for generator, before in self.generators:
            if state_of(generator) != before:
                raise _core.TraceError(f"a {type(generator).__name__} was drawn from while the function was traced: {DRAWN}")
