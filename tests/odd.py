"""Calls of every NumPy function, ufunc, ufunc's method and array method with random arguments, most of them odd: a dtype for an axis, a slice for a
number, a list of strings, an integer of 70 bits, an array for a flag. NumPy judges: where both give a result it is the same; nothing ends the process,
hangs, or raises an error that is pyxla's own fault. Where NumPy refuses what pyxla takes, or the other way round, nothing is said: an exception is loud.

`python tests/odd.py --count N --seed S` prints what it finds."""
import argparse
import inspect
import random
import signal
import sys
import warnings

import numpy as np
from checking import clone, same
from numpy.testing.overrides import get_overridable_numpy_array_functions, get_overridable_numpy_ufuncs

import pyxla

SHAPES = [(), (0,), (1,), (3,), (2, 3), (3, 2), (3, 3), (0, 3), (2, 0), (1, 1), (2, 1, 3), (4,)]
DTYPES = ["f8", "f4", "i8", "i4", "u1", "i1", "?", "c16", "f2", "u8"]
FLOATS = [0, 1, 2, -1, 3, 0.5, -2.5, float("nan"), float("inf")]
STATIC = [0, 1, -1, 2, 3, -2, 5, 100, -100, 2**31, 2**63, -2**63, 2**70, 0.0, 1.5, -0.5, float("nan"), float("inf"), 1e300, True, False, None, ..., 1j,
          np.float32(2), np.int8(-3), np.uint64(7), np.bool_(True), np.complex64(1j), np.float32, np.int64, bool, int, np.dtype("u1"), "O", np.dtype("S3"),
          object, "f4", "i8", "C", "F", "K", "raise", "wrap", "clip", "same", "full", "left", "right", "foo", "stable", "sum", "linear", "constant", "unsafe", ""]
KEYWORDS = ["axis", "dtype", "out", "where", "keepdims", "initial", "casting", "order", "subok", "indices", "array"]
METHODS = [m for m in dir(np.ndarray) if not m.startswith("_") and callable(getattr(np.ndarray, m))]
OPERATORS = ["getitem", "setitem", "add", "matmul", "pow", "lshift", "floordiv", "divmod", "mod", "contains", "iadd", "rsub", "eq", "lt"]
OUTSIDE = {"save", "savez", "savetxt", "savez_compressed", "fromfile", "loadtxt", "genfromtxt", "load", "fromregex", "memmap", "einsum_path", "tofile", "dump",
           "dumps", "array2string", "array_repr", "array_str"}
# what NumPy gives otherwise from loop to loop (arctan2.reduce reads its own results too late), results that it gives as Python's bool or int, and pyxla as NumPy's; sets in no order; values that depend on the library or on rounding alone
LOOSE = {"allclose", "array_equal", "array_equiv", "matrix_rank", "unique_values", "logspace", "geomspace", "power.reduce", "power.accumulate", "arctan2.reduce",
         "float_power.reduce", "lstsq", "eig", "eigh", "svd", "qr", "empty", "empty_like", "percentile", "nanpercentile", "quantile", "nanquantile",
         "common_type", "real_if_close", "poly", "polyfit", "nanstd", "nanvar", "result_type", "cov", "corrcoef"}
FAULTS = ("SystemError", "InternalError", "AssertionError", "KeyError", "UnboundLocalError", "NameError", "RecursionError")


class Late(Exception):
    """A call took longer than ten seconds."""


def method_of(name):
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


def functions():
    """Pairs of a name and something to call, in a fixed order."""
    out = []
    for f in get_overridable_numpy_array_functions():
        if f.__name__ not in OUTSIDE and not {"recfunctions", "char", "defchararray"} & set(f.__module__.split(".")):
            out.append((f.__name__, f))
    for u in [u for u in get_overridable_numpy_ufuncs() if u.types]:
        out += [(u.__name__, u), *((f"{u.__name__}.{m}", getattr(u, m)) for m in ("reduce", "accumulate", "outer", "reduceat", "at"))]
    out += [(m, method_of(m)) for m in METHODS if m not in OUTSIDE] + [(m, method_of(f"__{m}__")) for m in OPERATORS]
    return sorted(out, key=lambda pair: (pair[0], str(pair[1])[:20]))


FUNCTIONS = functions()


def some_array(r, shape=None):
    shape, dtype = r.choice(SHAPES) if shape is None else shape, np.dtype(r.choice(DTYPES))
    of = FLOATS if dtype.kind in "fc" else [0, 1, 2, 3, 1, 0, *([-1, -2] if dtype.kind == "i" else [])]
    return np.array([r.choice(of) for _ in range(int(np.prod(shape)))]).astype(dtype).reshape(shape)


