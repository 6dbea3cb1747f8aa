"""Random programs (fuzz.py): some compiled here, more in a process of their own on the interpreter."""
import os
import subprocess
import sys
from pathlib import Path

import fuzz
import pytest

import pyxla

HERE = Path(__file__).resolve().parent
PACKAGES = str(Path(pyxla.__file__).resolve().parent.parent)


@pytest.mark.parametrize("seed", range(0, 1000, 50))
def test_compiled(seed):
    assert fuzz.run(50, seed) == 0


def in_process(count, seed, **environment):
    done = subprocess.run([sys.executable, HERE / "fuzz.py", "--count", str(count), "--seed", str(seed)],
                          env={**os.environ, "PYTHONPATH": PACKAGES, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


def test_interpreted():
    in_process(2000, 100_000, PYXLA_BACKEND="interp")


def test_bounds_checked():
    in_process(200, 200_000, PYXLA_CHECK="1")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_interpreted(part):
    in_process(50_000, 1_000_000 + part * 50_000, PYXLA_BACKEND="interp")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_compiled(part):
    in_process(2500, 3_000_000 + part * 2500, **({"PYXLA_CHECK": "1"} if part % 2 else {}))
