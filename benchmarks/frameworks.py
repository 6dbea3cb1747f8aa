"""How each framework runs a case: a call without arguments that returns when the work is done.

A class is made once per process, after the process has been pinned; making it imports the framework. `prepare` gets the case, a
fresh copy of its module and NumPy arguments, and returns the call, whose results NumPy can convert.
"""

import functools
import os

import numpy as np

from benchmarks import cases

ONE_THREAD = {
    name: "1"
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMEXPR_MAX_THREADS",
        "PYXLA_NUM_THREADS",
    )
}


class Inexpressible(Exception):
    """The framework has no way to say the case."""


class NumPy:
    """Functions as they are."""

    refusals = (Inexpressible,)  # what it raises where it cannot say a case

    def __init__(self):
        self.version = np.__version__

    def load(self, group):
        return cases.load(group)

    def prepare(self, case, module, args):
        return functools.partial(getattr(module, case.fn), *args)

    def forget(self):
        """Drops what an earlier case has left: memory kept for later calls, compiled code that a first call would find."""


class Pyxla(NumPy):
    def __init__(self):
        import pyxla

        self.module = pyxla
        self.version = pyxla.__version__
        pyxla.jit(lambda x: x + 1)(np.ones(3))

    def prepare(self, case, module, args):
        return functools.partial(self.module.jit(getattr(module, case.fn)), *args)

    def forget(self):
        self.module.clear_kernels()
        self.module.trim_memory()


class Jax(NumPy):
    def __init__(self):
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax

        jax.config.update("jax_enable_x64", True)
        self.module = jax
        self.version = jax.__version__
        jax.jit(lambda x: x + 1)(np.ones(3))

    def load(self, group):
        return cases.load(group, self.module.numpy)

    def forget(self):
        self.module.clear_caches()

    def prepare(self, case, module, args):
        wait = self.module.block_until_ready
        static = tuple(k for k, a in enumerate(args) if type(a) is int)  # sizes and numbers of steps
        jitted = self.module.jit(getattr(module, case.jax or case.fn), static_argnums=static)
        placed = [self.module.device_put(a) if isinstance(a, np.ndarray) else a for a in args]
        return lambda: wait(jitted(*placed))


class Numba(NumPy):
    def __init__(self):
        import numba

        self.module = numba
        self.version = numba.__version__
        self.refusals = (numba.core.errors.NumbaError,)
        numba.njit(lambda x: x + 1)(np.ones(3))

    def load(self, group):
        return cases.load(group, decorate=self.module.njit)

    def prepare(self, case, module, args):
        return functools.partial(getattr(module, case.fn), *args)


class Numexpr(NumPy):
    def __init__(self):
        import numexpr

        self.module = numexpr
        self.version = numexpr.__version__
        numexpr.set_num_threads(1)

    def prepare(self, case, module, args):
        if case.numexpr is None:
            raise Inexpressible
        fn = getattr(module, case.fn)
        names = dict(zip(fn.__code__.co_varnames, args))
        return functools.partial(self.module.evaluate, case.numexpr, names)


class Torch(NumPy):
    def __init__(self):
        # Graphs are compiled anew, so that a first call is one.
        os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        import torch

        torch.set_num_threads(1)
        self.module = torch
        self.version = torch.__version__
        torch.compile(lambda x: x + 1)(np.ones(3))

    def forget(self):
        self.module.compiler.reset()

    def prepare(self, case, module, args):
        return functools.partial(self.module.compile(getattr(module, case.fn), dynamic=False), *args)


FRAMEWORKS = {"numpy": NumPy, "pyxla": Pyxla, "jax": Jax, "numba": Numba, "numexpr": Numexpr, "torch": Torch}
