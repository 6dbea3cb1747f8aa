"""What a function can read besides its arguments: globals, closure variables, attributes, containers.

`steps()` walks from the function over everything its code, and the plain Python code it calls, can reach by the names it
mentions, and lists each step with what it leads to now; a step without a value says that there is nothing, so that what comes later is
seen too. csrc/py/capture.c checks the list before an entry is used again, so captured numbers, functions and objects are never frozen.
(Elements of arrays are no guards: they are read at every call.)"""
import abc
import collections
import contextvars
import ctypes
import dis
import enum
import functools
import gc
import io
import mmap
import numbers
import operator
import os
import queue
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Collection, Iterator, Mapping
from weakref import WeakKeyDictionary

import numpy as np

from . import _core, _settings
from ._effects import Effects, draws, generator_of, global_generators, refuse_random, state_parts

OBJECT, LEAF, GLOBAL, CELL, ATTRIBUTE, OWN, DICT, WEAK, TYPE, CLASS, FUNCTION, ITEMS, PROBE, CALL, ARRAY, NAMES = range(16)
LIMIT = 20_000
PLAIN = {OBJECT, GLOBAL, CELL, ATTRIBUTE, OWN, DICT, TYPE, CLASS, FUNCTION, ITEMS, NAMES}      # steps that tell all that the walk went by
CONSTANTS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, np.ufunc, type(Ellipsis), range, slice)
NAMESPACES = ("types.SimpleNamespace", "argparse.Namespace", "_thread._local")
PARTIALS = (functools.partial, functools.partialmethod)
METHODS = (types.FunctionType, staticmethod, classmethod)
PROXIES = (weakref.ProxyType, weakref.CallableProxyType)
WEAK_CONTAINERS = (weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary)
MISSING = object()
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "expandvars", "expanduser"}
HEADER = {"isfortran", "flags", "strides", "shape", "ndim", "size", "nbytes", "itemsize", "base", "dtype", "resize", "ctypes",
          "__array_interface__", "__len__"}
# Names that ask for variables or attributes by a computed name, those that ask whether there is one, those that lead to an array's
# memory by numbers or copy it, those that look at an iterator or may leave it as it was, what changes for others' reasons in sys.
VARIABLES = {"globals", "vars", "eval", "exec"}
BY_NAME = VARIABLES | {"dir", "attrgetter", "__dict__", "__getattribute__", "inspect", "dataclasses"}
CATCHES = {"AttributeError", "NameError", "Exception", "BaseException"}
PEEKS = {"gi_frame", "gi_yieldfrom", "gi_running", "getgeneratorstate", "getgeneratorlocals", "length_hint", "__length_hint__",
         "__reduce__", "repr", "send", "next", "__next__", "qsize", "empty"}
PASSING = {"modules", "stdin", "stdout", "stderr", "last_exc", "last_type", "last_value", "last_traceback"}
LOOKS_UP_MODULES = {"modules", "import_module", "__import__"}
MEMORY = {"nditer", "nested_iters", "as_ctypes", "__array_interface__", "__array_struct__", "matrix", "asmatrix", "bmat", "poly1d",
          "recarray", "ma", "rec", "char", "strings"}
COMPUTES = ("numpy.ma", "numpy.rec", "numpy.char", "numpy.strings", "numpy.matrixlib")         # with arrays of classes of their own
DATA = (int, float, str, list, dict, tuple, type(None))
ENUMS_OWN = {"_value_", "_name_", "_sort_order_", "__objclass__", "name", "value"}
CLASS_NAMES = {"__name__", "__qualname__", "__module__", "__doc__"}
LOADS = ("LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_ATTR", "LOAD_CONST",
         "LOAD_SMALL_INT")
_names, _inherited = WeakKeyDictionary(), WeakKeyDictionary()


