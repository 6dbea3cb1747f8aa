"""What is measured: plain NumPy functions, one module per group, each with a table `CASES`.

A module is executed once per framework with its global `np` replaced where the framework has a NumPy of its own (JAX), so the
source is the same for all. Arguments are described, not made: a process makes those of the case that it runs.

`ops` counts the vector instructions per result that the arithmetic needs at least, an FMA as one, so that
`ops / (FMA peak / 2)` is a lower bound; the constants below are those of the shortest kernels known for elementary functions.
"""

import hashlib
import importlib.util
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy

GROUPS = ("elementwise", "rows", "reductions", "stencils", "products", "small", "math", "programs")
FOLDER = Path(__file__).resolve().parent

# Vector instructions of an elementary function (float32 or float64 alike, to a few).
EXP, LOG, TANH, SINCOS, DIV, SQRT = 16, 18, 20, 18, 8, 8


@dataclass(frozen=True)
class Case:
    """One row of the table.

    `args` are numbers or functions of a random generator that make an array, or a function that makes all of them. `numexpr` is the
    expression where that library can say it. `jax` names another function of the module for a source that writes in place. `tol` is
    the largest error allowed, relative to the largest magnitude of a result (integers: absolute), which counts as `least` where it is
    smaller.
    """

    name: str
    fn: str
    args: tuple | Callable
    ops: int = 0
    numexpr: str | None = None
    jax: str | None = None
    tol: float | None = None
    least: float = 1e-30
    only: tuple = ()
    quick: bool = False


def case(name, fn, *args, **facts):
    return Case(name, fn, args, **facts)


def load(group, np=numpy, decorate=None):
    """A fresh copy of a group's module whose global `np` is the given namespace; `decorate` wraps each of its functions."""
    name = f"benchmarks.cases.{group}_{np.__name__.replace('.', '_')}"
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{group}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.np = np
    if hasattr(module, "bind"):
        vars(module).update(module.bind(np, decorate))
    elif decorate:
        for name, value in list(vars(module).items()):
            if isinstance(value, types.FunctionType) and value.__module__ == spec.name:
                setattr(module, name, decorate(value))
    return module


def arguments(case):
    """The arguments of a case, the same in every process."""
    if callable(case.args):
        return case.args()
    seed = int.from_bytes(hashlib.sha256(case.name.encode()).digest()[:4], "little")
    rng = numpy.random.default_rng(seed)
    return tuple(a(rng) if callable(a) else a for a in case.args)


def normal(dtype, *shape):
    return lambda rng: rng.standard_normal(shape, "float32" if dtype == "float32" else "float64").astype(dtype)


def uniform(dtype, *shape, low=0.5, high=2.0):
    return lambda rng: rng.uniform(low, high, shape).astype(dtype)


def integers(dtype, *shape, low=0, high=100):
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


def view(make, index):
    """A view of an array: strided and reversed operands."""
    return lambda rng: make(rng)[index]
