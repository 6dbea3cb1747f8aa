"""A plugin of pytest for NumPy's own tests: what they do to arrays of numbers, by public functions, ufuncs, methods, operators and indices, is done
jitted, too, and compared: the first few times at each place in the tests.

`python -m pytest -p numpys_judge --assert=plain FILES` runs NumPy's test files so (tests/ on PYTHONPATH); each difference is a line of JSON in the file that
the variable JUDGE_OUT names: the function, the test, the arguments, and what differs. Where NumPy raises, the jitted call has to raise as well;
where pyxla refuses what NumPy takes, nothing is said (JUDGE_REFUSED names a file for that), as long as the exception is no fault of its own: it is loud."""
import functools
import json
import operator
import os
import re
import sys
import threading
import types
from collections import defaultdict

import numpy as np
import numpys_rewriter
from checking import clone

import pyxla

# what prints, reads files, answers about types alone, makes no arrays of numbers, or gives memory that nobody has written
SKIPPED = set("""array_repr array_str array2string set_printoptions get_printoptions printoptions save savez savez_compressed load loadtxt savetxt genfromtxt fromfile
    fromstring frombuffer fromregex memmap info show_config show_runtime setbufsize getbufsize seterr geterr seterrcall geterrcall errstate test get_include
    may_share_memory shares_memory nested_iters format_float_positional format_float_scientific base_repr binary_repr busday_count busday_offset is_busday
    datetime_as_string datetime_data can_cast common_type result_type min_scalar_type promote_types issubdtype isdtype iterable typename mintypecode from_dlpack
    fromiter bmat asmatrix require broadcast_shapes empty empty_like fromfunction einsum_path""".split())
# Differences that are meant: NumPy gives Python's bool, int or list there; memory that may hold anything afterwards; a test that NumPy expects to fail;
# a number in NumPy, without its axes, if there are NaN, and an array if there are none.
KNOWN = [("view|trim_zeros|reshape", "shares memory"), (".*", "UFuncTypeError.*'no', dtype"), ("reduce", "type ndarray int64|per-operand"), ("vecdot", "boolean"), ("pow", "unsupported operand"), ("dot", r"values .*e-1[67]"), ("mul|truediv", "type complex complex128"), ("array_equal|array_equiv|allclose|matrix_rank|real|imag|trim_zeros", r"type (bool|int|float|list)"), ("trim_zeros", "list"), ("median|percentile", "argument"),
         ("digitize", r"values np.int64\(2\) np.int64\(1\)"), ("percentile|quantile", "type float64 ndarray"), ("f?fft.*|r?fftn", "argument")]
# What is refused by other exceptions than a TraceError: dtypes, ranks, integers past int64 that are arguments, objects.
LOUD = (r"not supported|^<lambda>|no numbers that pyxla|at most 16 are|maximum supported dimension|out of bounds for int64|cannot be used as an array|inhomogeneous shape"
        r"|rule 'equiv'|__array_wrap__|give out= of|axes should be a list|bool that is an argument")
FAULTS = ("SystemError", "InternalError", "AssertionError", "KeyError", "AttributeError", "UnboundLocalError", "NameError", "RecursionError")
RAISED = (ValueError, TypeError, IndexError, np.linalg.LinAlgError, ZeroDivisionError, OverflowError)
METHODS_SKIPPED = set("tobytes tofile dump dumps setflags resize __array__ __reduce__ __reduce_ex__ __setstate__ __sizeof__ __repr__ __str__ __format__ __dlpack__ tolist item".split())
UNSHARED = ["getitem"]                                      # places that are arguments are read at once
MOST = 20                                                   # calls judged at a place
PLACES = []                                                 # (module, name, NumPy's function, the judge)
pyxla.jit(lambda x: np.linalg.norm(np.kron(x, x)))(np.ones(3))    # all of pyxla is there before anything of NumPy's is replaced


class Judge:
    """The one judge of a process: which test runs, whether a call is being judged, where differences go."""

    def __init__(self):
        self.test, self.busy, self.calls = "", False, 0
        self.seen = defaultdict(set)                        # by place and function: the arguments that it had there
        self.visits = defaultdict(int)
        self.out, self.refused = (open(os.environ.get(v, os.devnull), "w") for v in ("JUDGE_OUT", "JUDGE_REFUSED"))

    def passed(self, place):
        """Whether a place has been visited often enough."""
        self.visits[place] += 1
        return self.visits[place] > 20 * MOST or len(self.seen[place]) >= MOST

    def new(self, place, args):
        """Whether such arguments come to this place for the first time, and not many others did."""
        seen, key = self.seen[place], str(list(map(kind, args)))
        if key in seen:
            return False
        seen.add(key)
        return True

    def note(self, name, args, kwargs, what, out=None):
        if not any(re.fullmatch(f, re.sub(r"^(.*\.|\w+ )", "", name)) and re.search(w, what) for f, w in KNOWN):
            out = out or self.out
            out.write(json.dumps({"function": name, "test": self.test, "arguments": [text(v) for v in args],
                                  "keywords": {k: text(v) for k, v in kwargs.items()}, "what": what[:300]}) + "\n")
            out.flush()


