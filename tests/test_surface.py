"""NumPy's surface: every function and ufunc is implemented or refused by one table; docs/numpy_surface.md is that table.

    python tests/test_surface.py        writes the page anew"""
import re
from pathlib import Path

import numpy as np
import pytest

import pyxla
from pyxla import _core, _creation  # noqa: F401  (registers what `like=` reaches)
from pyxla._np import refused

PAGE = Path(__file__).resolve().parent.parent / "docs" / "numpy_surface.md"
KNOWN = refused.overridable()
DONE = {name for name, f in KNOWN.items() if refused.implemented(name, f)}


def test_every_function_is_implemented_or_refused():
    missing = sorted(set(KNOWN) - DONE - set(refused.TABLE))
    assert not missing, "implement these, or give them a row in pyxla/_np/refused.py"


def test_no_row_is_twice():
    names = [f"{row.module}.{name}" for row in refused.ROWS for name in row.names.split()]
    assert len(names) == len(set(names))


def test_rows_name_functions():
    left = {name for name in refused.TABLE if not name.startswith("numpy.lib.recfunctions")}
    known = set(KNOWN) | {f"numpy.{n}" for n in dir(np)}
    assert not sorted(left - known)


def test_the_page_is_current():
    """It lists every function that is refused, with its cure, and as usable none that is not; written anew it may list fewer as refused."""
    page = PAGE.read_text()
    head, tail = page.split("What can be used:")
    rows = [line.split(" | ") for line in head.splitlines() if line.startswith("| ")]
    refused_there = {name for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    for name in set(KNOWN) - DONE:
        row = refused.TABLE[name]
        assert name.rpartition(".")[2] in refused_there, f"python {__file__} writes docs/numpy_surface.md anew"
        assert row.cure in head and row.reason in head
    for line in tail.splitlines():
        if line.startswith("**"):
            module = line[2:line.index("**:")]
            assert {f"{module}.{name}" for name in re.findall(r"`(\w+)`", line)} <= DONE
    assert sum(len(re.findall(r"`\w+`", line)) for line in tail.splitlines()) >= 330


def test_nine_tenths_are_implemented():
    numeric = {n for n in KNOWN if n in DONE and not refused.is_other(n) or n in refused.TABLE and refused.TABLE[n].numeric}
    assert len(numeric & DONE) >= 0.9 * len(numeric)


@pytest.mark.parametrize("name", sorted(set(KNOWN) - DONE))
def test_refusal_names_the_line_and_the_cure(name):
    line = test_refusal_names_the_line_and_the_cure.__code__.co_firstlineno

    @pyxla.jit
    def f(x):
        return refused.refuse(KNOWN[name])

    with pytest.raises(pyxla.UnsupportedError) as e:
        f(np.ones(3))
    assert name in str(e.value)
    assert refused.TABLE[name].cure in str(e.value)
    assert f"{__file__}:" in str(e.value) and int(str(e.value).rpartition(f"{__file__}:")[2].partition(",")[0]) > line


def test_a_refused_call_comes_to_the_table():
    def f(x):
        return np.array2string(x)

    with pytest.raises(pyxla.UnsupportedError, match=rf"numpy\.array2string .* {__file__}:{f.__code__.co_firstlineno + 1}, in f"):
        pyxla.jit(f)(np.ones(3))


# ---- attributes and methods ----

GONE = ["itemset", "newbyteorder", "ptp", "tostring"]      # an earlier NumPy has them to say so, or (tostring) until 2.3
PUBLIC = [name for name in dir(np.ndarray) if not name.startswith("_") and name not in GONE]
LATER = ["sort", "argsort", "partition", "argpartition", "searchsorted", "nonzero", "take", "choose", "compress", "put"]
FORMS = (Path(__file__).parent / "forms.txt").read_text()


@pytest.mark.parametrize("name", [n for n in PUBLIC if n not in refused.ATTRIBUTES and n not in LATER])
def test_attribute_is_there_and_used_by_a_form(name):
    seen = []
    pyxla.jit(lambda x: (seen.append(hasattr(x, name)), x)[1])(np.ones((3, 3)))
    assert seen == [True]
    assert re.search(rf"\b[XYFIBVWCDZSUN]\w*(\[[^]]*\])?\.{name}\b", FORMS), f"tests/forms.txt has no line with .{name}"


@pytest.mark.parametrize("name", list(refused.ATTRIBUTES))
def test_attribute_is_refused_with_a_cure(name):
    def f(x):
        a = getattr(x, name)
        return a() if callable(a) else a

    with pytest.raises(pyxla.TraceError) as e:
        pyxla.jit(f)(np.ones(3))
    assert "outside" in str(e.value) or refused.ATTRIBUTES[name] in str(e.value)
    assert __file__ in str(e.value)


def test_special_methods():
    """Those of ndarray that a tracer lacks ask for its memory, or make ndarrays."""
    seen = []
    pyxla.jit(lambda x: (seen.extend(n for n in dir(np.ndarray) if n.startswith("__") and not hasattr(x, n)), x)[1])(np.ones(3))
    buffers = {"__buffer__", "__release_buffer__"}         # from Python 3.12 on
    assert sorted(set(seen) - buffers) == ["__array_finalize__", "__array_interface__", "__array_struct__", "__array_wrap__", "__class_getitem__", "__dlpack__",
                                           "__dlpack_device__", "__setstate__"]


class Foreign:
    """An object of another library, which knows what to do with arrays."""

    __array_ufunc__ = None

    def __add__(self, other):
        return "add"

    def __radd__(self, other):
        return "radd"

    def __rmatmul__(self, other):
        return "rmatmul"

    def __eq__(self, other):
        return "eq"

    __hash__ = None


def test_foreign_operands_get_their_turn():
    seen = []
    pyxla.jit(lambda x: (seen.extend([x + Foreign(), Foreign() + x, x @ Foreign(), x == Foreign(), x[0] + Foreign()]), x)[1])(np.ones(3))
    assert seen == ["radd", "add", "rmatmul", "eq", "radd"]
    with pytest.raises(TypeError):
        pyxla.jit(lambda x: x + object())(np.ones(3))


if __name__ == "__main__":
    PAGE.write_text(refused.page())
