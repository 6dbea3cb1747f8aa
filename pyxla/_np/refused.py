"""The functions of NumPy that a jitted function refuses: one table, which makes the error message and docs/numpy_surface.md.

Every function that NumPy lets others override, and every ufunc, is implemented (it is registered in `_core._functions`) or has a row."""
# ruff: noqa: E501
from typing import NamedTuple

import numpy as np

from .. import _core
from ._args import unsupported


class Row(NamedTuple):
    names: str              # of functions, in one module
    reason: str
    cure: str
    numeric: bool = False   # whether they compute on numeric arrays
    module: str = "numpy"


LAYOUT = "the compiled function takes arrays of any memory layout; compute with shapes instead"
VALUES = "return the array and convert it outside"

# Attributes and methods of ndarray that a tracer has not, or that raise: the cure.
ATTRIBUTES = {
    **dict.fromkeys(["base", "ctypes", "data", "flags", "setflags"], LAYOUT),
    **dict.fromkeys(["dump", "dumps", "tofile"], "return the array and write it outside"),
    **dict.fromkeys(["item", "tobytes", "tolist"], VALUES),
    **dict.fromkeys(["getfield", "setfield"], "use slices, or astype where the values count"),
    "byteswap": "swap the bytes outside of the jitted function",
    "resize": "use np.resize, or make a new array and copy",
}

LATER = "compute it outside, or write it with the functions that are (docs/numpy_surface.md)"

ROWS = [
    Row("array2string array_repr array_str", "the text of an array needs its values", "return the array and format it outside; print(x) shows dtype and shape"),
    Row("save savez savez_compressed savetxt", "files are written when the function is traced, not when it runs", "return the array and save it outside"),
    Row("fromfile fromstring frombuffer fromiter loadtxt genfromtxt", "what they read would be read once, by the trace",
        "read it outside and pass the array as an argument"),
    Row("busday_count busday_offset is_busday datetime_as_string isnat", "dates are no numbers", "compute it outside of the jitted function"),
    Row("may_share_memory shares_memory", "where arrays lie is not known while tracing", "ask outside of the jitted function"),
    Row("append_fields apply_along_fields assign_fields_by_name drop_fields find_duplicates join_by merge_arrays rec_append_fields rec_drop_fields rec_join "
        "recursive_fill_fields rename_fields repack_fields require_fields stack_arrays structured_to_unstructured unstructured_to_structured",
        "structured arrays are no arrays of numbers", "pass the fields as arrays of their own", module="numpy.lib.recfunctions"),
]
# Functions that are there and refuse some arguments: names, which, the cure. The code that refuses has its own text.
PARTS = [
    ("polynomial.polyutils.trimcoef", "coefficients that depend on an argument", "slice them"),
    ("polynomial.Polynomial.convert", "polynomials that depend on an argument", "`np.polyval` of their coefficients"),
    ("ldexp", "its method reduce, of integers", "cast to float first"),
    ("ndarray.view", "a store through a view as bools, or of bools, where a byte is neither 0 nor 1: a ValueError in the run", "store into the array, or into a .copy()"),
    ("vectorize", "elements of integers whose arithmetic leaves int64 on the way: an OverflowError in the run (Python's integers have no bounds)", "floats, or the function for whole arrays"),
    ("vectorize", "arrays of uint64, of complex numbers and of ml_dtypes' floats", "the function for whole arrays"),
    ("nanmedian", "ml_dtypes' floats along an axis: NumPy's dtype depends on the data", "cast to float32 first"),
    ("pad", "a function as mode, called for more than 1000 rows", "one of NumPy's modes"),
    ("array asarray", "lists of one of ml_dtypes' floats and a Python int: NumPy makes an array of objects", "cast the float first"),
    ("copy ravel reshape flatten", "orders 'A' and 'K' of an array that is computed from arguments which are not all in C order", "'C' or 'F'"),
]
TABLE = {f"{row.module}.{name}": row for row in ROWS for name in row.names.split()}


def full_name(function):
    """The name a user knows a function by."""
    return f"{getattr(function, '__module__', None) or 'numpy'}.{function.__name__}"


@_core.implements("refused")
def refuse(function):
    """Raises the error for a function that is not implemented; csrc/py calls it. One of numpy.polynomial is NumPy's own Python code."""
    name = full_name(function)
    if name.startswith("numpy.polynomial."):
        return function._implementation
    row = TABLE.get(name)
    if row is None:
        raise unsupported(name, LATER)
    raise unsupported(name, f"{row.cure} ({row.reason})")


