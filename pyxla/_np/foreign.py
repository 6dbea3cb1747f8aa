"""Ufuncs that have no op of ours (NumPy's rare ones, SciPy's special functions, Numba's): host calls of the ufunc itself."""
from functools import cache, partial

import numpy as np

from .. import _core
from ._args import array, dtype_of, is_weak, out_array, scalar, to_out, type_of, unsupported
from .exponents import FLOATS, FORMULAS
from .host import host

implements = _core.implements


@cache
def loop(ufunc, dtypes):
    """The host call of one loop of a ufunc, by itself where it is one of C, which those of other packages may raise in."""
    def f(results, *inputs):
        ufunc(*inputs, out=results, signature=dtypes, casting="unsafe")
    raises = vars(np).get(ufunc.__name__) is not ufunc
    return host(f, lambda number: isinstance(ufunc, np.ufunc) and _core.host_loop(number, ufunc, dtypes, raises))


def given(x):
    """What resolve_dtypes() wants to know of an operand: a dtype, or the type of a Python number."""
    t = type_of(x)
    return type(t) if isinstance(t, (int, float, complex)) and not isinstance(t, bool) else array(x).dtype


def resolve(ufunc, inputs, dtype, signature, casting):
    """The dtypes of the loop that NumPy runs."""
    if signature is not None or (dtype is not None and ufunc.nout != 1):
        raise unsupported(f"{ufunc.__name__} with signature=", "cast the operands")
    wanted = {} if dtype is None else {"signature": (None,) * ufunc.nin + (dtype_of(dtype),)}
    types = ufunc.resolve_dtypes((*map(given, inputs), *(None,) * ufunc.nout), casting=casting, **wanted)
    if any(t.kind not in "biufcV" or t.hasobject or t.itemsize > 16 or t.char in "gG" for t in types):
        raise unsupported(f"the ufunc {ufunc.__name__} for these dtypes", "compute it outside of the jitted function")
    return types


@implements("ufunc")
def call(ufunc, *inputs, out=None, where=True, dtype=None, casting="same_kind", order="K", subok=True, signature=None, **other):
    if ufunc.nout == 0:
        raise unsupported(f"{ufunc.__name__}, a ufunc that writes to its operands,", "call it outside of the jitted function")
    if ufunc.signature is not None or other:
        raise unsupported(f"the generalised ufunc {ufunc.__name__}", "compute it outside of the jitted function")
    if len(inputs) != ufunc.nin:
        raise TypeError(f"{ufunc.__name__}() takes {ufunc.nin} operands")
    types = resolve(ufunc, inputs, dtype, signature, casting)
    arrays = [_core.as_tracer(x, t) if is_weak(x) else _core.cast(array(x), t) for x, t in zip(inputs, types)]
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    formula = FORMULAS.get(ufunc) if types[0] in FLOATS else None
    results = formula(*arrays) if formula else loop(ufunc, types)(arrays, [(t, shape) for t in types[ufunc.nin:]])
    outs = (out if isinstance(out, tuple) else (out,)) if out is not None else (None,) * ufunc.nout
    results = tuple(store(r, o, where, ufunc, casting) for r, o in zip(results, outs))
    return results if len(results) > 1 else results[0]


def store(r, out, where, ufunc, casting):
    into = out_array(out)
    if where is not True:
        if into is None:
            raise unsupported("where= of a ufunc without out=", "the other elements would be undefined; use np.where(condition, a, b)")
        check_output(ufunc, r.dtype, into.dtype, casting)
        r = _core.where(array(where, np.dtype(bool)), _core.cast(r, into.dtype), into)
    if into is not None:
        check_output(ufunc, r.dtype, into.dtype, casting)
    return to_out(r if into is not None else scalar(r), out, casting)


def check_output(ufunc, result, out, casting):
    """NumPy's error for a result that `out` cannot take."""
    if not np.can_cast(result, out, casting):
        raise np._core._exceptions._UFuncOutputCastingError(ufunc, casting, result, out, 0)


# NumPy's own ufuncs among them.
for ufunc in (np.bitwise_count, np.gcd, np.lcm, *FORMULAS):
    implements(ufunc)(partial(call, ufunc))
