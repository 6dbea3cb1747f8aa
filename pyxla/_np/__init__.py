"""NumPy's functions and methods on tracers, as compositions of the primitives of `pyxla._core`.

Importing this package imports its modules, which register them. A function that is registered nowhere raises the `UnsupportedError` of
refused.py. Nothing in here may call a NumPy creation function (`np.zeros`, `np.asarray`, ...): while a trace runs they are redirected.
"""
import importlib
import pkgutil

from .. import _originals

__all__ = sorted(module.name for module in pkgutil.iter_modules(__path__))

with _originals.in_place():
    for _name in __all__:
        importlib.import_module(f"{__name__}.{_name}")
    importlib.import_module("pyxla._creation")
