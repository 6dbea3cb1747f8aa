"""What pyxla found on this machine: `python -m pyxla`."""

import sys

import numpy as np

import pyxla
from pyxla import _core


def rows():
    """Pairs of a name and a text."""
    info = _core.system_info()
    memory = pyxla.memory_info()
    try:
        llvm = _core.llvm_version()
    except pyxla.Error as error:
        llvm = f"not available: {error}"
    yield "pyxla", pyxla.__version__
    yield "Python", sys.version.split()[0]
    yield "NumPy", np.__version__
    yield "LLVM", llvm
    yield "CPU", info["cpu"]
    yield "vectors", f"{info['level']}, {info['vector_bytes']} bytes"
    yield "caches", " ".join(f"L{k} {size >> 10} KiB" for k, size in enumerate(info["caches"], 1))
    yield "threads", f"{info['threads']} (default {info['default_threads']})"
    yield "backend", info["backend"] + (", with bounds checks" if info["checked"] else "")
    yield "kernels", f"{info['kernels']} in the table, {info['code_bytes']} bytes of code"
    yield "memory", f"keeps at most {memory.limit >> 20} MiB of freed blocks, now {memory.cached >> 20} MiB"


if __name__ == "__main__":
    for name, text in rows():
        print(f"{name:8} {text}")
