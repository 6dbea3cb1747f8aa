"""Elementary functions alone, against NumPy's own SIMD loops."""

from benchmarks.cases import case, normal, uniform

# Where an argument of any sign makes no sense.
POSITIVE = ("log", "log2", "log10", "log1p", "sqrt", "arccosh", "power", "logaddexp")
UNIT = ("arcsin", "arccos", "arctanh")
BINARY = ("arctan2", "hypot", "power", "logaddexp")
FUNCTIONS = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "cbrt",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arccosh",
    "arctanh",
    *BINARY,
    "floor",
    "rint",
)


# A lambda for each, as a user would write it.
for _name in FUNCTIONS:
    globals()[_name] = eval(f"lambda x, y: np.{_name}(x, y)" if _name in BINARY else f"lambda x: np.{_name}(x)")


def operand(name, dtype, n):
    if name in POSITIVE:
        return uniform(dtype, n, low=1.0, high=10.0)
    return uniform(dtype, n, low=-0.9, high=0.9) if name in UNIT else normal(dtype, n)


CASES = [
    case(f"{name} {short} {size}", name, *[operand(name, dtype, n)] * (2 if name in BINARY else 1), only=("numpy", "pyxla"))
    for name in FUNCTIONS
    for dtype, short in (("float32", "f32"), ("float64", "f64"))
    for size, n in (("1k", 1000), ("1M", 10**6))
]