class Names:
    """What a code object and those inside it mention.

    asked: attributes that may be missing without an error; texts: its constant strings; any: attributes may be asked for by names that are
    not in the code, or are such strings; memory: an array's memory may be read by something that is not NumPy; bools: it asks whether
    something is True or False itself."""

    def __init__(self, code):
        self.globals, self.cells, self.attributes, self.asked, self.modules = set(), set(), set(), set(), set()
        self.texts = set(strings(code.co_consts))
        self.any = self.memory = self.all_modules = self.bools = False
        found = list(dis.get_instructions(code))
        for k, i in enumerate(found):
            self.add(i.opname, i.argval, found[k + 1:k + 12])
            self.bools |= i.opname == "IS_OP" and any(j.opname == "LOAD_CONST" and type(j.argval) is bool for j in found[max(0, k - 2):k])
        if CATCHES & self.globals:
            self.asked |= self.attributes
        self.any |= bool(BY_NAME & (self.globals | self.attributes))
        self.memory = bool(MEMORY & (self.globals | self.attributes))
        texts = [c for c in code.co_consts if isinstance(c, str)] if VARIABLES & self.globals else []
        self.globals |= {text for text in texts if text.isidentifier()}
        for c in (*code.co_consts, *filter(None, map(compiled, texts))):
            if isinstance(c, types.CodeType):
                inner = names_of(c)
                for mine, theirs in zip(self.sets(), inner.sets()):
                    mine |= theirs
                self.any |= inner.any
                self.memory |= inner.memory
                self.bools |= inner.bools
                self.all_modules |= inner.all_modules
        if LOOKS_UP_MODULES & (self.globals | self.attributes):
            self.modules |= self.texts

    def sets(self):
        return self.globals, self.cells, self.attributes, self.asked, self.modules, self.texts

    def add(self, op, name, following):
        if op.startswith(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")):
            self.globals.add(name)
            if name in ("getattr", "hasattr"):
                asked = constant_name(following)
                found = {asked} - {None}
                self.any |= not found
                self.asked |= found
                self.attributes |= found
        elif op in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"):
            self.cells.add(name)
        elif op in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"):
            self.attributes.add(name)
            self.all_modules |= name == "modules" and not asks_for_one(following)
        elif op == "IMPORT_NAME":
            self.modules.add(name)
        self.any |= op in ("MATCH_CLASS", "IMPORT_STAR")
        self.attributes |= {"__match_args__"} if op == "MATCH_CLASS" else set()


def asks_nobody(code):
    """Whether Python replaced a call of `type` in a code object by an instruction (csrc/py/type_hook.c)."""
    replaced = sys.version_info >= (3, 11) and any(i.opname.endswith("TYPE_1") for i in dis.get_instructions(code, adaptive=True))
    return replaced or any(asks_nobody(c) for c in code.co_consts if isinstance(c, types.CodeType))


def anew(code):
    """A code object as it was before Python replaced any of its instructions."""
    return code.replace(co_consts=tuple(anew(c) if isinstance(c, types.CodeType) else c for c in code.co_consts))


def simple(instructions):
    return [i for i in instructions if i.opname not in ("PUSH_NULL", "CACHE", "EXTENDED_ARG")]


def asks_for_one(instructions):
    """Whether these instructions ask a dict for a constant key: d["a"], d.get("a"), "a" in d."""
    first, *rest = simple(instructions)
    if first.opname in ("LOAD_ATTR", "LOAD_METHOD") and first.argval == "get" or first.opname == "LOAD_CONST":
        return bool(rest) and (rest[0].opname == "LOAD_CONST" or rest[0].opname.startswith("BINARY"))
    return first.opname == "CONTAINS_OP"


def constant_name(instructions):
    """The second argument of a call, getattr(a.b, "name", c), that these instructions begin; None: it is not as simple as that."""
    pushed = []
    for i in simple(instructions):
        if i.opname == "LOAD_ATTR" and pushed:
            pushed[-1] = i
        elif i.opname in LOADS:
            pushed.append(i)
        else:
            ours = i.opname.startswith(("PRECALL", "CALL")) and i.arg == len(pushed) > 1 and pushed[1].opname == "LOAD_CONST"
            return pushed[1].argval if ours and isinstance(pushed[1].argval, str) else None
    return None


def strings(constants):
    """The strings among constants of code, also inside of tuples."""
    for c in constants:
        if isinstance(c, str):
            yield c
        elif isinstance(c, (tuple, frozenset)):
            yield from strings(c)


def compiled(text):
    """The code of a text that may be an expression, for eval."""
    try:
        return compile(text, "<eval>", "exec")
    except (SyntaxError, ValueError):
        return None


def names_of(code):
    """The Names of a code object."""
    known = _names.get(code)
    if known is None:
        known = _names[code] = Names(code)
    return known


def foreign(module):
    """Whether code of this module (by name) is taken as it is: Python's own, NumPy's and pyxla's."""
    top = (module if isinstance(module, str) else "").partition(".")[0]
    return top in ("numpy", "pyxla") or top in sys.stdlib_module_names and top != "__main__"


def foreign_class(cls):
    """The same of a class; "types" is also where classes that were made by a call say they are from."""
    return foreign(cls.__module__) and (cls.__module__ != "types" or getattr(types, cls.__name__, None) is cls)


def library(module):
    """Whether a module (by name) was installed: of its code only data counts; functions, classes and what is missing stay as they are."""
    found = sys.modules.get(module) if isinstance(module, str) else None
    file = getattr(found, "__dict__", {}).get("__file__") or ""         # a module's own __getattr__ is not asked
    return "site-packages" in file or "dist-packages" in file


def inherited_names(cls):
    """What methods that a class has of Python's own mention."""
    found = _inherited.get(cls)
    if found is None:
        found = _inherited[cls] = set()
        for k in cls.__mro__ if not foreign_class(cls) else ():
            for v in k.__dict__.values() if k is not object and foreign_class(k) else ():
                f = getattr(v, "fget", getattr(v, "__func__", v))
                found |= set(f.__code__.co_names) if isinstance(f, types.FunctionType) else set()
    return found


def is_code(value):
    return isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type, types.ModuleType, np.ufunc))


