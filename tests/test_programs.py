"""Programs in the plain style of scientific Python, run jitted and not, unmodified, and compared.

Each file of tests/programs/ has `program`, `arguments()` and perhaps a tolerance RTOL (of the greatest value of each result)."""
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from checking import check

import pyxla

FOLDER = Path(__file__).parent / "programs"
NAMES = sorted(p.stem for p in FOLDER.glob("*.py"))


def load(name):
    spec = importlib.util.spec_from_file_location(f"programs.{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_enough():
    assert len(NAMES) >= 25


@pytest.mark.parametrize("name", NAMES)
def test_program(name):
    module = load(name)
    jitted = check(module.program, *module.arguments(), rtol=getattr(module, "RTOL", 1e-11), atol=1e-14, signs=False)
    assert jitted.cache_info().traces == 1


# ---- branches on data get an error that names the line and the cure ----

def bisect(f, low, high):
    while high - low > 1e-6:
        middle = (low + high) / 2
        if f(middle) > 0:
            high = middle
        else:
            low = middle
    return low


def newton(x):
    for _ in range(20):
        step = (x * x - 2) / (2 * x)
        x = x - step
        if abs(step) < 1e-12:
            break
    return x


def sort_by_hand(x):
    for i in range(len(x)):
        for j in range(len(x) - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1].copy(), x[j].copy()
    return x


def collatz(n):
    steps = 0
    while n != 1:
        n = np.where(n % 2 == 0, n // 2, 3 * n + 1)
        steps += 1
    return steps


def first_negative(x):
    return next(i for i, v in enumerate(x) if v < 0)


BRANCHES = [(lambda a: bisect(lambda v: v**3 - 2, a[0], a[1]), "while high - low"), (lambda a: newton(a[0]), "if abs(step)"),
            (sort_by_hand, "if x[j] > x[j + 1]"), (lambda a: collatz(a[1].astype(int)), "while n != 1"), (first_negative, "if v < 0"),
            (lambda a: max(a[0], a[1]), "max(a[0]"), (lambda a: sorted(a), "sorted(a)"), (lambda a: a[0] and a[1], "a[0] and"),
            (lambda a: 1 < a[0] < 3, "1 < a[0]")]


@pytest.mark.parametrize(("f", "text"), BRANCHES, ids=[t for _, t in BRANCHES])
def test_branch_on_data(f, text):
    with pytest.raises(pyxla.TraceError) as e:
        pyxla.jit(f)(np.array([1.0, 2.0, -1.0]))
    message = str(e.value)
    assert "needs a value that is known only when the compiled function runs" in message and "np.where" in message
    line = int(re.search(rf"{re.escape(__file__)}:(\d+)", message)[1])
    assert text.split("(")[0] in Path(__file__).read_text().splitlines()[line - 1]
