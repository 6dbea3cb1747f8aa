"""Machine code against the interpreter, kernel by kernel, at every level of this machine."""
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kernels import ALL, CSRC, FLOATS, VECTOR, Driver, Kernel, build_driver, monoid_cases, run, same, values
from random_kernels import Random

import pyxla

ROW = re.compile(r"^ELEMENTWISE\((\w+),\s*(\d), (\w+), \"(\w+)\",\s*(\w+),", re.M)
OPS = [(name, int(nin), result, kinds) for name, nin, result, kinds, cost in ROW.findall((CSRC / "ir/ops.def").read_text())
       if cost != "MATH"]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    path = os.environ.get("PYXLA_TEST_DRIVER")
    return Driver(path or build_driver(tmp_path_factory.mktemp("gen")))


def lanes_of(level, dtype, times=1):
    return VECTOR[level] // np.dtype(dtype).itemsize * times


def is_near(a, b, ulps, cancels):
    eps = ulps * np.finfo(a.dtype).eps
    with np.errstate(invalid="ignore"):
        return bool(((a == b) | ((a != a) & (b != b)) | (np.abs(a - b) <= eps * (1 + np.abs(b) + cancels))).all())


def check(driver, kernel, level, ulps=0, ranges=None, cancels=0):
    """Equal bits from the interpreter and the code; but sums of floats, which the code adds up in spans (gen/spans.c) and the interpreter in two numbers, differ in rounding:
    by some ulps, and of `cancels` where terms of that size cancel."""
    if any(line.startswith("state") and line.split()[2:] in (["sum", "f32"], ["sum", "f64"]) for line in kernel.text().splitlines()):
        ulps = max(ulps, 32)
    want = run(driver, kernel, None)
    got = run(driver, kernel, level, ranges, at_end=hash(kernel.text()) % 2 == 0)
    for i, (a, b) in enumerate(zip(got, want)):
        if a is not None and not (same(a, b, ulps) or (ulps and is_near(a, b, ulps, cancels if np.shape(cancels) == a.shape else 0))):
            bad = np.argwhere(~((a == b) | ((a != a) & (b != b)))).tolist()[:5]
            raise AssertionError(f"{level}: array {i} differs at {bad}: {a[tuple(bad[0])] if bad else a} is not {b[tuple(bad[0])] if bad else b}\n{kernel.text()}")
    return got


def levels(driver):
    return driver.levels()


def in_kinds(dtype, kinds):
    return np.dtype(dtype).kind in kinds


def op_cases():
    for name, nin, result, kinds in OPS:
        if name == "cast":
            yield from (("cast", 1, a, b) for a in ALL for b in ALL)
        elif name == "bitcast":
            yield from ((name, 1, a, b) for a in ALL for b in ALL if in_kinds(a, "iuf") and in_kinds(b, "iuf") and np.dtype(a).itemsize == np.dtype(b).itemsize)
        elif name == "complex_":
            continue                    # its operands and its result differ: tests/test_complex.py
        elif name == "where":
            yield from (("where", 3, a, a) for a in ALL)
        else:
            yield from ((name, nin, a, "bool" if result == "BOOL" else a) for a in ALL if in_kinds(a, kinds))


def op_kernel(name, nin, dtype, out, n, lanes, literal, seed=1):
    k = Kernel()
    ax = k.axis(n, literal=literal)
    ins = [k.array(values(d, n, seed + i)) for i, d in enumerate(["bool", dtype, dtype] if name == "where" else [dtype] * nin)]
    r = k.array(np.zeros(n, out), True)
    dts = ["bool", dtype, dtype] if name == "where" else [dtype] * nin
    vals = [k.load(d, x, f"{ax}:unit") for d, x in zip(dts, ins)]
    v = k.val(name, out, *vals)
    k.begin(ax, lanes=lanes)
    k.stmt(f"store {k.access(r, f'{ax}:unit')} {v}")
    k.end()
    return k