def absent(name, cure):
    def refuse_method(a, *args, **kwargs):
        raise unsupported(f"ndarray.{name}", cure)

    refuse_method.__code__ = refuse_method.__code__.replace(co_name=name)       # so that messages can tell them apart
    _core.method(name)(refuse_method)


for _name in ("setflags", "dump", "dumps", "tofile", "getfield", "setfield", "byteswap", "resize"):
    absent(_name, ATTRIBUTES[_name])


class Flags:
    """What SciPy may ask of an array's flags: whether it may write into it. The others are facts of memory."""

    def __init__(self, writeable):
        self.writeable = writeable

    def __getattr__(self, name):
        raise unsupported(f"ndarray.flags.{name}", ATTRIBUTES["flags"])

    def __getitem__(self, name):
        return self.writeable if name in ("WRITEABLE", "W") else getattr(self, str(name).lower())


_core._creators["flags"] = Flags


# ---- the page of the documents ----

def overridable():
    """Every function that NumPy lets others override, by the name a user knows it by, and every ufunc of its namespace. Without those that
    NumPy loads on demand: of strings, and of classes of polynomials."""
    from numpy.testing.overrides import get_overridable_numpy_array_functions
    functions = [*get_overridable_numpy_array_functions(), *(f for f in vars(np).values() if isinstance(f, np.ufunc))]
    return {full_name(f): f for f in functions if not full_name(f).startswith(("numpy.char.", "numpy.strings.", "numpy.polynomial."))}


def implemented(name, function):
    """Whether a jitted function may call it on its arrays."""
    from .. import _creation
    return function in _core._functions or function in _core._ufuncs or name.removeprefix("numpy.") in _creation.NAMES


def page():
    """The text of docs/numpy_surface.md."""
    known = overridable()
    done = {name for name, f in known.items() if implemented(name, f)}
    numeric = [name for name in known if name in done and not is_other(name) or name in TABLE and TABLE[name].numeric]
    share = 100 * sum(name in done for name in numeric) / len(numeric)
    lines = ["# NumPy's functions", "",
             f"Made by `python tests/test_surface.py` from `pyxla/_np/refused.py`, with NumPy {np.__version__}. Of NumPy's {len(known)} functions that can be overridden, ufuncs",
             f"included, a jitted function can use {len(done)}; of the {len(numeric)} that compute on numbers {share:.0f} %. Calling another one is a `pyxla.UnsupportedError`",
             "that names the line and what to do instead:", "",
             "| functions | why not | instead |", "|---|---|---|"]
    for row in ROWS:
        left = [n for n in row.names.split() if f"{row.module}.{n}" in known and f"{row.module}.{n}" not in done]
        prefix = "" if row.module == "numpy" else f"{row.module.removeprefix('numpy.')}: "
        if left:
            lines.append(f"| {prefix}{' '.join(f'`{n}`' for n in left)} | {row.reason} | {row.cure} |")
    lines += ["", "Refused for some arguments:", "", "| functions | which | instead |", "|---|---|---|"]
    lines += [f"| {' '.join(f'`{n}`' for n in names.split())} | {which} | {cure} |" for names, which, cure in PARTS]
    lines += ["", "Attributes and methods of arrays that a jitted function cannot use (`item`, `tolist` and `tobytes` work where no argument decides the value):", "",
              "| of an array | instead |", "|---|---|"]
    for cure in dict.fromkeys(ATTRIBUTES.values()):
        lines.append(f"| {' '.join(f'`{name}`' for name, c in ATTRIBUTES.items() if c == cure)} | {cure} |")
    lines += ["", "What can be used:", ""]
    for module in sorted({n.rpartition(".")[0] for n in done}, key=lambda m: (len(m), m)):
        names = sorted(n.rpartition(".")[2] for n in done if n.rpartition(".")[0] == module)
        lines += [f"**{module}**: " + " ".join(f"`{n}`" for n in names), ""]
    return "\n".join(lines)


def is_other(name):
    """Whether an implemented function says something of shapes and dtypes instead of computing on numbers."""
    return name.removeprefix("numpy.") in ("shape ndim size result_type can_cast min_scalar_type common_type iscomplexobj isrealobj broadcast_to "
                                           "broadcast_arrays einsum_path may_share_memory shares_memory").split()
