"""Work along rows: softmax, normalisations, cumulative sums."""

import numpy as np

from benchmarks.cases import DIV, EXP, case, normal


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def log_softmax(x):
    x = x - np.max(x, axis=-1, keepdims=True)
    return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))


def layer_norm(x, gain, bias):
    x = x - np.mean(x, axis=-1, keepdims=True)
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5) * gain + bias


def rms_norm(x, gain):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5) * gain


def center_columns(x):
    return x - np.mean(x, axis=0)


def running_rows(x):
    return np.cumsum(x, axis=1)


def running_columns(x):
    return np.cumsum(x, axis=0)


def running(x):
    return np.cumsum(x)


SHAPES = ((128, 128), (1024, 1024), (65536, 64), (16, 100000))
SHORT = {"float32": "f32", "float64": "f64"}


def over(fn, label, dtype, shapes, ops):
    return [
        case(f"{label} {SHORT[dtype]} {m}x{n}", fn, normal(dtype, m, n), ops=m * n * ops, quick=(fn, m, n) == ("softmax", 128, 128))
        for m, n in shapes
    ]


def norm(fn, label, m, n, vectors):
    return case(f"{label} f32 {m}x{n}", fn, normal("float32", m, n), *[normal("float32", n)] * vectors, ops=m * n * (6 + DIV))


CASES = [
    *over("softmax", "softmax", "float32", SHAPES, EXP + 3),
    *over("softmax", "softmax", "float64", SHAPES, EXP + 3),
    *over("log_softmax", "log-softmax", "float32", SHAPES, EXP + 4),
    *over("log_softmax", "log-softmax", "float64", SHAPES, EXP + 4),
    norm("layer_norm", "layer norm", 1024, 768, 2),
    norm("layer_norm", "layer norm", 64, 256, 2),
    norm("rms_norm", "RMS norm", 1024, 768, 1),
    case("center columns f64 2000x2000", "center_columns", normal("float64", 2000, 2000), ops=8 * 10**6),
    case("cumsum f64 1M", "running", normal("float64", 10**6)),
    case("cumsum rows f32 1024x1024", "running_rows", normal("float32", 1024, 1024), tol=1e-4),
    case("cumsum columns f32 1024x1024", "running_columns", normal("float32", 1024, 1024), tol=1e-4),
]
