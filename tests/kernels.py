"""Kernels as text with their arguments, run by the interpreter and as machine code at every level that this machine has."""
import ctypes
import mmap
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
CODE = {"bool": "b1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
        "uint64": "u64", "float32": "f32", "float64": "f64"}
FLOATS = ["float32", "float64"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
ALL = ["bool", *INTS, *FLOATS]
LEVELS = {"sse2": 0, "avx2": 1, "avx512": 2, "neon": 3}
VECTOR = {"sse2": 16, "avx2": 32, "avx512": 64, "neon": 16}


def build_driver(tmp):
    """The shared object of tests/c/gen_driver.c and all layers it needs, with assertions and verified modules."""
    config = os.environ.get("LLVM_CONFIG") or next(c for v in (22, 21, 20, 19) if (c := f"llvm-config-{v}") and _exists(c))
    llvm = lambda *a: subprocess.check_output([config, *a], text=True).split()
    flags = ["-std=gnu17", "-g", "-O1", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno", "-DPYXLA_DEBUG", f"-I{CSRC}",
             f"-isystem{llvm('--includedir')[0]}"]
    sources = [*CSRC.glob("base/*.c"), *CSRC.glob("ir/*.c"), *CSRC.glob("opt/kernel*.c"), CSRC / "opt/interp.c", *CSRC.glob("gen/*.c"),
               CSRC / "run/code.c", ROOT / "tests/c/gen_driver.c"]

    def build(source):
        obj = tmp / f"{source.parent.name}-{source.stem}.o"
        subprocess.run(["gcc", *flags, "-c", str(source), "-o", str(obj)], check=True)
        return str(obj)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(build, sources))
    out = tmp / "driver.so"
    subprocess.run(["gcc", "-shared", "-pthread", *objects, *llvm("--ldflags"), *llvm("--libs"), "-lm", "-ldl", "-o", str(out)], check=True)
    return out


def _exists(name):
    return subprocess.run(["which", name], capture_output=True).returncode == 0


