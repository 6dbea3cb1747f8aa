"""A small convolutional net: convolutions by windows, pooling, dense layers, softmax and cross entropy, in float32."""
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def relu(x):
    return np.maximum(x, 0)


def conv2d(x, weights, bias, stride=1):
    n = weights.shape[0]
    windows = sliding_window_view(x, (n, n), axis=(1, 2))[:, ::stride, ::stride]      # N, H, W, C, n, n
    return np.einsum("bhwcij,ijck->bhwk", windows, weights) + bias


def conv2d_loops(x, weights, bias):
    n = weights.shape[0]
    h, w = x.shape[1] - n + 1, x.shape[2] - n + 1
    out = np.empty((x.shape[0], h, w, weights.shape[3]), dtype=np.float32)
    for i in range(h):
        for j in range(w):
            out[:, i, j, :] = np.sum(x[:, i:i + n, j:j + n, :, np.newaxis] * weights[np.newaxis, :, :, :], axis=(1, 2, 3))
    return out + bias


def maxpool(x):
    n, h, w, c = x.shape
    return x[:, :h // 2 * 2, :w // 2 * 2].reshape(n, h // 2, 2, w // 2, 2, c).max(axis=(2, 4))


def log_softmax(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def program(images, labels, parameters):
    x = relu(conv2d(images, parameters["c1"], parameters["b1"]))
    same = relu(conv2d_loops(images[:1, :8, :8], parameters["c1"], parameters["b1"]))
    x = maxpool(x)
    x = relu(conv2d(x, parameters["c2"], parameters["b2"], stride=2))
    x = x.reshape(len(images), -1)
    x = relu(x @ parameters["w1"] + parameters["b3"])
    logp = log_softmax(x @ parameters["w2"] + parameters["b4"])
    onehot = labels[:, None] == np.arange(logp.shape[1])
    loss = -np.mean(np.sum(np.where(onehot, logp, np.float32(0)), axis=1))
    return logp, loss, logp.argmax(axis=1), (logp.argmax(axis=1) == labels).mean(), same


def arguments(scale=1):
    rng = np.random.default_rng(16)

    def normal(*shape):
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)

    parameters = {"c1": normal(3, 3, 2, 4), "b1": normal(4), "c2": normal(3, 3, 4, 5), "b2": normal(5), "w1": normal(45, 12), "b3": normal(12),
                  "w2": normal(12, 10), "b4": normal(10)}
    return rng.random((3 * scale, 16, 16, 2)).astype(np.float32), rng.integers(0, 10, 3 * scale), parameters


RTOL = 1e-5
