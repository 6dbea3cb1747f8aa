"""Ufuncs without an op of ours: NumPy's rare ones, SciPy's special functions, and what SciPy writes in Python over them."""
import numpy as np
import pytest
from checking import check, check_error, sample

import pyxla
from pyxla import UnsupportedError

X = sample((4, 5), "float64", 1)
P = np.abs(X) + 0.1
U = P / (P.max() * 1.1)
I = sample((4, 5), "int32", 2)
J = sample(5, "int16", 3)
N = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-310])

RARE = [
    lambda I, J: np.gcd(I, J), lambda I: np.lcm(I, 4), lambda X, J: np.ldexp(X, J), lambda X: np.ldexp(X.astype("float32"), 2), lambda X: np.frexp(X), lambda X: np.frexp(X)[1] + 1, lambda X: np.nextafter(X, 1), lambda X: np.nextafter(0, X),
    lambda N: np.spacing(N), lambda I: np.bitwise_count(I), lambda J: np.bitwise_count(J), lambda N: np.nextafter(N, N[::-1]), lambda I, J: np.gcd(I, J, dtype="int64"), lambda X: np.frexp(X[0, 0]),
]


def arguments(f):
    return [globals()[name] for name in f.__code__.co_varnames[:f.__code__.co_argcount]]


@pytest.mark.parametrize("f", RARE, ids=range(len(RARE)))
def test_rare_ufuncs(f):
    check(f, *arguments(f))


def test_out_and_where():
    def f(x, out, k):
        np.nextafter(x, 0, out=out)
        np.spacing(x, out=x[0], where=x[0] > 0) if x.ndim == 1 else np.spacing(x[1], out=x[0], where=x[0] > 0)
        np.gcd(k, 6, out=k)

    check(f, X.copy(), np.zeros((4, 5), "float64"), I.copy())


@pytest.mark.parametrize("f", [lambda X: np.gcd(X, 2), lambda X: np.ldexp(X, X), lambda I: np.gcd(I, 2**40), lambda X, J: np.gcd(X.astype(int), J[:3])])
def test_errors(f):
    check_error(f, *arguments(f))


special = pytest.importorskip("scipy.special")
linalg = pytest.importorskip("scipy.linalg")
ONE = "erf erfc gamma gammaln digamma expit log_ndtr ndtr i0 i1 j0 j1 erfcx dawsn k0".split()
UNIT = "logit ndtri erfinv".split()


@pytest.mark.parametrize("name", ONE + UNIT)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_special_functions(name, dtype):
    x = (U if name in UNIT else X if dtype == "int32" else X * 3).astype(dtype)
    check(getattr(special, name), x)
    if dtype != "int32":
        check(lambda x: getattr(special, name)(x * 0.5).sum(0) + 1, x, rtol=1e-6 if dtype == "float32" else 1e-13, signs=False)
        check(getattr(special, name), x[0, 0])


@pytest.mark.parametrize("name", ["erf", "gammaln", "expit", "ndtri"])
def test_special_values(name):
    check(getattr(special, name), N)


@pytest.mark.parametrize("f", [
    lambda X, P: special.xlogy(X, P), lambda P: special.xlogy(P, 2.0), lambda X: special.logsumexp(X), lambda X: special.logsumexp(X, axis=0), lambda X, P: special.logsumexp(X, axis=1, b=P, keepdims=True), lambda X: special.softmax(X), lambda X: special.softmax(X, axis=1),
    lambda X: special.log_softmax(X, axis=0), lambda P, J: special.jv(J, P), lambda P: special.poch(P, 2), lambda U: special.betainc(2, 3, U), lambda P: special.rel_entr(P, P[::-1]), lambda X: special.sici(X), lambda P: special.entr(P.astype("float32")),
])
def test_more_of_scipy(f):
    check(f, *arguments(f), rtol=1e-14, signs=False)


def test_a_ufunc_over_objects_is_refused():
    f = np.frompyfunc(lambda a: a, 1, 1)
    with pytest.raises((UnsupportedError, TypeError)):
        pyxla.jit(f)(X)


@pytest.mark.parametrize("f", [lambda X: linalg.norm(X, 1), lambda X: linalg.expm(X[:, :4]), lambda X: linalg.inv(X[:, :4])])
def test_flags_that_scipy_asks_for(f):
    with pytest.raises((UnsupportedError, TypeError), match=r"ndarray\.(flags\S*|base) is not supported|must be numpy\.ndarray"):
        pyxla.jit(f)(X)
