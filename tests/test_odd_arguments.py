"""Arguments that no one means to give: an exception where NumPy raises one, its result where it gives one, and never the end of the process."""
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from checking import same

import pyxla

HERE = Path(__file__).resolve().parent
PACKAGES = str(Path(pyxla.__file__).resolve().parent.parent)

X = np.arange(6.0).reshape(2, 3) - 2

REFUSED = [
    (TypeError, "np.less(x, ['same', -2])"), (TypeError, "x + ['a']"), (TypeError, "x == [None]"), (TypeError, "np.add(x, [object()])"),
    (TypeError, "np.add(x, [2**70])"), (ValueError, "np.add(x, [[1, 2], [3]])"), (TypeError, "np._core.umath._zfill.accumulate(x)"),
    (TypeError, "np._core.umath._zfill.reduce(x)"), (TypeError, "np.sum(x, 0, x)"), (TypeError, "np.zeros_like(x, x)"), (TypeError, "np.array(x, x)"),
    (TypeError, "np.add.reduce(x, out=3)"), (TypeError, "np.max(x, out='a')"), (TypeError, "np.median(x, out=[1])"), (ValueError, "np.sum(x, initial=x)"),
    (TypeError, "np.add(x, x, order=3)"), (ValueError, "np.add(x, x, order='x')"), (TypeError, "np.sqrt(x, subok=3)"), (TypeError, "np.spacing(x, 1.5)"), (TypeError, "x.copy(('C',))"), (ValueError, "x.copy('CF')"),
    (ValueError, "np.zeros(x[x > 100].shape[0] - 1)"),
]
EQUAL = [
    "(None in x, ... in x, 'a' in x)", "np.arange(i)", "np.arange(i - 7)", "np.arange(x[x > 0].size - 9)", "np.arange(x[x > 0].size - 1) + x[x > 0][1:]",
    "np.arange(x[x > 0].size) * x[x > 0]", "np.cumulative_sum(x.sum())", "np.cumulative_prod(i)", "np.linalg.norm(x.astype('f2').ravel(), np.uint64(7))",
    "np.linalg.norm(x.ravel(), 3)", "np.intersect1d(x.astype('f2'), 1)", "np.setxor1d(1, x.astype('f4'))", "np.cov(x, bias=None)", "np.add(x, x, order=None, subok=True)", "np.add.reduce(array=x)",
    "np.add.reduceat(x, indices=[0, 1])", "np.add.reduceat(array=x, indices=i[None] - 2)", "np.add.accumulate(array=x, axis=1)", "np.add(x, x, order='K')",
]


@pytest.mark.parametrize("kind,line", REFUSED)
def test_refused(kind, line):
    f = eval(f"lambda x: {line}", {"np": np})
    with pytest.raises(kind, match="test_odd_arguments|<string>"):
        pyxla.jit(f)(X)
    if "zfill" not in line and "2**70" not in line and "==" not in line:          # (the first ends the process, the others make an array of objects)
        with pytest.raises(Exception):                                            # noqa: B017
            f(X)


@pytest.mark.parametrize("line", EQUAL)
def test_equal(line):
    f = eval(f"lambda x, i: {line}", {"np": np})
    same(f(X, np.array(3)), pyxla.jit(f)(X, np.array(3)), rtol=1e-12)


def in_process(count, seed):
    done = subprocess.run([sys.executable, HERE / "odd.py", "--count", str(count), "--seed", str(seed)], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": PACKAGES, "PYXLA_BACKEND": "interp"})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-300:]


def test_random_calls():
    in_process(1000, 0)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_many_random_calls(part):
    in_process(20_000, 1_000_000 + part * 20_000)
