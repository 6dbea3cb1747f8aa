"""What a traced function reads besides arguments and captured objects: caches, headers of arrays, clocks, files, iterators. Seen by the next
call or refused, never frozen."""
import contextlib
import copy
import datetime
import functools
import inspect
import io
import itertools
import logging
import os
import queue
import subprocess
import sys
import time
import traceback
import types
import uuid
import warnings

import numpy as np
import pytest

import pyxla

X = np.arange(4.0)


def same_after(f, *changes):
    """f jitted gives what f gives, before and after each change; the changes are undone by the caller's objects being new."""
    g = pyxla.jit(f)
    np.testing.assert_array_equal(g(X), f(X))
    np.testing.assert_array_equal(g(X), f(X))
    for change in changes:
        change()
        np.testing.assert_array_equal(g(X), f(X))
    return g


def test_lru_cache_that_is_cleared():
    held = [2.0]

    @functools.lru_cache
    def factor():
        return held[0]

    f = same_after(lambda x: x * factor(), lambda: held.__setitem__(0, 3.0))
    assert f(X)[1] == 2.0
    factor.cache_clear()
    assert f(X)[1] == 3.0
    assert f(X)[1] == 3.0 and f.cache_info().traces == 3        # one for the list's new item


def test_lru_cache_of_arrays_keeps_arrays():
    @functools.cache
    def table(n, scale=1.0):
        return np.sin(np.arange(n)) * scale

    f = same_after(lambda x: x * table(len(x)) + table(4, scale=2.0), table.cache_clear)
    assert type(table(4)) is np.ndarray and table.cache_info().currsize == 2
    table(4)[0] = 7.0                                           # what it holds is read at every call
    np.testing.assert_array_equal(f(X), X * table(4) + table(4, scale=2.0))
    traces = f.cache_info().traces
    table(9)                                                    # others' calls are no concern
    f(X)
    assert f.cache_info().traces == traces


def test_lru_cache_of_a_traced_number_and_of_a_method():
    class Model:
        def __init__(self):
            self.k = 2.0

        @functools.lru_cache                                    # noqa: B019
        def power(self, n):
            return self.k ** n

    m = Model()
    f = pyxla.jit(lambda x, n: x * m.power(n))
    assert f(X, 2)[1] == 4.0 and f(X, 3)[1] == 8.0 and type(m.power(3)) is float
    m.k = 3.0
    assert f(X, 2)[1] == 4.0
    Model.power.cache_clear()
    assert f(X, 2)[1] == 9.0


def test_lru_cache_whose_function_raises_after_it_was_cleared():
    held = [True]

    @functools.cache
    def get():
        if not held[0]:
            raise KeyError("gone")
        return 2.0

    f = pyxla.jit(lambda x: x * get())
    f(X)
    held[0] = False
    assert f(X)[1] == 2.0
    get.cache_clear()
    with pytest.raises(KeyError, match="gone"):
        f(X)


def test_lru_cache_defined_inside_may_use_tracers():
    def f(x):
        @functools.cache
        def twice():
            return x * 2
        return twice() + twice()

    same_after(f)


