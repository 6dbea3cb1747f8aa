"""Random programs of views and writes on arguments of every layout: values, and which results share memory, as in NumPy."""
import random

import numpy as np
import pytest

import pyxla

VIEWS = [
    "{n}.T", "{n}[1:]", "{n}[::-1]", "{n}[..., ::2]", "{n}.reshape(-1)", "{n}[None]", "{n} * 2", "{n}.copy()", "np.ascontiguousarray({n})", "{n}.ravel()", "{n}.flatten()",
    "np.asarray({n})", "np.array({n})", "{n}[0]", "np.squeeze({n})", "{n}.reshape({n}.shape + (1,))", "{n}.reshape(-1, 2) if {n}.size % 2 == 0 else {n}", "np.zeros({n}.shape)",
    "np.transpose({n})", "{n}.swapaxes(0, -1)", "{n} + {m}.sum()",
]
WRITES = [
    "{n} += 1", "{n}[...] = 3", "{n}[..., 0] *= 2", "{n}[0] = {k}", "{n}[...] = {n}[::-1]", "{n} -= {m}.sum()", "{n}[-1:] = {n}[:1] + 1", "{n}[{n} > 4] = 0", "{n} **= 2",
    "np.add({n}, 1, out={n})", "np.multiply({n}, 2, out={n}, where={n} > 2)",
]


def program(seed):
    rng = random.Random(seed)
    lines, names = [], ["a", "b"]
    for k in range(rng.randint(3, 9)):
        words = {"n": rng.choice(names), "m": rng.choice(names), "k": k}
        if rng.random() < 0.5:
            lines.append(f"v{k} = " + rng.choice(VIEWS).format(**words))
            names.append(f"v{k}")
        else:
            lines.append(rng.choice(WRITES).format(**words))
    return "def f(a, b):\n    " + "\n    ".join(lines) + "\n    return " + ", ".join(rng.sample(names, min(3, len(names)))) + ","


def arguments(layout):
    a, b = np.arange(12.0).reshape(3, 4) % 5, np.arange(6.0)
    if layout == "fortran":
        a = np.asfortranarray(a)
    if layout == "strided":
        a, b = np.repeat(a, 2, axis=1)[:, ::2], np.repeat(b, 3)[::3]
    if layout == "reversed":
        a = a[::-1]
    return a, b


def outcome(f, args):
    try:
        return f(*args)
    except pyxla.UnsupportedError:
        raise
    except Exception as e:
        return type(e)


def sharing(arrays):
    arrays = [v if isinstance(v, np.ndarray) else np.zeros(0) for v in arrays]
    return [(i, j) for i in range(len(arrays)) for j in range(i) if np.shares_memory(arrays[i], arrays[j])]


def run(seed):
    """How many of the program's calls were refused."""
    source, space, refused = program(seed), {"np": np}, 0
    exec(source, space)
    g = pyxla.jit(space["f"])
    for layout in ("c", "fortran", "strided", "reversed", "c"):
        args, ours = arguments(layout), arguments(layout)
        want = outcome(space["f"], args)
        try:
            got = outcome(g, ours)
        except pyxla.UnsupportedError:
            refused += 1
            continue
        if isinstance(want, type) or isinstance(got, type):
            assert want == got, f"{layout}: {source}"
            continue
        for w, r in zip((*want, *args), (*got, *ours)):
            np.testing.assert_array_equal(w, r, err_msg=f"{layout}: {source}")
            assert type(w) is type(r)
        if layout != "fortran":                         # NumPy's own results are then in Fortran order, which the trace does not follow
            assert sharing((*args, *want)) == sharing((*ours, *got)), f"{layout}: {source}"
    return refused


@pytest.mark.parametrize("start", range(0, 200, 25))
def test_programs(start):
    assert sum(map(run, range(start, start + 25))) <= 6


@pytest.mark.slow
def test_many_programs():
    assert sum(map(run, range(1000, 6000))) <= 500
