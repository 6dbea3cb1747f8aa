"""Whole functions in plain NumPy: layers, cells, networks, a training step. Each row: name, function, arguments, floating-point operations.

`np` is bound by `functions`, so that JAX runs the same lines under its own namespace."""

import types

F = "float32"


def _source(np, nn=None):
    def gelu(x):
        return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    def mlp(x, w1, b1, w2, b2):
        return gelu(x @ w1 + b1) @ w2 + b2

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def cell(x, h, c, w, b):
        gates = np.concatenate([x, h], axis=-1) @ w + b
        n = h.shape[-1]
        i, f, o = sigmoid(gates[..., :n]), sigmoid(gates[..., n : 2 * n]), sigmoid(gates[..., 2 * n : 3 * n])
        c = f * c + i * np.tanh(gates[..., 3 * n :])
        return o * np.tanh(c), c

    def lstm(x, state, weights):
        new = []
        for (h, c), (w, b) in zip(state, weights):
            x, c = cell(x, h, c, w, b)
            new.append((x, c))
        return x, new

    def softmax(x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def norm(x, g, b):
        m = x.mean(axis=-1, keepdims=True)
        d = x - m
        return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5) * g + b

    def heads(x, n):
        return x.reshape(x.shape[0], n, -1).swapaxes(0, 1)

    def layer(x, p):
        t, width = x.shape
        y = norm(x, p["g1"], p["b1"]) @ p["qkv"] + p["bqkv"]
        q, k, v = (heads(y[:, i * width : (i + 1) * width], 12) for i in range(3))
        s = q @ k.swapaxes(1, 2) * 0.125
        s = np.where(np.tril(np.ones((t, t), bool)), s, -np.inf)
        x = x + (softmax(s) @ v).swapaxes(0, 1).reshape(t, width) @ p["out"] + p["bout"]
        y = norm(x, p["g2"], p["b2"])
        return x + gelu(y @ p["up"] + p["bup"]) @ p["down"] + p["bdown"]

    def transformer(x, layers):
        for p in layers:
            x = layer(x, p)
        return x

    def step(x, y, w1, b1, w2, b2):
        h = np.maximum(x @ w1 + b1, 0)
        p = softmax(h @ w2 + b2)
        d = (p - y) / x.shape[0]
        dh = (d @ w2.T) * (h > 0)
        rate = 0.1
        return w1 - rate * (x.T @ dh), b1 - rate * dh.sum(axis=0), w2 - rate * (h.T @ d), b2 - rate * d.sum(axis=0)

    def lenet(x, w1, w2, w3, w4):
        x = nn.max_pool(np.maximum(nn.conv(x, w1, padding=2), 0), 2)
        x = nn.max_pool(np.maximum(nn.conv(x, w2), 0), 2)
        return np.maximum(x.reshape(x.shape[0], -1) @ w3, 0) @ w4

    def images(x, w1, w2, w3):
        x = np.maximum(nn.conv(x, w1, stride=2, padding=3), 0)
        x = np.maximum(nn.conv(x, w2, stride=2, padding=1), 0)
        return np.maximum(nn.conv(x, w3, padding=1), 0).mean(axis=(2, 3))

    return locals()


def functions(np, nn=None):
    """The functions under a namespace of NumPy's names; nn has conv and max_pool, where it has them."""
    return types.SimpleNamespace(**_source(np, nn))


def jax_nn(jax):
    """The convolutions of `_source` in JAX."""
    def conv(x, w, stride=1, padding=0):
        return jax.lax.conv_general_dilated(x, w, (stride, stride), [(padding, padding)] * 2)

    def max_pool(x, size):
        window = (1, 1, size, size)
        return jax.lax.reduce_window(x, -jax.numpy.inf, jax.lax.max, window, window, "VALID")

    return types.SimpleNamespace(conv=conv, max_pool=max_pool)


def torch_functions(torch):
    """The same functions on torch's tensors, for those that need nn."""
    nn = types.SimpleNamespace(conv=torch.nn.functional.conv2d, max_pool=torch.nn.functional.max_pool2d)
    return functions(types.SimpleNamespace(maximum=torch.clamp_min), nn)


def rows(np):
    """(name, function's name, arguments, floating-point operations, whether it needs nn)"""
    rng = np.random.default_rng(3)

    def some(*shape, scale=None):
        return (rng.standard_normal(shape) * (scale or shape[0] ** -0.5 if len(shape) > 1 else 0.1)).astype(F)

    for m in (32, 512):
        args = some(m, 256, scale=1.0), some(256, 1024), some(1024), some(1024, 256), some(256)
        yield f"gelu MLP, {m} rows", "mlp", args, 4 * m * 256 * 1024, False
    args = some(16, 512), some(16, 512), some(16, 512), some(1024, 2048), some(2048)
    yield "LSTM cell, 16 x 512", "cell", args, 2 * 16 * 1024 * 2048, False
    state, weights = [(some(60), some(60)) for _ in range(3)], [(some(120, 240), some(240)) for _ in range(3)]
    yield "LSTM 3 x 60", "lstm", (some(60), state, weights), 3 * 2 * 120 * 240, False
    args = some(128, 784), np.eye(10, dtype=F)[rng.integers(0, 10, 128)], some(784, 256), some(256), some(256, 10), some(10)
    yield "training step, 784-256-10", "step", args, 6 * 128 * 784 * 256, False
    args = some(1, 1, 28, 28), some(6, 1, 5, 5), some(16, 6, 5, 5), some(400, 120), some(120, 10)
    yield "convolutions, 28 x 28", "lenet", args, 2 * (6 * 784 * 25 + 16 * 100 * 150), True
    args = some(1, 3, 224, 224), some(64, 3, 7, 7), some(128, 64, 3, 3), some(128, 128, 3, 3)
    yield "convolutions, 224 x 224", "images", args, 2 * (64 * 112**2 * 147 + 128 * 56**2 * 576 + 128 * 56**2 * 1152), True
    shapes = {"qkv": (768, 2304), "out": (768, 768), "up": (768, 3072), "down": (3072, 768)}
    shapes |= {"bqkv": (2304,), "bup": (3072,), **{name: (768,) for name in ("bout", "bdown", "g1", "b1", "g2", "b2")}}
    layers = [{name: some(*shape) for name, shape in shapes.items()} for _ in range(12)]
    for t in (128, 1):
        flops = 12 * (2 * t * 768 * 9216 + 4 * t * t * 768)
        yield f"12 layers of 768, T = {t}", "transformer", (some(t, 768, scale=1.0), layers), flops, False


def size(tree):
    """Bytes of all arrays of a tree."""
    if isinstance(tree, dict):
        tree = tree.values()
    return tree.nbytes if hasattr(tree, "nbytes") else sum(map(size, tree))
