"""`x.flat`: the elements in C order, read as copies, written in place; an iterator as NumPy's."""
import numpy as np

from .. import _core
from ._args import array

method = _core.method


class Flat:
    """`numpy.flatiter` of a tracer."""

    __slots__ = ("base", "index")

    def __init__(self, base):
        self.base, self.index = base, 0

    def _row(self):
        """The elements now, as a new array of one axis."""
        return _core.reshape(_core.copy(array(self.base), True), (self.base.size,))

    @property
    def coords(self):
        """The indices of the next element."""
        out, left = [], self.index
        for n in self.base.shape[::-1]:
            left, k = divmod(left, n)
            out.insert(0, k)
        return tuple(out)

    def __len__(self):
        return self.base.size

    def __iter__(self):
        return self

    def __next__(self):
        if self.index >= self.base.size:
            self.index = 0
            raise StopIteration
        item = self[self.index]
        self.index += 1
        return item

    def __getitem__(self, key):
        item = self._row()[key]
        return _core.copy(item) if item.ndim else item

    def __setitem__(self, key, value):
        row = self._row()
        value = array(value, row.dtype)
        if value.size == 0:
            return
        if value.ndim:                                  # values are taken in turn until the places are filled
            value = np.resize(value, row[key].shape)
        row[key] = value
        self.base[...] = _core.reshape(row, self.base.shape)

    def copy(self):
        return self._row()

    def __array__(self, dtype=None, copy=None):
        return self._row().__array__(dtype)

    def __array_ufunc__(self, ufunc, method, *args, **kwargs):
        return getattr(ufunc, method)(*map(plain, args), **kwargs)

    def __array_function__(self, function, types, args, kwargs):
        return function(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()})

    def _compared(name):
        def compare(self, other):
            return getattr(self._row(), name)(plain(other))
        return compare

    __eq__, __ne__, __lt__, __le__, __gt__, __ge__ = map(_compared, ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"))
    __hash__ = None


def plain(x):
    """x, or the array that a Flat or a list of them stands for."""
    if isinstance(x, (list, tuple)):
        return type(x)(map(plain, x))
    return x._row() if isinstance(x, Flat) else x


_core._creators["flat"] = Flat


@method("__array_namespace__")
def array_namespace(a, *, api_version=None):
    return np.zeros(0).__array_namespace__(api_version=api_version)


@method("to_device")
def to_device(a, device, /, *, stream=None):
    if device != "cpu" or stream is not None:
        raise ValueError("The stream argument in to_device() is not supported" if stream is not None else
                         f'Unsupported device "{device}" (only "cpu" is supported)')
    return a
