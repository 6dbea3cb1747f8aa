"""Convolutions and pooling against loops in plain NumPy."""
import itertools

import numpy as np
import pytest
from checking import check, sample

import pyxla
from pyxla import nn


def reference(x, w, stride, edges, dilation, groups):
    """NCHW, an output pixel at a time."""
    n = x.ndim - 2
    x = np.pad(x.astype("float64"), [(0, 0), (0, 0), *edges])
    shape = [(x.shape[2 + k] - (w.shape[2 + k] - 1) * dilation[k] - 1) // stride[k] + 1 for k in range(n)]
    r = np.zeros((len(x), len(w), *shape))
    per = len(w) // groups
    for g, at in itertools.product(range(groups), np.ndindex(*shape)):
        box = x[(slice(None), slice(g * w.shape[1], (g + 1) * w.shape[1]),
                 *(slice(i * s, i * s + (m - 1) * d + 1, d) for i, s, m, d in zip(at, stride, w.shape[2:], dilation)))]
        r[(slice(None), slice(g * per, (g + 1) * per), *at)] = np.tensordot(box, w[g * per:(g + 1) * per], (range(1, n + 2), range(1, n + 2)))
    return r


CASES = [  # spatial, window, channels, out, stride, edges, dilation, groups
    ((9,), (3,), 4, 6, (1,), [(1, 1)], (1,), 1), ((20,), (5,), 3, 3, (2,), [(0, 3)], (2,), 3), ((8, 9), (3, 3), 5, 7, (1, 1), [(1, 1), (1, 1)], (1, 1), 1),
    ((11, 20), (2, 3), 4, 8, (2, 3), [(0, 1), (2, 0)], (1, 2), 2), ((7, 7), (3, 3), 6, 6, (1, 1), [(1, 1)] * 2, (1, 1), 6), ((6, 5), (1, 1), 8, 9, (1, 1), [(0, 0)] * 2, (1, 1), 1),
    ((6, 5), (1, 1), 8, 4, (2, 2), [(0, 0)] * 2, (1, 1), 2), ((5, 6, 7), (2, 3, 2), 3, 4, (1, 2, 1), [(1, 0)] * 3, (1, 1, 2), 1), ((12, 40), (3, 3), 20, 33, (1, 1), [(1, 1)] * 2, (1, 1), 1),
]


def last(x):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("jitted", [True, False])
def test_conv(case, layout, jitted):
    spatial, window, channels, out, stride, edges, dilation, groups = case
    x, w = sample((2, channels, *spatial), "float64", 1), sample((out, channels // groups, *window), "float64", 2)
    want = reference(x, w, stride, edges, dilation, groups)

    def f(x, w):
        return nn.conv(x, w, stride=stride, padding=edges, dilation=dilation, groups=groups, layout=layout)

    args = (x, w) if layout == "NCHW" else (last(x), np.ascontiguousarray(np.moveaxis(w, (0, 1), (-1, -2))))
    got = (pyxla.jit(f) if jitted else f)(*args)
    np.testing.assert_allclose(got if layout == "NCHW" else np.moveaxis(got, -1, 1), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_windows_are_not_in_memory(layout):
    def f(x, w, b):
        return np.maximum(nn.conv(x, w, layout=layout) + b, 0)

    x, w, b = np.ones((1, 32, 40, 40), "float32"), np.ones((32, 32, 3, 3), "float32"), np.ones((32, 1, 1), "float32")
    args = (x, w, b) if layout == "NCHW" else (last(x), np.ascontiguousarray(w.transpose(2, 3, 1, 0)), b[:, 0, 0])
    plan = pyxla.jit(f).lower(*args).compile()
    assert plan.launches <= 2 and plan.peak_bytes < (x.size + 2 * w.size) * 4 * 1.2
    check(f, *(sample(a.shape, "float32", i) for i, a in enumerate(args)), rtol=1e-5)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("groups,stride,padding,dilation", [(1, 1, 0, 1), (2, 2, 1, 1), (1, 3, 2, 2), (2, 1, 2, 1)])
def test_conv_transpose_is_the_transpose(layout, groups, stride, padding, dilation):
    x, w = sample((2, 4, 6, 5), "float64", 1), sample((4, 3, 3, 2), "float64", 2)
    rule = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    args = (x, w) if layout == "NCHW" else (last(x), np.ascontiguousarray(w.transpose(2, 3, 1, 0)))
    f = lambda x, w: nn.conv_transpose(x, w, layout=layout, **rule)
    y = f(*args)
    check(f, *args, rtol=1e-13)
    y = y if layout == "NCHW" else np.moveaxis(y, -1, 1)
    z = sample(y.shape, "float64", 3)
    assert np.isclose((y * z).sum(), (x * nn.conv(z, w, **rule)).sum())          # <conv^T x, z> = <x, conv z>


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_pools(layout, dtype):
    for shape, window, rule in [((2, 3, 9), 2, {}), ((2, 3, 9, 10), (2, 3), {"stride": 1, "padding": 1}), ((1, 2, 7, 8), 3, {"stride": 2, "padding": "same"}),
                                ((1, 2, 5, 6, 7), 2, {"dilation": 2, "stride": 1})]:
        x = sample(shape, dtype, 1)
        x = x if layout == "NCHW" else last(x)
        check(lambda x, window=window, rule=rule: (nn.max_pool(x, window, layout=layout, **rule), nn.avg_pool(x, window, layout=layout, **rule)), x, rtol=1e-6)
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    np.testing.assert_array_equal(nn.max_pool(x, 2)[0, 0], [[5, 7], [13, 15]])
    np.testing.assert_array_equal(nn.max_pool(-x - 1, 2, padding=1)[0, 0], [[-1, -2, -4], [-5, -6, -8], [-13, -14, -16]])
    np.testing.assert_array_equal(nn.avg_pool(x, 2)[0, 0], [[2.5, 4.5], [10.5, 12.5]])


def test_mistakes_have_names():
    x, w = np.ones((1, 4, 8, 8)), np.ones((6, 3, 3, 3))
    for wrong, message in [({}, "groups"), ({"stride": 0}, "stride"), ({"padding": "reflect"}, "padding"), ({"layout": "CHW"}, "layout"), ({"dilation": (1, 1, 1)}, "dilation")]:
        with pytest.raises(ValueError, match=message):
            nn.conv(x, w if not wrong or "layout" in wrong else np.ones((6, 4, 3, 3)), **wrong)


def test_windows_in_plain_numpy():
    from numpy.lib.stride_tricks import sliding_window_view

    def conv2d(x, k):
        return np.einsum("ijkl,kl->ij", sliding_window_view(x, k.shape), k)

    x, k = sample((40, 50), "float64", 1), sample((3, 5), "float64", 2)
    f = check(conv2d, x, k, rtol=1e-13)
    assert f.lower(x, k).compile().peak_bytes < 2 * x.nbytes
    x, w = sample((2, 5, 12, 13), "float64", 3), sample((7, 5, 3, 2), "float64", 4)
    views = [lambda x, w: np.einsum("nchwij,ocij->nohw", sliding_window_view(x, (3, 2), (2, 3)), w),
             lambda x, w: np.einsum("ocij,nchwij->nohw", w, sliding_window_view(x, (3, 2), (2, 3)), optimize=True),
             lambda x, w: np.tensordot(sliding_window_view(x, (3, 2), (2, 3)), w, ((1, 4, 5), (1, 2, 3))),
             lambda x, w: np.tensordot(w, sliding_window_view(x, (3, 2), (2, 3)), ((1, 2, 3), (1, 4, 5)))]
    for view in views:
        assert check(view, x, w, rtol=1e-12).lower(x, w).compile().peak_bytes < 2 * 7 * 2 * 10 * 12 * 8
    x, k = sample((40, 50), "float64", 1), sample((3, 5), "float64", 2)
    check(lambda x: sliding_window_view(x[::-1, ::2] * 2, (2, 3))[1:, ::-2, :, 1:], x)
    check(lambda x: (sliding_window_view(np.exp(x), 7, axis=0).max(-1), sliding_window_view(x.T, (1, 2, 2), axis=(0, 1, 1)).sum((-1, -2, -3))), x, rtol=1e-12)


WIDE = [  # x, w, stride, edges, dilation, groups: many outputs, whose windows are packed some lines and channels at a time
    ((2, 3, 17, 23), (9, 3, 3, 3), (1, 1), [(1, 1)] * 2, (1, 1), 1), ((1, 70, 13, 13), (16, 70, 3, 3), (1, 1), [(1, 0)] * 2, (1, 1), 1),
    ((1, 20, 7, 7), (300, 20, 3, 3), (1, 1), [(1, 1)] * 2, (1, 1), 1), ((3, 1, 28, 28), (16, 1, 3, 3), (1, 1), [(1, 1)] * 2, (1, 1), 1),
    ((2, 3, 40, 66), (24, 3, 7, 7), (2, 2), [(3, 3)] * 2, (1, 1), 1), ((2, 6, 30, 5), (16, 3, 5, 2), (3, 1), [(0, 0)] * 2, (2, 3), 2),
    ((5, 4, 100), (8, 4, 9), (1,), [(4, 4)], (1,), 1), ((2, 1, 700), (12, 1, 21), (2,), [(0, 0)], (1,), 1), ((1, 67, 9, 80), (8, 67, 1, 3), (1, 1), [(0, 0)] * 2, (1, 1), 1),
    ((2, 4, 5, 9, 11), (16, 2, 3, 3, 2), (1, 1, 2), [(1, 1)] * 3, (1, 2, 1), 2), ((1, 2, 3, 600), (8, 2, 3, 3), (1, 1), [(1, 1)] * 2, (1, 1), 1),
    ((2, 8, 12, 12), (8, 8, 12, 12), (1, 1), [(0, 0)] * 2, (1, 1), 1), ((2, 4, 9, 4), (8, 4, 2, 4), (1, 1), [(0, 0)] * 2, (1, 1), 1),
]
FINISHES = {
    "alone": lambda y, b, z: y, "bias and relu": lambda y, b, z: np.maximum(y + b, 0), "residual": lambda y, b, z: y + z * 2,
    "two results": lambda y, b, z: (y + b, np.exp(-y * y)), "reversed": lambda y, b, z: y[..., ::-1] - b, "a sum after it": lambda y, b, z: (y * y).sum(-1),
    "transposed": lambda y, b, z: np.moveaxis(y, 1, -1) * 2,
}


@pytest.mark.parametrize("case", WIDE, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_convolutions_to_many_outputs(case, dtype):
    xs, ws, stride, edges, dilation, groups = case
    x, w = sample(xs, dtype, 1), sample(ws, dtype, 2)
    want = reference(x, w, stride, edges, dilation, groups)
    bound = 8 * np.finfo(dtype).eps * reference(abs(x), abs(w), stride, edges, dilation, groups) + 1e-300
    f = pyxla.jit(lambda x, w: nn.conv(x, w, stride=stride, padding=edges, dilation=dilation, groups=groups))
    assert (abs(f(x, w) - want) <= bound).all()
    turned = np.asfortranarray(w)                                   # weights that do not go on from channel to window
    assert (abs(f(x, turned) - want) <= bound).all()
    assert (abs(f(x[..., ::-1, :][..., ::-1, :], w) - want) <= bound).all()


@pytest.mark.parametrize("finish", FINISHES)
@pytest.mark.parametrize("case", WIDE[:5], ids=str)
def test_what_follows_a_convolution(case, finish):
    xs, ws, stride, edges, dilation, groups = case
    x, w, b = sample(xs, "float64", 1), sample(ws, "float64", 2), sample((len(sample(ws, "float64", 2)), *(1,) * (len(xs) - 2)), "float64", 3)
    y = reference(x, w, stride, edges, dilation, groups)
    z = sample(y.shape, "float64", 4)
    got = pyxla.jit(lambda x, w, b, z: FINISHES[finish](nn.conv(x * 1, w * 2, stride=stride, padding=edges, dilation=dilation, groups=groups), b, z))(x, w, b, z)
    for g, r in zip(*((t if isinstance(t, tuple) else (t,)) for t in (got, FINISHES[finish](2 * y, b, z)))):
        np.testing.assert_allclose(g, r, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_convolutions_written_with_windows(dtype):
    x, w = sample((2, 5, 14, 19), dtype, 1), sample((10, 5, 3, 4), dtype, 2)

    def views(x):
        return np.lib.stride_tricks.sliding_window_view(x, (3, 4), (2, 3))

    forms = {
        "einsum": lambda x, w: np.einsum("nchwij,ocij->nohw", views(x), w), "einsum, channels last": lambda x, w: np.einsum("nchwij,ocij->nhwo", views(x), w),
        "tensordot": lambda x, w: np.tensordot(views(x), w, ((1, 4, 5), (1, 2, 3))), "tensordot, weights first": lambda x, w: np.tensordot(w, views(x), ((1, 2, 3), (1, 4, 5))),
        "product and sum": lambda x, w: (w.transpose(2, 3, 0, 1)[:, :, None, None] @ views(x).transpose(4, 5, 0, 2, 1, 3)).sum((0, 1)),
        "into the argument": lambda x, w: np.add(x[:, :1, 2:, 3:].repeat(10, 1), np.einsum("nchwij,ocij->nohw", views(x), w)),
    }
    for name, f in forms.items():
        check(f, x, w, ulp=64 if dtype == "float32" else 0) if dtype != "float32" else np.testing.assert_allclose(pyxla.jit(f)(x, w), f(x, w), rtol=1e-4, atol=1e-4, err_msg=name)


def test_a_convolution_added_to_its_own_argument():
    def f(x, w):
        x += nn.conv(x, w, padding=1)
        return x

    x, w = sample((2, 8, 15, 17), "float64", 1), sample((8, 8, 3, 3), "float64", 2)
    want = x + reference(x, w, (1, 1), [(1, 1)] * 2, (1, 1), 1)
    np.testing.assert_allclose(pyxla.jit(f)(x.copy(), w), want, rtol=1e-12, atol=1e-12)


def windows(x, *shape):
    return np.lib.stride_tricks.sliding_window_view(x, shape, axis=tuple(range(x.ndim - len(shape), x.ndim)))


TAPS = {
    "moving sum": lambda x, w: windows(x, 5).sum(-1),
    "moving mean, every other": lambda x, w: windows(x, 4)[..., ::2, :].mean(-1),
    "box": lambda x, w: windows(x, 3, 3).sum((-2, -1)),
    "box of 25": lambda x, w: windows(x, 5, 5).mean((-2, -1)),
    "26 are a loop": lambda x, w: windows(x, 2, 13).sum((-2, -1)),
    "weighted": lambda x, w: (windows(x, 3, 3) * w[:3, :3]).sum((-2, -1)),
    "of squares": lambda x, w: ((windows(x, 1, 7) - w[0, 0]) ** 2).sum((-2, -1)),
    "of a dear function": lambda x, w: (np.exp(windows(x, 3, 3)) * w[:3, :3]).sum((-2, -1)),
    "of windows along one axis": lambda x, w: (windows(x, 3, 3) * w[:3, :3]).sum(-2),
    "einsum": lambda x, w: np.einsum("...ij,ij->...", windows(x, 3, 5), w),
    "window twice": lambda x, w: (windows(x, 3) * windows(x, 3)[..., ::-1]).sum(-1),
    "beside": lambda x, w: (windows(x, 3).sum(-1), windows(x, 3).max(-1), x.sum()),
    "keepdims": lambda x, w: windows(x, 3).sum(-1, keepdims=True),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape", [(200, 150), (3, 130, 90), (40, 30)], ids=str)
@pytest.mark.parametrize("name", TAPS)
def test_sums_over_small_windows(name, shape, dtype):
    x, w = sample(shape, dtype, 1), sample((3, 5), dtype, 2)
    tolerance = {"rtol": 1e-5, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-13, "atol": 1e-12}
    check(TAPS[name], x / 8 if dtype != "int32" else x, w, **tolerance)


def test_a_filter_makes_no_windows():
    x, w = sample((200, 300), "float32", 1), sample((3, 3), "float32", 2)
    for f in (TAPS["weighted"], TAPS["of squares"], TAPS["box of 25"], lambda x, w: nn.conv(x[None, None], w[None, None])):
        assert pyxla.jit(f).lower(x, w).compile().workspace_bytes == 0


@pytest.mark.parametrize("step", [2, 3, 4, -2, -4])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "bool"])
def test_the_rest_of_a_row_with_a_stride(step, dtype):
    """Its last elements stand at the very end of memory that may be read."""
    f = pyxla.jit(lambda x: np.where(x, x, x) if dtype == "bool" else x + x)
    for n in range(1, 140):
        x = sample((n,), dtype, n)[::step]
        assert np.array_equal(f(x), x if dtype == "bool" else x + x)


@pytest.mark.parametrize("finish", [lambda y: y, lambda y: np.maximum(y + 1, 0), lambda y: (y, y * 2), lambda y: y.sum(-1), lambda y: y.transpose(0, 3, 1, 2)], ids=range(5))
@pytest.mark.parametrize("channels,out,window,options", [(3, 64, 3, {"padding": 1}), (3, 64, 3, {"stride": 2, "padding": 1}), (1, 48, 5, {}), (2, 33, 3, {"dilation": 2}), (6, 16, 5, {}), (4, 32, 4, {"padding": "same"}), (6, 64, 2, {"groups": 2})])
def test_few_channels_last(channels, out, window, options, finish):
    r = np.random.default_rng(11)
    for shape in ((2, 19, 61), (1, 12, 12), (1, 9, 130)):
        x, w = r.standard_normal((*shape, channels)).astype("float32"), r.standard_normal((window, window, channels // options.get("groups", 1), out)).astype("float32")
        f = lambda x, w: finish(nn.conv(x, w, layout="NHWC", **options))
        want, got = (y if isinstance(y, tuple) else (y,) for y in (f(x.astype("float64"), w.astype("float64")), pyxla.jit(f)(x, w)))
        for a, b in zip(want, got, strict=True):
            np.testing.assert_allclose(b, a, 2e-5, 2e-4)
