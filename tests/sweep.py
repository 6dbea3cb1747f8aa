"""Every ufunc and every line of tests/dtype_forms.txt over every dtype, jitted and not: prints where they differ.

`python tests/sweep.py [--nan] [word of a form ...]`, quickest with PYXLA_BACKEND=interp. Each line it prints is
kind TAB form TAB dtypes TAB what: `differs`, `refuses` (NumPy does it), `accepts` (NumPy raises), `raises` (another type of exception)."""
import sys
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np

import pyxla

NAMES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128"]
SMALL = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"]
DTYPES = [np.dtype(n) for n in NAMES] + [np.dtype(getattr(ml_dtypes, n)) for n in SMALL]
EPS = {"float16": 1e-3, "bfloat16": 8e-3, "float8_e4m3fn": 0.13, "float8_e5m2": 0.25, "float8_e4m3b11fnuz": 0.13}
REFUSED = (pyxla.UnsupportedError, pyxla.TraceError)


def sample(shape, dtype, seed, nan=False):
    r = np.random.default_rng(seed)
    if dtype.kind == "b":
        return r.random(shape) < 0.5
    if dtype.kind in "iu":
        return r.integers(0 if dtype.kind == "u" else -4, 5, shape).astype(dtype)
    x = np.round(r.normal(size=shape) * 2, 1)
    x = (x + 1j * np.round(r.normal(size=shape), 1) if dtype.kind == "c" else x).astype(dtype)
    if nan:
        x.reshape(-1)[1] = np.array(np.nan).astype(dtype)
    return x


def leaves(r):
    return [v for x in r for v in leaves(x)] if isinstance(r, (tuple, list)) else [r]


def difference(want, got, tolerance):
    """What is wrong with a result, "" if nothing: type and shape are NumPy's, values within some rounding errors of the greatest."""
    if isinstance(want, (np.dtype, str)) or want is None:
        return "" if want == got else f"{got} instead of {want}"
    a, b = np.atleast_1d(want), np.atleast_1d(got)
    if a.dtype != b.dtype:
        return f"{b.dtype} instead of {a.dtype}"
    if np.shape(want) != np.shape(got):
        return f"shape {np.shape(got)} instead of {np.shape(want)}"
    if a.dtype.kind in "biu":
        return "" if (a == b).all() else f"{b.ravel()[:4]} instead of {a.ravel()[:4]}"
    eps = EPS.get(a.dtype.name) or float(np.finfo(a.dtype).eps)
    x, y = (v.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for v in (a, b))
    nan = np.isnan(x)
    if (nan != np.isnan(y)).any():
        return f"NaN: {b.ravel()[:4]} instead of {a.ravel()[:4]}"
    infinite = np.isinf(x) | np.isinf(y)
    left = ~nan & ~infinite
    wrong = infinite & ~nan & (x != y)
    wrong[left] = np.abs(x[left] - y[left]) > tolerance * eps * (np.abs(x[left]) + 0.2 * np.abs(x[left]).max(initial=0))
    if a.dtype.kind == "f":
        wrong |= left & (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
    return f"{y[wrong][:4]} instead of {x[wrong][:4]}" if wrong.any() else ""


def attempt(f, args):
    try:
        return f(*[a.copy() for a in args]), None
    except Exception as e:
        return None, e


def outcome(f, args, tolerance):
    """(kind, text) of a form that is not as in NumPy, else None."""
    (want, raised), (got, refused) = attempt(f, args), attempt(pyxla.jit(f), args)
    if raised is None and refused is None:
        a, b = leaves(want), leaves(got)
        text = f"{len(b)} results instead of {len(a)}" if len(a) != len(b) else next(filter(None, (difference(v, w, tolerance) for v, w in zip(a, b))), "")
        return ("differs", text) if text else None
    if raised is None:
        return "refuses", f"{type(refused).__name__}: {refused}"
    if refused is None:
        return "accepts", f"{type(raised).__name__}: {raised}"
    kin = issubclass(type(raised), type(refused)) or issubclass(type(refused), type(raised))      # NumPy's UFuncTypeError is private
    return None if kin else ("raises", f"{type(refused).__name__} instead of {type(raised).__name__}: {refused}")


def ufunc_forms(nan):
    """(form, dtype, function, arrays)"""
    for f in dict.fromkeys(f for _, f in sorted(vars(np).items()) if isinstance(f, np.ufunc) and not f.signature):
        name = f.__name__
        for d in DTYPES:
            x = sample(7, d, 1, nan)
            if f.nin == 1:
                yield name, d, f, [x]
                continue
            for e in dict.fromkeys([d, *map(np.dtype, ("int64", "float16", "float64"))]):
                yield f"{name} with {'itself' if e == d else e}", d, f, [x, sample(7, e, 2, nan)]
            yield f"{name} with 2", d, lambda x, f=f: f(x, 2), [x]
            yield f"{name} with 2.5", d, lambda x, f=f: f(x, 2.5), [x]
            if f.nout == 1:
                yield f"{name}.reduce", d, lambda x, f=f: f.reduce(x, axis=0), [sample((7, 3), d, 1, nan)]
                yield f"{name}.accumulate", d, lambda x, f=f: f.accumulate(x), [sample((7, 3), d, 1, nan)]


def function_forms(nan):
    for line in (Path(__file__).parent / "dtype_forms.txt").read_text().splitlines():
        f = eval("lambda x, y, v, q, i, m: " + line, {"np": np})
        for d in DTYPES:
            floats = [sample(s, d, seed, nan) for seed, s in enumerate([(3, 4), (4, 3), (6,), (3, 3)], 1)]
            yield line, d, f, [*floats, np.array([2, 0, 1]), np.array([True, False, True])]


def sweep(words=(), nan=False):
    """{(kind, form): [dtypes, text]} of what is not as in NumPy, and how many forms there were."""
    found, n = {}, 0
    for forms, tolerance in ((ufunc_forms, 8), (function_forms, 64)):
        for form, dtype, f, args in forms(nan):
            if words and not any(w in form for w in words):
                continue
            n += 1
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                r = outcome(f, args, tolerance)
            if r:
                found.setdefault((r[0], form), [[], r[1]])[0].append(dtype.name)
    return found, n


if __name__ == "__main__":
    found, n = sweep([a for a in sys.argv[1:] if a != "--nan"], "--nan" in sys.argv)
    for (kind, form), (dtypes, text) in sorted(found.items()):
        print(kind, form, " ".join(dtypes), str(text).replace("\n", " "), sep="\t")
    print(f"{n} forms")
