"""What surrounds products: the table `around` of benchmarks.products. Epilogues and prologues beside the plain product, products with
vectors beside the read bandwidth of a cache, and constants beside ordinary weights, in turns."""

SHAPES = ((64, 64, 64), (256, 256, 256), (512, 1024, 256), (512, 256, 1024), (32, 1024, 256))


def gelu(np, x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def epilogues(np):
    """(name, function of the operands, a bias and a residual)"""
    return (
        ("bias", lambda a, b, c, r: a @ b + c),
        ("ReLU", lambda a, b, c, r: np.maximum(a @ b, 0)),
        ("bias, ReLU", lambda a, b, c, r: np.maximum(a @ b + c, 0)),
        ("residual", lambda a, b, c, r: a @ b + r),
        ("to float16", lambda a, b, c, r: (a @ b).astype("float16")),
        ("quantised", lambda a, b, c, r: np.clip(np.rint(a @ b * np.float32(8)), -127, 127).astype("int8")),
        ("row maximum", lambda a, b, c, r: (a @ b, (a @ b).max(1))),
        ("bias, gelu", lambda a, b, c, r: gelu(np, a @ b + c)),
    )


def prologues(np, w, bf16):
    """(name, function of the left operand and what the right one is computed from, that array)"""
    small = np.clip(w * 50, -127, 127).astype("int8")
    scales = np.linspace(0.01, 0.02, w.shape[1], dtype="float32")
    found = [
        ("exp(w)", lambda x, w: x @ np.exp(w), w),
        ("float16", lambda x, w: x @ w.astype("float32"), w.astype("float16")),
        ("int8, scale", lambda x, w: x @ (w.astype("float32") * np.float32(0.01)), small),
        ("int8, scales", lambda x, w: x @ (w.astype("float32") * scales), small),
        ("exp(x)", lambda x, w: np.exp(x) @ w, w),
    ]
    if bf16 is not None:
        found.insert(1, ("bfloat16", lambda x, w: x @ w.astype("float32"), w.astype(bf16)))
    return found


def run_epilogues(np, pyxla, best_times, seconds):
    print("\nepilogues, float32: the plain product in us; then share of its time and ns per element more")
    names = [name for name, _ in epilogues(np)]
    print(f"{'m, n, k':16}{'plain':>9}" + "".join(f"{name:>17}" for name in names))
    rng = np.random.default_rng(1)
    for m, n, k in SHAPES:
        a, b, c, r = (rng.standard_normal(s).astype("float32") * k**-0.25 for s in ((m, k), (k, n), n, (m, n)))
        fs = [pyxla.jit(lambda a, b, c, r: a @ b)] + [pyxla.jit(f) for _, f in epilogues(np)]
        t = best_times([lambda f=f: f(a, b, c, r) for f in fs], seconds)
        line = "".join(f"{x / t[0]:9.3f} {1e9 * (x - t[0]) / (m * n):6.2f} " for x in t[1:])
        print(f"{f'{m}, {n}, {k}':16}{1e6 * t[0]:9.1f}{line}", flush=True)


def run_prologues(np, pyxla, best_times, seconds):
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        bfloat16 = None
    n = 512
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal((n, n)).astype("float32") for _ in range(2))
    plain, rows = pyxla.jit(lambda x, w: x @ w), prologues(np, w, bfloat16)
    fs = [pyxla.jit(f) for _, f, _ in rows]
    t = best_times([lambda: plain(x, w)] + [lambda f=f, v=row[2]: f(x, v) for f, row in zip(fs, rows, strict=True)], seconds)
    print(f"\nprologues, {n} x {n} x {n} float32 (plain {1e6 * t[0]:.0f} us), share of the plain product's time")
    for (name, _, _), s in zip(rows, t[1:], strict=True):
        print(f"{name:16}{s / t[0]:9.3f}", flush=True)


def run_vectors(np, pyxla, library, best_times, seconds):
    print("\nmatrix by vector, float32, GB/s")
    print(f"{'':16}{'A x':>9}{'x A':>9}{'NumPy A x':>11}{'x A':>9}{'read':>9}{'A x':>7}{'x A':>7} of it")
    rng = np.random.default_rng(1)
    for n in (256, 384, 480, 1024, 2048, 4096):
        room = np.empty(n * n * 4 + 64, np.uint8)
        a = room[-room.ctypes.data % 64 :][: n * n * 4].view("float32").reshape(n, n)
        a[...] = rng.standard_normal((n, n))
        x, out = rng.standard_normal(n).astype("float32"), np.empty(n, "float32")
        right, left = pyxla.jit(lambda a, x: a @ x), pyxla.jit(lambda a, x: x @ a)
        calls = [lambda: right(a, x), lambda: left(a, x), lambda: np.matmul(a, x, out=out), lambda: np.matmul(x, a, out=out)]
        rates = [1e-9 * a.nbytes / t for t in best_times(calls, seconds)]
        read = 1e-9 * library.read_rate(a.ctypes.data, a.nbytes, 2 * seconds)
        line = "".join(f"{rate:{width}.1f}" for rate, width in zip(rates, (9, 9, 11, 9), strict=True))
        print(f"{f'{n} x {n}':16}{line}{read:9.1f}{rates[0] / read:7.2f}{rates[1] / read:7.2f}", flush=True)


def run_constants(np, pyxla, best_times, seconds):
    print(f"\nconstants, float32\n{'':24}{'weights us':>11}{'constant':>11}{'ratio':>7}{'packed MiB':>12}{'weights':>9}")
    rng = np.random.default_rng(1)
    for m, n in ((64, 1024), (512, 1024), (128, 2048)):
        x, w = rng.standard_normal((m, n)).astype("float32"), rng.standard_normal((n, n)).astype("float32")
        before = pyxla.memory_info().constants
        fixed, f = pyxla.constant(w), pyxla.jit(lambda x, w: np.maximum(x @ w, 0))
        t = best_times([lambda x=x, w=w, f=f: f(x, w), lambda x=x, w=fixed, f=f: f(x, w)], seconds)
        line = f"{1e6 * t[0]:11.1f}{1e6 * t[1]:11.1f}{t[0] / t[1]:7.2f}"
        print(f"{f'{m} x {n} by {n}':24}{line}{(pyxla.memory_info().constants - before) / 2**20:12.2f}{w.nbytes / 2**20:9.2f}", flush=True)
        del fixed


def run(np, pyxla, library, best_times, seconds):
    run_epilogues(np, pyxla, best_times, seconds)
    run_prologues(np, pyxla, best_times, seconds)
    run_vectors(np, pyxla, library, best_times, seconds)
    run_constants(np, pyxla, best_times, seconds)
