"""Stencils on padded arrays, which look for margins instead of storing the padded array: bit for bit, one launch, whatever reads them."""
import os
import platform
import re

import numpy as np
import pytest

import pyxla

R = np.random.default_rng(7)


def five(x, **fill):
    p = np.pad(x, 1, **fill)
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * p[1:-1, 1:-1]


def uneven(x):
    p = np.pad(x, ((3, 1), (0, 5)), constant_values=7)
    return p[:-3, :-4] * 2 + p[1:-2, 1:-3] - p[3:, 4:] + p[2:-1, 2:-2] + p[3:, 3:-1]


def strided(x):
    p = np.pad(x, 2)
    return p[:-4:2, :-4:2] + p[1:-3:2, 1:-3:2] + p[2:-2:2, 2:-2:2] * p[4::2, 4::2]


def beside_a_maximum(x):
    p = np.pad(x, 1)
    return (p[:-2] - p[1:-1] - p[2:]).max(1), five(x)


def flat(x):
    p = np.pad(x.ravel(), (2, 3))
    return p[:-5] + p[1:-4] * p[2:-3] - p[5:]


def into(x):
    x += five(x)
    return x


FUNCTIONS = [five, lambda x: five(x, constant_values=3), uneven, strided, lambda x: five(five(x)), lambda x: five(np.abs(x) + 1), lambda x: five(x.T), beside_a_maximum, flat, into,
             lambda x: (lambda p: p[::-1, ::-1][:-2, :-2] + p[2:, 2:] + p[1:-1, 1:-1])(np.pad(x, 1)), lambda x: np.lib.stride_tricks.sliding_window_view(np.pad(x, 1), (3, 3)).max((-1, -2)),
             lambda x: (lambda p: (p, p[1:] + p[:-1] - 2 * p[1:]))(np.pad(x, 2)), lambda x: five(np.pad(x, ((0, 0), (2, 1))))]
LAYOUTS = [lambda x: x, lambda x: np.asfortranarray(x), lambda x: x.repeat(2, 1)[::-1, ::2], lambda x: np.broadcast_to(x[:1], x.shape)]


@pytest.mark.parametrize("f", FUNCTIONS, ids=range(len(FUNCTIONS)))
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "complex64"])
def test_results(f, dtype):
    for shape, layout in (((40, 53), LAYOUTS[0]), ((131, 70), LAYOUTS[1]), ((64, 64), LAYOUTS[2]), ((33, 3), LAYOUTS[3]), ((1, 200), LAYOUTS[0])):
        x = (R.standard_normal(shape) * 50).astype(dtype)
        want, got = (g(layout(x.copy()) if f is not into else x.copy()) for g in (f, pyxla.jit(f)))
        for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (want, got)), strict=True):
            assert a.dtype == b.dtype and a.tobytes() == b.tobytes()


@pytest.mark.skipif(os.environ.get("PYXLA_CPU") == "sse2" or platform.machine() != "x86_64", reason="no loads under masks")
def test_nothing_is_stored():
    x, images = R.random((300, 310)), R.random((8, 40, 50)).astype("float32")
    for f, a in ((five, x), (lambda x: five(x) * 2 + 1, x), (lambda x: (lambda p: sum(p[:, i : i + 40, j : j + 50] * i - j for i in range(3) for j in range(3)))(np.pad(x, ((0, 0), (1, 1), (1, 1)))), images)):
        c = pyxla.jit(f).lower(a).compile()
        assert c.workspace_bytes == 0 and c.launches == 1
    filters = R.random((16, 1, 3, 3)).astype("float32")
    c = pyxla.jit(lambda x, w: pyxla.nn.conv(x, w, padding=1, groups=16)).lower(R.random((2, 16, 56, 56)).astype("float32"), filters).compile()
    assert c.workspace_bytes == 0 and c.launches == 1


def test_other_pads_are_pieces():
    x = R.random((300, 310))
    for f in (lambda x: np.pad(x, 1), lambda x: np.pad(x, 1) * 2, lambda x: np.pad(x, 1) @ np.ones((312, 4)), lambda x: np.pad(x, 1).sum(0)):
        assert " if %" not in pyxla.jit(f).lower(x).compile().as_text()
        np.testing.assert_allclose(pyxla.jit(f)(x), f(x), 1e-12)


def test_other_sizes_are_the_same_kernels():
    f = pyxla.jit(five)
    for n in (100, 101, 105, 200, 204, 205):                   # with rows left over and without
        x = R.random((n, n + 7))
        assert np.array_equal(f(x), five(x))
    assert f.cache_info().compiled <= 2 * len(re.findall(r"^kernel \d+:", f.lower(x).compile().as_text(), re.M))
