"""NumPy's functions over dtypes, jitted and not: dtypes of results, values, and the exceptions where NumPy has none."""
import warnings

import numpy as np
import pytest
from checking import clone, same, sample

import pyxla

DTYPES = ["bool", "int8", "uint64", "float16", "float32", "complex64"]
LINES = """
np.sum(x)
np.sum(x, 0)
np.prod(x, 1)
np.mean(x)
np.mean(x, 0)
np.std(x, 1)
np.var(x)
np.max(x, 0)
np.min(x)
np.ptp(x, 0)
np.argmax(x, 1)
np.argmin(x)
np.any(x, 0)
np.all(x)
np.cumsum(x)
np.cumsum(x, 1)
np.cumprod(x, 0)
np.cumulative_sum(x, axis=0)
np.nansum(x, 0)
np.nanmean(x)
np.nanmax(x, 1)
np.nanargmax(x)
np.nanvar(x, 0)
np.nancumsum(x)
np.nanmedian(x, 0)
np.nanpercentile(x, 40)
np.median(x)
np.median(x, 0)
np.percentile(x, [10, 50])
np.quantile(x, 0.3, axis=1)
np.average(x)
np.average(x, weights=y)
np.cov(x)
np.corrcoef(x)
np.count_nonzero(x, 0)
np.sort(x)
np.sort(x, 0)
np.argsort(x, kind='stable')
np.partition(x, 1)
np.argpartition(x, 1).shape
np.lexsort((x[0], y[0]))
np.searchsorted(np.sort(x[0]), y)
np.digitize(x, np.sort(y[0]))
np.unique(x)
np.unique(x, return_inverse=True)
np.histogram(x, 4)
np.histogram(x, 4, weights=y)
np.bincount(np.abs(x[0]).astype(x.dtype))
np.union1d(x, y)
np.intersect1d(x, y)
np.setdiff1d(x, y)
np.setxor1d(x, y)
np.isin(x, y)
np.unique(x, axis=0)
np.diff(x)
np.diff(x, axis=0, n=2)
np.ediff1d(x)
np.gradient(x)
np.trapezoid(x)
np.interp(x, [0, 1], [1, 2])
np.convolve(x[0], y[0])
np.correlate(x[0], y[0], 'full')
np.einsum('ij,kj->ik', x, y)
np.tensordot(x, y, ([1], [1]))
np.inner(x, y)
np.outer(x, y)
np.vdot(x, y)
np.kron(x, y)
np.cross(x[:, :3], y[:, :3])
np.trace(x)
np.dot(x, y.T)
x @ y.T
np.vecdot(x, y)
np.matvec(x, y[0])
np.take(x, [0, 2], 1)
np.take_along_axis(x, np.argsort(x, 1), 1)
np.choose(np.array([[0, 1, 0, 1]]), [x, y])
np.compress([1, 0, 1], x, 0)
np.extract(x > 0, x)
np.select([x > 0], [x], 3)
np.piecewise(x, [x > 0], [1, 2])
np.where(x > 0, x, 0)
np.where(x > 0, x, 2.5)
np.nonzero(x)
np.argwhere(x)
np.flatnonzero(x)
np.tril(x)
np.triu(x, 1)
np.diag(x)
np.diag(x[0])
np.vander(x[0])
np.meshgrid(x[0], y[1])
np.block([[x], [y]])
np.hstack([x, y])
np.vstack([x, 1.5 * y])
np.column_stack([x, y])
np.split(x, 2, 1)
np.rot90(x)
np.roll(x, 1)
np.pad(x, 1, mode='edge')
np.pad(x, 1, constant_values=3)
np.repeat(x, 2)
np.tile(x, 2)
np.flip(x)
np.append(x, y)
np.insert(x, 1, 5, 0)
np.delete(x, 1, 1)
np.resize(x, (2, 7))
np.trim_zeros(x[0])
np.packbits(x)
np.unpackbits(x)
np.polyval([1, 2], x)
np.polyval(x[0], 2)
np.polyfit(x[0], y[0], 1)
np.polymul(x[0], y[0])
np.polyadd(x[0], y[1])
np.polyder(x[0])
np.polyint(x[0])
np.clip(x, 0, 3)
np.clip(x, -1.5, 1)
np.nan_to_num(x)
np.real(x)
np.imag(x)
np.conj(x)
np.angle(x)
np.unwrap(x)
np.sinc(x)
np.i0(x)
np.isclose(x, y)
np.iscomplex(x)
np.isreal(x)
np.round(x, 1)
np.round(x, -1)
np.fix(x)
np.sign(x)
np.absolute(x)
np.isneginf(x)
np.histogram2d(x[0], y[0], 3)
np.histogramdd(x, 2)
np.linalg.norm(x)
np.linalg.norm(x, 1)
np.linalg.norm(x, axis=1)
np.linalg.svd(x)[1]
np.linalg.inv(s)
np.linalg.det(s)
np.linalg.solve(s, x.T[:3])
np.linalg.lstsq(x.T, y[0])[0]
np.linalg.pinv(x)
np.linalg.eigvalsh(s)
np.linalg.matrix_power(s, 2)
np.linalg.matrix_rank(x)
np.linalg.cond(s)
np.linalg.slogdet(s)
np.linalg.qr(x)[1].shape
np.linalg.cholesky(s @ s.T + 99 * np.eye(3))
np.linalg.multi_dot([x, y.T, x])
np.linalg.vector_norm(x)
np.fft.fft(x)
np.fft.rfft(x)
np.fft.ifft(x, axis=0)
np.fft.fftn(x)
np.fft.irfft(x)
np.fft.fftshift(x)
x.astype('int8')
x.astype('float32')
x.astype(complex)
x.astype(bool)
x.astype('uint16')
x.view('uint8')
x + 1
x * 2.5
x - y
x / y
x // 2
x % 3
x ** 2
2 ** x
x << 1
x & y
~x
-x
x > 1
x == y
divmod(x, 2)
round(x[0, 0], 1)
x += 1; return x
x *= 2; return x
x /= 2; return x
x[x > 0] = 0; return x
x[0] = 2.7; return x
np.add.at(x, [0, 0], 1); return x
x[[0, 0]] += 1; return x
np.put(x, [1, 2], 3); return x
np.place(x, x > 0, 1); return x
np.fill_diagonal(x, 2); return x
x.sort(); return x
x.fill(3); return x
np.copyto(x, 1); return x
np.maximum(x, 0)
np.fmax(x, y)
np.hypot(x, y)
np.arctan2(x, y)
np.logaddexp(x, y)
np.sqrt(x)
np.exp(x)
np.floor(x)
np.isnan(x)
np.signbit(x)
np.gcd(x, y)
np.left_shift(x, 1)
np.float_power(x, 2)
np.reciprocal(x)
np.square(x)
np.cbrt(x)
np.ldexp(x, 1)
np.frexp(x)
np.modf(x)
np.nextafter(x, 1)
np.spacing(x)
np.heaviside(x, 1)
np.deg2rad(x)
np.bitwise_count(x)
np.full_like(x, 2)
np.zeros_like(x)
np.linspace(x[0], y[0], 3)
np.array([x, y])
np.asarray(x, dtype=float)
np.lib.stride_tricks.sliding_window_view(x, 2, 1)
x.T.copy()
sum(x)
abs(x)
np.apply_along_axis(np.sum, 0, x)
np.broadcast_to(x, (2, 3, 4))
np.ravel(x, 'F')
np.std(x, ddof=1)
np.cumprod(x)
np.logical_xor(x, y)
np.ix_(x[0] > 0, [0])
np.einsum('ij->j', x)
np.sum(x, where=x > 0)
np.max(x, initial=1)
np.max(x, where=x > 0, initial=0)
""".strip().splitlines()
TOLERANCE = {"bool": 4e-3, "int8": 4e-3, "uint64": 1e-11, "float16": 4e-3, "float32": 3e-6, "complex64": 3e-6}


def outcome(f, args):
    try:
        return f(*args)
    except Exception as e:
        return e


@pytest.mark.parametrize("line", LINES)
def test_dtypes(line):
    space = {"np": np}
    exec("def f(x, y, s):\n    " + "\n    ".join((line if "return" in line else "return " + line).split("; ")), space)
    f = space["f"]
    for dtype in DTYPES:
        args = [sample((3, 4), dtype, 1), sample((3, 4), dtype, 2), sample((3, 3), dtype, 3)]
        theirs, mine = clone(args), clone(args)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            want, got = outcome(f, theirs), outcome(pyxla.jit(f), mine)
        where = f"{line} of {dtype}: {want!r} {got!r}"
        if isinstance(want, Exception):
            assert isinstance(got, next(k for k in type(want).__mro__ if k.__module__ in ("builtins", "numpy.exceptions"))), where
        else:
            assert not isinstance(got, Exception), where
            same([want, theirs], [got, mine], rtol=TOLERANCE[dtype], signs=False, where=where)