def argument(r, shape=None, depth=0):
    kind = r.random()
    if kind < 0.35:
        return some_array(r, shape)
    if kind < 0.78 or depth == 2:
        return r.choice(STATIC)
    if kind < 0.84:
        return slice(*[r.choice([None, 0, 1, -1, 2, -2, 100]) for _ in range(3)])
    return r.choice([tuple, list])(argument(r, shape, depth + 1) for _ in range(r.randint(0, 3)))


def needed(name, f):
    """How many arguments it needs, and what keywords it takes."""
    if isinstance(f, np.ufunc):
        return f.nin, ["out", "where", "dtype", "casting", "order", "subok"]
    if "." in name:
        return {"reduce": 1, "accumulate": 1, "outer": 2, "reduceat": 2, "at": 3}[name.split(".")[1]], ["axis", "dtype", "out", "keepdims", "initial", "where"]
    try:
        parameters = inspect.signature(f).parameters.values()
    except ValueError:
        return 2, KEYWORDS
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.default is not p.empty
             and p.name != "overwrite_input"]
    return sum(p.default is p.empty and p.kind < p.VAR_POSITIONAL for p in parameters), named or KEYWORDS


def call_of(seed):
    """The name of a function, the function, its arguments and keywords."""
    r = random.Random(seed)
    name, f = r.choice(FUNCTIONS)
    least, keywords = needed(name, f)
    shape = r.choice(SHAPES) if r.random() < 0.6 else None                       # of all arrays
    odd = r.choice([0, 0.1, 0.5])
    args = [argument(r, shape) if r.random() < odd else some_array(r, shape) if r.random() < 0.7 else r.choice(STATIC[:6])
            for _ in range(least + (r.random() < 0.2))]
    kwargs = {r.choice(keywords): argument(r, shape) for _ in range(r.choice([0, 0, 0, 1, 2]))}
    if isinstance(kwargs.get("where"), (complex, np.complexfloating)):          # NumPy counts real parts
        del kwargs["where"]
    return name, f, args, kwargs


def arrays_of(tree, out):
    """A tree with numbers for its arrays, which go to `out`."""
    if isinstance(tree, np.ndarray):
        out.append(tree)
        return ("array", len(out) - 1)
    if type(tree) in (tuple, list, dict):
        return (type(tree), [arrays_of(v, out) for v in (tree.values() if type(tree) is dict else tree)], list(tree) if type(tree) is dict else None)
    return ("as it is", tree)


def put_back(tree, arrays):
    kind, what, *keys = tree
    if kind == "array":
        return arrays[what]
    if kind == "as it is":
        return what
    values = [put_back(v, arrays) for v in what]
    return dict(zip(keys[0], values)) if kind is dict else kind(values)


def run(f, args):
    """What f gives or raises."""
    signal.setitimer(signal.ITIMER_REAL, 10)
    try:
        return f(*args), None
    except Exception as e:
        return None, e
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def is_plain(x):
    return isinstance(x, (np.ndarray, np.generic, int, float, complex, bool, str, type(None))) or isinstance(x, (tuple, list)) and all(map(is_plain, x))


def fault(seed):
    """What is wrong with the call of a seed, or None."""
    name, f, args, kwargs = call_of(seed)
    arrays = []
    tree = arrays_of([args, kwargs], arrays)

    def call(*arrays):
        args, kwargs = put_back(tree, arrays)
        r = f(*args, **kwargs)
        return r if is_plain(r) or pyxla._core.is_tracer(r) else None

    theirs, mine = clone(arrays), clone(arrays)
    want, refused = run(call, theirs)
    if isinstance(refused, (Late, MemoryError)):
        return None
    got, error = run(pyxla.jit(call), mine)
    said = f"{name}(*{args}, **{kwargs})"
    if isinstance(error, Late) or type(error).__name__ in FAULTS and type(error) is not type(refused):
        return f"{said} raised {error!r}, NumPy {refused!r}"
    if refused is None and error is None and name not in LOOSE:
        try:
            same([want, theirs], [got, mine], rtol=2e-3, atol=1e-6, signs=False)
        except AssertionError as e:
            return f"{said}: {e}"
    return None


def late(*_):
    raise Late


def main(count, seed):
    signal.signal(signal.SIGALRM, late)
    found = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for k in range(seed, seed + count):
            print(f"seed {k}", end="\r", file=sys.stderr, flush=True)          # where it was, if the process ends
            what = fault(k)
            if what:
                found += 1
                print(f"seed {k}: {what}"[:1000], flush=True)
    print(f"{count} calls from seed {seed}: {found} faults")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    sys.exit(main(options.count, options.seed) > 0)
