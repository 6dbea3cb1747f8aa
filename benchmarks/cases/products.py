"""Matrix products with what stands around them."""

import numpy as np

from benchmarks.cases import EXP, TANH, case, normal


def product(a, b):
    return a @ b


def dense_relu(x, w, b):
    return np.maximum(x @ w + b, 0.0)


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def mlp(x, w1, b1, w2, b2):
    return gelu(x @ w1 + b1) @ w2 + b2


def attention(q, k, v):
    scores = (q @ np.swapaxes(k, -1, -2)) * 0.125
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return (e / np.sum(e, axis=-1, keepdims=True)) @ v


def squares(dtype, short, *sizes):
    return [
        case(
            f"matmul {short} {n}",
            "product",
            normal(dtype, n, n),
            normal(dtype, n, n),
            ops=n**3,
            tol=1e-4,
            quick=(short, n) == ("f32", 256),
        )
        for n in sizes
    ]


def layers(m, k, h):
    return (normal("float32", m, k), normal("float32", k, h), normal("float32", h), normal("float32", h, k), normal("float32", k))


def heads(t):
    return [normal("float32", 12, t, 64)] * 3


CASES = [
    *squares("float32", "f32", 8, 32, 64, 128, 256, 512, 1024),
    *squares("float64", "f64", 64, 256, 512),
    case("matvec f32 2048", "product", normal("float32", 2048, 2048), normal("float32", 2048), ops=2048**2, tol=1e-4),
    case("10000 products f32 4x4", "product", normal("float32", 10000, 4, 4), normal("float32", 10000, 4, 4), ops=10000 * 64),
    case(
        "relu(x @ w + b) f32 512x512x512",
        "dense_relu",
        normal("float32", 512, 512),
        normal("float32", 512, 512),
        normal("float32", 512),
        ops=512**3,
        tol=1e-4,
    ),
    case("MLP gelu f32 32x256x1024", "mlp", *layers(32, 256, 1024), ops=32 * 1024 * (512 + TANH), tol=1e-4),
    case("MLP gelu f32 512x256x1024", "mlp", *layers(512, 256, 1024), ops=512 * 1024 * (512 + TANH), tol=1e-4),
    case("attention f32 12x128x64", "attention", *heads(128), ops=12 * 128 * 128 * (128 + EXP), tol=1e-4),
    case("attention f32 12x512x64", "attention", *heads(512), ops=12 * 512 * 512 * (128 + EXP), tol=1e-4),
]
