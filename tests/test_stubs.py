"""pyxla/_core.pyi and the built module say the same."""

import ast
import doctest
import inspect
import types
from pathlib import Path

import pyxla
import pyxla.__main__
from pyxla import _api, _core

STUBS = ast.parse(Path(pyxla.__file__).with_name("_core.pyi").read_text())


# What a structure sequence has, and what the stubs' NamedTuple does.
SEQUENCE = ("n_fields", "n_sequence_fields", "n_unnamed_fields", "_fields", "_asdict")


def public(names):
    return {n for n in names if not (n.startswith("__") and n.endswith("__"))}


def declared(body):
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name, node
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id, node


def test_same_names():
    assert public(dict(declared(STUBS.body))) == public(dir(_core))


def test_same_members():
    for name, node in declared(STUBS.body):
        if isinstance(node, ast.ClassDef) and name not in ("Tracer",) and not name.endswith("Error"):
            stubs = public(dict(declared(node.body)))
            built = public(n for n in vars(getattr(_core, name)) if n not in SEQUENCE)
            assert stubs == built, name


def test_everything_public_is_documented():
    assert set(pyxla.__all__) <= set(dir(pyxla))
    for name in pyxla.__all__:
        assert getattr(pyxla, name).__doc__, name


def own_functions():
    """The public functions that are written here, not NumPy's own under another name."""
    for module in (pyxla, pyxla.nn, pyxla.xp, pyxla.xp.linalg, pyxla.xp.fft):
        for name in getattr(module, "__all__", public(dir(module))):
            f = getattr(module, name)
            if isinstance(f, types.FunctionType) and f.__module__.startswith("pyxla"):
                yield f


def test_functions_are_documented_as_numpydoc_asks():
    functions = list(own_functions())
    assert len(functions) > 30
    for f in functions:
        doc = inspect.getdoc(f)
        assert ">>>" in doc, f
        assert not inspect.signature(f).parameters or "Parameters\n-----" in doc, f


def test_examples():
    for module in (pyxla, _api, pyxla.nn, pyxla.xp, pyxla.xp.linalg):
        result = doctest.testmod(module)
        assert result.attempted > 0 and result.failed == 0


def test_version():
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    assert f'version = "{pyxla.__version__}"' in text
