"""NumPy's creation functions while a function is traced: csrc/py/hooks.c sends calls from user code here.

What they make is an array of the traced function, so that it can be written to. Calls from inside NumPy, from this package and from
threads that do not trace go to NumPy itself."""
import importlib
import operator
import sys
import types
import warnings
from collections.abc import Mapping

import numpy as np

from . import _core
from ._np import _args, create, extents, manip
from ._originals import in_place

creators = _core._creators
_ravel, _full = _core._functions[np.ravel], _core._functions[np.full]


def creator(f):
    creators[f.__name__] = f
    return f


def supported(dtype):
    own = dtype.kind in "biufc" and dtype.itemsize <= 16
    known = own or dtype.type.__module__ == "ml_dtypes" and dtype.name.startswith(("bfloat", "float8"))
    return known and dtype.isnative


def own(a):
    """An array that NumPy just made, as one of the traced function."""
    return _core.constant(a) if type(a) is np.ndarray and supported(a.dtype) else a


def traced(x):
    """Whether x is a tracer or a sequence with tracers inside."""
    if isinstance(x, (list, tuple)):
        return any(map(traced, x))
    return _core.is_tracer(x) or _core.is_extent(x) or type(x) is creators.get("flat")


def holds_array(x):
    """Whether a list or tuple has an array of numbers inside: one that was there before is read at every call."""
    return isinstance(x, (list, tuple)) and any(holds_array(v) or type(v) is np.ndarray and supported(v.dtype) for v in x)


def lent(object):
    """The array of an object that has one (by __array__, __array_interface__ or the buffer protocol); any other object is itself.

    Its memory is read at every call: the object is captured state."""
    if isinstance(object, (np.ndarray, np.generic, list, tuple, int, float, complex, str, bytes)):
        return object
    if isinstance(getattr(type(object), "__array__", None), types.FunctionType):
        return object.__array__()
    a = np.asarray(object)
    return object if a.base is None else a


@creator
def read(object):
    """What NumPy reads of an object that is neither array nor number nor list: its memory as an array, or a list of its items."""
    kind = type(object)
    if hasattr(kind, "__array_ufunc__") or hasattr(kind, "__array_function__"):
        return object
    if hasattr(object, "__array__") or hasattr(object, "__array_interface__") or lends(object):
        return lent(object)
    sequence = hasattr(kind, "__getitem__") and hasattr(kind, "__len__") and not isinstance(object, Mapping)
    return list(object) if sequence else object


def lends(object):
    """Whether an object has the buffer protocol."""
    try:
        memoryview(object)
    except TypeError:
        return False
    return True


def shape_of(shape):
    return _args.shape_tuple(shape)


def made(shape, dtype, value, order):
    """A new array of one value, in C or Fortran order."""
    if len(shape) < 2:
        return _core.full(shape, dtype, value)
    if order in ("F", "f"):
        return _core.transpose(made(shape[::-1], dtype, value, "C"), tuple(range(len(shape)))[::-1])
    return _core.copy(_core.full(shape, dtype, value), True)


@creator
def empty(shape, dtype=None, order="C", *, device=None, like=None):
    return zeros(shape, dtype, order)


@creator
def zeros(shape, dtype=None, order="C", *, device=None, like=None):
    dtype = _args.dtype_of(dtype)
    if not supported(dtype):
        return np.zeros(shape, dtype)
    return made(shape_of(shape), dtype, 0, order)


COPY = {np._CopyMode.ALWAYS: True, np._CopyMode.IF_NEEDED: None, np._CopyMode.NEVER: False}


@creator
def array(object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0, like=None):
    dtype = None if dtype is None else _args.dtype_of(dtype)
    copy = COPY.get(copy, copy) if isinstance(copy, np._CopyMode) else copy
    object = _core.read(object)
    if type(object) is creators.get("flat"):            # a view where NumPy has one, even as a copy
        object = _ravel(object.base)
        return object if dtype is None else _core.cast(object, dtype)
    if not traced(object):
        object = lent(object)
    if not traced(object) and not (holds_array(object) and (dtype is None or supported(dtype))):
        if not isinstance(object, np.ndarray):
            return own(np.array(object, dtype, order=order, ndmin=ndmin))
        if not supported(object.dtype):
            return np.array(object, dtype, copy=copy, order=order, subok=subok, ndmin=ndmin)
        object = _core.as_tracer(object)
    if dtype is not None:
        object = _args.numbers(object, dtype)
    a = nested(object) if isinstance(object, (list, tuple)) else _core.as_tracer(object)
    new = a is not object
    if copy is False and (new or _core.is_numpy_scalar(a) or _core.is_scalar_tracer(object) or dtype is not None and a.dtype != dtype):
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    if dtype is not None and a.dtype != dtype:
        a, new = _core.cast(a, dtype), True
    if (copy and not new) or _core.is_numpy_scalar(a) or new and order in ("C", "F", "c", "f") and a.ndim > 1:
        from ._np.manip import ordered
        a = ordered(a[...], order or "K")
    elif not new and order in ("C", "F", "c", "f"):
        a = _core.contiguous(a, order in "Ff", copy is False)
    return _core.reshape(a, (1,) * (ndmin - a.ndim) + a.shape) if a.ndim < ndmin else a


