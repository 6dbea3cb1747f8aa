"""Counts: histograms of one and several variables, and sums at indices."""
import math
from operator import index

import numpy as np

from .. import _core
from ._args import BOOL, FLOAT, INT, array, is_none, result_type
from .extents import extent, meets
from .host import host
from .manip import ravel
from .selection import comparable, search

implements = _core.implements
UNSORTED = "`bins` must increase monotonically, when an array; sort them by np.sort"


def outer_edges(a, range):
    if range is not None:
        first, last = range
    elif is_none(a.size):
        first, last = 0, 1
    else:
        first, last = a.min(), a.max()
    if not any(map(_core.is_tracer, (first, last))):
        if first > last:
            raise ValueError("max must be larger than min in range parameter.")
        if not (math.isfinite(first) and math.isfinite(last)):
            raise ValueError(f"supplied range of [{first}, {last}] is not finite")
        return (first - 0.5, last + 0.5) if first == last else (first, last)
    if range is not None:
        _core.check(np.logical_not(np.greater(first, last)), "value", "max must be larger than min in range parameter.")
    _core.check(np.logical_and(np.isfinite(first), np.isfinite(last)), "value",
                f"{'autodetected' if range is None else 'supplied'} range is not finite; give range=, or mask what is not finite")
    same = np.equal(first, last)
    return moved(first, same, -0.5), moved(last, same, 0.5)


def moved(edge, where, by):
    edge = array(edge)
    return _core.where(where, edge + (edge.dtype.type(by) if edge.dtype.kind in "fV" else by), edge)


def bin_edges(a, bins, range):
    """The edges of a histogram, and (first, last, number) where they are equally far apart."""
    if np.ndim(bins) == 1:
        edges = array(bins)
        if edges.size > 1:
            _core.check(np.less_equal(edges[:-1], edges[1:]), "value", UNSORTED)
        return edges, None
    if np.ndim(bins):
        raise ValueError("`bins` must be 1d, when an array")
    n = index(_core.concrete(bins))
    if n < 1:
        raise ValueError("`bins` must be positive, when an integer")
    first, last = outer_edges(a, range)
    dtype = result_type(*((first, last) if range is None else range), a)    # Python's numbers yield
    dtype = np.dtype(np.float64) if not isinstance(dtype, np.dtype) or dtype.kind in "iub" else dtype
    edges = array(np.linspace(first, last, n + 1, dtype=dtype), dtype)
    _core.check(np.all(np.less(edges[:-1], edges[1:])), "value", f"Too many bins for data range. Cannot create {n} finite-sized bins.")
    return edges, (first, last, n)


# ---- bins given by the name of a rule: NumPy's own, which decides on their number when the function runs ----

RULES = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")


def numpys_bins(a, rule, ends):
    """NumPy's histogram by a rule; ends: the range, or nothing."""
    return np.histogram(a, RULES[rule], tuple(ends.tolist()) if ends.size else None)


@host
def run_rule_size(results, a, ends, rule):
    results[0][...] = numpys_bins(a, rule, ends)[0].size


@host
def run_rule(results, a, ends, rule):
    for result, value in zip(results, numpys_bins(a, rule, ends)):
        if result is not None:
            result[...] = value


def by_rule(a, name, range, weights):
    """The counts and the edges of a histogram whose bins are given by the name of a rule."""
    if name not in RULES:
        raise ValueError(f"{name!r} is not a valid estimator for `bins`")
    if weights is not None:
        raise TypeError("Automated estimation of the number of bins is not supported for weighted data")
    ends = _core.full((0,), FLOAT, 0) if range is None else array([*range], FLOAT)
    n = extent(run_rule_size((a, ends), ((INT, ()),), RULES.index(name))[0])
    edges = a.dtype if a.dtype.kind == "f" else FLOAT
    return run_rule((a, ends), ((INT, (n,)), (edges, (n + 1,))), RULES.index(name))


