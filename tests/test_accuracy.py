"""NumPy's own accuracy data: arguments with correctly rounded results, in the wheel of the NumPy that is installed. Its tolerances hold, and the
bounds of ops.def."""
import re
from pathlib import Path

import numpy as np
import pytest
from checking import ulps

import pyxla

DATA = Path(np.__file__).parent / "_core/tests/data"
FILES = sorted(DATA.glob("umath-validation-set-*.csv"))
OPS = (Path(__file__).resolve().parent.parent / "csrc/ir/ops.def").read_text()
BOUNDS = {m[1]: (float(m[2]), float(m[3])) for m in re.finditer(r"^ELEMENTWISE\((\w+),\s*1, T,\s*\"\w+\",\s*MATH,\s*([\d.]+), ([\d.]+),", OPS, re.M)}


def rows(path, dtype):
    """Arguments, results and NumPy's tolerances of one dtype."""
    lines = [line.split(",") for line in path.read_text().splitlines()[1:] if line and line[0] not in "#$"]
    mine = [line for line in lines if line[0] == f"np.{dtype}"]
    bits = {"float32": np.uint32, "float64": np.uint64}[dtype]
    column = lambda k: np.array([int(line[k], 16) & np.iinfo(bits).max for line in mine], bits).view(dtype)
    return column(1), column(2), np.array([int(line[3]) for line in mine])


@pytest.mark.skipif(not FILES, reason="this NumPy came without its tests")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem.rpartition("-")[2])
def test_numpys_validation_set(path, dtype):
    name = path.stem.rpartition("-")[2]
    x, want, tolerance = rows(path, dtype)
    got = pyxla.jit(lambda x: getattr(np, name)(x))(x)
    far = ulps(want, got)
    bound = BOUNDS[name][dtype == "float64"]
    assert (far <= np.ceil(np.minimum(tolerance, bound))).all(), (x[far.argmax()], got[far.argmax()], want[far.argmax()], far.max())