judge = Judge()


def text(v):
    if isinstance(v, np.ndarray):
        return f"{v.dtype}{list(v.shape)}{v.tolist() if v.size < 13 else ''}"
    if isinstance(v, (list, tuple)):
        return f"{type(v).__name__}({', '.join(text(e) for e in v[:6])})"
    return repr(v)[:80]


def kind(v):
    """What makes a call different from others at the same place."""
    if isinstance(v, np.ndarray):
        return v.dtype.str, v.shape, v.strides, v.flags.writeable
    if isinstance(v, (list, tuple)):
        return type(v).__name__, [kind(e) for e in v[:6]]
    return type(v).__name__ if isinstance(v, (float, complex, np.generic)) else repr(v)[:40]


def numeric(v):
    """Whether v is made of what a jitted function takes: small arrays of numbers, numbers, and what is static."""
    if isinstance(v, (np.ndarray, np.generic)):
        plain = type(v) is np.ndarray or isinstance(v, np.generic)
        return plain and v.dtype.kind in "biufc" and v.dtype.char not in "gG" and v.size < 2500
    if isinstance(v, (list, tuple)):
        return type(v) in (list, tuple) and len(v) < 300 and all(map(numeric, v))
    return v is None or isinstance(v, (bool, int, float, complex, str, slice, type(...), np.dtype, type)) or callable(v)


def numbers(v):
    return isinstance(v, (np.ndarray, np.generic, int, float, complex)) or isinstance(v, (list, tuple)) and any(map(numbers, v))


def difference(want, got):
    """What differs in two results, "" if nothing does; values within the accuracy of a sum."""
    if isinstance(want, (tuple, list)):
        if type(want) is not type(got) or len(want) != len(got):
            return f"type {type(want).__name__} {type(got).__name__} list of {len(want)}"
        return next(filter(None, map(difference, want, got)), "")
    if not isinstance(want, (np.ndarray, np.generic)):
        same = type(want) is type(got) and (not isinstance(want, (int, float, complex, str)) or want == got or want != want or abs(want - got) <= 1e-9 * abs(want))
        return "" if same else f"type {type(want).__name__} {type(got).__name__} {want!r:.60} {got!r:.60}"
    if isinstance(want, np.ndarray) != isinstance(got, np.ndarray) or not hasattr(got, "dtype"):
        return f"type {type(want).__name__} {type(got).__name__}"
    if got.dtype not in (want.dtype, want.dtype.newbyteorder("=")) or want.shape != got.shape:    # new arrays have the native byte order
        return f"dtype {want.dtype.str} {got.dtype.str} shape {want.shape} {got.shape}"
    if want.dtype.kind not in "fc":
        return "" if np.array_equal(want, got) else f"values {want!r:.100} {got!r:.100}"
    part = want.real.dtype
    if want.dtype == np.complex64:              # powers and quotients go by float64 here, which overflows later
        both = np.isfinite(want)
        want, got = np.where(both, want, 0), np.where(both, got, 0)
    scale = np.abs(want[np.isfinite(want)]).max(initial=0) if want.ndim else 0
    close = np.isclose(want, got, rtol=1e4 * np.finfo(part).eps if part.itemsize > 2 else 2e-3, atol=1e4 * float(np.finfo(part).eps) * float(scale), equal_nan=True)
    return "" if np.all(close) else f"values {want!r:.100} {got!r:.100}"


def place(ours):
    """The judges in the place of NumPy's functions, or these again."""
    for module, name, function, judged in PLACES:
        setattr(module, name, judged if ours else function)


def overlap(arrays):
    return any(x is not y and np.may_share_memory(x, y) for k, x in enumerate(arrays) for y in arrays[:k])


def shared(result, args):
    """Which of the arguments a result shows."""
    return [k for k, x in enumerate(args) if isinstance(result, np.ndarray) and isinstance(x, np.ndarray) and x.size and np.may_share_memory(result, x)]


