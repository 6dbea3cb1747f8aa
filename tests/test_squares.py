"""Scans along rows: rows side by side in a vector, some steps at once between squares that are turned in registers."""
import os

import numpy as np
import pytest

import pyxla

R = np.random.default_rng(0)
SHAPES = [(8, 8), (16, 33), (9, 64), (33, 7), (100, 129), (1, 40), (40, 1), (8, 15), (5, 6, 70)]
SCANS = {
    "cumsum": lambda x: np.cumsum(x, axis=-1), "cumprod": lambda x: np.cumprod(x, axis=-1), "maximum": lambda x: np.maximum.accumulate(x, axis=-1),
    "computed": lambda x: np.cumsum(x * 2 + 1, axis=-1) * 3, "broadcast": lambda x: np.cumsum(x - x[..., :1], axis=-1),
    "two": lambda x: (np.cumsum(x, axis=-1), np.minimum.accumulate(x, axis=-1)), "sums": lambda x: np.cumsum(x, axis=-1) + x.max(-1, keepdims=True),
}
VIEWS = {"C": lambda x: x, "rows turned": lambda x: x[::-1], "columns turned": lambda x: x[..., ::-1], "strided": lambda x: x[..., ::2], "F": np.asfortranarray}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16", "int16"])
@pytest.mark.parametrize("what", SCANS)
def test_is_numpys_bit_for_bit(what, dtype):
    f = SCANS[what]
    g = pyxla.jit(f)
    for shape in SHAPES if dtype == "float32" else SHAPES[:3]:
        x = (R.standard_normal(shape) * 2).astype(dtype)
        for view in VIEWS.values():
            with np.errstate(all="ignore"):
                want, got = f(view(x)), g(view(x))
            for w, v in zip(want, got) if what == "two" else [(want, got)]:
                assert w.dtype == v.dtype
                np.testing.assert_array_equal(v, w)


def store(x):
    x[...] = np.cumsum(x, axis=1)
    return x


def shift(x):
    x[:, 1:] = np.cumsum(x[:, :-1], axis=1)
    return x


def turn(x):
    x[:, ::-1] = np.cumsum(x, axis=1)
    return x


def down(x):
    x[1:] += np.cumsum(x[:-1], axis=1)
    return x


@pytest.mark.parametrize("f", [store, shift, turn, down])
@pytest.mark.parametrize("shape", [(16, 24), (19, 37)])
def test_in_place(f, shape):
    x = R.standard_normal(shape)
    np.testing.assert_array_equal(pyxla.jit(f)(x.copy()), f(x.copy()))
    np.testing.assert_array_equal(pyxla.jit(f)(np.asfortranarray(x)), f(np.asfortranarray(x)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_row_is_as_it_would_be_alone(dtype):
    """Rows that squares make and those that a mask leaves are added up in the same order."""
    row = R.standard_normal(37).astype(dtype)
    for f in (*SCANS.values(), lambda x: (x * 2, x.sum(-1)), lambda x: (np.cumsum(x, -1), x.sum(-1), x.var(-1))):
        for rows in (3, 8, 13, 100):
            results = pyxla.jit(f)(np.tile(row, (rows, 1)))
            for r in results if isinstance(results, tuple) else (results,):
                assert (r == r[0]).all()


@pytest.mark.skipif(os.environ.get("PYXLA_BACKEND") == "interp" or os.environ.get("PYXLA_CHECK") == "1", reason="machine code without checks")
def test_loads_and_stores_are_whole_vectors():
    ir = pyxla.jit(lambda x: np.cumsum(x, axis=1)).lower(np.ones((64, 64), "float32")).compile().llvm_ir
    assert "shufflevector <8 x" in ir or "shufflevector <4 x" in ir