def flat(mapping):
    """Keys and values in one tuple."""
    return tuple(v for pair in mapping.items() for v in pair)


def items_of(container):
    """The items of any container but the commonest, which the guard compares."""
    if isinstance(container, Mapping):
        return flat(container)
    return tuple(container)


def items_of_object_array(array):
    return *array.shape, *array.flat


def variables_of(value):
    return flat(vars(value))


def target_of(ref):
    """What a weak reference or a proxy stands for; None: it is gone."""
    try:
        return ref() if isinstance(ref, weakref.ref) else ref.__repr__.__self__
    except ReferenceError:
        return None


def context_value(variable):
    return (variable.get(MISSING),)


def bytes_of(value):
    return (memoryview(value).tobytes(),)


def array_bytes(array):
    of_memory = np.ndarray.tobytes if isinstance(array, np.ndarray) else type(array).tobytes     # MaskedArray's own makes a fill value
    return (of_memory(array),)


def known_dtype(dtype):
    """Whether arrays of this dtype are read at every call: numbers, and the fields of structures of numbers."""
    if dtype.fields:
        return all(known_dtype(field[0]) for field in dtype.fields.values())
    return dtype.kind in "biufc" and dtype.itemsize <= 16 and dtype.char not in "gG" or dtype.type.__module__ == "ml_dtypes"


def has_memory(value):
    try:
        memoryview(value)
    except (TypeError, BufferError, ValueError):
        return False
    return True


def leads_on(value):
    """Whether there is more to a variable of an object of Python's own than what it is: what it calls, holds or keeps in memory."""
    return isinstance(value, (Collection, types.FunctionType, types.MethodType, PARTIALS[0])) or has_memory(value)


def own_dict(value):
    found = getattr(value, "__dict__", None)
    return found if type(found) is dict else None


