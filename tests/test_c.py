"""Builds the layers below Python with sanitizers and runs the C unit tests of tests/c against them.

A file test_*.c of tests/c is a program that returns 0 if all is well; the other files there belong to other tests."""
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYXLA_CHECK"}      # they look at the allocator that guard pages replace
PROGRAMS = sorted((ROOT / "tests/c").glob("test_*.c"))
FLAGS = ["-std=gnu17", "-g", "-O1", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-DPYXLA_DEBUG", "-ffp-contract=off",
         "-fno-math-errno", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", f"-I{CSRC}"]


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    out = tmp_path_factory.mktemp("objects")
    sources = [p for layer in ("base", "ir", "opt", "run") for p in sorted((CSRC / layer).glob("*.c"))]

    def build(source):
        obj = out / f"{source.parent.name}-{source.stem}.o"
        subprocess.run(["gcc", *FLAGS, "-c", str(source), "-o", str(obj)], check=True)
        return str(obj)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(build, sources))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_program(program, objects, tmp_path):
    binary = tmp_path / program.stem
    subprocess.run(["gcc", *FLAGS, str(program), *objects, "-o", str(binary), "-lm", "-ldl", "-lpthread"], check=True)
    done = subprocess.run([str(binary)], capture_output=True, text=True, timeout=300, cwd=ROOT,
                          env={**ENVIRONMENT, "ASAN_OPTIONS": "detect_leaks=0"})
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