@pytest.mark.parametrize("name", sorted({c[0] for c in op_cases()}))
def test_elementwise(driver, name):
    for _, nin, dtype, out in (c for c in op_cases() if c[0] == name):
        for level in levels(driver):
            wide = max(np.dtype(dtype).itemsize, np.dtype(out).itemsize)
            lanes = VECTOR[level] // wide
            check(driver, op_kernel(name, nin, dtype, out, 1500 + lanes // 2 + 1, lanes, False), level)
    check(driver, op_kernel(name, nin, dtype, out, 700, 0, False), level)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float32", "float64"])
def test_extents_and_tails(driver, dtype):
    for level in levels(driver):
        for times in (1, 2):
            lanes = lanes_of(level, dtype, times)
            for n in {0, 1, 2, lanes - 1, lanes, lanes + 1, 2 * lanes, 3 * lanes + 5}:
                for literal in (False, True):
                    check(driver, op_kernel("maximum", 2, dtype, dtype, n, lanes, literal), level)


LAYOUTS = [1, -1, 2, 3, 4, -2, -3, 5, -7]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64"])
@pytest.mark.parametrize("step", LAYOUTS)
def test_strides(driver, dtype, step, swapped):
    order = ">" if swapped else "="
    if swapped and dtype == "bool":
        return
    for level in levels(driver):
        lanes = lanes_of(level, dtype)
        for n, mode, checked in itertools.product((lanes, 3 * lanes + 3, 1), ("literal", "run"), (False, True)):
            k = Kernel(checked)
            ax = k.axis(n)
            size = np.dtype(dtype).itemsize
            source = values(dtype, abs(step) * n + 3, 3).astype(np.dtype(dtype).newbyteorder(order))[1:1 + abs(step) * (n - 1) + 1]
            x = source[::step] if step > 0 else source[::-1][::-step]
            y = np.zeros(abs(step) * n, source.dtype)[::step][:n]
            assert len(x) == n and len(y) == n
            coef = (lambda s: str(s * size)) if mode == "literal" else (lambda s: k.arg(s * size))
            v = k.load(dtype, k.array(x), f"{ax}:{coef(step)}")
            out, flat = k.array(y, True), k.array(np.zeros(n, dtype), True)
            k.begin(ax, lanes=lanes)
            k.stmt(f"store {k.access(out, f'{ax}:{coef(step)}')} {v}")
            k.stmt(f"store {k.access(flat, f'{ax}:unit')} {v}")
            k.end()
            got = check(driver, k, level)
            assert same(got[2], x.astype(dtype))


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64"])
@pytest.mark.parametrize("step", [0, *LAYOUTS])
def test_loads_under_a_condition(driver, dtype, step):
    """Three elements more than there are, on both sides: nothing is read there."""
    for level in levels(driver):
        lanes, size = lanes_of(level, dtype), np.dtype(dtype).itemsize
        for n, mode, checked, swapped in itertools.product((lanes, 3 * lanes + 3, 1), ("literal", "run"), (False, True), (False, True)):
            if swapped and size == 1:
                continue
            source = values(dtype, max(abs(step) * (n - 1) + 1, 1), 3).astype(np.dtype(dtype).newbyteorder(">" if swapped else "="))
            k, x = Kernel(checked), source if step >= 0 else source[::-1]
            ax, out = k.axis(n + 6), k.array(np.zeros(n + 6, dtype), True)
            i = k.val("add", "int64", k.val("axis", "int64", ax), k.const("int64", -3))
            only = k.val("less", "bool", k.val("cast", "uint64", i), k.val("cast", "uint64", k.val("word", "int64", k.arg(n))))
            v = k.val("load", dtype, k.access(k.array(x), f"{ax}:{step * size if mode == 'literal' else k.arg(step * size)}", off_arg=k.arg(-3 * step * size)), "if", only)
            k.begin(ax, lanes=lanes)
            k.stmt(f"store {k.access(out, f'{ax}:unit')} {v}")
            k.end()
            want = np.zeros(n + 6, dtype)
            want[3:-3] = x[::abs(step)][:n] if step else x[0]
            assert same(check(driver, k, level)[0], want)


def test_bool_bytes_that_are_not_one(driver):
    for level in levels(driver):
        k = Kernel()
        ax = k.axis(150)
        x = np.random.default_rng(0).integers(0, 256, 150).astype(np.uint8)
        x[::3] = 0
        a = k.array(x.view(bool))
        out = k.array(np.zeros(150, bool), True)
        v = k.val("logical_not", "bool", k.load("bool", a, f"{ax}:unit"))
        k.begin(ax, lanes=VECTOR[level])
        k.stmt(f"store {k.access(out, f'{ax}:unit')} {v}")
        k.end()
        assert np.array_equal(run(driver, k, level)[1].view(np.uint8), (x == 0).astype(np.uint8))


def test_gather_and_scatter(driver):
    for level, n in itertools.product(levels(driver), (5, 64, 77)):
        for checked in (False, True):
            k = Kernel(checked)
            ax, lanes = k.axis(n), lanes_of(level, "float32")
            table = values("float32", 3 * n, 5)
            index = np.random.default_rng(1).permutation(n).astype(np.int64)
            i = k.load("int64", k.array(index), f"{ax}:unit")
            v = k.load("float32", k.array(table), f"%1:12 {ax}:zero", off=4)
            out = k.array(np.zeros(2 * n, "float32"), True)
            k.begin(ax, lanes=lanes)
            k.stmt(f"store {k.access(out, f'{i}:8')} {v}")
            k.end()
            got = check(driver, k, level)
            assert np.array_equal(got[2][2 * index], table[3 * index + 1], equal_nan=True)


def test_axis_values_and_offsets(driver):
    for level in levels(driver):
        k = Kernel()
        a, b = k.axis(7), k.axis(53, block=20)
        i, j = k.val("axis", "int64", a), k.val("axis", "int64", b)
        x = values("int64", 7 * 53 + 9, 2)
        v = k.val("add", "int64", k.val("multiply", "int64", i, j), k.load("int64", k.array(x), f"{a}:{53 * 8} {b}:unit/same", off_arg=k.arg(24), off=-16))
        out = k.array(np.zeros((7, 53), "int64"), True)
        k.begin(a)
        k.begin(b, "blocks")
        k.begin(b, "within", lanes=8)
        k.stmt(f"store {k.access(out, f'{a}:{53 * 8} {b}:unit/same')} {v}")
        k.end(3)
        got = check(driver, k, level)
        assert np.array_equal(got[1], np.outer(np.arange(7), np.arange(53)) + x[1:1 + 7 * 53].reshape(7, 53))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 11, 12])
