"""What a function can read besides its arguments: globals, closure variables, attributes, containers.

`steps()` walks from the function over everything its code, and the plain Python code it calls, can reach by the names it
mentions, and lists each step with what it leads to now. csrc/py/guard.c checks the list before an entry is used again, so
captured numbers, functions and objects are never frozen. (Elements of arrays are no guards: they are read at every call.)"""
import dis
import functools
import random
import sys
import types
from weakref import WeakKeyDictionary

import numpy as np

from . import _core

OBJECT, GLOBAL, CELL, ATTRIBUTE, ITEM, ITEMS, LEAF = range(7)
LIMIT = 20_000
CONSTANTS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, np.ndarray, np.ufunc, type(Ellipsis))
CALLED = ("__call__", "__init__", "__new__", "__post_init__", "__getitem__", "__iter__", "__len__", "__enter__", "__exit__", "__getattr__")
_names = WeakKeyDictionary()


def names_of(code):
    """(globals, closure variables, attributes) that a code object and those inside it mention."""
    known = _names.get(code)
    if known is None:
        found = set(), set(), set()
        for i in dis.get_instructions(code):
            name = i.opname
            if name.startswith(("LOAD_GLOBAL", "LOAD_NAME")):
                found[0].add(i.argval)
            elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF"):
                found[1].add(i.argval)
            elif name in ("LOAD_ATTR", "LOAD_METHOD"):
                found[2].add(i.argval)
            elif name == "LOAD_SUPER_ATTR":
                found[2].add(i.argval)
        for c in code.co_consts:
            if isinstance(c, types.CodeType):
                for mine, inner in zip(found, names_of(c)):
                    mine |= inner
        known = _names[code] = found
    return known


def foreign(module):
    """Whether code of this module (by name) is taken as it is: Python's own, NumPy's and pyxla's."""
    top = (module or "").partition(".")[0]
    return top in ("numpy", "pyxla") or top in sys.stdlib_module_names and top != "__main__"


def draws(value):
    """Whether a value is a source of random numbers: a module of them, a generator, or a method of one."""
    if isinstance(value, types.ModuleType):
        return value.__name__ in ("random", "numpy.random")
    numpy_random = sys.modules.get("numpy.random")
    kinds = (random.Random,) + ((numpy_random.Generator, numpy_random.RandomState) if numpy_random else ())
    return isinstance(value, kinds) or isinstance(getattr(value, "__self__", None), kinds)


def refuse_random(what, code):
    raise _core.TraceError(
        f"{what} in a traced function: its numbers would be drawn once, while tracing, and stay the same in every call; draw them outside "
        f"and pass them as an argument (in {code.co_name}, {code.co_filename}:{code.co_firstlineno})"
    )


