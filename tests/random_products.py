"""Random functions around products: operands that are views, stored into, joined, gathered, normed or broadcast, of sizes at which they are computed while they
are packed, fed by rows or read in place; results that are finished, reduced or multiplied again. `python random_products.py FIRST COUNT` prints what differs."""
import random
import sys

import numpy as np

import pyxla

SIZES = [1, 3, 8, 16, 17, 24, 33, 40, 64, 65, 90, 100, 130, 200]
DTYPES = ["f4", "f4", "f8", "f8", "f8", "c16", "i4"]
MOST_ELEMENTS = 4e6             # of the product before it is summed


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def stored(x, where, value):
    x = x * 2
    x[where] = value(x[where])
    return x


def at(axis, text):
    return ", ".join([":"] * axis + [text])


class Program:
    """The source of a function f(v, *arrays), v two numbers, and its arrays."""

    def __init__(self, seed):
        self.r, self.arrays, self.dtype = random.Random(seed), [], None
        self.dtype = self.r.choice(DTYPES)
        batch = self.r.choice([(), (), (), (3,), (2, 3), (33,), (12,)])
        while True:
            m, k, n = (self.r.choice(SIZES) for _ in range(3))
            if np.prod((*batch, m, k, n)) <= MOST_ELEMENTS:
                break
        a, b = self.operand((*batch, m, k), 0), self.operand((*(batch if self.r.random() < 0.5 else ()), k, n), 0)
        self.lines, self.results = [f"p = ({a}) @ ({b})"], ["p"]
        for _ in range(self.r.randrange(3)):
            self.more(n)
        names = ", ".join(f"x{i}" for i in range(len(self.arrays)))
        self.text = f"def f(v, {names}):\n    " + "\n    ".join(self.lines) + f"\n    return [{', '.join(self.results)}]"

    def leaf(self, shape):
        x = np.random.default_rng(self.r.randrange(1 << 30)).standard_normal(shape) * (1 if self.dtype != "i4" else 9)
        x = x.astype(self.dtype)
        form = self.r.random()
        if form < 0.15 and len(shape) > 1:
            x = np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
        elif form < 0.25:
            x = np.repeat(x, 2, -1)[..., ::2]
        elif form < 0.3:
            x = np.ascontiguousarray(x[..., ::-1])[..., ::-1]
        self.arrays.append(x)
        return f"x{len(self.arrays) - 1}"

    def operand(self, shape, depth):
        """An expression of that shape."""
        forms = [self.computed, self.computed, self.viewed, self.joined, self.reduced, self.written, self.written, self.written]
        text = self.r.choice(forms)(shape, depth + 1) if depth < 3 and self.r.random() < 0.8 else None
        return text or self.leaf(shape)

    def computed(self, shape, depth):
        axis, sub = self.r.randrange(len(shape)), lambda s=shape: self.operand(s, depth)
        row = (*shape[:axis], 1, *shape[axis + 1:])
        form = self.r.choice(["{} * 2 + 1", "np.maximum({}, 0)", "{} + {row}", "{} * {}", "np.where({} > 0, {}, -1)", "np.tanh({})", "softmax({}, {axis})",
                              "{} / np.sqrt(np.square({}).mean({axis}, keepdims=True) + 1)"])
        if self.dtype == "i4" and not form.startswith(("{} * ", "{} + ", "np.maximum", "np.where")) or self.dtype == "c16" and "softmax" in form:
            return None
        parts = [f"({sub()})" for _ in range(form.count("{}"))]
        return form.format(*parts, axis=axis, row=sub(row) if "{row}" in form else "")

    def viewed(self, shape, depth):
        axis, form = self.r.randrange(len(shape)), self.r.randrange(5)
        if form == 0:
            extra = self.r.randrange(1, 4)
            first = self.r.randrange(extra + 1)
            longer = (*shape[:axis], shape[axis] + extra, *shape[axis + 1:])
            return f"({self.operand(longer, depth)})[{at(axis, f'{first}:{first + shape[axis]}')}]"
        if form == 1:
            return f"({self.operand(shape, depth)})[{at(axis, '::-1')}]"
        if form == 2:
            axes = list(range(len(shape)))
            self.r.shuffle(axes)
            return f"({self.operand(tuple(shape[axes.index(i)] for i in range(len(shape))), depth)}).transpose({tuple(axes)})"
        if form == 3 and np.prod(shape) % 2 == 0:
            return f"({self.operand((int(np.prod(shape)) // 2, 2), depth)}).reshape({tuple(shape)})"
        return f"np.broadcast_to({self.operand(shape[1:], depth)}, {tuple(shape)})" if len(shape) > 1 else None

    def joined(self, shape, depth):
        axis = self.r.randrange(len(shape))
        if self.r.random() < 0.4:
            rows = shape[axis] // 2 + 1
            index = [self.r.randrange(rows) for _ in range(shape[axis])]
            return f"np.take({self.operand((*shape[:axis], rows, *shape[axis + 1:]), depth)}, {index}, {axis})"
        if shape[axis] == 1:
            return None
        k = self.r.randrange(1, shape[axis])
        parts = [self.operand((*shape[:axis], n, *shape[axis + 1:]), depth) for n in (k, shape[axis] - k)]
        return f"np.concatenate([{', '.join(parts)}], {axis})"

    def reduced(self, shape, depth):
        axis = self.r.randrange(len(shape) + 1)
        name = self.r.choice(["sum", "max" if self.dtype != "c16" else "sum", "mean" if self.dtype != "i4" else "sum"])
        return f"({self.operand((*shape[:axis], self.r.choice([1, 2, 3]), *shape[axis:]), depth)}).{name}({axis}, dtype='{self.dtype}')".replace(
            f"max({axis}, dtype='{self.dtype}')", f"max({axis})")

    def written(self, shape, depth):
        axis = self.r.randrange(len(shape))
        first = self.r.randrange(shape[axis]) if self.r.random() < 0.5 else 0
        last, step = self.r.randrange(first, shape[axis]) + 1, self.r.choice([1, 1, 1, 1, 2])
        value = self.r.choice(["0", "v[0]", "v[1]", "own * 2 + 1"])
        return f"stored({self.operand(shape, depth)}, np.s_[{at(axis, f'{first}:{last}:{step}')}], lambda own: {value})"

    def more(self, n):
        form = self.r.randrange(8)
        if form == 0:
            self.lines.append("p = p * 2 + v[0]")
        elif form == 1 and self.dtype not in ("c16", "i4"):
            self.lines.append("p = softmax(p, -1)")
        elif form == 2:
            self.lines.append(f"p = p @ np.ones((p.shape[-1], {self.r.choice([3, 16, 40])}), p.dtype)")
        elif form == 3:
            self.lines.append("p = p * 1; p[..., :1, :] = v[0]")
        elif form == 4:
            self.lines.append("p = p.swapaxes(-1, -2)")
        else:
            self.results.append(["p.sum(-1)", "abs(p).max(-2)", f"p[..., ::-1, :{max(1, n // 2)}] * 2"][form % 3])