def test_full_blocks_and_the_rest(driver, rows):
    """Blocks of three rows: a body that is written out for all of them, and one for what is left."""
    for level in levels(driver):
        for grid in (True, False):
            k = Kernel()
            a, b = k.axis(rows, block=3), k.axis(21)
            x, out = values("float32", rows * 21, 3).reshape(rows, 21), np.zeros((rows, 21), "float32")
            src, to = k.array(x), k.array(out, True)
            at = [f"{a}:84/same {b}:unit"] * 3
            row = k.val("cast", "float32", k.val("axis", "int64", a))
            k.begin(a, "blocks", grid=grid)
            k.begin(a, "full")
            k.begin(b, lanes=8)
            for i in range(3):
                v = k.load("float32", src, at[i], off=84 * i)
                k.stmt(f"store {k.access(to, at[i], off=84 * i)} {k.val('add', 'float32', v, row)}")
            k.end(2)
            k.begin(a, "rest")
            k.begin(b, lanes=8)
            k.stmt(f"store {k.access(to, at[0])} {k.val('subtract', 'float32', k.load('float32', src, at[0]), row)}")
            k.end(3)
            got, full = check(driver, k, level)[1], rows - rows % 3
            first = np.arange(rows, dtype="float32")
            first[:full] -= first[:full] % 3
            want = x + np.where(np.arange(rows) < full, first, -first)[:, None].astype("float32")
            assert np.array_equal(got, want, equal_nan=True)


