"""A differential fuzzer: random NumPy programs, run by NumPy and jitted, and compared.

    python tests/fuzz.py [--count N] [--seed S] [--kind exact|loose] [--keep-going]

A program is the text of a function. It is made line by line: a random line stays if NumPy runs it, so programs are legal by construction
and a failure prints as source that can be pasted into a test. `exact` programs use only operations whose bits are NumPy's; `loose`
ones use elementary functions, float sums and products of matrices, nothing that jumps, and are compared with a tolerance, half of them under fastmath.
One in eight has arrays whose size is data; complex numbers are in both kinds, without products in the exact one.
Two in five have a donated argument; one in three is called with constants too, one in three under other schedules. Each program is called four times: traced, with new values, in other memory layouts, and after a captured array has changed."""
import argparse
import contextlib
import random
import re
import resource
import sys
import traceback
import warnings

import numpy as np
from checking import clone, layouts, same
from noise import moved, noisy

import pyxla
from pyxla import _tune

# (Not uint32: what NumPy makes of a NaN stored there depends on where in the array it is.)
EXACT_DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint64", "uint64", "float16", "float32", "float64", "float64", "complex64", "complex128"]
LOOSE_DTYPES = ["float64", "float64", "float64", "float32", "float32", "complex128", "complex64"]
EXTENTS = [0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33]
# What a jitted function may refuse: np.rint of bool and the like, writes beside a reshaped array of unknown layout, writes to an
# array that NumPy made of numbers alone (np.isnan(3)).
REFUSED = ("depends on data", "cannot tell while tracing", "reshaped or flattened", "a store into a captured array", "was changed by NumPy while",
           "an array that NumPy made of numbers alone", "computed from a large captured array")
# And of programs with arrays whose size is data: a size as a condition.
SIZED = re.compile(r"\[[^]]*[<>]|unique|nonzero|argwhere|repeat|compress|extract|bincount|trim_zeros|1d\(")
REFUSED_SIZES = ("the result of not_equal(int64(), int64())", "the result of less(int64(), int64())", "the result of equal(int64(), int64())", "the result of less_equal(int64(), int64())")
CREATION = re.compile(r"np\.(zeros|ones|full|arange|array|indices|eye)\(")           # whose arrays are the traced function's
LIMIT = 5000                                                # elements of an array
# (Bits are looked at without signs of zeros: which zero a sort puts first is NumPy's affair.)
# Whose bits NumPy's complex numbers leave open.
ROUNDED = re.compile(r"\*|/|divide|divmod|%|multiply|abs|sqrt|square|sign\(|kron|cross|@|einsum|median|percentile")
MANY = re.compile(r"outer|kron|eye|isin|vander|diag|inner|dot|@|einsum|cov")       # forms that make an array of as many elements as the product of their operands'