class Walk:
    def __init__(self):
        self.steps = []
        self.seen = {}
        self.attributes, self.asked, self.texts, self.any, self.memory, self.bools = set(), set(), set(), False, False, False
        self.arrays = {}                # numeric ones by id
        self.iterators = []             # and files, that may be advanced
        self.files = []
        self.generators = []            # of random numbers, that may be drawn from
        self.named = set()              # globals that the code mentions
        self.by_text = False            # modules are looked up by names
        self.libraries = False          # code that was installed is called
        self.imports = False            # or modules of any kind are imported: the walk went by what is no step
        self.modules = []               # of Python's own and NumPy's, in which settings are looked for
        self.tellers = _settings.tellers()
        self.loggers, self.named_things, self.decimal = [], [], False
        self.waiting = []               # (step, object) whose attributes are looked up when all names are known
        self.known = set()              # (id of object, attribute) that have steps
        self.listed = {}                # by class: what Walk.shadows says, and of how many names
        self.in_order = ()              # the attributes, sorted
        self.spaces = {}                # dicts of modules that are not the user's, with the names that are looked up there

    def add(self, kind, parent, key, *value):
        if len(self.steps) >= LIMIT:
            raise _core.TraceError(f"the function can read more than {LIMIT} objects besides its arguments, {self.most_of()}; "
                                   "pass what it needs of them as arguments, or compute it outside of the function")
        self.steps.append((kind, parent, key, *value))
        return len(self.steps) - 1

    def most_of(self):
        """Whose objects most of the steps lead to, for a message."""
        values = [step[3] for step in self.steps if len(step) > 3]
        kinds = (v if isinstance(v, types.ModuleType | type | types.FunctionType) else type(v) for v in values)
        names = (kind.__name__ if isinstance(kind, types.ModuleType) else kind.__module__ for kind in kinds)
        count = collections.Counter(name.partition(".")[0] for name in names if isinstance(name, str) and not foreign(name))
        return f"most of them of {count.most_common(1)[0][0]}" if count else "most of them in lists and dicts"

    def root(self, value):
        """The step of an object that stays what it is (a function's globals, a class, what an immutable holds)."""
        known = self.seen.get(("root", id(value)))
        if known is None:
            known = self.seen["root", id(value)] = self.add(OBJECT, 0, None, value)
        return known

    def visit(self, step, value):
        """Goes on from a value that a step leads to; None: a value that stays what it is."""
        constant = isinstance(value, CONSTANTS) and foreign_class(type(value))
        if constant or id(value) in self.seen or _core.is_tracer(value):                        # tracers: leaked ones
            if isinstance(value, str):
                self.texts.add(value)
            elif isinstance(value, np.dtype) and value.names and id(value) not in self.seen:
                self.seen[id(value)] = value
                self.probe(step, value, _settings.field_names, ())
            elif isinstance(value, (np.ufunc, np.void)) and id(value) not in self.seen:
                self.seen[id(value)] = value
                self.held_by(step, value)
            return
        self.seen[id(value)] = value
        self.decimal |= _settings.of_decimal(value)
        if id(value) in self.tellers:
            self.probe(None, value, _settings.told, ())
            return
        if isinstance(value, np.ndarray):
            self.array(step, value)
            return
        if generator_of(value) is not None:
            self.generators.append(generator_of(value))
            return
        if isinstance(value, (io.IOBase, mmap.mmap)):
            self.files.append(value)
        if type(value) in (io.BytesIO, io.StringIO) and not value.closed:
            self.probe(step, value, _settings.whole_buffer, ())
        if type(value) is np.flatiter:
            self.probe(None, value.base, array_bytes, ())
        if isinstance(value, (Iterator, queue.SimpleQueue)) and foreign_class(type(value)) and type(value) not in PROXIES:
            self.iterators += [value] if not isinstance(value, io.IOBase) or not value.closed and value.readable() else []
            return
        if isinstance(value, PARTIALS):
            step = self.root(value) if step is None else step
            for name in ("func", "args", "keywords"):
                part = getattr(value, name)
                self.visit(self.add(ATTRIBUTE, step, name, part), part)
            return
        parts = self.parts(value)
        if parts is not None:
            for part in parts:
                self.visit(None, part)
        elif isinstance(value, types.FunctionType):
            self.function(value)
        elif type(value) in (list, dict):
            self.add(ITEMS, self.root(value) if step is None else step, flat(value) if type(value) is dict else tuple(value))
            for part in value.values() if type(value) is dict else value:
                self.visit(None, part)
        elif type(value) in PROXIES or isinstance(value, weakref.ref):
            target = target_of(value)
            if target is not None:
                self.visit(self.add(WEAK, self.root(value), None), target)
        elif value is warnings.warn or value is warnings.warn_explicit:             # it raises where a filter says so
            self.visit(self.add(OWN, self.root(warnings), "filters", warnings.filters), warnings.filters)
        elif isinstance(value, (types.BuiltinMethodType, types.MethodWrapperType)):
            self.bound(value.__self__)
        elif isinstance(value, (operator.attrgetter, operator.methodcaller)):
            self.getter(value)
        elif isinstance(value, contextvars.ContextVar):
            self.probe(step, value, context_value, context_value(value))
        elif isinstance(value, types.ModuleType):
            self.modules.append(value)
            self.loggers += [value.root] if value.__name__ == "logging" else []
            if not foreign(value.__name__):
                self.libraries |= library(value.__name__)
                self.imports |= library(value.__name__)
                self.waiting.append((None if library(value.__name__) else self.root(value), value))
            elif value is os and ENVIRONMENT & self.attributes:
                self.visit(None, os.environ)
        elif isinstance(value, type):
            self.named_things.append(value)
            if getattr(value, "_is_protocol", False):                   # `isinstance` asks for its members
                self.attributes |= {name for name in {**vars(value), **vars(value).get("__annotations__", {})} if name[:1] != "_"}
            if not foreign_class(value):
                self.waiting.append((None, value))
        else:
            self.instance(self.root(value) if step is None else step, value)

    def held_by(self, step, value):
        """What is behind numbers and functions of NumPy's: a ufunc's Python function, the memory that a record lies in."""
        if isinstance(value, np.void):
            self.probe(step, value, array_bytes, ())
        for part in gc.get_referents(value) if isinstance(value, np.ufunc) else ():
            if isinstance(part, (types.FunctionType, types.MethodType)):
                self.visit(None, part)

    def settings(self):
        """Guards on what is no object's attribute: what functions of Python's own and NumPy's tell of the process."""
        named = self.attributes | self.named
        if self.decimal:
            self.probe(None, sys.modules["decimal"], _settings.decimal_context, ())
        if self.loggers and _settings.LOGGING & named:
            for logger in {id(v): v for v in (*self.loggers, *_settings.loggers(self.texts))}.values():
                self.probe(None, logger, _settings.logger_settings, ())
        if {"isinstance", "issubclass"} & named and any(isinstance(v, abc.ABCMeta) for v in self.named_things):
            self.probe(None, abc, _settings.class_registrations, ())
        for value in self.named_things:
            if CLASS_NAMES & self.attributes and not foreign(value.__module__):
                self.probe(None, value, _settings.names_of, ())
        for value in self.files if "tell" in named else ():
            self.probe(None, value, _settings.position, ())

    def hold(self, space, name):
        """A guard on what a dict of a module has under a name. Of Python's own and NumPy's only what is not theirs is gone on from."""
        value = space.get(name, MISSING)
        self.spaces.setdefault(id(space), (space, {}))[1][name] = value
        theirs = value if isinstance(value, (type, types.FunctionType, types.MethodType)) else type(value)
        ours = value is not MISSING and (type(value) in (list, dict, set) or not foreign(theirs.__module__))
        if ours or isinstance(value, types.ModuleType):
            self.visit(None, value)

    def settings_of(self, module):
        """What the code asks of a module of Python's own or NumPy's."""
        own = module.__dict__
        for name in sorted(self.attributes & (own.keys() | self.asked) - PASSING):
            value = own.get(name)
            if (id(module), name) in self.known:
                continue
            self.known.add((id(module), name))
            if id(value) in self.tellers:
                self.visit(None, value)
            if module is sys and type(value) in DATA:
                self.visit(self.add(OWN, self.root(module), name, value), value)
            elif module is warnings and name in ("filters", "warn", "warn_explicit"):
                self.visit(None, warnings.warn)
            else:
                self.hold(own, name)

    def array(self, step, value):
        if type(value) is not np.ndarray and not value.dtype.hasobject:     # masked arrays and others compute while it is traced
            self.probe(step, value, array_bytes, ())
            if own_dict(value):
                self.probe(step, value, variables_of, [v for v in value.__dict__.values() if leads_on(v)])
            if isinstance(value, np.ma.MaskedArray):
                self.probe(None, value.mask, array_bytes, ())
            return
        if value.dtype.hasobject:
            self.probe(step, value, items_of_object_array, value.flat)
        elif not known_dtype(value.dtype):
            self.probe(step, value, array_bytes, ())
        else:
            self.arrays[id(value)] = value

    def bound(self, owner):
        """What a method of C that was looked up before the trace belongs to: NumPy's own methods read an array without a tracer."""
        if isinstance(owner, np.ndarray):
            self.probe(None, owner, array_bytes, ())
        elif not isinstance(owner, types.ModuleType):
            self.visit(None, owner)

    def getter(self, value):
        reduced = value.__reduce__()
        first = reduced[0].args if isinstance(reduced[0], PARTIALS) else ()
        names, rest = reduced[1], ()
        if isinstance(value, operator.methodcaller):
            names, rest = (*first, *reduced[1])[:1], (*first, *reduced[1])[1:]
            self.visit(None, getattr(reduced[0], "keywords", None))
        self.attributes |= {part for name in names for part in name.split(".")}
        for part in rest:
            self.visit(None, part)

    @staticmethod
    def parts(value):
        """What an immutable object is made of; None: it is none that we know."""
        if type(value) is tuple or type(value) is frozenset:
            return value
        if isinstance(value, types.MethodType):
            return value.__func__, value.__self__
        if isinstance(value, (staticmethod, classmethod)):
            return (value.__func__,)
        if isinstance(value, property):
            return (value.fget,)
        return (value.func,) if isinstance(value, functools.cached_property) else None

    def probe(self, step, value, items, parts):
        """A guard on what a function of ours finds in a value."""
        self.add(PROBE, self.root(value) if step is None else step, items, items(value))
        for part in parts:
            self.visit(None, part)

    def instance(self, step, value):
        cls = type(value)
        if library(cls.__module__) and any(hasattr(cls, name) for name in ("__dlpack__", "__array_interface__", "__array__")):
            return                          # an array of another library: its memory is read at every call
        if _settings.is_logger(value):
            self.loggers.append(value)
        if isinstance(value, enum.Enum):
            self.visit(self.add(OWN, step, "_value_", value._value_), value._value_)
        if cls.__module__ == "decimal" and cls.__name__ == "Context":
            self.probe(step, value, _settings.own_decimal_context, ())
            return
        if isinstance(value, ctypes._Pointer):
            self.probe(step, value, _settings.pointed_to, ())
        elif isinstance(value, BaseException):
            self.probe(step, value, _settings.args_of, value.args)
        elif isinstance(value, weakref.finalize):
            self.probe(step, value, _settings.is_alive, ())
        elif foreign_class(cls):
            self.of_python(step, value)
        if has_memory(value):
            self.probe(step, value, bytes_of, ())
        elif issubclass(cls, (dict, list, set, frozenset, tuple)) or foreign_class(cls) and issubclass(cls, Collection):
            if not issubclass(cls, WEAK_CONTAINERS):                    # those hold references, among their variables
                self.probe(step, value, items_of, value.values() if isinstance(value, Mapping) else value)
            if issubclass(cls, collections.defaultdict):
                self.visit(self.add(ATTRIBUTE, step, "default_factory", value.default_factory), value.default_factory)
        if not foreign_class(cls):
            self.add(TYPE, step, None, cls)
            self.waiting.append((step, value))
            self.visit(None, cls)
        elif f"{cls.__module__}.{cls.__qualname__}" in NAMESPACES:
            self.waiting.append((step, value))
        elif own_dict(value) and cls.__module__ != "logging":
            if "__wrapped__" in value.__dict__:
                self.visit(None, value.__wrapped__)
            else:
                self.probe(step, value, variables_of, [v for v in value.__dict__.values() if leads_on(v)])
        elif hasattr(value, "__wrapped__"):
            self.visit(None, value.__wrapped__)

    def of_python(self, step, value):
        """What objects of Python's own keep to themselves, where the code asks for it by one of these names."""
        for names, is_of, tell in _settings.INSIDES:
            if names & self.attributes and is_of(value):
                self.probe(step, value, tell, ())
        for name in getattr(type(value), "__slots__", ()) if isinstance(value, numbers.Number) else ():         # a Fraction
            part = getattr(value, name)
            self.visit(self.add(ATTRIBUTE, step, name, part), part)

    def function(self, f):
        self.named_things.append(f)
        home = f.__globals__.get("__name__")            # (functools.wraps gives a function the __module__ of another one)
        if foreign(f.__module__) and foreign(home):
            if f in (os.getenv, getattr(os, "getenvb", None)):
                self.visit(None, os.environ)
            return
        names = names_of(f.__code__)
        if "type" in names.globals and asks_nobody(f.__code__):
            f.__code__ = anew(f.__code__)
        self.attributes |= names.attributes
        self.bools |= names.bools
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            if name in names.cells:
                self.cell(f, name, cell)
        for name in ("__wrapped__", "registry"):        # the latter of functools.singledispatch
            self.visit(None, f.__dict__.get(name))
        if library(f.__module__) and not foreign(home):
            self.libraries = self.imports = True
            self.globals_of_library(f, names)
            return
        step = self.root(f)
        self.add(FUNCTION, step, None, (f.__code__,) if step == 0 else (f.__code__, f.__defaults__, f.__kwdefaults__))
        if step:                            # the defaults of the jitted function itself are its arguments
            for part in (f.__defaults__, f.__kwdefaults__):
                self.visit(None, part)
        self.waiting.append((step, f))
        if "__annotations__" in self.attributes:
            self.visit(None, f.__annotations__)
        self.asked |= names.asked
        self.any |= names.any
        self.named |= names.globals
        self.texts |= names.texts
        self.memory |= names.memory
        if names.all_modules:
            self.add(ITEMS, self.root(sys.modules), flat(sys.modules))
        self.imported(f, names)
        self.globals_of(f, names)

    def globals_of_library(self, f, names):
        for name in sorted(names.globals & f.__globals__.keys()):
            if (id(f.__globals__), name) not in self.known:
                self.known.add((id(f.__globals__), name))
                self.of_library(f.__globals__, name)

    def of_library(self, space, name):
        value = space[name]
        if is_code(value):
            self.hold(space, name)
            self.visit(None, value)
        else:
            self.visit(self.add(GLOBAL, self.root(space), name, value), value)

    def globals_of(self, f, names):
        if not names.globals:
            return
        top = self.root(f.__globals__)
        for name in sorted(names.globals):
            if (id(f.__globals__), name) in self.known:
                continue
            self.known.add((id(f.__globals__), name))
            if name not in f.__globals__:
                self.add(GLOBAL, top, name)
                self.hold(f.__builtins__, name)
                continue
            value = f.__globals__[name]
            if draws(value) or value is np and "random" in names.attributes:
                refuse_random(f"{name}.random" if value is np else name, f.__code__)
            self.visit(self.add(GLOBAL, top, name, value), value)
        if VARIABLES & names.globals:
            self.add(ITEMS, top, flat(f.__globals__))

    def cell(self, f, name, cell):
        try:
            value = cell.cell_contents
        except ValueError:
            self.add(CELL, self.root(cell), name)
            return
        if draws(value):
            refuse_random(name, f.__code__)
        self.visit(self.add(CELL, self.root(cell), name, value), value)

    def imported(self, f, names):
        """Modules that the function itself imports, with those that hold them."""
        package = f.__globals__.get("__package__") or ""
        self.by_text |= bool(LOOKS_UP_MODULES & (names.globals | names.attributes))
        self.imports |= bool(names.modules) or self.by_text
        while names.modules:
            for name in names.modules:
                full = f"{package}.{name}".strip(".") if package else name
                for path in (name, full):
                    for k in range(path.count(".") + 1):
                        held = path.rsplit(".", k)[0]
                        module = sys.modules.get(held)
                        if module or held in names.texts:
                            self.hold(sys.modules, held)
                        self.libraries |= draws(module)
                        self.visit(None, module)
            if not package:
                break
            package = package.rpartition(".")[0]

    def attributes_of(self, step, value):
        """Steps to the attributes, of those the code mentions, that an object, a class or a module has or may get."""
        if isinstance(value, type):
            self.class_attributes(value)
            return
        own = own_dict(value)
        if step is None:
            self.library_attributes(value, own)
            return
        if isinstance(value, types.ModuleType):
            self.visit(None, own.get("__getattr__"))
        if self.any and own is not None and (id(value), None) not in self.known:
            self.known.add((id(value), None))
            self.add(ITEMS, self.add(DICT, step, None), flat(own))
            for part in own.values():
                if not isinstance(value, types.ModuleType) or not is_code(part):
                    self.visit(None, part)
        names = self.attributes | (inherited_names(type(value)) & own.keys() if own else set())
        if self.any:
            own_classes = [k for k in type(value).__mro__ if not library(k.__module__) and not foreign_class(k)]
            names |= {n for k in own_classes for n, v in k.__dict__.items() if isinstance(v, types.MemberDescriptorType)}
        if not isinstance(value, types.ModuleType) or "__getattr__" not in own:
            names = names & (own or {}).keys() | names - self.attributes | self.shadows(type(value))
        for name in sorted(names):
            if (id(value), name) not in self.known:
                self.attribute(step, value, own, name)

    def shadows(self, cls):
        """The attributes that an instance without them may get or has in a slot: of most names a class need not be asked."""
        count = len(self.attributes), len(self.asked)
        if self.listed.get(cls, (None,))[0] != count:
            members = set().union(*(k.__dict__ for k in cls.__mro__))
            slots = {n for n in members & self.attributes if isinstance(lookup(cls, n), types.MemberDescriptorType)}
            missing = self.attributes if "__getattr__" in members else self.attributes & self.asked
            kept = foreign_class(cls) or library(cls.__module__)
            found = set() if kept else {n for n in members & self.attributes if not hasattr(type(lookup(cls, n)), "__set__")}
            self.listed[cls] = count, slots | found | missing - members
        return self.listed[cls][1]

    def library_attributes(self, module, own):
        for name in sorted(self.attributes & own.keys()):
            if (id(module), name) not in self.known:
                self.known.add((id(module), name))
                self.of_library(own, name)

    def attribute(self, step, value, own, name):
        found = lookup(type(value), name)
        if own is not None and name in own:
            self.known.add((id(value), name))
            if draws(own[name]):
                raise _core.TraceError(f"the attribute {name} of a {type(value).__name__} gives random numbers, which would be drawn once, "
                                       "while the function is traced; draw them outside and pass them as an argument")
            kind = ATTRIBUTE if isinstance(value, threading.local) else OWN
            self.visit(self.add(kind, step, name, own[name]), own[name])
        elif isinstance(found, types.MemberDescriptorType):
            self.known.add((id(value), name))
            slot = (getattr(value, name),) if hasattr(value, name) else ()
            self.visit(self.add(ATTRIBUTE, step, name, *slot), *slot or (None,))
        elif own is not None and self.may_come(value, name, found):
            self.known.add((id(value), name))
            self.add(ATTRIBUTE if isinstance(value, threading.local) else OWN, step, name)

    def may_come(self, value, name, found):
        """Whether an attribute of the object itself would be found instead of what is found now."""
        if (foreign_class(type(value)) or library(type(value).__module__)) and found is not MISSING:
            return False
        if found is MISSING:
            if isinstance(value, types.ModuleType) and "__getattr__" in value.__dict__:
                return True
            return name in self.asked or lookup(type(value), "__getattr__") is not MISSING
        return not hasattr(type(found), "__set__")

    def members(self, cls):
        """An enumeration's members, which its metaclass finds for the code, and what they were given to hold."""
        members = cls._member_map_.values()
        if (id(cls), "members") not in self.known:
            self.known.add((id(cls), "members"))
            self.visit(None, cls._member_names_)
            for held in (cls._member_map_, cls._value2member_map_):
                self.add(NAMES, self.root(held), MISSING, flat(held))
            for member in members:
                self.visit(None, member._value_)
        for member in members:
            for name in sorted(self.attributes & vars(member).keys() - ENUMS_OWN):
                if (id(member), name) not in self.known:
                    self.attribute(self.root(member), member, vars(member), name)

    def class_attributes(self, cls):
        """One step for all that the code can find in a class and its bases."""
        if len(self.in_order) != len(self.attributes):
            self.in_order = tuple(sorted(self.attributes))
        names = self.in_order
        if (id(cls), len(names), self.any) in self.known:
            return
        self.known.add((id(cls), len(names), self.any))
        if isinstance(cls, enum.EnumMeta):
            self.members(cls)
        if "__subclasses__" in self.attributes:
            self.probe(None, cls, _settings.subclasses, type.__subclasses__(cls))
        bases = [k for k in cls.__mro__ if not foreign_class(k)]
        own = [k for k in bases if not library(k.__module__)]
        computed = {n for k in own for n in k.__dict__ if self.any and n[:2] != "__"}.difference(names)
        special = {n for k in own for n, v in k.__dict__.items() if n[:2] == n[-2:] == "__" and isinstance(v, (*METHODS, property))}
        held = [cls.__mro__]
        for name in sorted({*names, *special, *computed}):
            for k in own:
                held += k, name, k.__dict__.get(name, MISSING)
        if own:
            self.classes[cls] = self.root(cls), tuple(held)
        there = set().union(*(k.__dict__ for k in bases)) & (self.attributes | special)
        for value in [k.__dict__[name] for name in sorted(there) for k in bases if name in k.__dict__]:
            if draws(value):
                raise _core.TraceError(f"the random number generator of {cls.__name__} would be drawn from once, while the function is "
                                       "traced; draw the numbers outside and pass them as an argument")
            self.visit(None, value)
        for value in [k.__dict__[name] for name in sorted(computed) for k in own if name in k.__dict__]:
            if not is_code(value):
                self.visit(None, value)
        if type(cls) is not type:
            self.visit(None, type(cls))

    def finish(self):
        """Looks up attributes until nothing new is reached."""
        self.classes = {}
        before, after = None, self.size()
        while before != after:
            if self.any:
                self.attributes |= {text for text in self.texts if text.isidentifier()}
            for step, value in list(self.waiting):
                self.attributes_of(step, value)
            for text in sorted(self.texts & sys.modules.keys()) if self.by_text else ():
                self.hold(sys.modules, text)
            for module in list(self.modules):
                if foreign(module.__name__):
                    self.settings_of(module)
            before, after = after, self.size()
        for step, held in self.classes.values():
            self.add(CLASS, step, MISSING, held)
        for iterator in self.iterators if PEEKS & (self.attributes | self.named) else ():
            self.probe(None, iterator, state_parts, ())
        read = [v.__name__ for v in self.modules] + [str(v.__module__) for v in self.named_things]
        for array in self.arrays.values() if self.memory or any(name.startswith(COMPUTES) for name in read) else ():
            self.probe(None, array, array_bytes, ())
        self.settings()
        for space, names in self.spaces.values():
            self.add(NAMES, self.root(space), MISSING, flat(names))
        for array in self.arrays.values() if self.any or HEADER & (self.attributes | self.asked) or "len" in self.named else ():
            self.add(ARRAY, self.root(array), _core.array_header(array))

    def size(self):
        return *map(len, (self.steps, self.attributes, self.asked, self.texts, self.waiting, self.modules, self.known)), self.any


