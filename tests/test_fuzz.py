"""Random programs (fuzz.py): some compiled here, more in a process of their own on the interpreter."""
import os
import subprocess
import sys
from pathlib import Path

import fuzz
import numpy as np
import pytest
from checking import same
from noise import moved

import pyxla

HERE = Path(__file__).resolve().parent
PACKAGES = str(Path(pyxla.__file__).resolve().parent.parent)


@pytest.mark.parametrize("seed", range(0, 1000, 50))
def test_compiled(seed):
    assert fuzz.run(50, seed) == 0


@pytest.mark.parametrize("form,meaningless", [("np.where(x - x.mean() > 0, 3, x)", True), ("np.sin(x * 1e9)", True), ("(x * 1e15).astype(int)", True),
                                              ("np.tanh(x).sum()", False), ("np.where(x > 0.2, 3, x)", False), ("np.exp(x - x.max())", False), ("x @ x", False)])
def test_noise_tells_what_a_tolerance_means(form, meaningless):
    f, x = eval(f"lambda x: {form}"), np.full(7, 0.7)
    want = f(x)
    assert moved(f, [x], lambda got, _: same(want, got, rtol=1e-9)) == meaningless


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