class Walk:
    def __init__(self):
        self.steps = []
        self.seen = {}
        self.attributes = set(CALLED)
        self.waiting = []               # (step, object) whose attributes are looked up when all names are known
        self.asked = set()              # (id of object, attribute) that have steps

    def add(self, kind, parent, key, value):
        if len(self.steps) >= LIMIT:
            raise RuntimeError(f"the function reaches more than {LIMIT} captured objects; pass what it needs as arguments")
        self.steps.append((kind, parent, key, value))
        return len(self.steps) - 1

    def root(self, value):
        """The step of an object that stays what it is (a function's globals, a class)."""
        known = self.seen.get(("root", id(value)))
        if known is None:
            known = self.seen["root", id(value)] = self.add(OBJECT, 0, None, value)
        return known

    def visit(self, step, value):
        """Goes on from a value that a step leads to."""
        if isinstance(value, CONSTANTS) or id(value) in self.seen or _core.is_tracer(value):    # tracers: leaked ones
            return
        self.seen[id(value)] = value
        if isinstance(value, types.FunctionType):
            self.function(value)
        elif isinstance(value, types.MethodType):
            self.visit(step, value.__func__)
            self.visit(step, value.__self__)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self.visit(step, part)
        elif isinstance(value, (staticmethod, classmethod)):
            self.visit(step, value.__func__)
        elif isinstance(value, property):
            self.visit(step, value.fget)
        elif type(value) in (list, dict, tuple):
            self.items(step, value)
        elif isinstance(value, (types.ModuleType, type)):
            if not foreign(value.__name__ if isinstance(value, types.ModuleType) else value.__module__):
                self.waiting.append((step, value))
        elif not foreign(type(value).__module__):
            self.waiting.append((step, value))
            self.waiting.append((self.root(type(value)), type(value)))
        elif hasattr(value, "__wrapped__"):
            self.visit(step, value.__wrapped__)

    def function(self, f):
        if foreign(f.__module__):
            return
        if hasattr(f, "__wrapped__"):
            self.visit(self.root(f), f.__wrapped__)
        names, cells, attributes = names_of(f.__code__)
        self.attributes |= attributes
        top = self.root(f.__globals__)
        for name in sorted(names):
            if name in f.__globals__:
                value = f.__globals__[name]
                if draws(value) or value is np and "random" in attributes:
                    refuse_random(f"{name}.random" if value is np else name, f.__code__)
                step = top if isinstance(value, types.ModuleType) else self.add(GLOBAL, top, name, value)
                self.visit(step if not isinstance(value, types.ModuleType) else self.root(value), value)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            if name in cells:
                try:
                    value = cell.cell_contents
                except ValueError:
                    continue
                if draws(value):
                    refuse_random(name, f.__code__)
                self.visit(self.add(CELL, self.root(cell), name, value), value)

    def items(self, step, container):
        if type(container) is tuple:
            for value in container:
                self.visit(step, value)
            return
        flat = tuple(v for pair in container.items() for v in pair) if type(container) is dict else tuple(container)
        self.add(ITEMS, step, flat, container)
        for value in container.values() if type(container) is dict else container:
            if isinstance(value, CONSTANTS) or id(value) in self.seen:
                continue
            self.visit(self.root(value), value)      # identity is guarded by ITEMS

    def attributes_of(self, step, value):
        """Steps to the attributes, of those the code mentions, that are stored in the object or its class."""
        own = value.__dict__ if hasattr(value, "__dict__") else {}
        for name in sorted(self.attributes):
            if (id(value), name) in self.asked:
                continue
            if name in own:
                found = own[name]
                if isinstance(value, type) and isinstance(found, (staticmethod, classmethod, property)):
                    self.asked.add((id(value), name))
                    self.visit(step, found)
                    continue
            elif isinstance(value, type):
                inherited = [k.__dict__[name] for k in value.__mro__[1:] if name in k.__dict__ and not foreign(k.__module__)]
                if not inherited or not isinstance(inherited[0], types.FunctionType):
                    if inherited:
                        self.visit(step, inherited[0])
                    continue
                found = inherited[0]
            else:
                slot = getattr(type(value), name, None)
                if not isinstance(slot, types.MemberDescriptorType) or not hasattr(value, name):
                    continue
                found = getattr(value, name)
            self.asked.add((id(value), name))
            if draws(found):
                raise _core.TraceError(f"the attribute {name} of a {type(value).__name__} gives random numbers, which would be drawn once, "
                                       "while the function is traced; draw them outside and pass them as an argument")
            if isinstance(value, type) and hasattr(found, "__get__") and not isinstance(found, types.FunctionType):
                continue
            self.visit(self.add(ATTRIBUTE, step, name, found) if not isinstance(found, types.ModuleType) else self.root(found), found)

    def finish(self):
        """Looks up attributes until nothing new is reached."""
        done = -1
        while done != len(self.steps) + len(self.attributes) + len(self.waiting):
            done = len(self.steps) + len(self.attributes) + len(self.waiting)
            for step, value in list(self.waiting):
                self.attributes_of(step, value)


def steps(function, leaves):
    """The list of (kind, parent step, key, what is there now) for csrc/py/guard.c."""
    walk = Walk()
    walk.visit(walk.root(function), function)
    for k, leaf in enumerate(leaves):
        if draws(leaf):
            raise _core.TraceError("an argument is a source of random numbers, which would be drawn once, while tracing; "
                                   "draw them outside and pass the numbers")
        if not isinstance(leaf, CONSTANTS) and not hasattr(leaf, "__array_ufunc__"):
            walk.visit(walk.add(LEAF, k, None, leaf), leaf)
    walk.finish()
    return walk.steps