def nested(items):
    """A nested sequence with tracers inside; numbers count with the dtype they would have as arrays."""
    strong = [v if not _args.is_weak(v) else _args.default_type(v) for v in _args.leaves(items)]
    return stack(items, np.result_type(*[v.dtype if hasattr(v, "dtype") else v for v in strong]))


def stack(items, dtype):
    if not isinstance(items, (list, tuple)):
        return _args.array(_core.as_tracer(items, dtype) if _args.is_weak(items) else items, dtype)
    parts = [stack(v, dtype) for v in items]
    if any(p.shape != parts[0].shape for p in parts):
        raise ValueError("setting an array element with a sequence. The requested array has an inhomogeneous shape after 1 dimensions. "
                         f"The detected shape was ({len(parts)},) + inhomogeneous part.")
    return _core.concatenate([_core.reshape(p, (1, *p.shape)) for p in parts], 0)


@creator
def asarray(a, dtype=None, order=None, *, device=None, copy=None, like=None):
    dtype = None if dtype is None else _args.dtype_of(dtype)
    if isinstance(a, np.ndarray) and (dtype is None or a.dtype == dtype) and not copy and order in (None, "K"):
        return a
    return array(a, dtype, copy=copy, order=order or "K")


@creator
def asanyarray(a, dtype=None, order=None, *, device=None, copy=None, like=None):
    return asarray(a, dtype, order, copy=copy)


@creator
def ascontiguousarray(a, dtype=None, *, like=None):
    return _core.contiguous(array(a, dtype, copy=None, ndmin=1))


@creator
def asfortranarray(a, dtype=None, *, like=None):
    return _core.contiguous(array(a, dtype, copy=None, ndmin=1), True)


@creator
def arange(*args, dtype=None, device=None, like=None, **kwargs):
    if any(map(extents.run_integer, args)) and not kwargs:
        ramp = extents.ramp(*[extents.Number(extents.as_value(v, _args.INT)) if extents.run_integer(v) else v for v in args])
        return ramp if dtype is None else _core.cast(ramp, _args.dtype_of(dtype))
    args = [_core.concrete(v) for v in args]
    kwargs = {k: _core.concrete(v) for k, v in kwargs.items()}
    a = np.arange(*args, dtype=dtype, **kwargs)
    if a.dtype == np.int64 and a.size > 1:
        first, step = int(a[0]), int(a[1]) - int(a[0])
        ramp = _core.iota(a.size)
        ramp = ramp if step == 1 else ramp * step
        return ramp + first if first else ramp
    return own(a)


# ---- functions written in Python that make arrays: their code object is exchanged, so that every reference to them sees it ----

def ones(shape, dtype=None, order="C", *, device=None, like=None):
    return made(shape_of(shape), _args.dtype_of(dtype), 1, order)


def full(shape, fill_value, dtype=None, order="C", *, device=None, like=None):
    return _full(shape, fill_value, dtype)


CONSTANT_EYE = 32_768    # elements: of more, a comparison costs less than reading them does


def others(kwargs, *names):
    return [v for name, v in kwargs.items() if name not in names]


def eye(*args, **kwargs):
    if any(map(extents.run_integer, (*args[:2], kwargs.get("N"), kwargs.get("M")))):
        return create.eye(*args, **kwargs)
    args = [_core.concrete(v) for v in args]
    kwargs = {k: _core.concrete(v) for k, v in kwargs.items()}
    k, dtype = kwargs.get("k", 0), kwargs.get("dtype") or float
    plain = len(args) == 1 and type(args[0]) is type(k) is int and all(v is None for v in others(kwargs, "k", "dtype"))
    if plain and args[0] ** 2 > CONSTANT_EYE:
        return _core.copy(_core.cast(manip.band(args[0], args[0], k, np.equal), _args.dtype_of(dtype)), True)
    return own(_originals["eye"](*args, **kwargs))


def identity(n, dtype=None, *, like=None):
    return eye(n, dtype=dtype)