@implements(np.histogram_bin_edges)
def histogram_bin_edges(a, bins=10, range=None, weights=None):
    if isinstance(bins, str):
        return by_rule(ravel(array(a)), bins, range, weights)[1]
    return bin_edges(ravel(array(a)), bins, range)[0]


def difference(a, b, dtype):
    """a - b as NumPy's histogram computes it: of integers unsigned."""
    if dtype.kind == "i":
        return _core.cast(array(a, dtype) - array(b, dtype), np.dtype(f"u{dtype.itemsize}"))
    return np.subtract(array(a, dtype), array(b, dtype))


def bins_of(a, edges, uniform):
    """The bin of every element, and whether it has one."""
    n = edges.size - 1
    if uniform is None:
        table, values = comparable(edges, a)
        at = search(table, values, "right")
        at = at - _core.cast(np.equal(values, table[-1]), INT) if n else at
        at = np.where(np.equal(values, table[-1]), n, at)
        return np.clip(at - 1, 0, n - 1), np.logical_and(np.less_equal(table[0], values), np.less_equal(values, table[-1]))
    first, last, _ = uniform
    keep = np.logical_and(np.greater_equal(a, first), np.less_equal(a, last))
    a = _core.cast(a, edges.dtype)
    numerator = difference(a, first, edges.dtype)
    width = difference(last, first, result_of(first, last))
    at = _core.cast(np.multiply(np.divide(numerator, width), n), INT)
    at = np.clip(_core.where(keep, at, 0), 0, n - 1)
    at = at - _core.cast(np.less(a, _core.gather(edges, (at,))), INT)
    next_edge = _core.gather(edges, (np.clip(at, 0, n - 1) + 1,))
    up = np.logical_and(np.greater_equal(a, next_edge), np.not_equal(at, n - 1))
    return np.clip(at + _core.cast(up, INT), 0, n - 1), keep


def result_of(first, last):
    dtype = result_type(first, last)
    return dtype if isinstance(dtype, np.dtype) else np.dtype(type(dtype))


def tally(at, n, weights, keep=None):
    """Sums of the weights (None: counts) at indices 0 .. n - 1, in the order of the elements."""
    dtype = INT if weights is None else weights.dtype
    one = _core.full(at.shape, dtype, 1) if weights is None else weights
    if keep is not None:
        at = _core.where(keep, at, n)
    total = _core.full((n + (keep is not None),), dtype, 0)
    _core.scatter(total, one, "add", 1, (at,))
    return total if keep is None else total[:n]


def counted(a, edges):
    """How many elements are between edges: what a search finds is counted as it is, and the last edge is in the last bin."""
    table, values = comparable(edges, a)
    n = edges.size - 1
    counts = tally(search(table, values, "right"), n + 2, None)[1:n + 1]
    at_end = np.count_nonzero(np.equal(values, table[-1]))
    return counts + _core.where(np.equal(_core.iota(n), n - 1), at_end, 0)


@implements(np.histogram)
def histogram(a, bins=10, range=None, density=None, weights=None):
    a = array(a)
    if weights is not None:
        weights = array(weights)
        if weights.shape != a.shape:
            raise ValueError("weights should have the same shape as a.")
        weights = ravel(weights)
    a = ravel(a)
    a = _core.cast(a, np.dtype(np.uint8)) if a.dtype == BOOL else a
    if isinstance(bins, str):
        counts, edges = by_rule(a, bins, range, weights)
        return (counts / np.diff(edges).astype(float) / counts.sum() if density else counts), edges
    edges, uniform = bin_edges(a, bins, range)
    if uniform is None and weights is None:
        counts = counted(a, edges)
        return (counts / np.diff(edges).astype(float) / counts.sum() if density else counts), edges
    at, keep = bins_of(a, edges, uniform)
    kind = None if weights is None else weights.dtype
    wide = weights
    if weights is not None and kind.kind in "biuf" and uniform is not None:
        wide = _core.cast(weights, np.dtype(np.float64))
    counts = tally(at, edges.size - 1, wide, keep)
    counts = counts if kind is None or counts.dtype == kind else _core.cast(counts, kind)
    counts = _core.copy(counts)
    if density:
        return counts / np.diff(edges).astype(float) / counts.sum(), edges
    return counts, edges