def test_headers_of_arrays():
    a, b, c = np.arange(4.0), np.arange(16.0).reshape(4, 4), np.arange(4.0)
    same_after(lambda x: x * 2 if a.flags.writeable else x * 3, lambda: a.setflags(write=False), lambda: a.setflags(write=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same_after(lambda x: x * b.strides[0], lambda: setattr(b, "strides", (8, 32)), lambda: setattr(b, "strides", (32, 8)))
        same_after(lambda x: x * b.shape[0], lambda: setattr(b, "shape", (2, 8)))
    same_after(lambda x: x * len(c), lambda: c.resize(6, refcheck=False))


def test_environment_arguments_and_settings():
    os.environ["TEST_TRACE_WORLD"] = "2"
    getenv = os.getenv
    more = functools.partial(os.environ.__setitem__, "TEST_TRACE_WORLD")
    same_after(lambda x: x * float(os.getenv("TEST_TRACE_WORLD")), lambda: more("3"), lambda: more("4"))
    same_after(lambda x: x * float(getenv("TEST_TRACE_WORLD")), lambda: more("5"))
    same_after(lambda x: x * len(sys.argv), lambda: sys.argv.append("more"), sys.argv.pop)
    before = np.geterr()
    same_after(lambda x: x * len(np.geterr()["over"]), lambda: np.seterr(over="ignore"), lambda: np.seterr(**before))


def test_getattr_of_a_module():
    module, held = types.ModuleType("pyxla_test_world"), {"k": 2.0}
    module.__getattr__ = lambda name: held[name]
    same_after(lambda x: x * module.k, lambda: held.update(k=3.0), lambda: setattr(module, "k", 5.0))


READS = {
    "time.time()": lambda x: x * time.time(),
    "time.perf_counter()": lambda x: x * time.perf_counter(),
    "datetime.datetime.now()": lambda x: x * datetime.datetime.now().timestamp(),
    "os.urandom()": lambda x: x * os.urandom(1)[0],
    "os.urandom() ": lambda x: x * (uuid.uuid4().int % 7),
    "builtins.open()": lambda x: x * len(open(__file__).read()),
    "builtins.open() ": lambda x: x * np.load(__file__),
    "os.stat()": lambda x: x * os.path.exists(__file__),
    "os.listdir()": lambda x: x * len(os.listdir(".")),
    "os.getcwd()": lambda x: x * len(os.getcwd()),
}


@pytest.mark.parametrize("what", READS)
def test_reading_the_world_is_refused(what):
    f = READS[what]
    with pytest.raises(pyxla.TraceError) as e:
        pyxla.jit(f)(X)
    assert what.strip() in str(e.value) and "pass what it gives as an argument" in str(e.value)
    assert f"(at {__file__}:{f.__code__.co_firstlineno}, in <lambda>)" in str(e.value)


def test_a_refusal_that_the_function_catches():
    def f(x):
        try:
            return x * len(open(__file__).read())
        except Exception:
            return x

    with pytest.raises(pyxla.TraceError, match="builtins.open"):
        pyxla.jit(f)(X)


def test_others_read_the_world_while_a_function_is_traced():
    log, stream = logging.getLogger("pyxla_test_world"), io.StringIO()
    log.addHandler(logging.StreamHandler(stream))

    def f(x):
        log.warning("traced")                                   # reads the clock
        with contextlib.suppress(ValueError):
            import this_module_is_not_there  # noqa: F401
        return x

    with pytest.raises(ImportError):
        pyxla.jit(f)(X)
    assert "traced" in stream.getvalue() and time.time() > 0


ITERATORS = [itertools.count, lambda: (k for k in range(9)), lambda: iter([1, 2, 3]), lambda: enumerate([1, 2]), lambda: zip([1], [2]),
             lambda: map(abs, [1, 2]), lambda: io.StringIO("1\n2\n3\n"), lambda: itertools.chain([1], [2])]


@pytest.mark.parametrize("make", ITERATORS, ids=range(len(ITERATORS)))
def test_iterators_that_were_there_before(make):
    held = make()
    assert pyxla.jit(lambda x: x * (held is not None))(X)[1] == 1
    with pytest.raises(pyxla.TraceError, match="was advanced while the function was traced"):
        pyxla.jit(lambda x: x * bool(next(held)))(X)
    same_after(lambda x: x * sum(map(abs, [1, 2])))             # one of its own


def test_a_generator_and_a_queue_that_are_as_they_were_afterwards():
    def numbers():
        k = 1.0
        while True:
            k = (yield k) or k

    held, waiting = numbers(), queue.SimpleQueue()
    next(held)
    g = pyxla.jit(lambda x: x * held.send(None))
    for k in (1.0, 5.0):
        held.send(k)
        np.testing.assert_array_equal(g(X), X * k)
    waiting.put(1.0)
    with pytest.raises(pyxla.TraceError, match="a SimpleQueue that was there before was advanced"):
        pyxla.jit(lambda x: x * waiting.get())(X)


def test_the_exception_that_is_handled_where_the_function_is_called():
    g = pyxla.jit(lambda x: x * 2 if sys.exc_info()[0] else x)

    def while_handling():
        try:
            raise KeyError(X)
        except KeyError:
            return g(X)

    for _ in range(3):
        np.testing.assert_array_equal(g(X), X)
        np.testing.assert_array_equal(while_handling(), X * 2)


@pytest.mark.parametrize("form", ["sys._getframe(1).f_locals.get('k', 1.0)", "len(inspect.stack())", "inspect.currentframe().f_back.f_locals['k']",
                                  "len(traceback.extract_stack())"])
def test_frames_of_callers_are_refused(form):
    if sys.version_info < (3, 11) and "_getframe" not in form:
        pytest.skip("f_back is a plain member here")
    f = eval(f"lambda x: x * {form}", {"sys": sys, "inspect": inspect, "traceback": traceback, "__name__": "users"})
    with pytest.raises(pyxla.TraceError, match="frame of a caller.*<string>"):
        pyxla.jit(f)(X)


def test_frames_of_the_function_itself():
    def name():
        return sys._getframe(1).f_code.co_name + inspect.currentframe().f_back.f_code.co_name

    def f(x):
        traceback.print_stack(file=io.StringIO())
        log.warning("at a line", stack_info=True)
        return x * len(name()) + len(sys._getframe().f_code.co_name)

    log = logging.getLogger("pyxla_test_frames")
    log.addHandler(logging.NullHandler())
    np.testing.assert_array_equal(pyxla.jit(f)(X), f(X))


def test_filters_of_warnings():
    def f(x):
        warnings.warn("of a traced function", UserWarning, stacklevel=2)
        return x

    g = pyxla.jit(f)
    with pytest.warns(UserWarning, match="of a traced"):
        g(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UserWarning, match="of a traced"):
                g(X)


# (what is there before, the function's value, a change): seen by the next call.
SEEN = """
import threading | x * len(threading.current_thread().name) | threading.current_thread().name = 'abc'
from threading import current_thread as now | x * len(now().name) | now().name = 'abcd'
import threading | x * threading.active_count() | e = threading.Event(); threading.Thread(target=e.wait, daemon=True).start()
import threading; lock = threading.Lock() | x * (2 if lock.locked() else 3) | lock.acquire()
import decimal | x * float(decimal.Decimal(1) / decimal.Decimal(3)) | decimal.getcontext().prec = 3
from decimal import Decimal as D | x * float(D(1) / 7) | import decimal; decimal.setcontext(decimal.Context(prec=2))
import decimal; D = decimal.Decimal(1) | x * float(D / 7) | decimal.getcontext().prec = 4
import decimal; C = decimal.Context(prec=4) | x * float(C.divide(1, 3)) | C.prec = 2
import logging; log = logging.getLogger('a.test') | x * (2 if log.isEnabledFor(10) else 3) | log.setLevel(10)
import logging; log = logging.getLogger('a.test') | x * log.getEffectiveLevel() | logging.getLogger().setLevel(45)
import logging | x * (2 if logging.getLogger('a.test').isEnabledFor(40) else 3) | logging.disable(45)
import logging; log = logging.getLogger('a.test') | x * len(log.handlers) | log.addHandler(logging.NullHandler())
import sys | x * sys.getswitchinterval() | sys.setswitchinterval(0.25)
import sys | x * len(sys.path) | sys.path.append('zz')
import sys | x * len(sys.ps1 if hasattr(sys, 'ps1') else 'abc') | sys.ps1 = 'q'
import gc | x * gc.get_threshold()[0] | gc.set_threshold(555)
import calendar | x * calendar.firstweekday() | calendar.setfirstweekday(3)
import numpy as np | x * np.getbufsize() | np.setbufsize(16384)
import numpy as np; a = np.array([1 / 3]) | x * len(str(a)) | a[0] = 2
import numpy as np; a = np.array([1 / 3]) | x * len(f'{a}') | np.set_printoptions(precision=3)
import numpy as np; a = np.ma.array([1.0, 2.0]) | x * a.sum() | a[0] = np.ma.masked
from numpy.ma import masked; a = [2.0] | x * (3 if a[0] is masked else a[0]) | a[0] = masked
import numpy as np; a = np.arange(4.0).view(np.recarray) | x * a[1] | a[1] = 5
import numpy as np; a = np.arange(4.0); a = a.view(type('A', (np.ndarray,), {})); a.k = 2.0 | x * a.k | a.k = 3.0
import numpy as np; a = np.arange(4.0); flat = a.flat | x * flat[1] | a[1] = 5
import numpy as np; a = np.arange(4.0) | x * a.__len__() | a.resize(8, refcheck=False)
import numpy as np; d = np.dtype([('a', 'f8')]) | x * len(d.names[0]) | d.names = ('bcd',)
import functools; S = [2.0]; h = functools.wraps(len)(lambda a: S[0]) | x * h(1) | S[0] = 3.0
import enum; E = enum.Enum('E', {'A': [2.0]}) | x * E.A.value[0] | E.A.value[0] = 3.0
import io; b = io.BytesIO(b'abc') | x * len(b.getvalue()) | b.write(b'abcdef')
import ctypes; v = ctypes.c_double(2.0); p = ctypes.pointer(v) | x * p.contents.value | v.value = 3.0
import abc; I = abc.ABCMeta('I', (), {}); C = type('C', (), {}) | x * (2 if isinstance(C(), I) else 3) | I.register(C)
C = type('C', (), {}); c = C() | x * len(dir(c)) | c.b = 1
C = type('C', (), {}) | x * len(C.__name__) | C.__name__ = 'Longer'
C = type('C', (), {}) | x * len(C.__subclasses__()) | D = type('D', (C,), {})
h = lambda: 0 | x * len(h.__name__) | h.__name__ = 'h'
import weakref; C = type('C', (), {}); c = C(); c.v = 2.0; w = weakref.proxy(c) | x * w.v | c.v = 3.0
import numpy as np; s = np.sin | np.sin(x) | np.sin = lambda v: s(v) * 2
import numpy as np | x * np.linalg.norm(x) | np.linalg.norm = lambda v: 3.0
import math, numpy as np | x * math.sqrt(4.0) * np.pi | math.sqrt = lambda v: 7.0
import math, numpy as np | x * math.sqrt(4.0) * np.pi | np.pi = 3.0
import builtins; k = 2.0; builtins.added = lambda v: v * k | added(x) * abs(-2.0) | k = 3.0
import builtins | x * abs(-2.0) | builtins.abs = lambda v: 9.0
import sys, types | x * len(sys.modules) | sys.modules['aaa'] = types.ModuleType('aaa')
import sys, types | x * sum(len(k) for k in sys.modules) | sys.modules['aaa'] = types.ModuleType('aaa')
import sys, types | x * (2 if 'aaa' in sys.modules else 3) | sys.modules['aaa'] = types.ModuleType('aaa')
import importlib, sys, types; m = types.ModuleType('mm'); m.k = 2.0; sys.modules['mm'] = m; n = 'mm' | x * importlib.import_module(n).k | o = types.ModuleType('mm'); o.k = 5.0; sys.modules['mm'] = o
import functools; p = functools.partial(lambda a, b: a + b, 2.0) | x * p(1.0) | p.__setstate__((lambda a, b: a * b, (5.0,), {}, {}))
import functools; p = functools.partial(lambda a, b: a + b, 2.0) | x * p(b=1.0) | p.__setstate__((p.func, (7.0,), {}, {}))
C = type('C', (float,), {}); c = C(2.0); c.k = 1.0 | x * c * c.k | c.k = 5.0
C = type('C', (str,), {}); c = C('ab'); c.k = 1.0 | x * len(c) * c.k | c.k = 5.0
import collections; C = type('C', (collections.UserDict,), {}); c = C(a=1.0) | x * c['a'] | c.data['a'] = 5.0
C = type('C', (), {'__class_getitem__': classmethod(lambda cls, i: cls.k * i), 'k': 1.0}) | x * C[3] | C.k = 3.0
C = type('C', (), {'__slots__': {'aa': ''}}); c = C(); c.aa = 1.0 | x * sum(getattr(c, n) for n in c.__slots__) | c.aa = 3.0
import enum; E = enum.Enum('E', {'A': 1.0}) | x * E.A.value | E.A._value_ = 3.0
import numpy as np; h = np.frompyfunc(lambda a: a * k, 1, 1); k = 2.0 | x * h(2.0) | k = 3.0
import numpy as np; v = np.zeros(2, [('a', 'f8')])[0] | x + v['a'] | v['a'] = 5.0
import ctypes; b = (ctypes.c_double * 2)(1.0, 2.0); p = ctypes.cast(b, ctypes.POINTER(ctypes.c_double)) | x * p[1] | b[1] = 5.0
import io; s = io.BytesIO(b'abc') | x * s.tell() | s.read(1)
import mmap; m = mmap.mmap(-1, 4096) | x * m.tell() | m.seek(3)
h = lambda v: v * h.__annotations__['v']; h.__annotations__ = {'v': 2.0} | h(x) | h.__annotations__['v'] = 3.0
e = type('E', (Exception,), {})(1.0) | x * e.args[0] | e.args = (5.0,)
import weakref; C = type('C', (), {}); c = C(); w = weakref.finalize(c, print) | x * (2 if w.alive else 3) | w.detach()
import os | x * len(os.path.expanduser('~')) | os.environ['HOME'] = '/quite/another'
g = (k for k in range(9)); next(g) | x * g.gi_frame.f_locals['k'] | next(g)
import numpy as np; a = np.arange(6.0) | x * a.__getitem__(0) + a.flat[1] | a[0] = 5
import numpy as np; a = np.arange(6.0) | x * np.ndarray.__getitem__(a, 0) + next(a.flat) | a[0] = 5
import numpy as np; a = np.arange(6.0) | x * a.__add__(1.0)[0] | a[0] = 5
import numpy as np; a = np.arange(6.0) | x * dict(np.ndenumerate(a))[(0,)] | a[0] = 5
import numpy as np; a = np.arange(6.0) | x * np.ctypeslib.as_ctypes(a)[1] | a[1] = 5
import numpy as np; a = np.arange(6.0) | x * sum(map(float, np.nditer(a, ['buffered'], op_dtypes=['f4'], casting='same_kind'))) | a[1] = 5
import numpy as np; b = np.arange(6.0).reshape(2, 3) | x * (2 + np.isfortran(b)) | b.strides = (8, 16)
import numpy as np; a = [np.arange(3.0), np.arange(3.0)] | x * np.array(a)[0, 0] + x | a[0][0] = 5
import zlib, numpy as np; a = np.arange(6.0) | x * zlib.crc32(a) | a[1] = 5
import pickle, numpy as np; a = np.arange(6.0) | x * pickle.loads(pickle.dumps(a))[1] | a[1] = 5
import typing; Q = typing.runtime_checkable(type('Q', (typing.Protocol,), {'go': len})); C = type('C', (), {}); c = C() | x * (2 if isinstance(c, Q) else 3) | C.go = len
import functools | x * functools.partial(max, 3)(2) | functools.partial = lambda *a: lambda v: 9
import numpy as np; a = np.arange(6.0) | x * np.poly1d(a)(1.0) + np.polynomial.Polynomial(a)(1.0) | a[1] = 9
import numpy as np; a = np.arange(6.0) | x * np.ma.masked_less(a, 2).sum() + np.matrix(a)[0, 1] | a[5] = 9
import numpy as np; a = np.arange(6.0) | x * len(np.char.mod('%d', a)[1]) | a[1] = 100
import bisect, numpy as np; a = np.arange(6.0) | x * bisect.bisect(a, 2.5) | a[:3] = -1, 2.6, 2.7
import threading; lock = threading.RLock() | x * (2 if lock._is_owned() else 3) | lock.acquire()
import threading; lock = threading.Lock() | x * (2 if lock.acquire(False) and not lock.release() else 3) | lock.acquire()
import threading; own = threading.local(); own.k = 2.0 | x * getattr(own, 'k', 3.0) | del own.k
import queue; q = queue.SimpleQueue() | x * q.qsize() | q.put(1)
import hashlib; h = hashlib.md5(b'a') | x * h.digest()[0] | h.update(b'b')
import asyncio; done = asyncio.new_event_loop().create_future() | x * (done.result() if done.done() else 1.0) | done.set_result(5.0)
import fractions; q = fractions.Fraction(1, 3) | x * q.numerator | q._numerator = 7
import collections; k = 2.0; d = collections.defaultdict(lambda: k) | x * d['a'] | d.clear(); k = 3.0
import weakref; C = type('C', (), {}); a, b = C(), C(); s = weakref.WeakSet([a, b]) | x * len(s) | del a
import weakref; C = type('C', (), {}); a, b = C(), C(); s = weakref.WeakKeyDictionary({a: 1, b: 2}) | x * sum(s.values()) | del a
import weakref; C = type('C', (), {}); a, b = C(), C(); s = weakref.WeakValueDictionary(a=a, b=b) | x * len(s) | del a
""".strip().splitlines()


PROGRAM = """
import os, sys, warnings
import numpy, pyxla
X = numpy.arange(1.0, 5)
pyxla.jit(lambda x: x)(X)
def check(line):
    before, value, change = line.split(" | ")
    space = {"X": X, "__name__": "__main__"}
    exec(f"{before}\\ndef f(x): return {value}", space)
    f, g = space["f"], pyxla.jit(space["f"])
    first = g(X)
    assert (first == f(X)).all() and (g(X) == f(X)).all()
    exec(change, space)
    assert (g(X) == f(X)).all() and (f(X) != first).any()
for line in sys.stdin.read().splitlines():
    child = os.fork()
    if not child:
        warnings.simplefilter("ignore")
        try:
            check(line)
        except BaseException as e:
            print(repr(e)[:200], line, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_what_a_program_asks_of_the_process_is_seen_to_change():
    """Each in a process of its own."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], input="\n".join(SEEN), capture_output=True, text=True)
    assert not done.returncode and not done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("form", ["x * (id(x) % 7)", "x * 2 if id(x) in {} else x", "x * (id(X) > 0) + id(x)"])
def test_the_id_of_an_argument_is_refused(form):
    with pytest.raises(pyxla.TraceError, match=r"id\(\) of an array.*compare arrays by `is`.*test_trace_world|<string>"):
        pyxla.jit(eval("lambda x: " + form))(X)


def test_ids_as_keys_of_a_copy_and_of_what_is_made_here():
    def f(x):
        y = x * 2
        seen = {id(y): y}
        return copy.copy([x])[0] + seen[id(y)]

    same_after(f)


@pytest.mark.parametrize("call", ["os.umask(0o22)", "os.sched_getaffinity(0)", "signal.getsignal(10)", "resource.getrlimit(7)"])
def test_settings_told_by_functions_with_arguments_are_refused(call):
    import resource
    import signal
    space = {"os": os, "signal": signal, "resource": resource}
    with pytest.raises(pyxla.TraceError, match="stay the same in every call; call it outside"):
        pyxla.jit(eval(f"lambda x: x if {call} else x * 2", space))(X)


PATCHED = """
import functools, sys
import numpy as np
NAMES = "trapezoid dot ones zeros sum cross vander full where linspace asarray array".split()
own = {n: getattr(np, n) for n in NAMES}
def twice(f):
    return functools.wraps(f)(lambda *a, **k: f(*a, **k) * (2 if f.__name__ in ("ones", "dot", "trapezoid") else 1))
def patch():
    for n, f in own.items(): setattr(np, n, twice(f))
if sys.argv[1] == "before": patch()
import pyxla
patch()
X = np.arange(1.0, 5)
FUNCTIONS = [lambda x: np.trapezoid(x), lambda x: np.dot(x, x), lambda x: np.ones(4) + x, lambda x: np.full(4, 2.0) + x, lambda x: np.cross(x[:3], x[1:]),
    lambda x: np.vander(x), lambda x: np.sum(x), lambda x: np.linspace(0, 1, 4) + x, lambda x: np.array([x[0], 2.0]), lambda x: np.where(x > 2, x, 0)]
def check():
    for k, f in enumerate(FUNCTIONS): assert np.array_equal(pyxla.jit(f)(X), f(X)), k
check()
for n, f in own.items(): setattr(np, n, f)
check()
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_names_of_numpy_that_stand_for_other_functions_at_the_first_trace(when):
    done = subprocess.run([sys.executable, "-c", PATCHED, when], capture_output=True, text=True)
    assert not done.returncode, done.stderr
