"""Linear algebra of matrices up to 4 x 4, written out: elimination with partial pivoting, as LAPACK's, on the elements as arrays over
the batch.

Rows are exchanged by selections, so a batch runs in vectors. Singular matrices are found where LAPACK finds them: at a pivot of 0."""
import numpy as np

from .. import _core
from ._args import FLOAT, scalar

LARGEST = 4


def fits(a):
    """Whether matrices are so small that code of their own beats LAPACK."""
    return a.dtype.kind in "biuf" and 0 < a.shape[-1] <= LARGEST


def elements(a):
    """The rows of elements of matrices, as arrays over the batch."""
    return [[a[..., i, j] for j in range(a.shape[-1])] for i in range(a.shape[-2])]


def stacked(rows):
    """Matrices of rows of elements."""
    x = np.stack([x for row in rows for x in row], -1)
    return _core.reshape(x, (*x.shape[:-1], len(rows), len(rows[0])))


def exchange(c, p, q):
    """Two rows, exchanged where c holds."""
    return [_core.where(c, y, x) for x, y in zip(p, q)], [_core.where(c, x, y) for x, y in zip(p, q)]


def eliminate(rows):
    """Rows of matrices and right-hand sides in upper triangular form, and whether an odd number of rows was exchanged."""
    rows, n, odd = [list(r) for r in rows], len(rows), None
    for k in range(n):
        for i in range(k + 1, n):
            c = np.abs(rows[i][k]) > np.abs(rows[k][k])
            rows[k][k:], rows[i][k:] = exchange(c, rows[k][k:], rows[i][k:])
            odd = c if odd is None else np.logical_xor(odd, c)
        pivot = _core.where(np.equal(rows[k][k], 0), 1.0, rows[k][k])         # then all below it is 0 too
        for i in range(k + 1, n):
            f = rows[i][k] / pivot
            rows[i][k + 1:] = [x - f * y for x, y in zip(rows[i][k + 1:], rows[k][k + 1:])]
    return rows, odd


def substitute(rows):
    """The solutions of upper triangular systems."""
    n = len(rows)
    x = [None] * n
    for i in reversed(range(n)):
        right = rows[i][n:]
        for j in range(i + 1, n):
            right = [r - rows[i][j] * y for r, y in zip(right, x[j])]
        x[i] = [r / rows[i][i] for r in right]
    return x


def pivots(rows):
    return [rows[k][k] for k in range(len(rows))]


def check_regular(rows):
    ok = [np.not_equal(p, 0) for p in pivots(rows)]
    for c in ok[1:]:
        ok[0] = np.logical_and(ok[0], c)
    _core.check(ok[0], "singular")


def solve(a, b):
    """The solutions x of a x = b, matrices of one batch shape in float64."""
    rows, _ = eliminate([p + q for p, q in zip(elements(a), elements(b))])
    check_regular(rows)
    return stacked(substitute(rows))


def inv(a):
    n = a.shape[-1]
    one, zero = (_core.broadcast(_core.as_tracer(v, FLOAT), a.shape[:-2]) for v in (1.0, 0.0))
    rows, _ = eliminate([row + [one if j == i else zero for j in range(n)] for i, row in enumerate(elements(a))])
    check_regular(rows)
    return stacked(substitute(rows))


def det(a):
    rows, odd = eliminate(elements(a))
    r = pivots(rows)[0]
    for p in pivots(rows)[1:]:
        r = r * p
    return scalar(_core.copy(r) if odd is None else _core.where(odd, -r, r))


def cholesky(a, upper):
    """The lower (or upper) triangular factor of positive definite matrices; reads that triangle alone."""
    n, x = a.shape[-1], elements(a)
    zero = _core.broadcast(_core.as_tracer(0.0, FLOAT), a.shape[:-2])
    low = [[zero] * n for _ in range(n)]
    good = None
    for j in range(n):
        for i in range(j, n):
            s = x[j][i] if upper else x[i][j]
            for k in range(j):
                s = s - low[i][k] * low[j][k]
            if i == j:
                ok = s > 0
                good = ok if good is None else np.logical_and(good, ok)
            low[i][j] = np.sqrt(s) if i == j else s / low[j][j]
    _core.check(good, "not_positive")
    return stacked([[low[j][i] for j in range(n)] for i in range(n)] if upper else low)
