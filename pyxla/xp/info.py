"""What the array API standard lets a namespace say of itself."""
import numpy as np

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_GROUPS = {"integral": ("signed integer", "unsigned integer"),
           "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating")}


def _check_device(device):
    if device not in (None, "cpu"):
        raise ValueError(f'Device not understood. Only "cpu" is allowed, but received: {device}')


class __array_namespace_info__:
    """Capabilities, devices and dtypes of this namespace (array API standard, "Inspection").

    Examples
    --------
    >>> from pyxla import xp
    >>> xp.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float64')
    """

    __module__ = "pyxla.xp"

    def capabilities(self):
        """What the namespace can do: sizes that depend on data, and the most axes of an array."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 16}

    def default_device(self):
        """The device of new arrays."""
        return "cpu"

    def devices(self):
        """All devices."""
        return ["cpu"]

    def default_dtypes(self, *, device=None):
        """The dtypes of new arrays, by kind."""
        _check_device(device)
        return {"real floating": np.dtype(np.float64), "complex floating": np.dtype(np.complex128), "integral": np.dtype(np.int64),
                "indexing": np.dtype(np.int64)}

    def dtypes(self, *, device=None, kind=None):
        """The dtypes of a kind (or of a tuple of kinds), by name."""
        _check_device(device)
        if kind is None:
            kinds = tuple(_KINDS)
        else:
            kinds = [k for name in (kind if isinstance(kind, tuple) else (kind,)) for k in _GROUPS.get(name, (name,))]
        for k in kinds:
            if k not in _KINDS:
                raise ValueError(f"unsupported kind: {k!r}")
        return {name: np.dtype(name) for k in kinds for name in _KINDS[k]}
