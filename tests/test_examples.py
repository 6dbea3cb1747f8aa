"""Each program of examples/ runs and says that it agrees with NumPy (it exits with a message where it does not)."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pyxla

ROOT = Path(__file__).parent.parent
PROGRAMS = {
    "black_scholes.py": "options; the first one costs",
    "digits.py": "differ from NumPy's by at most",
    "heat.py": "the bits are NumPy's",
    "softmax_plan.py": "1 launch; 3 loops over the row",
}
FAST = {"digits.py": ["--epochs", "3", "--calls", "3", "--figure", "digits.png"]}


def test_every_example_is_listed():
    assert sorted(p.name for p in (ROOT / "examples").glob("*.py")) == sorted(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_example(name, tmp_path):
    if name == "digits.py":
        pytest.importorskip("sklearn")
        pytest.importorskip("matplotlib")
    path = os.pathsep.join([str(Path(pyxla.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, ROOT / "examples" / name, *FAST.get(name, [])],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, encoding="utf-8", timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert PROGRAMS[name] in run.stdout
    if name == "digits.py":
        assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")
        assert "2 traces" in run.stdout