@contextlib.contextmanager
def quiet():
    """NumPy without warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", "Out of bound index found")    # the IndexError of NumPy 2.3 and later
        yield


class Program:
    """A random program: its lines, and the values its variables have under NumPy."""

    def __init__(self, seed, kind=None):
        self.random = random.Random(seed)
        self.dynamic = False                                # whether an index is data: then a result is no view of another one
        self.sized = self.random.random() < 0.12            # whether there are arrays whose size is data
        self.kind = kind or self.random.choice(["exact", "exact", "loose"])
        self.lines = ["g = np.where(k > -99, G, G)"]
        self.numbers_alone = set()                          # variables that NumPy made of numbers alone, for all we know: nothing is stored into them
        dtypes = EXACT_DTYPES if self.kind == "exact" else LOOSE_DTYPES
        pick = self.random
        shape = self.shape()
        self.args = [self.array(self.related(shape), pick.choice(dtypes)) for _ in range(pick.randint(1, 3))]
        self.numbers = [pick.choice([2, 3, -1, 0.5, 1.5, 7]), pick.choice([1, 2, 3])]
        self.captured = self.array(self.related(shape), pick.choice(dtypes))
        self.codes = [compile(line, "<fuzz>", "exec") for line in self.lines]
        with quiet():
            self.again()
            for _ in range(pick.randint(2, 14) if pick.random() < 0.85 else pick.randint(15, 60)):
                self.grow()
        self.results = self.choose_results()

    # ---- values ----

    def shape(self):
        r = self.random
        if r.random() < 0.07:
            return (r.choice([100, 257, 1000, 4097]),)
        return tuple(r.choice(EXTENTS) for _ in range(r.choice([0, 1, 1, 2, 2, 2, 3, 4])))

    def related(self, shape):
        """A shape that often broadcasts with the given one."""
        r = self.random
        if r.random() < 0.15:
            return self.shape()
        shape = tuple(1 if r.random() < 0.15 else n for n in shape)
        return shape[r.randint(0, len(shape)):] if r.random() < 0.25 else shape

    def array(self, shape, dtype):
        rng = np.random.default_rng(self.random.getrandbits(32))
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return np.asarray(rng.random(shape) < 0.5)
        if dtype.kind == "f":
            x = np.asarray(rng.standard_normal(shape))
            if self.kind == "exact":
                x = np.round(x * 4) / 4 if self.random.random() < 0.5 else x
                if x.size and self.random.random() < 0.15:
                    x.reshape(-1)[rng.integers(x.size)] = self.random.choice([np.nan, np.inf, -np.inf])
            return np.asarray(x.astype(dtype))
        if dtype.kind == "c":
            half = [self.array(shape, "float64") for _ in range(2)]
            z = np.empty(shape, dtype)
            z.real, z.imag = half
            return z
        return np.asarray(rng.integers(0 if dtype.kind == "u" else -10, 20, shape)).astype(dtype)

    def frozen(self):
        """The captured array, read-only: a jitted function refuses to write to it."""
        g = clone(self.captured)
        if isinstance(g, np.ndarray):
            g.flags.writeable = False
        return g

    # ---- lines ----

    def grow(self):
        """Adds a line that NumPy runs, on the variables as they alias each other in the function."""
        for _ in range(20):
            name, line = self.new_name(), self.random.choice(self.STATEMENTS)(self)
            code = compile(line, "<fuzz>", "exec")
            if self.kind == "exact" and ROUNDED.search(line) and self.some_complex(line):
                continue
            fine = self.done(code)
            if fine and all(self.admissible(v) for v in self.space.values()):
                self.note_numbers(line)
                self.lines.append(line)
                self.codes.append(code)
                self.names = self.arrays()
                return
            if line.startswith(f"{name} = "):               # nothing else has changed
                self.space.pop(name, None)
            elif fine or line.startswith("for") or "], " in line:   # a single store is done whole or not at all
                self.again()

    def note_numbers(self, line):
        name, _, value = line.rpartition("\n")[2].strip().partition(" = ")
        used = {v for v in re.findall(r"\b(?:a\d+|g|v\d+|s|k)\b", value) if not isinstance(self.space[v], (int, float))}
        self.numbers_alone.discard(name)
        if not CREATION.search(value) and (used <= self.numbers_alone or ".shape[0]" in value):
            self.numbers_alone.add(name)

    def some_complex(self, line):
        return any(np.iscomplexobj(self.space.get(name, 0)) for name in re.findall(r"\b[agv]\d*\b", line))

    def done(self, code):
        """Runs a line; whether NumPy did without an error."""
        try:
            exec(code, self.space)
        except Exception:
            return False
        return True

    def again(self):
        """Runs all lines anew, after one that failed half-way."""
        self.space = {"np": np, "G": self.frozen()}
        self.space |= {f"a{k}": a for k, a in enumerate(clone(self.args))} | dict(zip("sk", self.numbers))
        for code in self.codes:
            self.done(code)
        self.names = self.arrays()

    def admissible(self, v):
        if not isinstance(v, (np.ndarray, np.generic)):
            return True
        if v.dtype.kind not in "biufc" or v.size > LIMIT or v.ndim > 6:
            return False
        if self.kind == "loose" and v.dtype.kind in "fc":
            return bool(np.isfinite(v).all() and (np.abs(v) < 300).all())
        return True

    def arrays(self):
        return [n for n, v in self.space.items() if isinstance(v, (np.ndarray, np.generic)) and n != "G"]

    def variable(self):
        n = len(self.names)
        return self.names[int(n * max(self.random.random(), self.random.random()))]

    def writable(self):
        names = [n for n in self.names if n not in self.numbers_alone and isinstance(v := self.space[n], np.ndarray) and v.flags.writeable]
        return self.random.choice(names or ["a0"])

    def new_name(self):
        return f"v{len(self.lines)}"

    def number(self):
        return self.random.choice(["s", "k", "1", "2", "3", "0.5", "-1", "s * 2", "k + 1", "True"])

    def operand(self):
        r = self.random.random()
        if r < 0.2:
            return self.number()
        if r < 0.35:
            return f"{self.variable()}{self.index()}"
        return self.variable()

    def index(self, rank=None):
        r = self.random
        parts = []
        for _ in range(r.randint(0, 3)):
            parts.append(r.choice(["0", "-1", "1", ":", "1:", ":-1", "::2", "::-1", "1:-1", "None", "k", "-2:", "::-2", ":k", "...",
                                   "[0, -1]", "[[0], [-1]]", "np.arange(2)", "[0, 0, 1]", "[True, False]"]))
        if parts.count("...") > 1:
            parts = [p for p in parts if p != "..."]
        self.dynamic |= any("k" in p for p in parts)
        return f"[{', '.join(parts) or '...'}]"

    def expression(self, depth=0):
        if depth > 2 or self.random.random() < 0.25:
            return self.operand()
        while True:
            form = self.random.choice(self.LOOSE if self.kind == "loose" else self.SIZED if self.sized and self.random.random() < 0.2 else self.EXACT)
            x, y = self.variable(), self.variable()
            if not MANY.search(form) or np.size(self.space[x]) * np.size(self.space[y]) <= 20 * LIMIT:
                break
        parts = {name: self.expression(depth + 1) for name in "abc" if f"{{{name}}}" in form}
        return form.format(x=x, y=y, axis=self.axis(), **parts)

    def axis(self):
        return self.random.choice(["", "axis=0", "axis=-1", "axis=1", "axis=None", "axis=0, keepdims=True", "axis=-1, keepdims=True", "axis=(0, 1)", "keepdims=True"])

    EXACT = ["({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} + {b})", "({a} * {b})", "np.divide({a}, {b})", "({a} // {b})", "({a} % {b})", "-({a})", "abs({a})", "np.sqrt(np.abs({a}))",
             "np.square({a})", "np.floor({a})", "np.trunc({a})", "np.rint({a})", "np.where({a} > {b}, {a}, {c})", "np.where({a}, {b}, {c})", "({a} < {b})", "({a} == {b})", "({a} >= {b})",
             "(({a}) & ({b}))", "(({a}) | ({b}))", "(({a}) ^ ({b}))", "(({x}) << 1)", "({x} >> 2)", "np.logical_and({a}, {b})", "np.logical_not({a})", "(np.maximum({a}, {b}) + 0)", "(np.minimum({a}, {b}) + 0)",
             "np.isnan({a})", "np.isfinite({a})", "np.sign({a})", "({x}.max({axis}) + 0)", "({x}.min({axis}) + 0)", "np.clip(np.nan_to_num({x}), -9, 9).astype('int64').sum({axis})", "{x}.any({axis})", "{x}.all({axis})", "np.argmax({x})", "{x}.argmin(0)", "(({x} > 0).sum({axis}))",
             "np.count_nonzero({x})", "np.cumsum({x}, 0)", "np.clip(np.nan_to_num({a}), -100, 100).astype('int16')", "({a}).astype('float64')", "np.asarray({a} > 0).astype('int32')", "np.concatenate(({x}, {y}))",
             "np.stack(({x}, {y}))", "np.concatenate(({x}, {x}), -1)", "np.pad({x}, 1)", "np.pad({x}, 1, 'edge')", "(lambda p: p[1:-1] - p[:-2] - p[2:] + p[1:-1])(np.pad({x}, 2))", "(lambda p: p[..., ::2][..., :2] + p[..., 1:3] - p[..., 1:-1][..., :2])(np.pad({x}, 3, constant_values=2))", "np.flip({x})", "np.roll({x}, 1)", "np.roll({x}, k, 0)", "np.tile({x}, 2)", "np.repeat({x}, 2)",
             "np.zeros_like({x})", "np.full_like({x}, 3)", "np.arange(5)", "np.zeros(3)", "np.ones((2, 1), 'int32')", "np.tril({x})", "np.diff({x})", "np.fmod({a}, {b})", "np.copysign(1.0, np.nan_to_num({x}) + 0.25)", "(({x} != 0).astype('int32') @ np.ones({x}.shape[::-1], 'int32'))",
             "np.swapaxes({x}, 0, -1)", "{x}.reshape(-1)", "np.moveaxis({x}, 0, -1)", "np.expand_dims({x}, 0)", "{x}.T", "np.array([k, 2, 3]) + {x}[..., :1]", "np.triu({x}, 1)", "np.array({x})", "np.squeeze({x})",
             "np.take({x}, [0, -1, 0])", "{x}[..., [0, -1]]", "({x}[{x} > 0] * 2).max(initial=0)", "np.count_nonzero({x}[{x} > 1])", "np.flatnonzero({x}).sum()",
             "np.cumsum({x}[{x} > 0] > 2).sum()", "np.take_along_axis({x}, np.argsort({x}, 0), 0)", "{x}[np.nonzero({x} > 1)].any()", "np.searchsorted([0, 1, 2], {x})", "np.argwhere({x} > 0).sum()",
             "np.bincount(np.clip(np.nan_to_num({x}), 0, 9).astype('int64').reshape(-1), minlength=10)", "np.repeat([1, 2, 3], [0, 2, k])", "np.unique(np.nan_to_num({x})).shape[0]",
             "np.maximum.accumulate({x}, 0)", "np.minimum.accumulate({x}, -1)", "np.logical_or.reduce({x}, 0)", "np.logical_xor.accumulate({x})", "np.fmax.reduce({x}, 0)", "np.subtract.accumulate({x}, -1)",
             "np.bitwise_xor.reduce(({x} > 0).astype('int16'), 0)", "np.bitwise_and.accumulate(({x} > 0).astype('uint8'))", "np.add.outer({x}, {y}[..., 0])", "np.less.outer({x}[..., 0], {y})",
             "(np.lib.stride_tricks.sliding_window_view({x}, 2, axis=0) + 0)", "np.lib.stride_tricks.sliding_window_view({x}, 2, axis=-1).reshape(-1)", "np.lib.stride_tricks.sliding_window_view({x}, (1, 2), axis=(0, -1)).copy()", "{x}.flat[1:4]", "np.array({x}.flat).copy()",
             "np.add({a}, {b}, dtype='float64')", "({x} > 0).sum(where={x} == {x}, {axis})", "np.r_[{x}.ravel(), 1, {y}.ravel()]", "np.c_[{x}, {x}]", "{x}[[0, -1]]", "{x}[..., [0, 0]]",
             "np.insert({x}, 1, 0)", "np.delete({x}, 0, 0)", "np.einsum('...i->i...', {x})", "np.select([{x} > 0, {x} < -1], [{a}, {b}], 0)", "np.sort({x}, -1)", "np.array([{x}, {x} * 2])",
             "np.array([{x}[..., 0], {x}[..., -1]]).T", "np.unstack({x})[0]", "np.rot90({x})", "np.array_split({x}, 2)[1]", "np.copysign({x}, -1)", "np.heaviside({x}, 0.5)", "divmod({x}, 3)[1]", "np.nan_to_num({x})",
             "np.kron({x}, [1, 2])", "np.cross({x}[..., :3], {y}[..., :3])", "np.ptp({x}, 0)", "np.resize({x}, (3, 2))", "np.meshgrid({x}[..., 0], [1, 2])[0]", "(np.sum([{x}, {x}], 0) > 1)", "np.indices({x}.shape[:1]) + 1",
             "np.sort({x} + 0)", "np.sort({x} + 0, 0)", "np.sort({x} + 0, None)", "np.argsort({x}, kind='stable')", "np.argsort({x}, 0, kind='stable')", "np.median({x} + 0, {axis})", "np.partition({x} + 0, 0)[..., :1]",
             "np.isin({x}, {y})", "np.percentile(np.nan_to_num({x}), 50, method='lower')"]
    SIZED = ["{x}[{x} > 0]", "{x}[{x} == {x}]", "np.flatnonzero({x})", "np.unique(np.nan_to_num({x}))", "np.nonzero({x})[0]", "np.argwhere({x})", "{x}[{x}[..., 0] > 0]", "np.repeat({x}[{x} > 0], 2)", "np.cumsum({x} > 0)",
             "np.unique(np.nan_to_num({x}), return_inverse=True)[1]", "np.compress({x}[..., 0] > 0, {x}, axis=0)", "np.resize({x}[{x} > 1], 3)", "np.sort({x}[{x} > 0])", "{x}[{x} > 0].shape[0]", "np.zeros({x}[{x} > 0].shape)", "{x}[{x} > 0].max(initial=1)",
             "np.searchsorted(np.unique(np.nan_to_num({x})), 1)", "((np.nan_to_num({x}) + 0).astype('float32').view('int32') >> 20)", "((np.nan_to_num({x}) + 0).astype('float64').copy().view('uint16')[..., ::3] + 0)", "np.apply_along_axis(lambda r: r[::-1] * 2, 0, {x})", "np.apply_along_axis(np.cumsum, -1, {x})",
             "np.bincount(np.abs(np.nan_to_num({x}).astype('int8').astype('int64')).reshape(-1))", "np.where({x} > 0)[-1]", "np.extract({x} > 0, {x})", "({a} + {x}[{x} > 0].shape[0])",
             "np.concatenate(({x}[{x} > 0], {x}[{x} < 0]))", "({x}[{x} > 0] + {x}[{x} > 0])", "{x}[{x} > 0][::-1]", "{x}[{x} > 0][1:]", "np.diff({x}[{x} > 0])", "np.repeat({x}, 2)[np.repeat({x}, 2) > 0]", "{x}[np.flatnonzero({x} > 0)]",
             "np.any({x}[{x} > 0])", "np.full({x}[{x} > 0].shape, {y}[..., 0].sum() > 0)", "np.arange({x}[{x} > 0].shape[0])", "np.stack([{x}[{x} > 0], {x}[{x} > 0]])", "np.where({x}[{x} > 0] > 2, 1, {x}[{x} > 0])"]
    LOOSE = ["({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} + {b})", "np.tanh({a})", "np.sin({x})", "np.cos({x})", "np.exp(-np.abs({a}))", "np.log1p(np.abs({a}))", "np.sqrt(np.abs({a}) + 1)", "({a} / (1 + np.abs({b})))",
             "np.arctan({a})", "np.square(np.tanh({a}))", "np.hypot({a}, 1.0)", "{x}.sum({axis})", "{x}.mean({axis})", "np.tanh({x}).var({axis})", "np.sqrt({x}.var({axis}) + 1)", "np.maximum({a}, {b})", "({x}.max({axis}))", "({x} @ {y})", "({x} @ {x}.T)",
             "np.dot({x}, {y}.T)", "np.cumsum({x}, -1)", "np.where({x} > 0.1234, {a}, {b})", "({x} - {x}.mean(-1, keepdims=True))", "np.exp({x} - {x}.max(-1, keepdims=True))", "np.concatenate(({x}, {y}))", "np.stack(({x}, {y}))", "np.pad({x}, 1)", "{x}.T", "np.tanh({x}[1:] - {x}[:-1])",
             "np.einsum('ij,kj->ik', {x}, {y})", "np.lib.stride_tricks.sliding_window_view({x}, 2, -1).sum(-1)", "np.lib.stride_tricks.sliding_window_view({x}, 2, 0) @ np.ones((2, 3))", "np.einsum('...i->...', {x})", "np.flip({x}, 0)", "np.zeros_like({x})", "np.full(3, s)", "np.outer({x}, {y}[..., 0])", "np.expm1(np.tanh({a}))", "np.log(1 + np.square({a}))", "np.linalg.norm({x})", "np.clip({a}, -1, 1)", "np.minimum({a}, 2.0)",
             "np.logaddexp({a}, {b})", "np.logaddexp.reduce({x}, -1)", "np.hypot.reduce({x}, 0)", "np.hypot.accumulate(np.tanh({x}), -1)", "np.gradient({x}, axis=0)", "np.trapezoid({x})", "np.average({x}, axis=0)", "np.cov(np.tanh({x}))",
             "np.lib.stride_tricks.sliding_window_view({x}, 2, axis=-1).mean(-1)", "np.subtract.outer({x}[..., 0], {y}[..., 0])", "np.multiply.reduce(np.tanh({x}), 0)", "np.vander({x}[..., 0] / 9, 3)", "np.nanmean({x}, 0)", "np.diff({x}, axis=0)",
             "np.tensordot({x}, {y}, 1)", "np.inner({x}, {y})", "np.einsum('i...,i...->...', {x}, {x})", "np.vecdot({x}, {y})", "np.sinc({x})", "np.unwrap(np.tanh({x}))", "np.trace({x})",
             "np.sort({x})", "np.sort({x}, 0)", "np.median({x}, {axis})", "np.linalg.det(np.tanh({x}[..., :3, :3]))", "np.linalg.solve(np.tanh({x}[..., :2, :2]) + 4 * np.eye(2), {x}[..., :2, :1])",
             "np.linalg.inv(np.tanh({x}[..., :5, :5]) + 9 * np.eye(5))", "np.fft.irfft(np.fft.rfft({x}), n={x}.shape[-1])", "np.abs(np.fft.fft(np.tanh({x})))", "np.quantile({x}, 0.3, {axis})", "np.convolve({x}, [0.25, 0.5, 0.25], 'same')"]

    def assign(self):
        return f"{self.new_name()} = {self.expression()}"

    def view(self):
        form = self.random.choice(["{x}{i}", "{x}.T", "{x}.reshape(-1)", "{x}[::-1]", "{x}{i}", "{x}.swapaxes(0, -1)", "{x}.ravel()", "np.moveaxis({x}, 0, -1)", "np.broadcast_to({x}, (2, *{x}.shape))", "{x}[None]"])
        return f"{self.new_name()} = {form.format(x=self.variable(), i=self.index())}"

    def write(self):
        return f"{self.writable()}{self.index()} = {self.expression(1)}"

    def update(self):
        op = self.random.choice(["+=", "-=", "*=", "+="])
        target = self.writable()
        return f"{target}{self.random.choice([self.index(), ''])} {op} {self.expression(1)}"

    def scatter(self):
        target, i = self.writable(), self.random.choice(["[0, 0]", "[0, -1]", "[[0], [-1]]"])
        a = self.expression(2)
        one, zero = ("1.2345", "-0.1234") if self.kind == "loose" else ("1", "0")      # no number that a function saturates at, or cancels to
        return self.random.choice([f"{target}[{target} > {one}] = {self.number()}", f"{target}[{target} > {one}] += 1", f"{target}[..., {i}] = {a}", f"{target}[{i}] += {a}", f"np.add.at({target}, {i}, {target}[0])",
                                   f"{target}[{target} < {zero}] = {target}[{target} < {zero}] + 3", f"np.put({target}, {i}, {self.number()})", f"{target}[np.abs({target}) > {one}] -= {a}"])

    def out(self):
        target = self.writable()
        return f"np.{self.random.choice(['add', 'multiply', 'subtract'])}({self.operand()}, {self.operand()}, out={target})"

    def store(self):
        """A write that is no plain assignment."""
        t, v = self.writable(), self.expression(2)
        if not self.space[t].ndim:
            return f"{t}[...] = {v}"
        if self.kind == "loose":                            # nothing that jumps where a value passes 0
            return self.random.choice([f"{t}.flat[{self.random.choice(['0', '1:3', '-1'])}] = ({v}) * 1", f"{t}.fill({self.number()})", f"np.cumsum({t}, 0, out={t})", f"{t}[[0, -1]] = {v}"])
        return self.random.choice([f"{t}[{t} > 0] = {self.number()}", f"{t}.flat[{self.random.choice(['0', '1:3', '::2', '-1'])}] = ({v}) * 1", f"np.copyto({t}, {v}, where={t} > 0, casting='unsafe')",
                                   f"np.fill_diagonal({t}, {self.number()})", f"{t}.fill({self.number()})", f"{t}[[0, -1]] = {v}", f"{t}[..., [0, 0]] += {self.number()}", f"np.add({t}, {v}, where={t} > 0, out={t}, casting='unsafe')",
                                   f"np.cumsum({t}, 0, out={t})", f"{t}[:, 0], {t}[:, -1] = {t}[:, -1].copy(), {t}[:, 0].copy()", f"{t} @= np.eye({t}.shape[-1], dtype={t}.dtype)" if self.space[t].shape[-1] < 99 else f"{t}[:1] = 0", f"np.putmask({t}, {t} < 0, {self.number()})"])

    def loop(self):
        target = self.writable()
        body = self.random.choice([f"{target}[i] = {self.expression(2)}", f"{target}[i] += {self.expression(2)}", f"{target}[i:] *= {self.expression(2)}", f"{target} = {target} + {self.expression(2)}"])
        return f"for i in range({self.random.choice(['k', '2', '3'])}):\n        {body}"

    STATEMENTS = [assign, assign, assign, assign, view, view, write, write, update, update, out, loop, store, scatter]

    # ---- the whole ----

    def choose_results(self):
        names = [n for n in self.space if n == "g" or n[1:].isdigit()]
        last = max(names, key=lambda n: (n[0] == "v", int(n[1:] or 0)))
        picked = [last, *(n for n in names if self.random.random() < 0.4 and n != last)]
        return self.random.choice(["({},)", "[{}]", "{}"]).format(", ".join(picked))

    def text(self):
        names = [f"a{k}" for k in range(len(self.args))]
        return "\n".join([f"def f({', '.join([*names, 's', 'k'])}):", *("    " + line for line in self.lines), f"    return {self.results}", ""])

    def arguments(self, call):
        """Arguments of a call: the values of the trace, other values, other layouts."""
        r = random.Random(call)
        args = clone(self.args)
        if call == 1:
            args = [clone(a) if a.size == 0 else self.shuffled(a, r) for a in args]
        if call == 2:
            args = [r.choice(list(layouts(a)))[1] for a in args]
        return [*args, *self.numbers]

    @staticmethod
    def shuffled(a, r):
        flat = a.reshape(-1)
        return np.roll(flat, r.randint(1, 5)).reshape(a.shape)


def function(code, captured):
    """The function that a program's code defines, with a captured array."""
    space = {"np": np, "G": captured}
    exec(code, space)
    return space["f"]


