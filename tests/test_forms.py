"""Every line of tests/forms.txt, jitted and not: an expression, or statements with a `return`, over the arrays named below."""
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from checking import OLD, check, check_error, clone, sample

ARRAYS = {
    "X": sample((3, 4), "float64", 1), "Y": sample((3, 4), "float64", 2), "F": sample((3, 4), "float32", 3), "I": sample((3, 4), "int32", 4),
    "B": sample((3, 4), "bool", 5), "V": sample(5, "float64", 6), "W": sample(4, "float64", 7), "C": sample((2, 3, 4), "float64", 8),
    "D": sample((4, 4, 4), "float64", 3), "Z": np.array(2.5), "S": np.float64(2.5), "U": sample((4, 3), "uint8", 9), "SQ": sample((4, 4), "float64", 10),
    "N": np.array([[1.0, np.nan, 3.0, np.inf], [np.nan, np.nan, -2.0, 5.0], [0.0, -np.inf, 1.0, np.nan]]), "E0": np.zeros((0, 3)), "K": np.array([1, 2, 3, 4]),
}
LINES = [line for line in (Path(__file__).parent / "forms.txt").read_text().splitlines() if line and not line.startswith("#")]


def function_of(line):
    names = [n for n in ARRAYS if re.search(rf"(?<![\w.'\"]){n}(?![\w'\"])", line)]
    body = line if re.search(r"\breturn\b", line) else f"return {line}"
    space = {"np": np}
    exec(f"import copy, math\ndef f({', '.join(names)}):\n    " + "\n    ".join(body.split("; ")), space)
    return space["f"], [ARRAYS[n] for n in names]


@pytest.mark.parametrize("line", LINES)
def test_form(line):
    if OLD and "mode='what'" in line:
        pytest.skip("NumPy takes any word")
    f, args = function_of(line)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            f(*clone(args))
    except Exception:
        check_error(f, *args)
        return
    check(f, *args, rtol=4e-7 if "F" in line or "float32" in line else 1e-13, signs=False)