def difference(seed):
    """What is wrong with a program: None, or words. Floats are judged by float64's results and the greatest of each array."""
    program = Program(seed)
    names = {"np": np, "softmax": softmax, "stored": stored}
    exec(compile(program.text, f"<products {seed}>", "exec"), names)
    v = np.array([2, 3], program.dtype)
    wide = [x.astype("f8") if x.dtype == "f4" else x for x in (v, *program.arrays)]
    with np.errstate(all="ignore"):
        want = names["f"](*wide)
    got = pyxla.jit(names["f"])(v, *program.arrays)
    for k, (w, g) in enumerate(zip(want, got)):
        if w.shape != g.shape or (program.dtype != "f4" and w.dtype != g.dtype):
            return f"seed {seed}, result {k}: {g.dtype}{list(g.shape)} instead of {w.dtype}{list(w.shape)}\n{program.text}"
        eps = np.finfo(g.dtype).eps if g.dtype.kind in "fc" else 0
        scale = np.abs(w[np.isfinite(w)]).max(initial=1)
        far = ~np.isclose(w, g, rtol=3000 * eps, atol=3000 * eps * scale, equal_nan=True)
        if far.any():
            return f"seed {seed}, result {k}: {far.sum()} of {far.size} differ, first at {np.argwhere(far)[0].tolist()}\n{program.text}"
    return None


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    found = [text for text in map(difference, range(first, first + count)) if text]
    print(*found, f"{count} programs from seed {first}: {len(found)} failed", sep="\n")
    sys.exit(bool(found))