@pytest.mark.parametrize("shape", [(23,), (5, 7), (3, 4, 5), (2, 3, 2, 4)])
def test_grid(driver, shape):
    for level in levels(driver):
        k = Kernel()
        axes = [k.axis(n) for n in shape] + [k.axis(10)]
        full = (*shape, 10)
        strides = np.empty(full, "float32").strides
        x, y = values("float32", int(np.prod(full)), 1).reshape(full), values("float32", shape[0], 2)
        terms = " ".join(f"{a}:{s}" for a, s in zip(axes, strides))
        v = k.val("add", "float32", k.load("float32", k.array(x), terms), k.load("float32", k.array(y), f"{axes[0]}:unit"))
        out = k.array(np.zeros(full, "float32"), True)
        for a in axes[:-1]:
            k.begin(a, grid=True)
        k.begin(axes[-1], lanes=8)
        k.stmt(f"store {k.access(out, terms)} {v}")
        k.end(len(full))
        points = int(np.prod(shape))
        check(driver, k, level)
        check(driver, k, level, ranges=[(0, 1), (1, 1), (1, points // 2 + 1), (points // 2 + 1, points + 5), (points, points)])


def store_state(k, s, monoid, dtype, terms, n):
    """Stores all components of a state; the arrays have n elements."""
    for c in range({"sum2": 2, "argmax": 2, "argmin": 2, "moments": 3}.get(monoid, 1)):
        d = "int64" if c == 1 and monoid.startswith("arg") else dtype
        out = k.array(np.zeros(n, d), True)
        scale = [t.split(":") for t in terms.split()]
        terms_d = " ".join(f"{a}:{c if c in ('unit', 'zero') else int(c) * np.dtype(d).itemsize}" for a, c in scale)
        k.stmt(f"store {k.access(out, terms_d)} {k.val('state', d, f'{s}.{c}')}")


def reduce_values(dtype, shape, seed, special):
    n = int(np.prod(shape))
    x = values(dtype, n, seed, small=not special)
    if dtype == "bool" and seed % 2:
        x[:] = seed % 3 == 0
    return x.reshape(shape)


@pytest.mark.parametrize("monoid,dtype", list(monoid_cases()))
def test_reduce_rows(driver, monoid, dtype):
    ulps = 100 if monoid == "moments" else 0
    for level, n, special in itertools.product(levels(driver), (0, 1, 40, 200), (False, True)):
        if special and (monoid in ("moments",) or (monoid == "prod" and dtype in FLOATS)):
            continue
        k = Kernel()
        rows, cols = k.axis(4), k.axis(n)
        x = reduce_values(dtype, (4, n), n + 7, special)
        s, item = k.state(monoid, dtype), np.dtype(dtype).itemsize
        v = k.load(dtype, k.array(x), f"{rows}:{max(n, 1) * item} {cols}:unit")
        second = " " + k.val("axis", "int64", cols) if monoid.startswith("arg") else ""
        k.begin(rows, grid=True)
        k.stmt(f"init {s}")
        k.begin(cols, lanes=lanes_of(level, dtype))
        k.stmt(f"reduce {s} {v}{second}")
        k.end()
        store_state(k, s, monoid, dtype, f"{rows}:1", 4)
        k.end()
        check(driver, k, level, ulps)


@pytest.mark.parametrize("monoid,dtype", list(monoid_cases()))
def test_reduce_columns(driver, monoid, dtype):
    ulps = 100 if monoid == "moments" else 0
    for level, n in itertools.product(levels(driver), (1, 11)):
        k = Kernel()
        cols, rows = k.axis(37), k.axis(n)
        x = reduce_values(dtype, (n, 37), n + 7, monoid not in ("moments", "prod"))
        s, item = k.state(monoid, dtype), np.dtype(dtype).itemsize
        v = k.load(dtype, k.array(x), f"{rows}:{37 * item} {cols}:unit")
        second = " " + k.val("axis", "int64", rows) if monoid.startswith("arg") else ""
        k.begin(cols, lanes=lanes_of(level, dtype))
        k.stmt(f"init {s}")
        k.begin(rows)
        k.stmt(f"reduce {s} {v}{second}")
        k.end()
        store_state(k, s, monoid, dtype, f"{cols}:1", 37)
        k.end()
        sizes = np.where(np.isfinite(x), np.abs(x), 0).sum(0, dtype=float) if monoid == "sum" and dtype in FLOATS else 0
        check(driver, k, level, ulps, cancels=sizes)


def test_reduce_blocks_and_merge(driver):
    """Block sums with their errors, then merged from memory."""
    for level, monoid in itertools.product(levels(driver), ("sum2", "moments", "argmax")):
        k = Kernel()
        a, s = k.axis(1000, block=64), k.state(monoid, "float64")
        t = k.state(monoid, "float64")
        x = k.array(values("float64", 1000, 3, small=True))
        v = k.load("float64", x, f"{a}:unit/same")
        second = " " + k.val("axis", "int64", a) if monoid == "argmax" else ""
        k.stmt(f"init {t}")
        k.begin(a, "blocks")
        k.stmt(f"init {s}")
        k.begin(a, "within", lanes=8)
        k.stmt(f"reduce {s} {v}{second}")
        k.end()
        width = 3 if monoid == "moments" else 2
        parts = [k.val("state", "int64" if c and monoid == "argmax" else "float64", f"{s}.{c}") for c in range(width)]
        k.stmt(f"reduce {t} {' '.join(parts)}")
        k.end()
        store_state(k, t, monoid, "float64", "", 1)
        check(driver, k, level, 4)


def softmax(level, rows, n, dtype, block=0):
    k = Kernel()
    r, c = k.axis(rows), k.axis(n)
    item = np.dtype(dtype).itemsize
    x, tile = k.array(values(dtype, rows * n, 4, small=True).reshape(rows, n)), k.scratch_array(dtype, n)
    out = k.array(np.zeros((rows, n), dtype), True)
    terms = f"{r}:{n * item} {c}:unit"
    top, total, lanes = k.state("max", dtype), k.state("sum", dtype), lanes_of(level, dtype)
    v = k.load(dtype, x, terms)
    shifted = k.val("subtract", dtype, v, k.val("state", dtype, f"{top}.0"))
    e = k.val("multiply", dtype, shifted, shifted)
    t = k.access(tile, f"{c}:unit")
    k.begin(r, grid=True)
    k.stmt(f"init {top}")
    k.begin(c, lanes=lanes)
    k.stmt(f"reduce {top} {v}")
    k.end()
    k.stmt(f"init {total}")
    k.begin(c, lanes=lanes)
    k.stmt(f"store {t} {e}")
    k.stmt(f"reduce {total} {e}")
    k.end()
    scale = k.val("divide", dtype, k.const(dtype, 1), k.val("state", dtype, f"{total}.0"))
    y = k.val("multiply", dtype, k.val("load", dtype, t), scale)
    k.begin(c, lanes=lanes)
    k.stmt(f"store {k.access(out, terms)} {y}")
    k.end(2)
    return k


@pytest.mark.parametrize("dtype", FLOATS)
def test_row_kernel_with_tile(driver, dtype):
    for level, n in itertools.product(levels(driver), (1, 16, 45, 300)):
        check(driver, softmax(level, 5, n, dtype), level)


def test_scan(driver):
    for level, n in itertools.product(levels(driver), (0, 1, 30)):
        k = Kernel()
        cols, rows, s = k.axis(19), k.axis(n), k.state("sum", "float32")
        v = k.load("float32", k.array(values("float32", 19 * n, 1, True).reshape(n, 19)), f"{rows}:76 {cols}:unit")
        after = k.array(np.zeros((n, 19), "float32"), True)
        read = k.val("state", "float32", f"{s}.0")
        terms = f"{rows}:76 {cols}:unit"
        k.begin(cols, lanes=lanes_of(level, "float32"))
        k.stmt(f"init {s}")
        k.begin(rows)
        k.stmt(f"reduce {s} {v}")
        k.stmt(f"store {k.access(after, terms)} {read}")
        k.end(2)
        check(driver, k, level)


def test_in_place(driver):
    for level in levels(driver):
        k = Kernel()
        a, b = k.axis(6), k.axis(50)
        x = k.array(values("float32", 300, 1).reshape(6, 50), True)
        at = k.access(x, f"{a}:200 {b}:unit")
        v = k.val("load", "float32", at)
        k.begin(a)
        k.begin(b, lanes=lanes_of(level, "float32"))
        k.stmt(f"store {at} {k.val('multiply', 'float32', v, v)}")
        k.end(2)
        check(driver, k, level)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float32", "float64"])
def test_transpose(driver, dtype):
    """Whole squares, overlapping ones, and tiles that are smaller than a square."""
    for level in levels(driver):
        lanes = min(16, VECTOR[level or "sse2"] // np.dtype(dtype).itemsize)
        for (m, n), checked in itertools.product([(64, 64), (39, 50), (50, 3), (3, 50), (1, 1), (33, 16)], (False, True)):
            k = Kernel(checked)
            item = np.dtype(dtype).itemsize
            source = np.asarray(values(dtype, n * (m + 3), 5)).reshape(n, m + 3)[:, 1:m + 1]
            am, an = k.axis(m, 32), k.axis(n, 16)
            x, out = k.array(source), k.array(np.zeros((m, n), dtype), True)
            tile = k.scratch_array(dtype, 32 * 16)
            to = k.access(tile, f"{am}:{16 * item}/0 {an}:unit/0")
            k.begin(am, "blocks", grid=True)
            k.begin(an, "blocks", grid=True)
            k.stmt(f"transpose {to} = {k.access(x, f'{am}:unit/same {an}:{k.arg((m + 3) * item)}/same')} over {am} {an} lanes={lanes}")
            k.begin(am, "within")
            k.begin(an, "within", lanes=lanes)
            v = k.val("load", dtype, to)
            k.stmt(f"store {k.access(out, f'{am}:{k.arg(n * item)}/same {an}:unit/same')} {v}")
            k.end(4)
            got = check(driver, k, level)
            assert same(got[1], np.ascontiguousarray(source.T))


def test_body_made_once_under_a_mask(driver):
    """More than 40 values: the tail is the last iteration."""
    for level, n in itertools.product(levels(driver), (0, 1, 15, 16, 17, 64, 100)):
        k = Kernel()
        ax, s = k.axis(n), k.state("sum", "float32")
        v = first = k.load("float32", k.array(values("float32", n, 1, True)), f"{ax}:unit")
        for i in range(60):
            v = k.val(("add", "multiply", "subtract", "minimum")[i % 4], "float32", v, first if i % 3 else k.const("float32", i))
        out = k.array(np.zeros(n, "float32"), True)
        k.stmt(f"init {s}")
        k.begin(ax, lanes=lanes_of(level, "float32"))
        k.stmt(f"store {k.access(out, f'{ax}:unit')} {v}")
        k.stmt(f"reduce {s} {v}")
        k.end()
        store_state(k, s, "sum", "float32", "", 1)
        check(driver, k, level)


def test_check(driver):
    for level, n, bad in itertools.product(levels(driver), (5, 40), (None, 0, 3, 37)):
        k = Kernel()
        ax = k.axis(n)
        k.array(np.zeros(1, "int64"), True)
        x = values("int32", n, 1)
        x[:] = 5
        if bad is not None and bad < n:
            x[bad] = -1
        v = k.load("int32", k.array(x), f"{ax}:unit")
        good = k.val("less", "bool", k.const("int32", 0), v)
        k.begin(ax, lanes=lanes_of(level, "int32"))
        k.stmt(f"check {good} else 7 at arg{k.arrays[0][0]}")
        k.end()
        got = check(driver, k, level)
        assert got[0][0] == (7 if bad is not None and bad < n else 0)


DOTS = [(1, 1, 1), (1, 100, 33), (9, 1, 40), (5, 7, 3), (16, 48, 20), (33, 65, 17), (8, 3, 0), (0, 4, 4), (24, 200, 9)]


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("layout", ["nn", "tn", "nt", "tt", "strided", "add"])
def test_dot(driver, dtype, layout):
    for level, (m, n, kk), literal in itertools.product(levels(driver), DOTS, (False, True)):
        k = Kernel()
        am, an, ak = (k.axis(x, literal=literal) for x in (m, n, kk))
        item = np.dtype(dtype).itemsize
        small = np.dtype(dtype).kind == "f"
        a = values(dtype, m * kk, 1, small).reshape((kk, m) if layout[0] == "t" else (m, kk))
        b = values(dtype, n * kk, 2, small).reshape((n, kk) if layout in ("nt", "tt") else (kk, n))
        c = values(dtype, m * n, 3, small).reshape(m, n)
        at = {am: item, ak: m * item} if layout[0] == "t" else {am: kk * item, ak: item}
        bt = {an: kk * item, ak: item} if layout in ("nt", "tt") else {ak: n * item, an: item}
        ct = {am: n * item, an: item}
        if layout == "strided":
            wide = np.zeros((m, 3 * n + 1), dtype)
            wide[:, 1::3] = c
            c = wide[:, 1::3]
            ct = {am: (3 * n + 1) * item, an: 3 * item}
        def terms(t):
            return " ".join(f"{x}:{'unit' if s == item else s if literal else k.arg(s)}" for x, s in t.items())
        A, B, C = k.array(a), k.array(b), k.array(c, True)
        xs = [k.access(C, terms(ct)), k.access(A, terms(at)), k.access(B, terms(bt))]
        k.stmt(f"dot {xs[0]} {'+=' if layout == 'add' else '='} {xs[1]} {xs[2]} over {am} {an} {ak}")
        want, got = run(driver, k, None), run(driver, k, level)
        if small:
            bound = (np.abs(a.T if layout[0] == "t" else a).astype("float64") @ np.abs(b.T if layout in ("nt", "tt") else b).astype("float64")
                     + 10) * np.finfo(dtype).eps * max(kk, 1)
            assert np.all(np.abs(got[2].astype("float64") - want[2]) <= bound), k.text()
        else:
            assert np.array_equal(got[2], want[2]), k.text()


@pytest.mark.parametrize("signs", ["unsigned signed", "signed unsigned"])
def test_dot_of_bytes(driver, signs):
    for level, (m, n, kk), along in itertools.product(levels(driver), DOTS[1::3], (False, True)):
        k = Kernel()
        am, an, ak = k.axis(m), k.axis(n), k.axis(kk)
        a, b = values("int32", m * kk, 1).reshape(m, kk), values("int32", kk * n, 2).reshape((n, kk) if along else (kk, n))
        bt = f"{an}:{k.arg(4 * kk)} {ak}:unit" if along else f"{ak}:{k.arg(4 * n)} {an}:unit"
        A, B, C = k.array(a), k.array(b), k.array(np.ones((m, n), "int32"), True)
        xs = [k.access(C, f"{am}:{k.arg(4 * n)} {an}:unit"), k.access(A, f"{am}:{k.arg(4 * kk)} {ak}:unit"), k.access(B, bt)]
        k.stmt(f"dot {xs[0]} += {xs[1]} {xs[2]} over {am} {an} {ak} {signs}")
        left, right = ("u1", "i1") if signs[0] == "u" else ("i1", "u1")
        x, y = a.view(left), np.ascontiguousarray(b if along else b.T).view(right)
        want = 1 + x.reshape(m, 4 * kk).astype("int32") @ y.reshape(n, 4 * kk).T.astype("int32")
        assert np.array_equal(run(driver, k, None)[2], want), k.text()
        assert np.array_equal(run(driver, k, level)[2], want), (level, k.text())


def test_dot_in_blocks(driver):
    """Blocks of all three axes, with bounds checks."""
    for level, checked in itertools.product(levels(driver), (False, True)):
        k = Kernel(checked)
        m, n, kk = 21, 70, 50
        am, an, ak = k.axis(m, block=8), k.axis(n, block=32), k.axis(kk, block=16, literal=True)
        a, b = values("float32", m * kk, 1, True).reshape(m, kk), values("float32", kk * n, 2, True).reshape(kk, n)
        A, B, C = k.array(a), k.array(b), k.array(np.zeros((m, n), "float32"), True)
        x = [k.access(C, f"{am}:{4 * n}/same {an}:unit/same"), k.access(A, f"{am}:{4 * kk}/same {ak}:unit/same"),
             k.access(B, f"{an}:unit/same {ak}:{4 * n}/same")]
        k.begin(am, "blocks", grid=True)
        k.begin(an, "blocks", grid=True)
        k.begin(ak, "blocks")
        k.stmt(f"dot {x[0]} += {x[1]} {x[2]} over {am} {an} {ak}")
        k.end(3)
        got = run(driver, k, level)
        assert np.allclose(got[2], a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("window", [(3, 2), (1, 5), (0, 2)])
def test_dot_with_more_sums(driver, dtype, window):
    """Products added up over two axes besides k, as those of a window: by each element of A, over columns of B that move."""
    m, n, kk, (p, q) = 11, 37, 3, window
    size = np.dtype(dtype).itemsize
    for level, checked in itertools.product(levels(driver), (False, True)):
        k = Kernel(checked)
        am, an, ak, ap, aq = k.axis(m), k.axis(n), k.axis(kk), k.axis(p), k.axis(q, literal=True)
        a = values(dtype, m * kk * p * q, 1, True).reshape(m, kk, p, q)
        b = values(dtype, kk * p * (n + q), 2, True).reshape(kk, p, n + q)
        A, B, C = k.array(a), k.array(b), k.array(np.ones((m, n), dtype), True)
        x = [k.access(C, f"{am}:{n * size} {an}:unit"),
             k.access(A, f"{am}:{kk * p * q * size} {ak}:{p * q * size} {ap}:{k.arg(q * size)} {aq}:unit"),
             k.access(B, f"{an}:unit {ak}:{p * (n + q) * size} {ap}:{(n + q) * size} {aq}:unit")]
        k.stmt(f"dot {x[0]} += {x[1]} {x[2]} over {am} {an} {ak} by rows sum {ap} sum {aq}")
        got = run(driver, k, level)[2]
        want = np.ones((m, n), dtype) + sum(a[:, :, i, j] @ b[:, i, j:j + n] for i in range(p) for j in range(q))
        assert np.allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lead", [0, 3, 100])
def test_axes_that_follow(driver, lead):
    """Columns up to those that a block of rows leads to, and the rest: a sum of each, and a product over those."""
    m, n, block = 21, 40, 8
    for level in levels(driver):
        k = Kernel()
        am = k.axis(m, block=block)
        an, ar = k.axis(n), k.axis(n)
        for line, kind in ((1, "to"), (2, "rest")):
            k.lines[line] += f" {kind} {am}+{lead}"
        a, b = values("float32", m * n, 1, True).reshape(m, n), values("float32", n * 4, 2, True).reshape(n, 4)
        A, B, C, S = k.array(a), k.array(b), k.array(np.zeros((m, 4), "float32"), True), k.array(np.zeros((m, 2), "float32"), True)
        a4 = k.axis(4)
        k.begin(am, "blocks", grid=True)
        k.stmt(f"dot {k.access(C, f'{am}:16/same {a4}:unit')} = {k.access(A, f'{am}:{4 * n}/same {an}:unit')} "
               f"{k.access(B, f'{an}:16 {a4}:unit')} over {am} {a4} {an}")
        k.begin(am, "within")
        for axis, column, shift in ((an, 0, ""), (ar, 1, 4 * (block + lead))):
            s = k.state("sum", "float32")
            k.stmt(f"init {s}")
            k.begin(axis, lanes=4)
            terms = f"{am}:{4 * n}/same {axis}:unit" if not shift else f"{am}:{4 * n}/{k.arg(4 * n * block + 4 * block)} {axis}:unit"
            k.stmt(f"reduce {s} {k.load('float32', A, terms, off=shift or 0)}")
            k.end()
            k.stmt(f"store {k.access(S, f'{am}:8/same', off=4 * column)} {k.val('state', 'float32', f'{s}.0')}")
        k.end(2)
        got = run(driver, k, level)
        for i in range(m):
            to = min((i // block + 1) * block + lead, n)
            assert np.allclose(got[2][i], a[i, :to] @ b[:to], rtol=1e-4, atol=1e-4)
            assert np.allclose(got[3][i], [a[i, :to].sum(), a[i, to:].sum()], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kk", [0, 7, 50])
def test_dot_of_packed_panels(driver, kk):
    """B in panels of 16 columns, A in blocks of 8 along k: all blocks run inside the DOT."""
    for level in levels(driver):
        k = Kernel()
        m, n = 13, 40
        am, an, ak = k.axis(m), k.axis(n, block=16), k.axis(kk, block=8)
        a, b = values("float32", m * 56, 1, True).reshape(7, m, 8), values("float32", 3 * kk * 16, 2, True).reshape(3, kk, 16)
        A, B, C = k.array(a), k.array(b), k.array(np.ones((m, n), "float32"), True)
        x = [k.access(C, f"{am}:{4 * n} {an}:unit/same"), k.access(A, f"{am}:32 {ak}:unit/{k.arg(4 * m * 8)}"),
             k.access(B, f"{an}:unit/{kk * 64} {ak}:64/same")]
        k.stmt(f"dot {x[0]} = {x[1]} {x[2]} over {am} {an} {ak}")
        got, want = run(driver, k, level), run(driver, k, None)
        assert np.allclose(got[2], want[2], rtol=1e-4, atol=1e-4)
        whole = a.transpose(1, 0, 2).reshape(m, 56)[:, :kk] @ b.transpose(1, 0, 2).reshape(kk, 48)[:, :n]
        assert np.allclose(got[2], whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("m", range(1, 9))
@pytest.mark.parametrize("kk", [0, 5, 8, 27])
def test_thin_dot(driver, m, kk):
    """Few rows, eight rows of B at a time, and the rest: the bits of the form that has no such blocks."""
    for level, dtype in itertools.product(levels(driver), FLOATS):
        got = []
        for block, form in ((8, f"by rows thin tile {m}"), (None, f"by rows tile {m}")):
            k = Kernel()
            n, size = 70, np.dtype(dtype).itemsize
            am, an, ak = k.axis(m), k.axis(n), k.axis(kk, block=block) if block else k.axis(kk)
            a, b = values(dtype, m * kk, 1, True).reshape(m, kk), values(dtype, kk * n, 2, True).reshape(kk, n)
            A, B, C = k.array(a), k.array(b), k.array(np.ones((m, n), dtype), True)
            same = "/same" if block else ""
            x = [k.access(C, f"{am}:{k.arg(size * n)} {an}:unit"), k.access(A, f"{am}:{k.arg(size * kk)} {ak}:unit{same}"),
                 k.access(B, f"{ak}:{k.arg(size * n)}{same} {an}:unit")]
            k.stmt(f"dot {x[0]} = {x[1]} {x[2]} over {am} {an} {ak} {form}")
            got.append(run(driver, k, level)[2])
            assert np.allclose(got[-1], a @ b, rtol=1e-4, atol=1e-4), k.text()
        assert got[0].tobytes() == got[1].tobytes()


PANELS = [(3, 0, 2), (3, 3, 2), (4, 0, 1), (4, 4, 3), (5, 5, 1), (8, 8, 1), (12, 12, 1), (3, 4, 4), (3, 4, 8), (3, 4, 11), (2, 3, 5)]


@pytest.mark.parametrize("vectors,last,count", PANELS)
@pytest.mark.parametrize("order", ["", "by rows", "by rows far"])
def test_dot_in_given_panels(driver, vectors, last, count, order):
    """So many vectors a panel; the last ones alike or wider, the very last vector whole, nearly, or hardly there."""
    lanes, m, kk = 16, 13, 7
    total = count if last == vectors + 1 else count * vectors
    for level, tile, missing in itertools.product([x for x in levels(driver) if x == "avx512"], (0, 1, 5), (0,) if not last else (0, 3, 15)):
        n = total * lanes - missing
        k = Kernel()
        am, an, ak = k.axis(m), k.axis(n), k.axis(kk)
        a, b = values("float32", m * kk, 1, True).reshape(m, kk), values("float32", kk * n, 2, True).reshape(kk, n)
        A, B, C = k.array(a), k.array(b), k.array(np.ones((m, n), "float32"), True)
        x = [k.access(C, f"{am}:{k.arg(4 * n)} {an}:unit"), k.access(A, f"{am}:{k.arg(4 * kk)} {ak}:unit"), k.access(B, f"{ak}:{k.arg(4 * n)} {an}:unit")]
        k.stmt(f"dot {x[0]} = {x[1]} {x[2]} over {am} {an} {ak} {order} {f'tile {tile}' if tile else ''} panels {vectors} {last}")
        got = run(driver, k, level)
        assert np.allclose(got[2], a @ b, rtol=1e-4, atol=1e-4), k.text()


MATH = [(name, int(nin), (float(ulp32), float(ulp64))) for name, nin, ulp32, ulp64 in
        re.findall(r"^ELEMENTWISE\((\w+),\s*(\d), T, \"\w*f\w*\",\s*MATH,\s*([\d.]+),\s*([\d.]+)", (CSRC / "ir/ops.def").read_text(), re.M)]


@pytest.mark.parametrize("monoid", ["sum", "max", "argmax"])
@pytest.mark.parametrize("checked", [False, True])
def test_columns_in_blocks_that_begin_at_lines(driver, monoid, checked):
    """Whatever the address of the first element: one block or more, of which the last may end before the first line of its own."""
    rng = np.random.default_rng(5)
    for level, dtype, n, offset in itertools.product(levels(driver), ["float32", "float64", "int8"], [1, 13, 64, 65, 76, 130, 192], [0, 1, 3, 15]):
        if (dtype == "int8" and monoid == "sum") or (checked and n % 13):
            continue
        k, size = Kernel(checked), np.dtype(dtype).itemsize
        x = rng.integers(-9, 9, 37 * n + offset).astype(dtype)[offset:].reshape(37, n)
        rows, cols = k.axis(37, block=16), k.axis(n, block=64)
        out = k.array(np.zeros((3, n), "int64" if monoid == "argmax" else dtype), True)
        at = k.access(k.array(x), f"{rows}:{n * size}/same {cols}:unit/same")
        v, state = k.val("load", dtype, at), k.state(monoid, dtype)
        k.begin(rows, "blocks", grid=True)
        k.begin(cols, "blocks", grid=True)
        k.begin(cols, "within", lanes=64, lines=at)
        k.stmt(f"init {state}")
        k.begin(rows, "within")
        k.stmt(f"reduce {state} {v}" + (f" {k.val('axis', 'int64', rows)}" if monoid == "argmax" else ""))
        k.end()
        wide = np.dtype("int64" if monoid == "argmax" else dtype).itemsize
        k.stmt(f"store {k.access(out, f'{rows}:zero/{n * wide} {cols}:unit/same')} " + (k.val("state", "int64", f"{state}.1") if monoid == "argmax" else k.val("state", dtype, f"{state}.0")))
        k.end(3)
        check(driver, k, level)


def test_every_row_that_kernels_may_have_is_compiled_here():
    rows = set(re.findall(r"^ELEMENTWISE\((\w+),", (CSRC / "ir/ops.def").read_text(), re.M))
    complex_numbers = {"real", "imag", "complex_"}                   # tests/test_complex.py
    assert len(rows) > 50 and rows == {c[0] for c in op_cases()} | {name for name, _, _ in MATH} | complex_numbers


@pytest.mark.parametrize("name,nin,ulp", MATH)
@pytest.mark.parametrize("uses", [1, 12])
def test_math_in_kernels(driver, name, nin, ulp, uses):
    """Inlined, hoisted, under a mask, and as calls; special values among the others. (tests/test_math.py has the accuracy.)"""
    for level, dtype in itertools.product(levels(driver), FLOATS):
        k = Kernel()
        row, ax = k.axis(3), k.axis(77)
        size = np.dtype(dtype).itemsize
        out, scalar = k.array(np.zeros((3, 77), dtype), True), k.array(np.zeros((uses, 3), dtype), True)
        wide = [k.load(dtype, k.array(values(dtype, 77, i)), f"{ax}:unit") for i in range(nin)]
        one = [[k.load(dtype, k.array(values(dtype, 3, 9 + i + 5 * u)), f"{row}:unit") for i in range(nin)] for u in range(uses)]
        turn = k.val("less", "bool", k.val(name, dtype, *one[0]), k.const(dtype, 0))
        v = k.val(name, dtype, *wide)
        v = k.val("where", dtype, turn, k.val("negative", dtype, v), v)
        k.begin(row)
        k.begin(ax, lanes=lanes_of(level, dtype))
        k.stmt(f"store {k.access(out, f'{row}:{77 * size} {ax}:unit')} {v}")
        k.end()
        for u in range(1, uses):
            k.stmt(f"store {k.access(scalar, f'{row}:unit', off=3 * size * u)} {k.val(name, dtype, *one[u])}")
        k.end()
        check(driver, k, level, ulp[dtype == "float64"] + (4 if name == "cbrt" else 1))     # the C library's own error


def test_failing_memory(driver):
    for text in (softmax("avx2", 5, 45, "float32").text(), op_kernel("exp", 1, "float32", "float32", 100, 8, False).text()):
        built = driver.lib.built_new(text.encode(), -1, 0)
        n = 1
        while driver.lib.built_fails(built, 1 if "avx2" in driver.levels() else 0, n):
            n += 1
        assert n > 10
        driver.lib.built_free(built)


# ---- random kernels ----


def random_kernel(driver, seed):
    level = driver.levels()[seed % len(driver.levels())]
    try:
        check(driver, Random(seed, level).k, level)
    except AssertionError as e:
        raise AssertionError(f"seed {seed}: {e}") from None


@pytest.mark.parametrize("part", range(8))
def test_random_kernels(driver, part):
    for seed in range(part * 100, part * 100 + 100):
        random_kernel(driver, seed)


@pytest.mark.slow
def test_many_random_kernels(driver):
    for seed in range(1000, 30000):
        random_kernel(driver, seed)


@pytest.mark.parametrize("level", [None, "sse2", "avx2"])
def test_a_numerator_that_is_found_to_be_zero_late(level, tmp_path):
    """0 / 0 is NaN also where the code generator finds out that the numerator is 0, and the divisor is a bool or chosen."""
    code = """if True:
        import numpy as np, pyxla
        c = np.arange(40) % 3 == 0
        for f in (lambda c: np.divide(c >> 2, c), lambda c: (c.astype(int) & 2) / c, lambda c: (c.astype(np.uint8) // 2) / c.astype(np.float32),
                  lambda c: (c.astype(int) & 2) / np.where(c, 1.0, 0.0), lambda c: (c.astype(int) & 4) / np.where(c, 1.0, c * 0.0),
                  lambda c: np.where(c, np.float32(1), np.float32(0)) * 2, lambda c: ((c.astype(int) * 2) & 1) / c):
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(pyxla.jit(f)(c), f(c))
    """
    path = os.pathsep.join([str(Path(pyxla.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path, **({"PYXLA_CPU": level} if level else {})},
                         capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