def compare(program, text=None):
    """Runs a program both ways; raises AssertionError where they differ."""
    text = text or program.text()
    ours, numpys = clone(program.captured), clone(program.captured)
    fast = program.kind == "loose" and len(text) % 2 == 0
    donated = [k for k in range(len(program.args)) if len(text) % 5 == k]
    code = compile(text, "<fuzz>", "exec")
    f, g = function(code, numpys), pyxla.jit(function(code, ours), fastmath=fast, donate_argnums=donated)
    # an error may grow by the magnitudes that cancel on the way
    single = {"float32", "complex64"} & {str(a.dtype) for a in [*program.args, program.captured]}
    loose = {"rtol": 2e-3 if single else 1e-9, "atol": 5e-4 if single else 1e-9, "signs": False}
    tolerance = {"signs": False} if program.kind == "exact" else loose
    for call in range(4):
        if call == 3 and ours.size:
            ours.reshape(-1)[0] = numpys.reshape(-1)[0] = 1
        want_args = program.arguments(call)
        got_args = clone(want_args)
        with quiet():
            try:
                want = f(*want_args)
            except Exception:                              # a line that other values or layouts do not allow
                if call == 0:
                    raise
                continue
            if program.kind == "loose" and not settled([want, want_args]):
                continue
        try:
            got = g(*got_args)
        except pyxla.TraceError as e:
            if any(part in str(e) for part in REFUSED + (REFUSED_SIZES if program.sized or SIZED.search(text) else ())):
                return
            raise
        got = plain_truth(want, got)
        for k in donated:                                  # their contents are undefined, and a result may lie in their memory
            want_args[k] = got_args[k] = None

        def agree(results, args):
            same(want, results, where=f"call {call}: result", **tolerance)
            same(want_args, [None if k in donated else a for k, a in enumerate(args)], where=f"call {call}: arguments", **tolerance)

        try:
            agree(got, got_args)
        except AssertionError:
            if program.kind == "exact" or not meaningless(code, numpys, program.arguments(call), agree):
                raise
            return
        a, b = aliases(want, want_args), aliases(got, got_args)
        # what is made of a broadcast array has an order of axes that is not known, and a reshape of it is a copy
        known = not program.dynamic and not program.sized and not SIZED.search(text) and "broadcast_to" not in text
        assert set(b) <= set(a) if not known else a == b, f"call {call}: of results, then arguments, these share memory: {b} instead of {a}"
    if len(text) % 3 == 0:
        with_constants(program, f, g, tolerance, lambda args, agree: meaningless(code, numpys, args, agree))
    elif len(text) % 3 == 1 and not donated:
        with_knobs(program, g)


