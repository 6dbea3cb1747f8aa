"""Every ufunc and array function over every dtype against NumPy (tests/sweep.py), on the interpreter: what differs stands here, with the reason."""
import os
import subprocess
import sys
from pathlib import Path

import pytest
from checking import OLD

import pyxla

pytest.importorskip("ml_dtypes")

CASTS = "einsum of ml_dtypes' floats, which NumPy refuses"
NUMPYS = "NumPy finds no dtype by the letter of ml_dtypes' float8_e5m2"
COMPLEX = "products of complex numbers are rounded otherwise, and the rounding decides"
ORDER = "the order of np.unique_values is not specified"
DATA = "the dtype depends on the data, docs/numpy_surface.md"
SORTED = "ml_dtypes compare NaN as equal to all; here it comes last"
KNOWN = {
    **dict.fromkeys([("accepts", f"np.einsum({f})") for f in ("'i,j', v, v", "'i->', v", "'ii', q", "'ij,ij->i', x, x", "'ij,jk->ik', x, y", "'ij->j', x")], CASTS),
    ("accepts", "np.lib.stride_tricks.sliding_window_view(v, 3)"): NUMPYS,
    ("accepts", "np.lib.stride_tricks.sliding_window_view(v, 3).sum(axis=-1)"): NUMPYS,
    ("differs", "np.cross(q, q)"): COMPLEX,
    ("differs", "np.linalg.cross(q, q)"): COMPLEX,
    ("differs", "np.polydiv(v, v[:2])"): COMPLEX,
    ("differs", "power.accumulate"): COMPLEX,
    ("differs", "power.reduce"): COMPLEX,
    ("differs", "np.unique_values(v)"): ORDER,
    ("differs", "np.histogram(v, 4, weights=v, density=True)"): "sums of 8-bit floats accumulate in float32",
    ("differs", "np.quantile(v, np.float32(.4))"): "NumPy's dtype is another one if there is a NaN",
    ("differs", "np.setxor1d(v, v[:2])"): SORTED,
    ("differs", "np.digitize(v, np.array([0, 1, 2]))"): SORTED,
    **dict.fromkeys([("differs", f) for f in ("np.searchsorted(np.arange(4), v)", "np.searchsorted(np.sort(v), v)", "v.searchsorted(v[:2])")], SORTED),
    ("refuses", "ldexp.reduce"): "docs/numpy_surface.md",
    ("refuses", "np.array([v[0], 1])"): "NumPy's array is one of objects",
    ("refuses", "np.nanmedian(x, axis=0)"): DATA,
    ("raises", "np.nanmedian(x, axis=0)"): DATA,
}

if OLD:
    FORMS = ["np.einsum('ij,jk,kl', x, y, x, optimize=True)", "np.nanpercentile(x, 30)", "np.nanquantile(x, .3, axis=0)",
             "np.percentile(v, 40, method='median_unbiased')", "np.percentile(x, 30)", "np.quantile(x, .5)", "np.sinc(v)", "v ** 2.0"]
    KNOWN.update(dict.fromkeys([("differs", f) for f in FORMS], "dtypes of ml_dtypes' floats, and of bools squared, as from NumPy 2.3 on"))


@pytest.mark.parametrize("nan", [False, True])
def test_every_function_and_dtype(nan):
    here = Path(__file__).parent
    env = {**os.environ, "PYXLA_BACKEND": "interp", "PYTHONPATH": str(Path(pyxla.__file__).resolve().parent.parent)}
    run = subprocess.run([sys.executable, here / "sweep.py", *["--nan"] * nan], env=env, capture_output=True, text=True, check=True)
    lines = [line.split("\t") for line in run.stdout.splitlines() if "\t" in line]
    assert int(run.stdout.splitlines()[-1].split()[0]) > 13000
    assert [line for line in lines if tuple(line[:2]) not in KNOWN] == []