class Fence:
    """Memory that ends (or begins) at a page that may not be touched."""

    libc = ctypes.CDLL(None)

    def __init__(self, data, at_end):
        page, size = mmap.PAGESIZE, max(len(data), 1)
        inner = -(-size // page) * page
        self.map = mmap.mmap(-1, inner + 2 * page)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        for guard in (base, base + page + inner):
            assert self.libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
        start = page + (inner - len(data) if at_end else 0)
        self.bytes = np.frombuffer(self.map, np.uint8, len(data), start)
        self.bytes[:] = data


class Driver:
    def __init__(self, path):
        self.lib = lib = ctypes.CDLL(str(path))
        words, i64 = ctypes.POINTER(ctypes.c_int64), ctypes.c_int64
        lib.built_new.restype = ctypes.c_void_p
        lib.built_new.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
        for name in ("built_error", "built_ir", "built_assembly"):
            getattr(lib, name).restype = ctypes.c_char_p
            getattr(lib, name).argtypes = [ctypes.c_void_p]
        lib.built_fails.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long]
        lib.built_free.argtypes = [ctypes.c_void_p]
        lib.built_grid.restype = i64
        lib.built_grid.argtypes = [ctypes.c_void_p, words]
        for name in ("built_run", "built_interp"):
            getattr(lib, name).argtypes = [ctypes.c_void_p, words, i64, i64, ctypes.c_void_p]

    def levels(self):
        """What this machine runs, lowest first."""
        if os.uname().machine != "x86_64":
            return ["neon"]
        flags = set(next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")).split())
        have = {"sse2": True, "avx2": {"avx2", "fma", "bmi2", "f16c"} <= flags, "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags}
        return [level for level, ok in have.items() if ok]


class Kernel:
    """Collects the text; arrays are NumPy views whose memory is copied for each run."""

    def __init__(self, checked=False, streams=False):
        self.lines, self.words, self.body, self.arrays, self.counts = [], [], [], [], {"a": 0, "x": 0, "s": 0, "%": 0}
        self.known, self.ngrid, self.scratch, self.checked, self.streams = {}, 0, 0, checked, streams

    def _next(self, prefix):
        self.counts[prefix] += 1
        return self.counts[prefix] - 1 + (prefix == "%")

    def _once(self, prefix, what, word=""):
        """Equal values and accesses are one."""
        if what not in self.known:
            self.known[what] = f"{prefix}{self._next(prefix)}"
            self.lines.append(f"{word}{self.known[what]} = {what}")
        return self.known[what]

    def arg(self, value):
        self.words.append(value)
        return f"arg{len(self.words) - 1}"

    def axis(self, n, block=0, literal=False):
        i = self._next("a")
        self.lines.append(f"axis a{i} size={n if literal else self.arg(n)}" + (f" block={block}" if block else ""))
        return f"a{i}"

    def array(self, view, written=False):
        base = view
        while isinstance(base.base, np.ndarray):
            base = base.base
        offset = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        word = self.arg(None)
        if self.checked:
            self.arg(None), self.arg(None)
        self.arrays.append((int(word[3:]), base, offset, view, written))
        self.lines.append(f"array A{len(self.arrays) - 1} operand {CODE[view.dtype.name]} {word}" + " written" * written
                          + " swapped" * (not view.dtype.isnative))
        return f"A{len(self.arrays) - 1}"

    def scratch_array(self, dtype, n):
        word = self.arg(self.scratch)
        self.scratch += n * np.dtype(dtype).itemsize
        self.arrays.append(None)
        self.lines.append(f"array A{len(self.arrays) - 1} scratch {CODE[dtype]} {word} written")
        return f"A{len(self.arrays) - 1}"

    def access(self, array, terms="", off=0, off_arg=None):
        return self._once("x", f"{array}[{terms}]" + (f" +{off_arg}" if off_arg else "") + (f" {off:+d}" if off else "") + (" streams" if self.streams else ""), "access ")

    def state(self, monoid, dtype):
        i = self._next("s")
        self.lines.append(f"state s{i} {monoid} {CODE[dtype]}")
        return f"s{i}"

    def val(self, what, dtype, *args):
        return self._once("%", f"{what} {CODE[dtype]} " + " ".join(map(str, args)))

    def const(self, dtype, x):
        x = np.dtype(dtype).type(x)
        return self.val("const", dtype, int(x) if x.dtype.kind != "f" else hex(int(x.view(f"u{x.itemsize}"))))

    def load(self, dtype, array, terms="", **kw):
        return self.val("load", dtype, self.access(array, terms, **kw))

    def begin(self, axis, part="whole", lanes=0, grid=False, lines=""):
        self.ngrid += grid
        self.body.append(f"for {axis} {part}" + (f" lanes={lanes}" if lanes else "") + (f" lines={lines}" if lines else "") + " grid" * grid + " {")

    def end(self, n=1):
        self.body += ["}"] * n

    def stmt(self, text):
        self.body.append(text)

    def text(self):
        head = f"kernel args={len(self.words)} grid={self.ngrid}" + " checked" * self.checked
        return "\n".join([head, *self.lines, *self.body, ""])


def run(driver, kernel, level, point_ranges=None, built=None, at_end=True):
    """Runs at a level (None: the interpreter) and returns copies of all arrays afterwards (None for scratch). Operands end
    (or begin) at a page that may not be touched."""
    lib = driver.lib
    b = built or lib.built_new(kernel.text().encode(), -1 if level is None else LEVELS[level], 0)
    error = lib.built_error(b)
    if error:
        raise AssertionError(error.decode() + "\n" + kernel.text())
    words = (ctypes.c_int64 * (len(kernel.words) + 1))(*[w or 0 for w in kernel.words])
    results = []
    memory = {}
    for item in kernel.arrays:
        if item is None:
            results.append(None)
            continue
        word, base, offset, view, written = item
        if id(base) not in memory:
            memory[id(base)] = Fence(np.frombuffer(base.tobytes("A"), np.uint8), at_end).bytes
        raw = memory[id(base)]
        words[word] = raw.ctypes.data + offset
        if kernel.checked:
            words[word + 1], words[word + 2] = raw.ctypes.data, raw.ctypes.data + raw.nbytes
        results.append(np.ndarray(view.shape, view.dtype, raw, offset, view.strides))
    scratch = np.zeros(kernel.scratch + 64, np.uint8)
    points = lib.built_grid(b, words)
    for begin, end in point_ranges or [(0, points)]:
        (lib.built_interp if level is None else lib.built_run)(b, words, begin, end, scratch.ctypes.data)
    if built is None:
        lib.built_free(b)
    return results


def same(a, b, ulps=0):
    """Equal bits, all NaN alike, or within some units in the last place."""
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    u = f"i{a.itemsize}"
    nan = np.isnan(a) & np.isnan(b)
    x, y = np.ascontiguousarray(a).view(u).reshape(a.shape), np.ascontiguousarray(b).view(u).reshape(b.shape)
    if ulps == 0:
        return bool(np.all(nan | (x == y)))
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= ulps * np.spacing(np.maximum(np.abs(a), np.abs(b)))
    return bool(np.all(nan | (x == y) | near))


def values(dtype, n, seed=0, small=False):
    """Random elements between special ones."""
    rng = np.random.default_rng(seed)
    dt = np.dtype(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dt.kind in "iu":
        info = np.iinfo(dt)
        if small:
            return rng.integers(max(info.min, -9), 10, n).astype(dt)
        x = rng.integers(info.min, info.max, n, dtype=dt, endpoint=True)
        x[::3] = rng.integers(max(info.min, -20), 21, len(x[::3])).astype(dt)
        special = np.array([0, 1, info.min, info.max, info.max - 1, info.min + 1] + ([-1] if dt.kind == "i" else []), dt)
    else:
        x = (rng.standard_normal(n) * (1 if small else 10 ** rng.uniform(-12, 12, n))).astype(dt)
        if small:
            return x
        f = np.finfo(dt)
        x[::5] = rng.integers(-50, 50, len(x[::5])) / 2
        x[1::7] = rng.integers(0, 2 ** (8 * dt.itemsize - 1), len(x[1::7]), dtype=f"u{dt.itemsize}").view(dt)
        special = np.array([0, -0.0, 1, -1, 0.5, -0.5, 2.5, np.inf, -np.inf, np.nan, f.max, f.min, f.tiny, f.smallest_subnormal, -f.smallest_subnormal,
                            2**31, 2**31 - 1, -2**31, 2**32, 2**63, -2.0**63, 2.0**64, 1.5, -1.5, 3e9, -3e9], dt)
    where = rng.random(n) < 0.35
    x[where] = rng.choice(special, where.sum())
    return x


def monoid_cases():
    """Every monoid with each dtype that it has."""
    for m in ("sum", "prod", "max", "min", "argmax", "argmin"):
        for d in ALL:
            if not (d == "bool" and m in ("sum", "prod")):
                yield m, d
    yield from (("any", "bool"), ("all", "bool"))
    yield from ((m, d) for m in ("sum2", "moments") for d in FLOATS)