def meaningless(code, captured, args, agree):
    """Whether NumPy's own results move beyond the tolerance with the noise of rounding (noise.py)."""
    try:
        return moved(function(code, noisy(clone(captured), False)), args, agree)
    except Exception:                                      # (NumPy has functions that do not take a subclass)
        return False


def plain_truth(want, got):
    """A result as it is, but for a comparison of sizes known only in the run: Python's bool, which is NumPy's here."""
    if isinstance(want, (tuple, list)) and type(want) is type(got):
        return type(got)(map(plain_truth, want, got))
    return bool(got) if type(want) is bool and type(got) is np.bool else got


def with_constants(program, f, g, tolerance, meaningless):
    """A program that writes to no argument gives the same with constants for arguments, computed and found again."""
    args = program.arguments(1)
    constants = [pyxla.constant(a) if isinstance(a, np.ndarray) else a for a in args]
    for a in args:
        if isinstance(a, np.ndarray):
            a.flags.writeable = False
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                want = f(*args)
            except Exception:                              # it writes to one, or has a line that other values do not allow
                return
            g(*constants)
    except ValueError:                                     # (NumPy's ufunc.at writes to what is read-only)
        return
    if program.kind == "exact" or settled([want, args]):
        for again in range(2):
            agree = lambda got, _: same(want, plain_truth(want, got), where=f"call {again} with constants: result", **tolerance)
            try:
                agree(g(*constants), None)
            except AssertionError:
                if program.kind == "exact" or not meaningless(program.arguments(1), agree):
                    raise
                return


