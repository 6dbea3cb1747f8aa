"""Whether a result of NumPy's means anything to a tolerance: it is computed again with the noise of rounding added to every operation.

Where results move by more than the tolerance (a sum that cancels and is compared with 0, a sine of a large number, the integer part of a
large float), two right ways to compute them may differ as much, and a difference says nothing."""
import warnings

import numpy as np
from checking import clone

ULPS = 32                                                   # of noise, relative to each element
# Operations without a rounding error.
EXACT = {"negative", "positive", "absolute", "maximum", "minimum", "fmax", "fmin", "sign", "conjugate", "copysign", "clip"}
LIBRARY = ("einsum", "dot", "inner", "vdot", "convolve", "correlate")                     # array functions that call no ufunc


class Noisy(np.ndarray):
    """An array whose floats are a little wrong whenever they are computed."""

    rng = None

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        if out is not None:
            kwargs["out"] = tuple(map(plain, out))
        if "where" in kwargs:
            kwargs["where"] = plain(kwargs["where"])
        r = getattr(ufunc, method)(*map(plain, inputs), **kwargs)
        if out is not None:
            for x in kwargs["out"]:
                if isinstance(x, np.ndarray) and ufunc.__name__ not in EXACT:
                    x[...] = perturbed(x)
            return out[0] if len(out) == 1 else out
        return noisy(r, ufunc.__name__ not in EXACT)

    def __array_function__(self, function, types, args, kwargs):
        r = super().__array_function__(function, types, args, kwargs)
        return noisy(r, function.__name__ in LIBRARY)


def plain(x):
    return x.view(np.ndarray) if isinstance(x, Noisy) else x


def perturbed(x):
    if not isinstance(x, (np.ndarray, np.generic)) or x.dtype.kind not in "fc":
        return x
    e = np.finfo(x.dtype).eps * ULPS * Noisy.rng.uniform(-1, 1, np.shape(x))
    r = np.asarray(plain(x) * (1 + e)).astype(x.dtype)
    return r[()] if isinstance(x, np.generic) else r


def noisy(x, noise=True):
    """A tree with its arrays as Noisy ones, with noise; NumPy scalars get noise."""
    if isinstance(x, (tuple, list)):
        return type(x)(noisy(v, noise) for v in x)
    x = perturbed(x) if noise else x
    return x.view(Noisy) if isinstance(x, np.ndarray) else x


def quiet(x):
    """The tree with plain arrays."""
    return type(x)(map(quiet, x)) if isinstance(x, (tuple, list)) else plain(x)


def moved(function, args, agree, tries=8):
    """Whether agree(results, args) finds other values in what function makes of the arguments, in place too, in one of some tries with noise."""
    for k in range(tries):
        Noisy.rng = np.random.default_rng(k)
        mine = noisy(clone(args), False)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = function(*mine)
        try:
            agree(quiet(results), quiet(mine))
        except AssertionError as e:
            if "differ" in str(e):                          # and no types, which noise may change too
                return True
    return False
