"""Every ufunc of NumPy's namespace with every keyword, and every method of those with two operands, against NumPy."""
import warnings

import numpy as np
import pytest
from checking import check, clone, sample

import pyxla
from pyxla import _core

UFUNCS = {f.__name__: f for f in vars(np).values() if isinstance(f, np.ufunc) and f.signature is None}
SIMPLE = {name: f for name, f in UFUNCS.items() if f in _core._ufuncs}
BINARY = {name: f for name, f in SIMPLE.items() if f.nin == 2 and f.nout == 1}


def operands(f, dtype="float64", shape=(3, 4)):
    kinds = [sample(shape, dtype, k) for k in range(f.nin)]
    return [np.abs(x) % 3 + 1 if dtype != "bool" else x for x in kinds]


def runs(f, *args):
    """What NumPy accepts: the calls of a list of thunks that do not raise."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            f(*clone(args))
        except Exception:
            return False
    return True


def dtype_of(f):
    for dtype in ("float64", "int64", "bool"):
        if runs(f, *operands(f, dtype)):
            return dtype
    raise AssertionError(f)


def forms(f, dtype):
    """Functions of (mask, outputs, operands)."""
    single = f.nout == 1
    yield lambda m, o, *x: f(*x, out=o[0] if single else tuple(o))
    yield lambda m, o, *x: f(*x, *o)
    yield lambda m, o, *x: f(*x, o[0]) if single else f(*x, out=(None, o[1]))
    yield lambda m, o, *x: f(*x, where=m, out=tuple(o))
    yield lambda m, o, *x: f(*x, where=m[0], out=tuple(o))
    yield lambda m, o, *x: f(*x, where=True)
    yield lambda m, o, *x: f(*x, where=False, out=tuple(o))
    yield lambda m, o, *x: f(*x, dtype="float32", casting="same_kind")
    yield lambda m, o, *x: f(*x, dtype="float64")
    yield lambda m, o, *x: f(*x, casting="no")
    yield lambda m, o, *x: f(*x, casting="unsafe", out=tuple(v.astype("float32") for v in o))
    yield lambda m, o, *x: f(*x, order="F", subok=False)
    yield lambda m, o, *x: f(*x, order="C")
    yield lambda m, o, *x: f(*[v[0, 0] for v in x], out=...) if np.lib.NumpyVersion(np.__version__) >= "2.3.0" else f(*x)
    yield lambda m, o, *x: f(*[v[:, :1] for v in x[:1]], *x[1:])
    yield lambda m, o, *x: f(*[[v[0, 0], v[1, 1]] for v in x])
    yield lambda m, o, *x: f(*[v[::-1, 1:3] for v in x], out=tuple(v[1:, ::2][:, :2] if v.shape[0] == 4 else v[:, ::2] for v in o))
    for signature in [t for t in f.types if not set(t) & set("egGOmM")][:3] + [t for t in f.types if t.startswith("d" * f.nin)]:
        yield lambda m, o, *x, s=signature: f(*x, signature=s, casting="unsafe")
    yield lambda m, o, *x: f(*x, sig=(None,) * f.nin + (np.dtype("float64"),) * f.nout)


@pytest.mark.parametrize("name", list(SIMPLE))
def test_keywords(name):
    f = SIMPLE[name]
    dtype = dtype_of(f)
    x = operands(f, dtype)
    with np.errstate(all="ignore"):
        results = f(*x)
    out = [np.zeros_like(r) for r in (results if isinstance(results, tuple) else (results,))]
    mask = sample((3, 4), "bool", 9)
    accepted = [g for g in forms(f, dtype) if runs(lambda m, o, x, g=g: supported(g(m, o, *x)), mask, out, x)]
    assert len(accepted) >= 9

    def every(m, o, x):
        return [g(m, [v.copy() for v in o], *x) for g in accepted], o

    check(every, mask, out, x, rtol=1e-6, signs=False, calls=1)


def supported(results):
    """Whether a result has a dtype that is compiled."""
    for r in results if isinstance(results, tuple) else (results,):
        if r.dtype.char not in "?bhilqBHILQfdFD":
            raise TypeError


def method_forms(f):
    yield lambda x, m, o: f.reduce(x)
    yield lambda x, m, o: f.reduce(x, 1)
    yield lambda x, m, o: f.reduce(x, axis=-1, keepdims=True)
    yield lambda x, m, o: f.reduce(x, axis=(0, 1))
    yield lambda x, m, o: f.reduce(x, axis=None)
    yield lambda x, m, o: f.reduce(x, axis=())
    yield lambda x, m, o: f.reduce(x, initial=x[0, 0])
    yield lambda x, m, o: f.reduce(x, 1, initial=1, where=m)
    yield lambda x, m, o: f.reduce(x, where=m)
    yield lambda x, m, o: f.reduce(x, 0, None, o[0])
    yield lambda x, m, o: f.reduce(x, axis=1, out=o[:, 0])
    yield lambda x, m, o: f.reduce(x, dtype="float32")
    yield lambda x, m, o: f.reduce(x[:1])
    yield lambda x, m, o: f.reduce(x[:0])
    yield lambda x, m, o: f.reduce([x[0], x[1]])
    yield lambda x, m, o: f.accumulate(x)
    yield lambda x, m, o: f.accumulate(x, 1)
    yield lambda x, m, o: f.accumulate(x, axis=-1, out=o)
    yield lambda x, m, o: f.accumulate(x, dtype="float32")
    yield lambda x, m, o: f.accumulate(x[:1])
    yield lambda x, m, o: f.accumulate(x[:0])
    yield lambda x, m, o: f.accumulate(x[0])
    yield lambda x, m, o: f.outer(x[0], x[:, 1])
    yield lambda x, m, o: f.outer(x, 2)
    yield lambda x, m, o: f.outer(x[0], x[1], out=np.zeros((4, 4), o.dtype))
    yield lambda x, m, o: f.outer([1, 2], x[0])


@pytest.mark.parametrize("dtype", ["float64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("name", list(BINARY))
def test_methods(name, dtype):
    f = BINARY[name]
    if name in ("arctan2", "power") and dtype != "bool":
        pytest.skip("NumPy's vector loops of these do not wait for the result before")
    x = operands(f, dtype)[0]
    mask = sample((3, 4), "bool", 9)
    try:
        with np.errstate(all="ignore"):
            out = np.zeros_like(f(x, x))
    except TypeError:
        pytest.skip("NumPy has no loop")
    if out.dtype == np.float16:
        pytest.skip("float16")
    accepted = [g for g in method_forms(f) if runs(lambda *a, g=g: supported(g(*a)), x, mask, out)]

    def every(x, m, o):
        return [g(x, m, o.copy()) for g in accepted]

    check(every, x, mask, out, rtol=1e-5, signs=False, calls=1)


def test_what_numpy_refuses():
    x = np.ones((3, 4))
    for g in (lambda x: np.subtract.reduce(x, axis=(0, 1)), lambda x: np.maximum.reduce(x[:0]), lambda x: np.exp.reduce(x), lambda x: np.divide.reduce(x, where=x > 0),
              lambda x: np.add.accumulate(x[0, 0]), lambda x: np.add(x, x, out=np.zeros(3)), lambda x: np.add(x, x, casting="no", dtype="float32"),
              lambda x: np.add(x, x, dtype="float64", signature="dd->d"), lambda x: np.add.reduce(x, 5), lambda x: np.add(x)):
        try:
            g(x)
        except Exception as e:
            kind = type(e)
        with pytest.raises(next(k for k in kind.__mro__ if k.__module__ in ("builtins", "numpy.exceptions"))):
            pyxla.jit(g)(x)
