"""The public functions that are Python."""

import atexit
import importlib
import operator
import os
import sys
import types
from collections.abc import Iterable

import numpy as np

from . import _core

atexit.register(_core._shutdown)


_used = False


def _before_fork():
    """Imports what the first trace imports: a child forked while another thread is at it would wait for that thread for ever."""
    for name in ("_np", "_creation", "_capture", "_errors", "_results") if _used else ():
        importlib.import_module(f"pyxla.{name}")


os.register_at_fork(before=_before_fork)


def _numbers(value, what):
    """Argument numbers as a tuple: one integer or an iterable of them."""
    numbers = (value,) if hasattr(value, "__index__") or not isinstance(value, Iterable) else tuple(value)
    if not all(hasattr(n, "__index__") for n in numbers):
        raise TypeError(f"{what}: an integer or a tuple of integers, not {value!r}")
    return tuple(map(operator.index, numbers))


def _names(value, what):
    """Argument names as a tuple: one string or an iterable of them."""
    names = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what}: argument names are strings, not {value!r}")
    return names


def _flag(value, what):
    if not isinstance(value, (int, np.bool_)):
        raise TypeError(f"{what}: True or False, not {value!r}")
    return bool(value)


def _threads(value, what):
    """A number of threads; 0 stands for the default."""
    if value is None:
        return 0
    if not hasattr(value, "__index__"):
        raise TypeError(f"{what}: a number from 1 to 4096, or None for the default, not {value!r}")
    n = operator.index(value)
    if not 1 <= n <= 4096:
        raise ValueError(f"{what}: a number from 1 to 4096, or None for the default, not {n}")
    return n


def _tune_seconds(value):
    """The option `tune` in seconds; 0: off."""
    seconds = 10.0 if value is True else float(value)
    if not 0 <= seconds <= 86400:
        raise ValueError(f"tune: True, or seconds up to a day, not {value}")
    return seconds


def jit(
    fn=None,
    *,
    static_argnums=(),
    static_argnames=(),
    donate_argnums=(),
    donate_argnames=(),
    threads=None,
    fma=False,
    fastmath=False,
    check_nan=False,
    tune=False,
):
    """Compile a NumPy function for the types and shapes that it is called with.

    The function runs once per signature on tracers, which record what it does; from then on a call checks the
    signature and runs machine code. Arrays, NumPy scalars and Python numbers may have new values without a new
    trace; everything else that is hashable is part of the signature.

    Parameters
    ----------
    fn : callable, optional
        A function, lambda, method, partial or other callable. Without it, a decorator is returned.
    static_argnums, static_argnames : int or str, or iterable of them
        Arguments that are part of the signature whatever they are: they must be hashable.
    donate_argnums, donate_argnames : int or str, or iterable of them
        Array arguments whose memory may be reused for a result or a temporary. Their contents are undefined after the call.
    threads : int, optional
        Most threads that a call of this function uses; the default is the pool's number.
    fma : bool
        Allow fused multiply-adds, which round once.
    fastmath : bool
        Allow `fma` and reciprocals, products and constants that round otherwise than NumPy's divisions, powers and chains;
        docs/numerics.md lists them with their errors.
    check_nan : bool
        Raise FloatingPointError, naming the line, where an operation makes a NaN of operands without one. For finding errors: it costs
        time.
    tune : bool or float
        Measure other schedules at the first call of each signature, for so many seconds (True: 10), and keep the fastest. `pyxla.tune`
        has more.

    Returns
    -------
    Jit
        A callable with the function's name, docstring and signature. Its ``cache_info()`` counts traces and calls,
        ``cache_clear()`` forgets them, ``lower(*args, **kwargs)`` shows what becomes of a call, ``__wrapped__`` is the
        function.

    Raises
    ------
    TypeError
        When called with an argument that is no array of numbers, number, tree of these, or hashable.
    TraceError
        When called, if the function asks for the value of an array while it is traced, or meets a limit.
    UnsupportedError
        When called, if NumPy can do what the function asks for and pyxla cannot.

    Examples
    --------
    >>> import numpy as np
    >>> @jit
    ... def f(x, n):
    ...     return x * n
    >>> f(np.arange(3), 2)
    array([0, 2, 4])
    >>> f(np.arange(3), 5)
    array([ 0,  5, 10])
    >>> f.cache_info().traces
    1
    >>> @jit(static_argnames="axis")
    ... def spread(x, axis):
    ...     return x.max(axis) - x.min(axis)
    >>> spread(np.arange(6).reshape(2, 3), axis=1)
    array([2, 2])
    >>> print(spread.lower(ShapeDtype((2, 3), "float32"), axis=0).as_text())
    %1 = input 0 : f32[2,3]
    %2 = reduce_max %1 {0} : f32[3]
    %3 = reduce_min %1 {0} : f32[3]
    %4 = subtract %2 %3 : f32[3]
    return %4
    <BLANKLINE>
    """
    options = (
        _numbers(static_argnums, "static_argnums"),
        _names(static_argnames, "static_argnames"),
        _numbers(donate_argnums, "donate_argnums"),
        _names(donate_argnames, "donate_argnames"),
        _threads(threads, "threads"),
        _flag(fma, "fma"),
        _flag(fastmath, "fastmath"),
        _flag(check_nan, "check_nan"),
        _tune_seconds(tune),
    )

    def decorate(fn):
        if isinstance(fn, (staticmethod, classmethod)):
            return type(fn)(_core.Jit(fn.__func__, *options))
        if isinstance(fn, types.MethodDescriptorType) and fn.__objclass__ is np.ndarray:
            fn = _method(fn)
        global _used
        _used = True
        return _core.Jit(fn, *options)

    return decorate if fn is None else decorate(fn)


