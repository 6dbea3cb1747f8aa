"""Short rows sorted by a network of exchanges: the elements as arrays over the rows, so that rows are sorted in vectors."""
import numpy as np

from .. import _core
from ._args import count

LONGEST = 16
FEWEST_ROWS = 16            # for fewer a library call costs less than the network's compilation


def fits(x, axis):
    """Whether rows along an axis are short and many."""
    n = x.shape[axis]
    if any(map(_core.is_extent, x.shape)):
        return False
    return x.dtype.kind in "biuf" and x.dtype.itemsize > 1 and 1 < n <= LONGEST and count(x.shape) >= FEWEST_ROWS * n


def exchanges(n):
    """Batcher's merge exchange (Knuth, vol. 3, 5.2.2, algorithm M): the pairs to put in order."""
    top = p = 1 << max(0, (n - 1).bit_length() - 1)
    while p:
        q, r, d = top, 0, p
        while True:
            yield from ((i, i + d) for i in range(n - d) if i & p == r)
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2


def ordered(a, b):
    """The lesser and the greater; NaN is the greatest, equal elements stay where they are."""
    if a.dtype.kind != "f":
        return np.minimum(a, b), np.maximum(a, b)
    swap = np.logical_or(np.less(b, a), np.logical_and(np.isnan(a), np.logical_not(np.isnan(b))))
    return _core.where(swap, b, a), _core.where(swap, a, b)


def sort(x, axis):
    """x sorted along an axis."""
    n = x.shape[axis]
    rows = [x[(slice(None),) * axis + (k,)] for k in range(n)]
    for i, j in exchanges(n):
        rows[i], rows[j] = ordered(rows[i], rows[j])
    return np.stack(rows, axis)
