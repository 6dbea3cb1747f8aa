"""Accesses that stream from memory are asked for ahead: which ones, and that nothing else changes."""

import re

import numpy as np
import pytest

import pyxla


def streams(fn, *args):
    """{access: offset} of what the plan marks."""
    plan = pyxla.jit(fn).lower(*args).compile().plan
    return re.findall(r"access x\d+ = (A\d+)\[.*\](.*) streams", plan)


def laplace(u):
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]


def test_only_what_leads_in_arrays_beyond_the_caches():
    assert streams(laplace, np.ones((50, 50))) == []
    marked = streams(laplace, np.ones((1500, 1500)))                   # four rows at once; the two left over have accesses of the first
    assert sorted(array for array, _ in marked) == ["A0"] * 4 + ["A1"] * 4
    marked = streams(lambda u: u[1:] - u[:-1], np.ones((1500, 1500)))
    assert [array for array, _ in marked] == ["A0", "A1"]
    gain = np.ones(1500)
    assert len(streams(lambda u, gain: u * gain, np.ones((1500, 1500)), gain)) == 2


def test_columns_of_a_shared_cache_are_asked_for_fewer_rows_ahead():
    """Sums down columns; not scans, and not what memory answers. For second caches of 256 KB to 2 MB."""
    def marks(fn, rows):
        return re.findall(r" streams\S*", pyxla.jit(fn).lower(pyxla.ShapeDtype((rows, 1000), "float32")).compile().plan)

    assert "streams/2" in marks(lambda x: x.sum(0), 1000)[0]
    assert "/" not in marks(lambda x: x.sum(0), 500_000)[0]
    assert not any("/" in m for m in marks(lambda x: x.cumsum(0), 1000))


@pytest.mark.parametrize("shape", [(1200, 1300), (3, 700001)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_results_are_the_same(shape, dtype):
    """Along rows, down columns and backwards; the last lines ask for what is not there."""
    x = np.arange(shape[0] * shape[1]).reshape(shape).astype(dtype)
    for y in (x, x[::-1], x[:, ::-1], x[1:, 3:]):
        for fn in (lambda v: v * 2 + 1, lambda v: v.max(0), lambda v: v.max(1), lambda v: v[1:] - v[:-1]):
            assert np.array_equal(pyxla.jit(fn)(y), fn(y))
