"""The programs of tests/programs/, unmodified, with their own small arguments and with larger ones (`x N`: N times the extents).

Each framework gets the module as it gets the other groups': JAX with its own `np`, Numba with every function decorated. Where that
does not run, there is no time: most programs write in place, which JAX has not, or use functions that Numba has not."""

import functools
import importlib.util
import types
from pathlib import Path

import numpy

from benchmarks.cases import Case

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "programs"

# The larger sizes: arrays of some 0.1 to 10 MB. Programs whose loops run over the extents have none.
LARGER = {
    "burgers": 8,
    "cavity": 10,
    "convnet": 16,
    "correlation": 10,
    "equalise": 16,
    "filters": 16,
    "floyd": 8,
    "heat": 16,
    "horizontal_diffusion": 8,
    "ising": 16,
    "kmeans": 100,
    "life": 16,
    "lstm": 16,
    "mandelbrot": 16,
    "markov": 20,
    "molecules": 2,
    "nbody": 20,
    "options": 100,
    "pca": 100,
    "raymarch": 16,
    "regression": 200,
    "resample": 16,
    "semi_lagrange": 16,
    "shallow_water": 16,
    "spectrum": 50,
    "transformer": 8,
    "vertical_advection": 16,
    "wave": 16,
}
NAMES = sorted(p.stem for p in FOLDER.glob("*.py"))


def program_module(name, np=numpy, decorate=None):
    spec = importlib.util.spec_from_file_location(f"programs.{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    arguments = module.arguments
    if np is not numpy:
        module.np = np
    for key, value in list(vars(module).items()):
        if decorate and isinstance(value, types.FunctionType) and value.__module__ == spec.name and value is not arguments:
            setattr(module, key, decorate(value))
    return module


def bind(np, decorate):
    """Functions of this module's cases, for a framework."""
    return {name: program_module(name, np, decorate).program for name in NAMES}


def arguments(name, scale):
    make = program_module(name).arguments
    return make(scale) if scale > 1 else make()


def row(name, scale):
    label = f"{name} x {scale}" if scale > 1 else name
    tol = getattr(program_module(name), "RTOL", 1e-11)
    return Case(label, name, functools.partial(arguments, name, scale), tol=10 * tol, least=1e-3, only=("numpy", "pyxla", "jax", "numba"))


CASES = [row(name, scale) for name in NAMES for scale in (1, LARGER.get(name)) if scale]