def indices(dimensions, dtype=int, sparse=False):
    shape = shape_of(dimensions)
    rank = len(shape)
    dtype = _args.dtype_of(dtype)
    axes = [_core.cast(_core.reshape(_core.iota(n), (1,) * k + (n,) + (1,) * (rank - k - 1)), dtype) for k, n in enumerate(shape)]
    if sparse:
        return tuple(axes)
    if not axes:
        return _core.full((0,), dtype, 0)
    return _core.concatenate([_core.reshape(_core.broadcast(a, shape), (1, *shape)) for a in axes], 0)


def fromfunction(function, shape, *, dtype=float, like=None, **kwargs):
    return function(*indices(shape, dtype), **kwargs)


def isscalar(element):
    if not _core.is_tracer(element):
        return _originals["isscalar"](element)
    return _core.is_scalar_tracer(element) or _core.is_numpy_scalar(element)


FLAGS = "C_CONTIGUOUS CONTIGUOUS F_CONTIGUOUS FORTRAN ALIGNED WRITEABLE OWNDATA ENSUREARRAY".split()
FLAGS = {name: name[0] for name in (*"CFAWOE", *FLAGS)}


def require(a, dtype=None, requirements=None, *, like=None):
    wanted = {FLAGS[str(r).upper()] for r in requirements or ()}
    if {"C", "F"} <= wanted:
        raise ValueError('Cannot specify both "C" and "F" order')
    order = "C" if "C" in wanted else "F" if "F" in wanted else "A"
    a = array(a, dtype, order=order, copy=None)
    owned = _core.owned(a) if "O" in wanted else True
    if owned is None:
        raise _args.unsupported("require() with OWNDATA of an argument", "copy it, or leave the requirement out")
    return a.copy() if not owned or "W" in wanted and _core.readonly(a) else a


def asarray_chkfinite(a, dtype=None, order=None):
    x = array(a, dtype, order=order)
    if x.dtype.char in np.typecodes["AllFloat"]:
        _core.check(np.isfinite(x), "value", "array must not contain infs or NaNs; np.nan_to_num replaces them")
    return x


def fixed(key):
    """A key of np.mgrid or np.r_ with the numbers in its slices known (and guarded)."""
    if isinstance(key, tuple):
        return tuple(map(fixed, key))
    if not isinstance(key, slice):
        return key
    return slice(*(_core.concrete(v) if _core.is_scalar_tracer(v) else v for v in (key.start, key.stop, key.step)))


def grid(self, key):
    return owned(_originals["grid"](self, fixed(key)))


def joined(self, key):
    """np.r_[...] and np.c_[...]."""
    from ._np import borrow
    key = fixed(key)
    if not traced(key if isinstance(key, tuple) else (key,)):
        return own(_originals["joined"](self, key))
    return borrow.own_code(_originals["joined"])(self, key)


def enumerated(self, arr):
    """`np.ndenumerate(x)`."""
    if not _core.is_tracer(arr) and not (type(arr) is np.ndarray and supported(arr.dtype)):
        return _originals["enumerated"](self, arr)
    self.iter = _core.as_tracer(arr).flat


def strided(x, *args, **kwargs):
    """`np.lib.stride_tricks.as_strided`, which has no protocol."""
    if not _core.is_tracer(x):
        return _originals["strided"](x, *args, **kwargs)
    from ._np import window
    return window.as_strided(x, *args, **kwargs)


def vectorized(self, *args, **kwargs):
    """`np.vectorize(f)(...)`: NumPy's own sorting of the arguments, then our calls of f."""
    if self.pyfunc is np._NoValue or not (args or kwargs):
        return _originals["vectorized"](self, *args, **kwargs)
    from ._np import mapped
    stand_in = types.SimpleNamespace(pyfunc=self.pyfunc, excluded=self.excluded,
                                     _vectorize_call=lambda func, args: mapped.vectorized(self, func, args))
    return np.vectorize._call_as_normal(stand_in, *args, **kwargs)


def owned(a):
    """own() of an array or of each of a tuple or list of them."""
    return type(a)(map(own, a)) if type(a) in (list, tuple) else own(a)


# What makes a new array of numbers alone: an array of the traced function, which may be written to.
_MAKERS = """append argsort block column_stack concatenate convolve copy correlate cumprod cumsum delete diag diagflat diff
    digitize dstack gradient histogram hstack insert interp kron meshgrid nan_to_num outer pad piecewise polyfit repeat resize
    roll sort stack take tile tril triu unique vander vstack where"""
creators["makers"] = {getattr(np, name) for name in _MAKERS.split()}
creators["owned"] = owned


