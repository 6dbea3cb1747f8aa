"""NumPy's creation functions while a function is traced: csrc/py/hooks.c sends calls from user code here.

What they make is an array of the traced function, so that it can be written to. Calls from inside NumPy, from this package and from
threads that do not trace go to NumPy itself."""
import sys
import types
import warnings

import numpy as np

from . import _core
from ._np import _args

creators = _core._creators


def creator(f):
    creators[f.__name__] = f
    return f


def supported(dtype):
    return dtype.kind in "biufc" and dtype.itemsize <= 16 and dtype.isnative


def own(a):
    """An array that NumPy just made, as one of the traced function."""
    return _core.constant(a) if type(a) is np.ndarray and supported(a.dtype) else a


def traced(x):
    """Whether x is a tracer or a sequence with tracers inside."""
    if isinstance(x, (list, tuple)):
        return any(map(traced, x))
    return _core.is_tracer(x)


def shape_of(shape):
    return _args.shape_tuple(shape)


def made(shape, dtype, value, order):
    """A new array of one value, in C or Fortran order."""
    if order in ("F", "f"):
        return _core.transpose(_core.full(shape[::-1], dtype, value), tuple(range(len(shape)))[::-1])
    return _core.full(shape, dtype, value)


@creator
def empty(shape, dtype=None, order="C", *, device=None, like=None):
    return zeros(shape, dtype, order)


@creator
def zeros(shape, dtype=None, order="C", *, device=None, like=None):
    dtype = np.dtype(dtype)
    if not supported(dtype):
        return np.zeros(shape, dtype)
    return made(shape_of(shape), dtype, 0, order)


@creator
def array(object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0, like=None):
    if not traced(object):
        if not isinstance(object, np.ndarray):
            return own(np.array(object, dtype, order=order, ndmin=ndmin))
        if not supported(object.dtype):
            return np.array(object, dtype, copy=copy, order=order, subok=subok, ndmin=ndmin)
        object = _core.as_tracer(object)
    a = nested(object) if isinstance(object, (list, tuple)) else _core.as_tracer(object)
    new = a is not object
    if dtype is not None and a.dtype != dtype:
        a, new = _core.cast(a, np.dtype(dtype)), True
    if (copy and not new) or _core.is_numpy_scalar(a):
        a = _core.copy(a[...])
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
    if isinstance(a, np.ndarray) and (dtype is None or a.dtype == dtype) and not copy:
        return a
    a = array(a, dtype, copy=copy)
    return _core.contiguous(a) if order == "C" and _core.is_tracer(a) else a


@creator
def asanyarray(a, dtype=None, order=None, *, device=None, copy=None, like=None):
    return asarray(a, dtype, order, copy=copy)


@creator
def ascontiguousarray(a, dtype=None, *, like=None):
    return _core.contiguous(array(a, dtype, copy=None, ndmin=1))


@creator
def arange(*args, dtype=None, device=None, like=None, **kwargs):
    args = [_core.concrete(v) for v in args]
    kwargs = {k: _core.concrete(v) for k, v in kwargs.items()}
    a = np.arange(*args, dtype=dtype, **kwargs)
    if a.dtype == np.int64 and a.size > 1:
        first, step = int(a[0]), int(a[1]) - int(a[0])
        ramp = _core.iota(a.size)
        ramp = ramp if step == 1 else ramp * step
        return ramp + first if first else ramp
    return own(a)


# ---- creation functions written in Python: their code object is exchanged, so that every reference to them sees it ----

def _ours(name):
    """What a redirected call does in a traced function."""
    def ones(shape, dtype=None, order="C", *, device=None, like=None):
        return made(shape_of(shape), np.dtype(dtype), 1, order)

    def full(shape, fill_value, dtype=None, order="C", *, device=None, like=None):
        return _core._functions[np.full](shape, fill_value, dtype)

    def eye(*args, **kwargs):
        args = [_core.concrete(v) for v in args]
        return own(_originals["eye"](*args, **{k: _core.concrete(v) for k, v in kwargs.items()}))

    def same(name):
        def make(*args, **kwargs):
            return own(_originals[name](*args, **kwargs))
        return make

    return {"ones": ones, "full": full, "eye": eye}.get(name) or same(name)


_REDIRECTED = ("ones", "full", "eye", "identity", "tri", "linspace", "logspace", "geomspace", "zeros_like", "ones_like", "full_like")
_originals, _shims = {}, {}


def _from_numpy(frame):
    name = frame.f_globals.get("__name__") or ""
    return name.partition(".")[0] in ("numpy", "pyxla")


def _redirect(name):
    ours, original = _ours(name), _originals[name]

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
    f = getattr(np, name)
    f = getattr(f, "_implementation", f)
    return f if isinstance(f, types.FunctionType) and not f.__closure__ else None


def _prepare():
    for name in _REDIRECTED:
        f = _plain(name)
        if f is None:
            continue
        _originals[name] = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
        _originals[name].__kwdefaults__ = f.__kwdefaults__
        _shims[name] = f, f.__code__, _shim(_redirect(name))


def install():
    """Called by csrc/py/hooks.c when the first trace of the process begins (and no other runs)."""
    if not _shims:
        _prepare()
    for f, _, shim in _shims.values():
        f.__code__ = shim


def uninstall():
    """Called when the last running trace ends."""
    for f, code, _ in _shims.values():
        f.__code__ = code


def scalar(kind, x):
    """`np.float32(x)` and the like of a tracer."""
    a = _core.cast(_core.as_tracer(x), np.dtype(kind))
    return a if a.ndim else a[()]


creators["scalar"] = scalar
