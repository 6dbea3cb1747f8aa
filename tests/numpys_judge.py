"""A plugin of pytest for NumPy's own tests: every call of a public function that they make with arrays of numbers is made jitted, too, and compared.

`python -m pytest -p numpys_judge FILES` runs NumPy's test files so (tests/ on PYTHONPATH); each difference is a line of JSON in the file that
the variable JUDGE_OUT names: the function, the test, the arguments, and what differs. Where NumPy raises, the jitted call has to raise as well;
where pyxla refuses what NumPy takes, nothing is said, as long as the exception is no fault of its own: it is loud."""
import copy
import functools
import json
import os
import re
import threading
import types

import numpy as np

import pyxla

# what prints, reads files, answers about types alone, makes no arrays of numbers, or gives memory that nobody has written
SKIPPED = set("""array_repr array_str array2string set_printoptions get_printoptions printoptions save savez savez_compressed load loadtxt savetxt genfromtxt fromfile
    fromstring frombuffer fromregex memmap info show_config show_runtime setbufsize getbufsize seterr geterr seterrcall geterrcall errstate test get_include
    may_share_memory shares_memory nested_iters format_float_positional format_float_scientific base_repr binary_repr busday_count busday_offset is_busday
    datetime_as_string datetime_data can_cast common_type result_type min_scalar_type promote_types issubdtype isdtype iterable typename mintypecode from_dlpack
    fromiter bmat asmatrix require broadcast_shapes empty empty_like fromfunction einsum_path""".split())
# Differences that are meant: NumPy gives Python's bool, int or list there; memory that may hold anything afterwards; a test that NumPy expects to fail;
# a number in NumPy, without its axes, if there are NaN, and an array if there are none.
KNOWN = [("array_equal|array_equiv|allclose|matrix_rank|real|imag|trim_zeros", r"type (bool|int|float|list)"), ("trim_zeros", "list"), ("median|percentile", "argument"),
         ("digitize", r"values np.int64\(2\) np.int64\(1\)"), ("percentile|quantile", "type float64 ndarray"), ("f?fft.*|r?fftn", "argument")]
FAULTS = ("SystemError", "InternalError", "AssertionError", "KeyError", "AttributeError", "UnboundLocalError", "NameError", "RecursionError")
RAISED = (ValueError, TypeError, IndexError, np.linalg.LinAlgError, ZeroDivisionError, OverflowError)
PLACES = []                                                 # (module, name, NumPy's function, the judge)
pyxla.jit(lambda x: np.linalg.norm(np.kron(x, x)))(np.ones(3))    # all of pyxla is there before anything of NumPy's is replaced


class Judge:
    """The one judge of a process: which test runs, whether a call is being judged, where differences go."""

    def __init__(self):
        self.test, self.busy, self.calls = "", False, 0
        self.out = open(os.environ.get("JUDGE_OUT", os.devnull), "w")

    def note(self, name, args, kwargs, what):
        if not any(re.fullmatch(f, name.rpartition(".")[2]) and re.search(w, what) for f, w in KNOWN):
            self.out.write(json.dumps({"function": name, "test": self.test, "arguments": [text(v) for v in args],
                                       "keywords": {k: text(v) for k, v in kwargs.items()}, "what": what[:300]}) + "\n")
            self.out.flush()


judge = Judge()


def text(v):
    if isinstance(v, np.ndarray):
        return f"{v.dtype}{list(v.shape)}{v.tolist() if v.size < 13 else ''}"
    if isinstance(v, (list, tuple)):
        return f"{type(v).__name__}({', '.join(text(e) for e in v[:6])})"
    return repr(v)[:80]


def numeric(v):
    """Whether v is made of what a jitted function takes: small arrays of numbers, numbers, and what is static."""
    if isinstance(v, (np.ndarray, np.generic)):
        plain = type(v) is np.ndarray or isinstance(v, np.generic)
        return plain and v.dtype.kind in "biufc" and v.dtype.char not in "gG" and v.size < 20000
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
    scale = np.abs(want[np.isfinite(want)]).max(initial=0) if want.ndim else 0
    close = np.isclose(want, got, rtol=1e4 * np.finfo(part).eps if part.itemsize > 2 else 2e-3, atol=1e4 * float(np.finfo(part).eps) * float(scale), equal_nan=True)
    return "" if np.all(close) else f"values {want!r:.100} {got!r:.100}"


def place(ours):
    """The judges in the place of NumPy's functions, or these again."""
    for module, name, function, judged in PLACES:
        setattr(module, name, judged if ours else function)


def both(function, name, args, kwargs):
    """NumPy's result or exception, after the jitted call on copies was compared with it."""
    copies = copy.deepcopy((args, kwargs))
    error = want = None
    try:
        want = function(*args, **kwargs)
    except RAISED as e:
        error = e
    judge.calls += 1
    try:
        got = pyxla.jit(lambda *a, **k: function(*a, **k))(*copies[0], **copies[1])
    except pyxla.TraceError:
        pass
    except BaseException as e:
        if type(e).__name__ in FAULTS:
            judge.note(name, args, kwargs, f"raises {type(e).__name__}: {e}")
    else:
        what = f"accepts what is {error!r}" if error is not None else difference(want, got)
        if what:
            judge.note(name, args, kwargs, what)
        for k, (mine, its) in enumerate(zip(args, copies[0])):
            if isinstance(mine, np.ndarray) and difference(mine, its):
                judge.note(name, args, kwargs, f"argument {k}: {difference(mine, its)}")
    if error is not None:
        raise error
    return want


def judged(function, name):
    @functools.wraps(function)
    def call(*args, **kwargs):
        every = [*args, *kwargs.values()]
        if judge.busy or threading.current_thread() is not threading.main_thread() or not all(map(numeric, every)) or not any(map(numbers, every)):
            return function(*args, **kwargs)
        judge.busy = True
        place(False)
        try:
            return both(function, name, args, kwargs)
        finally:
            place(True)
            judge.busy = False
    return call


def pytest_configure(config):
    for module in (np, np.linalg, np.fft):
        for name in dir(module):
            f = getattr(module, name)
            if not name.startswith("_") and name not in SKIPPED and callable(f) and not isinstance(f, (type, np.ufunc, types.ModuleType)):
                PLACES.append((module, name, f, judged(f, f"{module.__name__}.{name}")))
    place(True)


def pytest_runtest_setup(item):
    judge.test = item.nodeid[-100:]


def pytest_unconfigure(config):
    judge.out.write(json.dumps({"calls": judge.calls}) + "\n")
    judge.out.close()
