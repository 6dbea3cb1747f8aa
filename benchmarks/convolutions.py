"""Convolutions beside torch's (oneDNN), both layouts of each: the table `convolutions` of benchmarks.products; without it, ours alone."""

# name, image, weights (in NCHW), stride, padding, groups
CASES = (
    ("3x3, 64, 56x56", (1, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1),
    ("3x3, 128, 28x28", (1, 128, 28, 28), (128, 128, 3, 3), 1, 1, 1),
    ("3x3, 512, 7x7", (1, 512, 7, 7), (512, 512, 3, 3), 1, 1, 1),
    ("3x3 s2, 64-128, 56x56", (1, 64, 56, 56), (128, 64, 3, 3), 2, 1, 1),
    ("1x1, 256-64, 56x56", (1, 256, 56, 56), (64, 256, 1, 1), 1, 0, 1),
    ("1x1, 64-256, 56x56", (1, 64, 56, 56), (256, 64, 1, 1), 1, 0, 1),
    ("7x7 s2, 3-64, 224x224", (1, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1),
    ("3x3, 3-64, 224x224", (1, 3, 224, 224), (64, 3, 3, 3), 1, 1, 1),
    ("depthwise, 128, 56x56", (1, 128, 56, 56), (128, 1, 3, 3), 1, 1, 128),
    ("depthwise, 512, 14x14", (1, 512, 14, 14), (512, 1, 3, 3), 1, 1, 512),
    ("depthwise s2, 64, 112x112", (1, 64, 112, 112), (64, 1, 3, 3), 2, 1, 64),
    ("3x3, 1-16, 32 of 28x28", (32, 1, 28, 28), (16, 1, 3, 3), 1, 1, 1),
    ("5x5, 6-16, 32 of 12x12", (32, 6, 12, 12), (16, 6, 5, 5), 1, 0, 1),
    ("5x5, 1-6, 28x28", (1, 1, 28, 28), (6, 1, 5, 5), 1, 0, 1),
)


def ours(np, pyxla, x, w, options):
    """Calls of both layouts, and the result of the first."""
    def conv(layout):
        return pyxla.jit(lambda x, w: pyxla.nn.conv(x, w, layout=layout, **options))

    first, last = conv("NCHW"), conv("NHWC")
    xl, wl = np.ascontiguousarray(np.moveaxis(x, 1, -1)), np.ascontiguousarray(np.moveaxis(w, (0, 1), (-1, -2)))
    return [lambda: first(x, w), lambda: last(xl, wl)], first(x, w)


def torchs(torch, x, w, options):
    x, w = torch.from_numpy(x), torch.from_numpy(w)
    xl, wl = (a.contiguous(memory_format=torch.channels_last) for a in (x, w))

    def call(x, w):
        with torch.no_grad():
            return torch.nn.functional.conv2d(x, w, **options)

    return [lambda: call(x, w), lambda: call(xl, wl)], call(x, w).numpy()


def run(np, pyxla, peak, best_times, seconds, only):
    """The table; ratios are to the faster of torch's layouts."""
    try:
        import torch

        torch.set_num_threads(1)
    except ImportError:
        torch = None
    heads = "".join(f"{layout + ' us':>9}{'of peak':>9}{'ratio':>8}" for layout in ("NCHW", "NHWC"))
    print(f"\nconvolutions, float32\n{'':28}{heads}{'torch NCHW':>11}{'NHWC':>11}")
    rng = np.random.default_rng(1)
    for name, image, weights, stride, padding, groups in CASES:
        if only and only not in name:
            continue
        x, w = rng.standard_normal(image).astype("float32"), rng.standard_normal(weights).astype("float32")
        options = {"stride": stride, "padding": padding, "groups": groups}
        calls, y = ours(np, pyxla, x, w, options)
        if torch:
            more, other = torchs(torch, x, w, options)
            assert np.allclose(y, other, rtol=1e-3, atol=1e-3), name
            calls += more
        most, times = peak(), best_times(calls, seconds)
        flops, line = 2e-9 * y.size * w[0].size, f"{name:28}"
        for t in times[:2]:
            line += f"{1e6 * t:9.1f}{flops / t / most:9.2f}" + (f"{min(times[2:]) / t:7.2f} " if torch else f"{'':8}")
        print(line + "".join(f"{1e6 * t:11.1f}" for t in times[2:]), flush=True)