def _method(descriptor):
    """A method of ndarray (np.ndarray.sum) as a function that tracers have, too."""
    def method(self, /, *args, **kwargs):
        return getattr(self, descriptor.__name__)(*args, **kwargs)

    method.__name__, method.__qualname__, method.__doc__ = descriptor.__name__, descriptor.__qualname__, descriptor.__doc__
    return method


class ShapeDtype:
    """Shape and dtype of an array that need not exist, for `eval_shape` and `Jit.lower`.

    Parameters
    ----------
    shape : int or tuple of int
        The extents.
    dtype : dtype_like
        The type of the elements.

    Examples
    --------
    >>> x = ShapeDtype((2, 3), "float32")
    >>> x
    ShapeDtype((2, 3), float32)
    >>> x.ndim, x.size, x == ShapeDtype((2, 3), "float64")
    (2, 6, False)
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, shape, dtype):
        shape = (shape,) if hasattr(shape, "__index__") else shape
        self.shape = tuple(map(operator.index, shape))
        if any(n < 0 for n in self.shape):
            raise ValueError(f"a ShapeDtype has extents that are not negative: {self.shape}")
        self.dtype = np.dtype(dtype)

    @property
    def ndim(self):
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self):
        """Number of elements."""
        return int(np.prod(self.shape, dtype=object))

    def _zeros(self):
        return np.zeros(self.shape, self.dtype)

    def __repr__(self):
        return f"ShapeDtype({self.shape}, {self.dtype})"

    def __eq__(self, other):
        if not isinstance(other, ShapeDtype):
            return NotImplemented
        return self.shape == other.shape and self.dtype == other.dtype

    def __hash__(self):
        return hash((self.shape, self.dtype))


def eval_shape(fn, /, *args, **kwargs):
    """Shapes and dtypes of a function's results, without computing them.

    Parameters
    ----------
    fn : callable
        A jitted function or one that could be.
    *args, **kwargs
        Its arguments; `ShapeDtype` may stand for arrays.

    Returns
    -------
    tree
        The function's result with a `ShapeDtype` for each array.

    Examples
    --------
    >>> eval_shape(lambda x: x.sum(axis=0), ShapeDtype((4, 3), "float32"))
    ShapeDtype((3,), float32)
    """
    return (fn if isinstance(fn, _core.Jit) else jit(fn))._eval_shape(*args, **kwargs)


class disable_jit:
    """A context in which jitted functions called by this thread are their plain Python functions.

    For debuggers and ``print``. Blocks may be nested.

    Examples
    --------
    >>> with disable_jit():
    ...     jit(print)("hello")
    hello
    """

    def __enter__(self):
        _core._disable(1)
        return self

    def __exit__(self, *exception):
        _core._disable(-1)


def set_num_threads(n):
    """Set the number of threads of large kernels.

    Parameters
    ----------
    n : int or None
        None: as many as the process may use (affinity, cgroup limit, ``PYXLA_NUM_THREADS``).

    Raises
    ------
    ValueError
        If n is not from 1 to 4096.

    See Also
    --------
    get_num_threads
    jit : its option `threads` bounds one function.

    Examples
    --------
    >>> set_num_threads(1)
    >>> get_num_threads()
    1
    >>> set_num_threads(None)
    """
    _core.set_num_threads(_threads(n, "set_num_threads"))


def get_num_threads():
    """Return the number of threads of large kernels.

    Returns
    -------
    int
        What `set_num_threads` set, or as many as the process may use.

    Examples
    --------
    >>> get_num_threads() >= 1
    True
    """
    return _core.get_num_threads()


def register_tree(cls, flatten, unflatten, /):
    """Make instances of a class trees, as lists and dicts are: arguments and results of jitted functions.

    Parameters
    ----------
    cls : type
        The class; instances of its subclasses are not meant.
    flatten : callable
        ``flatten(obj)`` gives ``(children, aux)``: an iterable of arrays, numbers or trees, and whatever else makes up the object.
        `aux` must be hashable and is part of the signature.
    unflatten : callable
        ``unflatten(aux, children)`` makes an object of them, with tracers in place of arrays while a function is traced.

    Returns
    -------
    type
        The class.

    Examples
    --------
    >>> import numpy as np
    >>> class Line:
    ...     def __init__(self, slope, at):
    ...         self.slope, self.at = slope, at
    ...     def __call__(self, x):
    ...         return self.slope * x + self.at
    >>> _ = register_tree(Line, lambda line: ((line.slope, line.at), None), lambda aux, children: Line(*children))
    >>> jit(lambda line, x: line(x))(Line(2.0, 1.0), np.arange(3.0))
    array([1., 3., 5.])
    """
    return _core.register_tree(cls, flatten, unflatten)


def constant(a, /):
    """A copy of an array whose contents can never change, so that what is computed of it alone is computed once.

    Jitted functions do once, and not in every call, what depends on constants only: they bring a weight into the form that a product
    reads, cast it, transpose it or join it with others. They keep the result as long as the constants live; `memory_info` has the bytes.
    Any function that needs the same form of the same constant finds it there. Results are the same bits as with an ordinary array.

    Parameters
    ----------
    a : array_like
        Numbers. Inside a traced function, a traced value is handed back as it is.

    Returns
    -------
    numpy.ndarray
        A read-only array over memory of its own, in the order of axes of `a`. Its ``flags.writeable`` cannot be set, and neither
        can that of its views, which are constants as well. A constant is handed back as it is.

    Raises
    ------
    TypeError
        If `a` is no array of numbers.

    See Also
    --------
    memory_info : its field `constants` has the bytes of what was computed.

    Notes
    -----
    A function that writes to a constant raises ValueError, as for any read-only array; donating one has no effect. The memory
    is protected by the hardware too: code that writes to it past NumPy's flags (through ctypes, say, or ``np.add.at`` of
    NumPy 2.4, which overlooks them) crashes the process.

    Examples
    --------
    >>> import numpy as np
    >>> w = constant(np.ones((500, 300), "float32"))
    >>> layer = jit(lambda x, w: np.maximum(x @ w.T, 0))
    >>> layer(np.ones((100, 300), "float32"), w)[0, 0]
    np.float32(300.0)
    >>> memory_info().constants > 0
    True
    >>> w[0, 0] = 2
    Traceback (most recent call last):
        ...
    ValueError: assignment destination is read-only
    >>> del w
    >>> memory_info().constants
    0
    """
    return a if _core.is_tracer(a) else _core._constant(np.asarray(a))


def memory_info():
    """State of the allocator of results and temporaries.

    Returns
    -------
    MemoryInfo
        A named tuple: bytes `in_use`, bytes `cached` for reuse, the `peak` of the bytes in use, the `limit` of the bytes cached, the number
        of `allocations`, how many of them `reused` a cached block, and bytes of what was computed once from `constants` (part of `in_use`).

    Examples
    --------
    >>> info = memory_info()
    >>> info.in_use <= info.peak and info.cached <= info.limit
    True
    """
    return _core.memory_info()


def trim_memory():
    """Give cached blocks back to the system.

    Returns
    -------
    int
        Their bytes.

    Examples
    --------
    >>> trim_memory() >= 0
    True
    """
    return _core.trim_memory()


def clear_kernels():
    """Forget the code of all kernels that no jitted function uses any more.

    Kernels are shared by all functions of the process and outlive the functions that brought them. Useful to measure compile times.

    Examples
    --------
    >>> clear_kernels()
    """
    _core.clear_kernels()


def _register_threadpoolctl(threadpoolctl):
    """Make threadpoolctl's limits reach the pool."""

    class Controller(threadpoolctl.LibController):
        user_api = "pyxla"
        internal_api = "pyxla"
        filename_prefixes = ("_core.",)
        check_symbols = ("PyInit__core",)

        def get_num_threads(self):
            return get_num_threads()

        def set_num_threads(self, num_threads):
            set_num_threads(num_threads)

        def get_version(self):
            return sys.modules["pyxla"].__version__

        def set_additional_attributes(self):
            pass

    threadpoolctl.register(Controller)


class _WhenImported:
    """An entry of sys.meta_path that waits for the first import of threadpoolctl."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "threadpoolctl" or cls not in sys.meta_path:
            return None
        sys.meta_path.remove(cls)
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec and spec.loader:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                _register_threadpoolctl(module)

            spec.loader.exec_module = exec_module
        return spec


if "threadpoolctl" in sys.modules:
    _register_threadpoolctl(sys.modules["threadpoolctl"])
else:
    sys.meta_path.insert(0, _WhenImported)


def _asdict(self):
    return dict(zip(self._fields, self, strict=True))


for _info in (_core.CacheInfo, _core.MemoryInfo):           # structure sequences, with what a named tuple has
    _info._fields = _info.__match_args__
    _info._asdict = _asdict