def with_knobs(program, g):
    """Other schedules give the same bits."""
    pyxla._core._tuning_watch(True)
    try:
        g._replan()
        want_args = program.arguments(0)
        try:
            want = g(*want_args)
        except (ValueError, IndexError):                    # the captured array is another one now, and NumPy does not like it either
            return
        keys = {row[0] for row in g.lower(*program.arguments(0)).compile()._tunable}
        for key in keys:
            pyxla._core._tuning_set(key, random_knobs(program.random))
        g._replan()
        args = program.arguments(0)
        got = g(*args)
        for key in keys:
            pyxla._core._tuning_set(key, None)
    finally:
        pyxla._core._tuning_watch(False)
        g._replan()
    same(want, got, where="result under other knobs")
    same(want_args, args, where="arguments under other knobs")


def random_knobs(r):
    knobs = {}
    for _ in range(r.randint(1, 8)):
        knobs.update(r.choice(r.choice(_tune.CANDIDATES[r.choice(["product", "loop"])])))
    return {name: r.choice([value, value // 7 + 1]) for name, value in knobs.items()}


def aliases(results, args):
    """Which pairs of the results, then of the arguments, share memory."""
    arrays = list(results) if isinstance(results, (tuple, list)) else [results]
    arrays += args
    return [(i, j) for i, a in enumerate(arrays) for j, b in enumerate(arrays[:i])
            if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.shares_memory(a, b)]


def settled(tree):
    """Whether all floats are moderate, so that a tolerance means something."""
    if isinstance(tree, (list, tuple)):
        return all(settled(v) for v in tree)
    return not isinstance(tree, (np.ndarray, np.generic)) or tree.dtype.kind not in "fc" or bool((np.abs(tree) < 1e7).all())


def reduced(program):
    """The text of a smaller program that fails as well: lines are left out while it does."""
    lines = list(program.lines)
    k = len(lines)
    while k:
        k -= 1
        program.lines = lines[:k] + lines[k + 1:]
        try:
            compare(program)
        except AssertionError:
            lines = list(program.lines)
        except Exception:
            continue
    program.lines = lines
    return program.text()


def run(count, seed=0, kind=None, keep_going=False):
    """Compares `count` programs; returns the number that failed, each printed."""
    failed = 0
    for k in range(seed, seed + count):
        program = Program(k, kind)
        try:
            compare(program)
        except Exception as e:
            failed += 1
            text = program.text()
            print(f"---- seed {k} ({program.kind}): {type(e).__name__}: {e}", file=sys.stderr)
            if not isinstance(e, AssertionError):
                traceback.print_exc(limit=-3)
            else:
                text = reduced(program)
            shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in [*program.args, program.captured])
            print(f"{text}\n# arguments and G: {shapes}; s, k = {program.numbers}\n", file=sys.stderr)
            if not keep_going:
                break
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=["exact", "loose"])
    parser.add_argument("--keep-going", action="store_true")
    options = parser.parse_args()
    # Three small arrays along different axes may make a sum of 10**11 elements: no line of a program, but the end of the machine's memory.
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
    wrong = run(options.count, options.seed, options.kind, options.keep_going)
    print(f"{options.count} programs from seed {options.seed}: {wrong} failed")
    sys.exit(bool(wrong))