def both(function, name, args, kwargs, jitted=None):
    """NumPy's result or exception, after the jitted call on copies was compared with it."""
    copies = clone((args, kwargs))
    error = want = None
    try:
        want = function(*args, **kwargs)
    except RAISED as e:
        error = e
    judge.calls += 1
    try:
        got = pyxla.jit(jitted or (lambda *a, **k: function(*a, **k)))(*copies[0], **copies[1])
    except pyxla.TraceError as e:
        if error is None:
            judge.note(name, args, kwargs, str(e), judge.refused)
    except BaseException as e:
        if re.search(LOUD, str(e)):
            judge.note(name, args, kwargs, str(e), judge.refused)
        elif type(e).__name__ in FAULTS or error is None and isinstance(e, RAISED):
            judge.note(name, args, kwargs, f"raises {type(e).__name__}: {e}")
    else:
        what = f"accepts what is {error!r}" if error is not None else difference(want, got)
        if not what and name not in UNSHARED and shared(want, args) != shared(got, copies[0]):
            what = f"shares memory with {shared(want, args)} {shared(got, copies[0])}"
        if what:
            judge.note(name, args, kwargs, what)
        for k, (mine, its) in enumerate(zip(args, copies[0])):
            if isinstance(mine, np.ndarray) and difference(mine, its):
                judge.note(name, args, kwargs, f"argument {k}: {difference(mine, its)}")
    if error is not None:
        raise error
    return want


def try_both(where, function, name, args, kwargs, jitted=None):
    """The judge's word on a call, or the plain call where it has none to say."""
    if judge.busy or judge.passed((*where, name)):
        return function(*args, **kwargs)
    every = [*args, *kwargs.values()]
    if (threading.current_thread() is not threading.main_thread() or not any(map(numbers, every)) or not all(map(numeric, every))
            or overlap([x for x in every if isinstance(x, np.ndarray)]) or not judge.new((*where, name), every)):
        return function(*args, **kwargs)
    judge.busy = True
    place(False)
    try:
        return both(function, name, args, kwargs, jitted)
    finally:
        place(True)
        judge.busy = False


def judged(function, name):
    @functools.wraps(function)
    def call(*args, **kwargs):
        frame = sys._getframe(1)
        return try_both((frame.f_code.co_filename, frame.f_lineno), function, name, args, kwargs)
    return call


# ---- what rewritten modules call ----

def array(x):
    return type(x) is np.ndarray or isinstance(x, np.generic)


def here(line):
    return sys._getframe(2).f_code.co_filename, line


def operate(line, name, *operands):
    f, where = getattr(operator, name), here(line)
    if not any(map(array, operands)):
        return f(*operands)
    indexed = name in ("getitem", "setitem") and array(operands[0])
    if indexed and not judge.busy and not judge.passed((*where, "as written")) and numeric(operands[1]):      # the index as part of the code, too
        a, i, *v = operands
        try_both((*where, "as written"), lambda a, *v: f(a, i, *v), f"{name} {text(i)}", clone((a, *v)), {})
    return try_both(where, f, name, operands, {})


def update(line, name, a, i, v):
    """`a[i] += v`"""
    f = getattr(operator, name)

    def whole(a, i, v):
        a[i] = f(a[i], v)
    return try_both(here(line), whole, f"{name} of an item", (a, i, v), {}) if array(a) else whole(a, i, v)


def attribute(line, a, name):
    return try_both(here(line), lambda a: getattr(a, name), f"attribute {name}", (a,), {}) if array(a) else getattr(a, name)


def method(line, a, name, /, *args, **kwargs):
    f = getattr(a, name)
    if type(a) is np.ndarray and name not in METHODS_SKIPPED:
        return try_both(here(line), lambda a, *args, **kwargs: getattr(a, name)(*args, **kwargs), f"method {name}", (a, *args), kwargs)
    if isinstance(a, np.ufunc):
        return try_both(here(line), f, f"{a.__name__}.{name}", args, kwargs)
    return call(line, f, *args, **kwargs)


def call(line, f, /, *args, **kwargs):
    where = here(line)
    if isinstance(f, np.ufunc) or f in (abs, divmod, pow, round):
        return try_both(where, f, f"{f.__name__}", args, kwargs)
    if args and getattr(f, "__name__", "") in ("assert_raises", "raises", "assert_warns") and (isinstance(args[-1], np.ufunc) or len(args) > 1):
        k = next((k for k, x in enumerate(args[:2]) if isinstance(x, np.ufunc) or isinstance(getattr(x, "__self__", None), (np.ndarray, np.ufunc))), None)
        if k is not None:
            g, owner = args[k], getattr(args[k], "__self__", None)
            again = (lambda *a, **kw: method(line, owner, g.__name__, *a, **kw)) if owner is not None else (lambda *a, **kw: call(line, g, *a, **kw))
            args = (*args[:k], again, *args[k + 1:])
    return f(*args, **kwargs)


def pytest_configure(config):
    for module in (np, np.linalg, np.fft):
        for name in dir(module):
            f = getattr(module, name)
            if not name.startswith("_") and name not in SKIPPED and callable(f) and not isinstance(f, (type, np.ufunc, types.ModuleType)):
                PLACES.append((module, name, f, judged(f, f"{module.__name__}.{name}")))
    place(True)
    numpys_rewriter.install(sys.modules[__name__])


def pytest_runtest_setup(item):
    judge.test = item.nodeid[-100:]


def pytest_unconfigure(config):
    judge.out.write(json.dumps({"calls": judge.calls}) + "\n")
    judge.out.close()
