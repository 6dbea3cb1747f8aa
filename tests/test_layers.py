"""The source keeps its own rules: layers, one owner of each foreign API, one exported symbol per shared object."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
LAYERS = ["base", "ir", "opt", "gen", "run", "py"]
FILES = sorted(p for p in CSRC.rglob("*") if p.suffix in (".c", ".h", ".def"))
INCLUDE = re.compile(r'^\s*#\s*include\s+(<[^>]+>|"[^"]+")', re.M)
# The only folder that may include a header whose name matches.
OWNERS = {
    r"Python\.h|structmember\.h|numpy/.*|frameobject\.h|internal/.*|cpython/.*": "py",
    r"llvm-c/.*|llvm/.*": "gen",
    r"dlfcn\.h|pthread\.h|sys/mman\.h|cuda.*": "run",
}


def name(path):
    return str(path.relative_to(CSRC))


def includes(path):
    return [m.strip('<>"') for m in INCLUDE.findall(path.read_text())]


@pytest.mark.parametrize("path", FILES, ids=name)
def test_includes_only_lower_layers(path):
    layer = LAYERS.index(path.parent.name)
    for header in includes(path):
        if (CSRC / header).exists():
            folder = header.split("/")[0]
            assert LAYERS.index(folder) <= layer, f"{name(path)} includes {header}: {folder} is above {path.parent.name}"
        else:
            assert '"' + header + '"' not in path.read_text(), f'{name(path)} includes "{header}", which is no file from csrc/'


@pytest.mark.parametrize("path", FILES, ids=name)
def test_foreign_headers_have_one_owner(path):
    for header in includes(path):
        for pattern, owner in OWNERS.items():
            if re.fullmatch(pattern, header):
                assert path.parent.name == owner, f"{name(path)} includes {header}, which belongs to csrc/{owner}"


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix == ".h"], ids=name)
def test_header_compiles_alone(path):
    if path.parent.name in ("py", "gen") or "llvm-c" in path.read_text():
        pytest.skip("needs foreign headers")
    subprocess.run(["gcc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{CSRC}", "-x", "c", "-"],
                   input=f'#include "{name(path)}"\n', text=True, check=True)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_tidy(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        assert "\t" not in line and line == line.rstrip(), f"{name(path)}:{number}: tab or trailing space"
        assert len(line) <= 240, f"{name(path)}:{number}: {len(line)} columns"


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix == ".h"], ids=name)
def test_header_begins_with_prose(path):
    text = path.read_text()
    assert text.startswith("/*") and "#pragma once" in text, f"{name(path)} has no paragraph of prose or no #pragma once"


@pytest.mark.parametrize("layer", LAYERS[:-1])
def test_below_py_nothing_prints_or_exits(layer):
    call = re.compile(r"(?<![\w.>])(printf|puts|putchar|exit|_exit|abort|longjmp|setjmp)\s*\(|stderr|stdout")
    for path in (CSRC / layer).glob("*.c"):
        if name(path) == "base/err.c":                  # a failed ASSERT of a debug build
            continue
        code = re.sub(r'/\*.*?\*/|//[^\n]*|"(\\.|[^"\\])*"', "", path.read_text(), flags=re.S)
        found = call.search(code)
        assert found is None, f"{name(path)} uses {found.group()}"


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
@pytest.mark.parametrize("shared", ["_core", "_gen"])
def test_one_exported_symbol(shared):
    import pyxla

    files = sorted(Path(pyxla.__file__).parent.glob(f"{shared}*.so"))
    assert files, f"no {shared}*.so beside the package"
    for path in files:
        lines = subprocess.check_output(["nm", "-D", "--defined-only", path], text=True).splitlines()
        symbols = [line.split()[-1] for line in lines if line.split()[-2] in "TtDdBbVvWwRr"]
        symbols = [s for s in symbols if not re.match(r"_init$|_fini$|_edata|_end$|__bss_start|__(a|ub|t)san|__odr_asan", s)]
        assert len(symbols) == 1, f"{path.name} exports {symbols}"
