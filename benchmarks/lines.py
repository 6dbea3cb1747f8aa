"""One-line functions beside NumPy: python -m benchmarks.lines [--size 1k ...] [--part K/N] [--only PATTERN] ...

Each line of lines.txt alone, jitted and not, in one process, by turns. What is slower than `--below` times NumPy is measured
again (`--again` times), since a slow minute is no slow kernel; the best ratio counts. `--part 3/20` takes every 20th line, from the
third on.
"""

import ast
import fnmatch
import sys
from pathlib import Path

from benchmarks.ufuncs import keep, measured, note, on_one_core, show, sweep_parser

LINES = Path(__file__).with_suffix(".txt")
SIZES = {"8": 8, "1k": 1000, "100k": 100_000, "1M": 1_000_000}


def operands(np, n):
    """What the lines read, by name."""
    rng = np.random.default_rng(n)
    side = int(n**0.5)
    a = {k: rng.standard_normal(n) for k in "xy"}
    a |= {k: rng.standard_normal(n).astype("f4") for k in "fg"}
    a |= {"p": rng.uniform(0.1, 10, n), "h": rng.standard_normal(n).astype("f2"), "sx": np.sort(a["x"]), "n": 7, "a": 1.5}
    a |= {"hp": a["p"].astype("f2"), "fp": a["p"].astype("f4"), "e": np.sort(rng.standard_normal(101)), "v": rng.standard_normal(side)}
    a |= {"i": rng.integers(0, n, n), "ri": rng.integers(0, side, side), "bins": rng.integers(0, 256, n), "few": rng.integers(0, 10, n)}
    a |= {"I": rng.integers(-1000, 1000, n), "J": rng.integers(-1000, 1000, n), "J1": rng.integers(1, 100, n)}
    a |= {"K": rng.integers(0, n, n).astype("i4"), "s": rng.integers(-1000, 1000, n).astype("i2"), "few32": a["few"].astype("i4")}
    a |= {"b": rng.integers(0, 256, n).astype("u1"), "t": rng.integers(-128, 128, n).astype("i1"), "si": np.sort(rng.integers(0, n, n))}
    a |= {"m": rng.random(n) < 0.5, "r": rng.random(n) < 0.01, "d": rng.random(n) < 0.99, "zb": np.zeros(n, bool)}
    a |= {"c": a["x"] + 1j * a["y"], "z": (a["f"] + 1j * a["g"]).astype("c8"), "tab": a["sx"][: min(n, 10_000)].copy()}
    a |= {k: rng.standard_normal((side, side)) for k in "AB"}
    a |= {"Af": a["A"].astype("f4"), "F": np.asfortranarray(a["A"]), "AF": rng.integers(0, 100, (side, side))}
    a |= {"AP": np.argsort(a["A"], 1), "S": rng.standard_normal((max(n // 16, 1), 4, 4))}
    a |= {"T": rng.standard_normal((round(n ** (1 / 3)),) * 3)}
    a |= {"P3": rng.standard_normal((n // 3, 3)), "Q3": rng.standard_normal((n // 3, 3)), "cuts": np.arange(0, n, 10)}
    return a


def function(np, text, names):
    """The line as a function, and the names of its arguments."""
    tree = ast.parse(text)
    met = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used, space = [k for k in names if k in met], {"np": np}
    body = "return " + text if isinstance(tree.body[0], ast.Expr) else text
    exec(compile(f"def function({', '.join(used)}):\n    {body}\n", f"<{text}>", "exec"), space)
    return space["function"], used


def chosen(options, np):
    """(size, line, function, arguments) of what is asked for."""
    lines = [k for k in LINES.read_text().splitlines() if k and not k.startswith("#")]
    if options.only:
        lines = [k for k in lines if any(fnmatch.fnmatchcase(k, p) or k == p for p in options.only)]
    part, parts = map(int, options.part.split("/"))
    for size in options.size:
        a = operands(np, SIZES[size])
        for text in lines[part - 1 :: parts]:
            f, used = function(np, text, a)
            yield size, text, f, [a[k].copy(order="K") if isinstance(a[k], np.ndarray) else a[k] for k in used]


def main(argv):
    parser = sweep_parser("lines", __doc__)
    parser.add_argument("--size", nargs="*", choices=SIZES, default=["1k", "100k"])
    parser.add_argument("--part", default="1/1", metavar="K/N")
    options = parser.parse_args(argv)
    on_one_core("lines", argv, options.core)
    import numpy as np

    import pyxla

    np.seterr(all="ignore")
    np.sliding_window_view = np.lib.stride_tricks.sliding_window_view
    rows = []
    for size, text, f, args in chosen(options, np):
        compiled = pyxla.jit(f)
        try:
            mine, numpys = measured(options, [lambda: compiled(*args), lambda: f(*args)])
        except Exception as e:  # of NumPy, or a refusal
            print(f"{text:44}{size:>5} {type(e).__name__}: {str(e).splitlines()[0][:90]}")
            continue
        note(options, rows, text, size, mine, numpys)
    show(rows)
    keep(options, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
