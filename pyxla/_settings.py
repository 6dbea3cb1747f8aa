"""Settings of the process and of libraries that a traced function may ask for, and the guards on them (`_capture.py`).

A setting is known by the function that tells it: what that gives is part of what compiled code is for, as is what Python's
decimal numbers and loggers go by. What is told by functions with arguments is refused where it is asked for (csrc/py/world.c)."""
import abc
import ctypes
import functools
import sys
import threading
import types

# Functions without arguments, by module, whose results are compared before compiled code is used.
TELLERS = {
    "threading": "current_thread currentThread main_thread active_count activeCount enumerate get_ident get_native_id stack_size "
                 "gettrace getprofile",
    "_thread": "get_ident get_native_id stack_size",
    "sys": "exc_info exception getswitchinterval get_int_max_str_digits gettrace getprofile getdefaultencoding getfilesystemencoding "
           "getdlopenflags is_finalizing",
    "gc": "isenabled get_threshold get_debug",
    "os": "getpid getppid getuid geteuid getgid getegid getlogin getpgrp cpu_count process_cpu_count",
    "posix": "getpid getppid getuid geteuid getgid getegid getlogin getpgrp cpu_count",
    "multiprocessing": "current_process parent_process cpu_count get_start_method",
    "numpy": "geterr geterrcall getbufsize get_printoptions",
    "locale": "localeconv getpreferredencoding",
    "calendar": "firstweekday",
    "socket": "getdefaulttimeout gethostname getfqdn",
    "csv": "field_size_limit list_dialects",
    "faulthandler": "is_enabled",
    "tracemalloc": "is_tracing get_traceback_limit",
    "platform": "node",
    "asyncio": "get_event_loop_policy current_task get_running_loop",
    "getpass": "getuser",
}
LOGGING = {"isEnabledFor", "level", "getEffectiveLevel", "disabled", "handlers", "hasHandlers", "filters", "propagate"}


def tellers():
    """{id: function} of those of TELLERS whose modules are loaded; by object, so that names imported from there count, too."""
    return tellers_of(tuple(filter(sys.modules.__contains__, TELLERS)))


@functools.cache
def tellers_of(modules):
    found = [sys.modules[module].__dict__.get(name) for module in modules for name in TELLERS[module].split()]
    return {id(f): f for f in found if f is not None}


def parts(value):
    """A setting as objects that are the same as long as it is: containers by what they hold, threads and processes with their names."""
    if isinstance(value, dict):
        return tuple(part for pair in value.items() for v in pair for part in parts(v))
    if isinstance(value, (list, tuple)):
        return (len(value), *(part for v in value for part in parts(v)))
    if isinstance(value, (BaseException, types.TracebackType)):       # one that is handled: no call is like another, and nothing keeps it
        return (object(),)
    named = type(value).__module__ in ("threading", "multiprocessing.process", "multiprocessing.context")
    return (value, value.name, value.daemon) if named and hasattr(value, "daemon") else (value,)


def told(function):
    try:
        return parts(function())
    except Exception as e:                                        # and it raises where it is asked for
        return (type(e),)


def decimal_context(module):
    c = module.getcontext()
    return c.prec, c.rounding, c.Emin, c.Emax, c.capitals, c.clamp, *parts(c.traps)


def own_decimal_context(c):
    return c.prec, c.rounding, c.Emin, c.Emax, c.capitals, c.clamp, *parts(c.traps)


def of_decimal(value):
    """Whether a value is of the decimal module: itself, its functions, classes and numbers."""
    if isinstance(value, types.ModuleType):
        return value.__name__ == "decimal"
    told_by = value if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) else type(value)
    return told_by.__module__ in ("decimal", "_decimal", "_pydecimal")


def is_logger(value):
    """Whether a value is one of logging's. The module is not imported for that: what it does at forks begins with its import."""
    loaded = sys.modules.get("logging")
    return loaded is not None and isinstance(value, loaded.Logger)


def logger_settings(logger):
    own = logger.getEffectiveLevel(), logger.level, logger.disabled, logger.propagate
    return *own, logger.manager.disable, *logger.handlers, *logger.filters


def loggers(texts):
    """The loggers that `logging.getLogger(text)` gives for some of these texts, and the root."""
    root = sys.modules["logging"].root
    known = root.manager.loggerDict
    return [root, *(known[t] for t in sorted(texts & known.keys()) if is_logger(known[t]))]


def class_registrations(_):
    """A number that changes when a class is registered with an abstract one, which `isinstance` goes by."""
    return (abc.get_cache_token(),)


def names_of(value):
    return value.__name__, value.__qualname__, value.__module__, value.__doc__


def subclasses(cls):
    return tuple(type.__subclasses__(cls))


def is_locked(lock):
    return (lock.locked(),)


def owner_of(lock):
    """Whether an RLock is locked, by whom and how often: only its text says so on every Python."""
    return (repr(lock),)


def digest_of(hashed):
    return (hashed.copy().digest(),)


def outcome_of(future):
    return future._state, future._result, future._exception


# (names that ask for it, whether an object has it, what tells it)
RLOCK = type(threading.RLock())
LOCKS = {"locked", "acquire", "_is_owned", "_recursion_count"}
OUTCOMES = {"done", "result", "exception", "cancelled", "_state", "_result"}
INSIDES = (
    (LOCKS, lambda v: type(v) is not RLOCK and hasattr(v, "locked"), is_locked),
    (LOCKS, lambda v: type(v) is RLOCK, owner_of),
    ({"digest", "hexdigest"}, lambda v: hasattr(v, "digest_size") and hasattr(v, "copy"), digest_of),
    (OUTCOMES, lambda v: type(v).__module__ == "_asyncio" and hasattr(v, "_state"), outcome_of),
)


def whole_buffer(file):
    return (file.getvalue(),)


def pointed_to(pointer):
    """The memory at a pointer, and of what it keeps alive, which is what it was made of."""
    held = [v for v in (pointer._objects or {}).values() if isinstance(v, (ctypes.Array, ctypes.Structure))]
    return tuple(memoryview(v).tobytes() for v in (pointer.contents, *held)) if pointer else ()


def args_of(error):
    return error.args


def is_alive(finalizer):
    return (finalizer.alive,)


def position(file):
    return () if file.closed else (file.tell(),)


def field_names(dtype):
    return dtype.names
