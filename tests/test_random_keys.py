"""Random keys (slices, integers, arrays, masks, new axes, wrong ones), read and written, jitted and not."""
import random
import warnings

import numpy as np
import pytest
from checking import clone, same, sample

import pyxla

SHAPES = [(4,), (3, 4), (2, 3, 4), (3, 1, 2), (0, 3), (2, 2, 2, 2), (5, 5)]
STATEMENTS = ["return x[{k}]", "return x[{k}]", "y = x[{k}]; return y * 2, y.shape", "x[{k}] = {v}; return x", "x[{k}] += {v}; return x",
              "y = x[{k}]; y[...] = 1; return x, y", "x[{k}] *= {v}; return x", "np.add.at(x, np.index_exp[{k}], {v}); return x", "x[{k}][0] = 1; return x",
              "y = x + 0; y[{k}] = {v}; return x, y", "x[0] = 3; x[{k}] = {v}; return x"]


class Maker:
    """Programs with one key each: their source and their arguments."""

    def __init__(self, seed):
        self.random, self.arrays, self.args = random.Random(seed), np.random.default_rng(seed), []

    def argument(self, value):
        self.args.append(value)
        return f"a[{len(self.args) - 1}]"

    def item(self, n, bad):
        """An item for an axis of extent n: its text and how many axes it takes; bad: how far it may be outside."""
        r, low, high = self.random, -n - bad, max(n + bad, 1)
        kind = r.randrange(11)
        if kind < 3:
            i = r.randrange(low, high)
            return (repr(i), self.argument(np.int64(i)), self.argument(i))[kind], 1
        if kind < 6:
            start, stop = (r.choice(["", str(r.randrange(-n - 2, n + 3))]) for _ in range(2))
            return f"{start}:{stop}:{r.choice(['', '1', '2', '-1', '-2', '3'])}", 1
        if kind == 6:
            return r.choice(["None", "True", "np.array(True)", "False"]), 0
        if kind == 7:
            return "[0, -1]" if n else "[]", 1
        if kind < 10:
            shape = r.choice([(2,), (3,), (1,), (2, 1), (2, 3), (0,), ()])
            return self.argument(np.array(self.arrays.integers(low if n else 0, high, shape)).astype(r.choice(["int64", "int32", "int8"]))), 1
        return self.argument(self.arrays.random(n) < 0.5), 1

    def key(self, shape, bad):
        used, out = 0, []
        for _ in range(self.random.randrange(1, 4)):
            rest = len(shape) - used
            if rest >= 2 and self.random.random() < 0.1:
                out.append(self.argument(self.arrays.random(shape[used:used + 2]) < 0.4))
                used += 2
            elif "..." not in out and self.random.random() < 0.1:
                out.append("...")
            elif rest > 0 or self.random.random() < 0.1:
                text, axes = self.item(shape[used] if rest > 0 else 3, bad)
                out.append(text)
                used += axes
        return ", ".join(out or [":"])

    def value(self, shape, dtype):
        """Something to store where a read gives this shape."""
        if self.random.random() < 0.4:
            return "2"
        shape = self.random.choice([shape, shape[1:], tuple(self.random.choice([1, n]) for n in shape), (1, *shape)])
        return self.argument(np.asarray(self.arrays.integers(0, 9, shape)).astype(dtype if dtype.kind in "ui" else "int64"))

    def program(self):
        r = self.random
        x = sample(r.choice(SHAPES), r.choice(["float64", "int32", "complex64", "bool", "uint8"]), r.randrange(99))
        x = r.choice([x, x, x.T, x[::-1]])
        key = self.key(x.shape, r.choice([0, 0, 0, 1]))
        try:
            shape = np.shape(eval(f"x[{key}]", {"np": np, "x": x, "a": self.args}))
        except Exception:
            shape = ()
        body = r.choice(STATEMENTS).format(k=key, v=self.value(shape, x.dtype))
        return "def f(x, *a):\n    " + body.replace("; ", "\n    "), [x, *self.args]


def outcome(f, args):
    try:
        return f(*args)
    except Exception as e:
        return e


@pytest.mark.parametrize("seed", range(25))
def test_keys(seed):
    for k in range(20):
        source, args = Maker(1000 * seed + k).program()
        space = {"np": np}
        exec(source, space)
        theirs, mine = clone(args), clone(args)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            want, got = outcome(space["f"], theirs), outcome(pyxla.jit(space["f"]), mine)
        about = f"{source}\n{args}\n{want!r}\n{got!r}"
        if isinstance(got, pyxla.UnsupportedError):
            continue
        if "setting an array element" in str(want):                                # an array of one element, which NumPy before 2.4 takes
            continue
        if isinstance(got, IndexError) and any(np.size(a) == 0 for a in args):     # NumPy does not look at indices of which none is used
            continue
        assert isinstance(want, Exception) == isinstance(got, Exception), about
        if isinstance(got, Exception):
            same(args, mine)
        else:
            same([want, theirs], [got, mine], rtol=1e-6, signs=False, where=about)
