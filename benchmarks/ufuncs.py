"""Each ufunc, reduction and selecting function alone beside NumPy's own loop: python -m benchmarks.ufuncs [TABLE ...] [--only PATTERN] ...

One process, pinned to one core; for each row the two take turns and the best time of each counts, so that a slow minute of the machine
touches both; time is the process', so that others on the core do not count. A row below `--below` times NumPy's speed is measured again
(`--again` times). Prints the rows that stay below, the geometric mean and the ten worst; `--all` prints every row, `--json FILE` keeps
the ratios. `--more` has ufuncs of operands backwards, columns first, of both orders, broadcast, and of a number.
"""

import argparse
import fnmatch
import functools
import json
import math
import os
import sys

from benchmarks.products import ONE, best_times

SIZES = {"1k": 1000, "100k": 100_000, "10M": 10_000_000}
DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
POSITIVE = ("log", "log2", "log10", "sqrt", "arccosh", "power", "float_power", "logaddexp", "logaddexp2")
UNIT = ("arcsin", "arccos", "arctanh")
OTHER = ("isnat", "matmul", "vecdot", "matvec", "vecmat", "frompyfunc")
REDUCTIONS = ("sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "mean", "var", "cumsum", "cumprod", "ptp", "count_nonzero")


def values(np, name, dtype, n):
    """An operand in the domain of a function, of both signs where it takes them."""
    rng = np.random.default_rng(len(name) + n)
    dtype = np.dtype(dtype)
    if dtype.kind != "f":
        return rng.integers(1 if dtype.kind == "u" or name in POSITIVE else -5, 7, n).astype(dtype)
    low, high = (1, 10) if name in POSITIVE else (-0.9, 0.9) if name in UNIT else (-4, 4)
    return rng.uniform(low, high, n).astype(dtype)


def layouts(make, n):
    """Contiguous, and every second element."""
    yield "", make(n)
    yield " [::2]", make(2 * n)[::2]


def more_layouts(make, n, nin):
    """(name, operands) of other layouts; the right operand is the left one's elements in another order."""
    x, side = make(n), int(n**0.5)
    a = make(side * side).reshape(side, side)
    if nin == 1:
        return [(" [::-1]", (x[::-1],)), (" F", (a.T,)), (" [:, ::2]", (a[:, ::2],))]
    b = a[::-1].copy()
    number = x[:1].item() or 1
    pairs = {"[::-1]": (x[::-1], x), "F F": (a.T, b.T), "C F": (a, b.T)}
    pairs |= {"row": (a, b[0]), "column": (a, b[:, :1]), "outer": (b[:, :1], b[0])}
    return [(f" {k}", v) for k, v in pairs.items()] + [(" number", (x, number)), (" number first", (number, x))]


def placed(np, name, dtype, args):
    """The operands with the right one as its function takes it."""
    if name not in ("left_shift", "right_shift", "ldexp", "power"):
        return args
    return args[0], np.abs(args[1]).astype("int32" if name == "ldexp" else dtype)


def ufuncs(np, dtype, n, more=False):
    """Rows (name, function, arguments) of all ufuncs of one result."""
    names = [k for k, v in vars(np).items() if isinstance(v, np.ufunc) and v.nin <= 2 and v.__name__ == k and k not in OTHER]
    for name in sorted(names):
        f = getattr(np, name)

        def make(m, name=name):
            return values(np, name, dtype, m)

        def pair(x):
            return (x, x[::-1].copy() if x.flags.c_contiguous else x[::-1])

        forms = more_layouts(make, n, f.nin) if more else [(k, (x,) if f.nin == 1 else pair(x)) for k, x in layouts(make, n)]
        for layout, args in forms:
            args = args if "number" in layout else placed(np, name, dtype, args)
            try:
                f(*(a[:1] if isinstance(a, np.ndarray) else a for a in args))
            except (TypeError, ValueError, OverflowError):
                continue
            yield f"{name} {dtype}{layout}", (lambda x, f=f: f(x)) if f.nin == 1 else (lambda x, y, f=f: f(x, y)), args


def reductions(np, dtype, n):
    for name in REDUCTIONS:
        f = getattr(np, name)
        for layout, x in layouts(lambda m: values(np, name, dtype, m), n):
            yield f"{name} {dtype}{layout}", lambda x, f=f: f(x), (x,)
        side = int(n**0.5)
        square = values(np, name, dtype, side * side).reshape(side, side)
        for axis in (0, 1):
            yield f"{name} {dtype} axis={axis}", lambda x, f=f, axis=axis: f(x, axis=axis), (square,)


def set_at(x, i, v):
    x[i] = v


def add_to(x, i, v):
    x[i] += v


def selection(np, dtype, n):
    """Functions that choose, place and count elements. Those that write change their arguments alike on both sides."""
    rng = np.random.default_rng(n)
    kind = np.dtype(dtype).kind
    high = 100 if np.dtype(dtype).itemsize == 1 else 10_000
    x = rng.standard_normal(n).astype(dtype) if kind == "f" else rng.integers(0, high, n).astype(dtype)
    i = rng.integers(0, n, n)
    span = (-3, 3) if kind == "f" else (0, high)
    mask, rare = rng.random(n) < 0.5, rng.random(n) < 0.01
    bins, edges = rng.integers(0, 256, n), np.sort(rng.standard_normal(101))
    table, y, v = np.sort(x[: min(n, 10_000)]), x.copy(), x[::-1].copy()
    if dtype == "float64":
        yield "nonzero half", lambda m: np.nonzero(m), (mask,)
        yield "nonzero rare", lambda m: np.nonzero(m), (rare,)
        yield "flatnonzero(x > 1)", lambda x: np.flatnonzero(x > 1), (x,)
        yield "bincount", lambda b: np.bincount(b), (bins,)
        yield "bincount minlength", lambda b: np.bincount(b, minlength=256), (bins,)
        yield "bincount weights", lambda b, x: np.bincount(b, x), (bins, x)
    yield f"x[i] {dtype}", lambda x, i: x[i], (x, i)
    yield f"take {dtype}", lambda x, i: np.take(x, i), (x, i)
    yield f"x[m] {dtype}", lambda x, m: x[m], (x, mask)
    yield f"x[m] rare {dtype}", lambda x, m: x[m], (x, rare)
    yield f"compress {dtype}", lambda m, x: np.compress(m, x), (mask, x)
    yield f"x[i]=v {dtype}", set_at, (y, i, v)
    yield f"x[m]=s {dtype}", lambda x, m: set_at(x, m, 0), (y, mask)
    yield f"x[i]+=v {dtype}", add_to, (y, i, v)
    yield f"add.at {dtype}", lambda x, i, v: np.add.at(x, i, v), (y, i, v)
    yield f"add.at bins {dtype}", lambda x, i, v: np.add.at(x, i, v), (np.zeros(256, dtype), bins, v)
    yield f"searchsorted {dtype}", lambda t, x: np.searchsorted(t, x), (table, x)
    yield f"histogram {dtype}", lambda x: np.histogram(x, 100)[0], (x,)
    yield f"histogram range {dtype}", lambda x: np.histogram(x, 100, span)[0], (x,)
    yield f"histogram edges {dtype}", lambda x, e: np.histogram(x, e)[0], (x, edges)
    yield f"digitize {dtype}", lambda x, e: np.digitize(x, e), (x, edges)
    yield f"unique {dtype}", lambda x: np.unique(x), (x,)
    yield f"sort {dtype}", lambda x: np.sort(x), (x,)
    yield f"argsort {dtype}", lambda x: np.argsort(x), (x,)
    yield f"median {dtype}", lambda x: np.median(x), (x,)
    yield f"cumsum {dtype}", lambda x: np.cumsum(x), (x,)


TABLES = {"ufuncs": ufuncs, "reductions": reductions, "selection": selection}


def chosen(options, np):
    """(size, name, function, arguments) of the rows asked for."""
    for table in options.tables or TABLES:
        for dtype in options.dtype or (DTYPES if table != "selection" else ("int32", "int64", "float32", "float64")):
            for size in options.size or SIZES:
                make = functools.partial(ufuncs, more=True) if options.more and table == "ufuncs" else TABLES[table]
                for name, f, args in make(np, dtype, SIZES[size]):
                    if not options.only or any(fnmatch.fnmatch(name, p) for p in options.only):
                        yield size, name, f, args


def measured(options, calls):
    """Seconds of two calls, the better try by their ratio."""
    best = (1e9, 1.0)
    for _ in range(1 + options.again):
        best = min(best, best_times(calls, options.seconds), key=lambda t: t[0] / t[1])
        if best[1] >= options.below * best[0]:
            break
    return best


def show(rows):
    mean = math.exp(sum(math.log(r["ratio"]) for r in rows) / max(len(rows), 1))
    slow = sum(r["ratio"] < 1 for r in rows)
    print(f"\n{len(rows)} rows, geometric mean {mean:.2f} times NumPy's speed, {slow} slower than NumPy; the ten worst:")
    for r in sorted(rows, key=lambda r: r["ratio"])[:10]:
        print(line(r))


def line(r):
    return f"{r['name']:34}{r['size']:>5}{r['us']:12.2f}{r['numpy_us']:12.2f}{r['ratio']:7.2f}"


def sweep_parser(name, doc):
    """The arguments of a program that compares many rows with NumPy."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=doc.splitlines()[0])
    parser.add_argument("--only", nargs="*", metavar="PATTERN", help="rows that match one")
    parser.add_argument("--seconds", type=float, default=0.01, help="per contender and row")
    parser.add_argument("--below", type=float, default=0.95, help="what is less of NumPy's speed is measured again")
    parser.add_argument("--again", type=int, default=2, help="so many times")
    parser.add_argument("--all", action="store_true", help="print every row, not only those below")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--json", metavar="FILE", help="append the rows, one a line")
    return parser


def on_one_core(name, argv, core):
    """One thread on one core; the process begins again, since NumPy must not be there yet."""
    if os.environ.get("PYXLA_NUM_THREADS") != "1":
        os.execve(sys.executable, [sys.executable, "-m", f"benchmarks.{name}", *argv], os.environ | ONE)
    os.sched_setaffinity(0, {core})


def note(options, rows, name, size, mine, numpys):
    """One more row, printed if it is asked for."""
    rows.append({"name": name, "size": size, "us": 1e6 * mine, "numpy_us": 1e6 * numpys, "ratio": numpys / mine})
    if options.all or rows[-1]["ratio"] < options.below:
        print(line(rows[-1]), flush=True)


def keep(options, rows):
    if options.json:
        with open(options.json, "a") as out:
            out.writelines(json.dumps(r) + "\n" for r in rows)


def main(argv):
    parser = sweep_parser("ufuncs", __doc__)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help=f"of {', '.join(TABLES)}; all without")
    parser.add_argument("--dtype", nargs="*", choices=DTYPES)
    parser.add_argument("--size", nargs="*", choices=SIZES)
    parser.add_argument("--more", action="store_true", help="other layouts")
    options = parser.parse_args(argv)
    on_one_core("ufuncs", argv, options.core)
    import numpy as np

    import pyxla

    np.seterr(all="ignore")
    rows = []
    print(f"{'':34}{'':>5}{'us':>12}{'NumPy us':>12}{'ratio':>7}")
    for size, name, f, args in chosen(options, np):
        compiled = pyxla.jit(f)
        mine, numpys = measured(options, [lambda: compiled(*args), lambda: f(*args)])
        note(options, rows, name, size, mine, numpys)
    show(rows)
    keep(options, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
