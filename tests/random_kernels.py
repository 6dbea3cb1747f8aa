"""Random kernels: stores, nests of loops, reductions and tiles over random extents, strides and dtypes (tests/test_gen.py runs them)."""
import numpy as np
from kernels import Kernel, monoid_cases, values

UNARY = {"b": ["logical_not"], "i": ["negative", "absolute", "sign", "invert"], "u": ["sign", "invert"],
         "f": ["negative", "absolute", "sqrt", "floor", "rint", "sign"]}
BINARY = {"b": ["logical_and", "not_equal", "less"], "i": ["add", "subtract", "multiply", "floor_divide", "remainder", "minimum", "right_shift"],
          "u": ["add", "multiply", "floor_divide", "left_shift", "maximum"], "f": ["add", "subtract", "multiply", "divide", "maximum", "fmin", "copysign"]}
RANDOM_DTYPES = ["bool", "int8", "int32", "int64", "uint16", "uint64", "float32", "float64"]


class Random:
    """A random legal kernel: nested and neighbouring FORs, some of them vectors, blocks or the grid; loads of all layouts; states; tiles."""

    def __init__(self, seed, level):
        self.rng = np.random.default_rng(seed)
        self.k = Kernel(checked=seed % 5 == 0, streams=seed % 3 == 0)
        self.level, self.vector, self.seed = level, False, seed
        self.axes = []      # (name, extent, block)
        for _ in range(self.pick([1, 2, 2, 3])):
            n, block = int(self.rng.integers(0, 40)) if self.chance(0.95) else 0, 0
            if self.chance(0.35):
                block = int(self.pick([4, 5, 16]))
            self.axes.append((self.k.axis(n, block, literal=self.chance(0.4)), n, block))
        self.open = {}      # axis number -> parts open
        self.order = []     # (axis, part)
        self.pool = [[]]    # values per body
        grid = 0 if self.chance(0.4) else int(self.rng.integers(1, len(self.axes) + 1))
        for a in range(grid):
            self.enter(a, "blocks" if self.axes[a][2] else "whole", grid=True)
        self.body(budget=3)
        while self.order:
            self.leave()

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def enter(self, a, part, grid=False, lanes=0):
        self.k.begin(self.axes[a][0], part, lanes, grid)
        self.open.setdefault(a, []).append(part)
        self.order.append((a, part, lanes))
        self.pool.append([])
        self.vector |= lanes > 0

    def leave(self):
        a, part, lanes = self.order.pop()
        self.open[a].remove(part)
        self.pool.pop()
        self.vector &= not lanes
        self.k.end()

    def complete(self):
        """Axes whose coordinate is known here."""
        return [a for a, parts in self.open.items() if "whole" in parts or "within" in parts]

    def layout(self, dtype, axes, exact):
        """An array that the axes index (all of them, in any order, if exact), and the terms of its access."""
        axes = list(self.rng.permutation(axes)) if len(axes) else []
        if not exact:
            axes = [a for a in axes if self.chance(0.8)]
        shape, index = [], []
        for a in axes:
            n, step = self.axes[a][1], 1 if self.chance(0.6) else int(self.pick([2, 3, -1, -2, 5]))
            shape.append(max(n * abs(step), 1))
            index.append(slice(None, None, step))
        x = values(dtype, int(np.prod(shape)) + 1, self.seed + len(self.k.lines))[:-1].reshape(shape)
        if exact:
            x[...] = 0
        if x.itemsize > 1 and self.chance(0.15):
            x = x.astype(x.dtype.newbyteorder())
        view = x[tuple(index)] if shape else x
        item, terms = np.dtype(dtype).itemsize, []
        for a, stride in zip(axes, view.strides):
            name, n, block = self.axes[a]
            coef = "unit" if stride == item else str(stride) if self.chance(0.5) else self.k.arg(stride)
            terms.append(f"{name}:{coef}" + ("/same" if block else ""))
        return view, " ".join(terms)

    def value(self, dtype=None, depth=0):
        dtype = dtype or self.pick(RANDOM_DTYPES)
        old = [v for pool in self.pool for v, d in pool if d == dtype]
        if old and self.chance(0.4):
            return self.pick(old), dtype
        kind, k = np.dtype(dtype).kind, self.k
        roll = self.rng.random()
        if depth > 4 or roll < 0.25:
            view, terms = self.layout(dtype, self.complete(), False)
            v = k.load(dtype, k.array(view), terms)
        elif roll < 0.32:
            v = k.const(dtype, values(dtype, 1, len(k.lines))[0])
        elif roll < 0.37 and dtype == "int64" and self.complete():
            v = k.val("axis", dtype, self.axes[self.pick(self.complete())][0])
        elif roll < 0.5:
            v = k.val(self.pick(UNARY[kind]), dtype, self.value(dtype, depth + 1)[0])
        elif roll < 0.6:
            other = self.pick([d for d in RANDOM_DTYPES if d != dtype])
            v = k.val("cast", dtype, self.value(other, depth + 1)[0])
        elif roll < 0.68:
            v = k.val("where", dtype, self.value("bool", depth + 1)[0], self.value(dtype, depth + 1)[0], self.value(dtype, depth + 1)[0])
        elif roll < 0.74 and dtype == "bool":
            other = self.pick(RANDOM_DTYPES)
            v = k.val(self.pick(["equal", "less_equal"]), dtype, self.value(other, depth + 1)[0], self.value(other, depth + 1)[0])
        else:
            v = k.val(self.pick(BINARY[kind]), dtype, self.value(dtype, depth + 1)[0], self.value(dtype, depth + 1)[0])
        self.pool[-1].append((v, dtype))
        return v, dtype

    def store(self):
        """A new array, one element for each instance of this body."""
        if any("blocks" in p and "within" not in p for p in self.open.values()):
            return
        v, dtype = self.value()
        view, terms = self.layout(dtype, list(self.complete()), True)
        self.k.stmt(f"store {self.k.access(self.k.array(view, True), terms)} {v}")

    def nest(self, inner):
        """A FOR over an axis that can run here, and what `inner` makes in it."""
        can = [(a, "whole" if not self.axes[a][2] else "within" if "blocks" in self.open.get(a, []) else "blocks")
               for a in range(len(self.axes)) if a not in self.complete()]
        if not can:
            return False
        a, part = self.pick(can)
        lanes = int(self.pick([2, 4, 8, 16, 32])) if not self.vector and part != "blocks" and self.chance(0.6) else 0
        self.enter(a, part, lanes=lanes)
        inner()
        self.leave()
        return True

    def reduce(self, budget):
        monoid, dtype = self.pick([c for c in monoid_cases() if c[1] in RANDOM_DTYPES and c[0] not in ("moments", "prod")])
        s, k = self.k.state(monoid, dtype), self.k
        k.stmt(f"init {s}")

        def inner():
            if self.chance(0.4) and self.nest(inner):
                return
            v = self.value(dtype)[0]
            index = " " + self.value("int64")[0] if monoid.startswith("arg") else ""
            k.stmt(f"reduce {s} {v}{index}")
            if self.chance(0.3):
                self.store()

        if self.nest(inner):
            self.pool[-1].append((k.val("state", dtype, f"{s}.0"), dtype))
            if monoid.startswith("arg"):
                self.pool[-1].append((k.val("state", "int64", f"{s}.1"), "int64"))
            self.store()

    def tile(self):
        """Written in one FOR, read in the next over the same axis."""
        can = [a for a in range(len(self.axes)) if not self.axes[a][2] and a not in self.open]
        can = [a for a in can if a not in self.complete()]
        if not can or self.vector:
            return
        a, dtype = self.pick(can), self.pick(RANDOM_DTYPES)
        at = self.k.access(self.k.scratch_array(dtype, 64), f"{self.axes[a][0]}:unit")
        self.enter(a, "whole", lanes=int(self.pick([0, 4, 16])))
        self.k.stmt(f"store {at} {self.value(dtype)[0]}")
        self.leave()
        self.enter(a, "whole", lanes=int(self.pick([0, 4, 16])))
        self.pool[-1].append((self.k.val("load", dtype, at), dtype))
        self.store()
        self.leave()

    def body(self, budget):
        for _ in range(self.pick([1, 2, 3])):
            roll = self.rng.random()
            if roll < 0.35 or budget == 0:
                self.store()
            elif roll < 0.6:
                self.nest(lambda: self.body(budget - 1))
            elif roll < 0.85:
                self.reduce(budget - 1)
            else:
                self.tile()