# ---- several variables ----

def sample_columns(sample):
    """The variables of a sample: the columns of an array, the items of a sequence."""
    if isinstance(sample, (list, tuple)):
        rows = array(sample)
        rows = rows[None] if rows.ndim < 2 else rows
        return [rows[k] for k in range(rows.shape[0])]
    sample = array(sample)
    sample = sample if sample.ndim == 2 else (sample[None] if sample.ndim < 2 else sample).T
    if sample.ndim != 2:
        raise ValueError("not enough values to unpack" if sample.ndim < 2 else "too many values to unpack (expected 2)")
    return [sample[:, k] for k in range(sample.shape[1])]


def edges_of(x, bins, range, k):
    """The edges for variable k, from a number of bins or from the edges themselves."""
    if np.ndim(bins) > 1:
        raise ValueError(f"`bins[{k}]` must be a scalar or 1d array")
    if np.ndim(bins) == 1:
        edges = array(bins)
        if edges.size > 1:
            _core.check(np.less_equal(edges[:-1], edges[1:]), "value", UNSORTED)
        return edges
    bins = _core.concrete(bins)
    if bins < 1:
        raise ValueError(f"`bins[{k}]` must be positive, when an integer")
    try:
        n = index(bins)
    except TypeError:
        raise TypeError(f"`bins[{k}]` must be an integer, when a scalar") from None
    return array(np.linspace(*outer_edges(x, range), n + 1))


def place_of(x, edges):
    """Where each value is among the edges: 0 before the first, the last bin for the last edge."""
    table, values = comparable(edges, x)
    return search(table, values, "right") - _core.cast(np.equal(values, table[-1]), INT)


@implements(np.histogramdd)
def histogramdd(sample, bins=10, range=None, density=None, weights=None):
    columns = sample_columns(sample)
    d = len(columns)
    if not isinstance(bins, (list, tuple)) and np.ndim(bins) == 0:
        bins = d * [bins]
    if len(bins) != d:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    if range is not None and len(range) != d:
        raise ValueError("range argument must have one entry per dimension")
    edges = [edges_of(x, bins[k], None if range is None else range[k], k) for k, x in enumerate(columns)]
    shape, at = tuple(e.size + 1 for e in edges), 0
    for x, e in zip(columns, edges):
        at = np.multiply(at, e.size + 1) + place_of(x, e)
    weights = None if weights is None else _core.cast(array(weights), np.dtype(np.float64))
    if weights is not None and weights.shape != at.shape:
        raise ValueError("The weights and list don't have the same length.")
    counts = _core.cast(_core.reshape(tally(at, math.prod(shape), weights), shape), np.dtype(np.float64))
    counts = _core.copy(counts[(slice(1, -1),) * d])
    if density:
        total = counts.sum()
        for k, e in enumerate(edges):
            counts = counts / np.diff(e).reshape([-1 if i == k else 1 for i, _ in enumerate(edges)])
        counts = counts / total
    return counts, edges


@implements(np.histogram2d)
def histogram2d(x, y, bins=10, range=None, density=None, weights=None):
    x, y = (v if isinstance(v, (list, tuple)) else array(v) for v in (x, y))
    if not meets(*(len(v) if isinstance(v, (list, tuple)) else v.shape[0] for v in (x, y))):
        raise ValueError("x and y must have the same length.")
    if (isinstance(bins, (list, tuple)) or np.ndim(bins)) and len(bins) not in (1, 2):
        bins = [array(bins)] * 2
    counts, edges = histogramdd([x, y], bins, range, density, weights)
    return counts, *edges