def lookup(cls, name):
    """What a class or its bases have under a name, as it lies there."""
    for k in cls.__mro__:
        if name in k.__dict__:
            return k.__dict__[name]
    return MISSING


def steps(function, leaves):
    """The list of (kind, parent step, key[, what is there now]) for csrc/py/capture.c, the Effects to check after the trace, and the walk
    if another one would find the same as long as its steps hold (None: it might not)."""
    if draws(function):
        refuse_random(getattr(function, "__name__", "the function"))
    walk = Walk()
    walk.visit(walk.root(function), function)
    for k, leaf in enumerate(leaves):
        if draws(leaf):
            refuse_random("an argument is a source of random numbers")
        if isinstance(leaf, str):
            walk.texts.add(leaf)
        elif not isinstance(leaf, CONSTANTS) and not hasattr(type(leaf), "__array_ufunc__"):
            walk.visit(walk.add(LEAF, k, None), leaf)
    walk.finish()
    effects = Effects(walk.arrays.values(), walk.generators + global_generators() * walk.libraries, walk.iterators, walk)
    return walk.steps, effects, walk if type(function) is types.FunctionType and repeats(walk, leaves) else None


def repeats(walk, leaves):
    """Whether the steps of a walk are all that it went by."""
    return not (walk.imports or walk.generators or walk.iterators or any(isinstance(leaf, str) for leaf in leaves)
                or {step[0] for step in walk.steps} - PLAIN)