def same(name):
    function = operator.attrgetter(name)(np)

    def make(*args, **kwargs):
        if function in _core._functions and any(map(extents.run_integer, (*args, *kwargs.values()))):
            return _core._functions[function](*args, **kwargs)
        return own(_originals[name](*args, **kwargs))
    return make


_HERE = {f.__name__: f for f in (ones, full, eye, identity, indices, fromfunction, isscalar, require, asarray_chkfinite)}
_REDIRECTED = (*_HERE, "tri", "linspace", "logspace", "geomspace", "zeros_like", "ones_like", "full_like", "hanning", "hamming",
               "blackman", "bartlett", "kaiser", "fft.fftfreq", "fft.rfftfreq")
_METHODS = {"grid": (type(np.mgrid).__mro__[1].__getitem__, grid), "joined": (type(np.r_).__mro__[1].__getitem__, joined),
            "enumerated": (np.ndenumerate.__init__, enumerated), "strided": (np.lib.stride_tricks.as_strided, strided),
            "vectorized": (np.vectorize.__call__, vectorized)}
NAMES = {*creators, *_REDIRECTED, "ix_", "mgrid", "r_"}
_originals, _shims = {}, {}


def _from_numpy(frame):
    name = frame.f_globals.get("__name__") or ""
    return name.partition(".")[0] in ("numpy", "pyxla") and not name.startswith(("pyxla.xp", "numpy.polynomial"))


def _redirect(original, ours):
    def call(*args, **kwargs):
        if not _core.tracing() or kwargs.get("like") is not None or _from_numpy(sys._getframe(2)):
            return original(*args, **kwargs)
        return ours(*args, **kwargs)
    return call


def _shim(target):
    """A code object that calls target with the arguments it gets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        space = {}
        exec(compile("def shim(*args, **kwargs):\n    return 'target'(*args, **kwargs)\n", "<pyxla>", "exec"), space)
    code = space["shim"].__code__
    return code.replace(co_consts=tuple(target if c == "target" else c for c in code.co_consts))


def _plain(name):
    f = operator.attrgetter(name)(np)
    return getattr(f, "_implementation", f)


def _imports():
    """Modules that are imported in a traced function make arrays of their own, not of the function: their names outlive it."""
    f = importlib._bootstrap._find_and_load
    original = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    return f, f.__code__, _shim(lambda *args: _core.outside(original, *args))


def _prepare():
    functions = {name: (_plain(name), _HERE.get(name) or same(name)) for name in _REDIRECTED} | _METHODS
    originals, shims = {}, {}
    for name, (f, ours) in functions.items():
        if not isinstance(f, types.FunctionType) or f.__closure__:
            continue
        originals[name] = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
        originals[name].__kwdefaults__ = f.__kwdefaults__
        shims[name] = f, f.__code__, _shim(_redirect(originals[name], ours))
    shims["import"] = _imports()
    _originals.update(originals)
    _shims.update(shims)                                    # whole or not at all: a signal may have come between


def calls(f):
    """The ways in which Python code calls a function written in C; csrc/py/hooks.c looks at the stack then."""
    for _ in range(20):                                     # until the interpreter has specialised the calls
        f()
        f(1)
        f(1, x=2)
        f(*(1,), **{"x": 2})
    return [f(1) for _ in range(2)]


def shims():
    """(function, its code, the code that asks whether to redirect) of NumPy's functions in Python; csrc/py/hooks.c exchanges them."""
    if not _shims:
        with in_place():
            _prepare()
    return tuple(_shims.values())


def scalar(kind, x):
    """`np.float32(x)` and the like of a tracer."""
    a = _args.array(_args.numbers(x, np.dtype(kind)), np.dtype(kind))
    return a if a.ndim else a[()]


creators["scalar"] = scalar


# ---- `like=` a tracer: NumPy asks the tracer for the function, which may be an object of its own ----

def _implement_like():
    from numpy._core import numeric
    from numpy.lib import _twodim_base_impl
    mine = {**creators, **_HERE}
    for name in ("empty", "zeros", "array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "arange"):
        _core.implements(getattr(np, name))(mine[name])
    for module in (numeric, _twodim_base_impl):
        for name in ("ones", "full", "eye", "identity", "tri", "fromfunction"):
            with_like = getattr(module, f"_{name}_with_like", None)
            if with_like is not None:
                _core.implements(with_like)(mine.get(name) or _core._functions[getattr(np, name)])
    require_like = getattr(sys.modules.get("numpy._core._asarray"), "_require_with_like", None)
    if require_like is not None:
        _core.implements(require_like)(require)


_implement_like()