def steps_again(walk):
    """As steps(), of a walk whose steps still hold."""
    return walk.steps, Effects(walk.arrays.values(), (), (), walk), walk


def shown_guards():
    """The steps of what texts of arrays go by; csrc/py/adopt.c adds them where a captured array is shown as text."""
    return [(OBJECT, 0, None, np.get_printoptions), (PROBE, 0, _settings.told, _settings.told(np.get_printoptions))]


# ---- calls of functions behind functools.lru_cache (csrc/py/cached.c) ----

def plain(value):
    """A value as it is outside of a trace: traced Python numbers by their values, guarded; MISSING: it cannot be."""
    if _core.is_scalar_tracer(value):
        return _core.concrete(value)
    if type(value) is tuple:
        parts = tuple(map(plain, value))
        return MISSING if any(part is MISSING for part in parts) else parts
    return MISSING if _core.is_tracer(value) or _core.is_extent(value) else value


def cached_call(wrapper, args, kwargs):
    """The arguments with which to call a cached function outside of the trace; None: it is called in it, as any other."""
    inner = getattr(wrapper, "__wrapped__", None)
    if foreign(getattr(inner, "__module__", None)):
        return None
    cells = getattr(inner, "__closure__", None) or ()
    if any(cell != types.CellType() and _core.is_tracer(cell.cell_contents) for cell in cells):
        return None
    args, named = plain(args), None if kwargs is None else {k: plain(v) for k, v in kwargs.items()}
    return None if args is MISSING or MISSING in (named or {}).values() else (args, named)


def cached_guards(effects, wrapper, args, kwargs, result):
    """The steps that a call has to lead to the same again, and what can be reached from there."""
    key = id(wrapper), args, tuple((kwargs or {}).items())
    if key in effects.calls:
        return []
    effects.calls[key] = wrapper
    walk, before = Walk(), effects.walk
    walk.attributes, walk.asked, walk.texts = set(before.attributes), set(before.asked), set(before.texts)
    walk.any, walk.memory, walk.named = before.any, before.memory, set(before.named)
    walk.add(CALL, walk.root(wrapper), (args, kwargs), result)
    walk.visit(walk.root(result), result)
    walk.finish()
    effects.add(walk.arrays.values())
    return walk.steps
