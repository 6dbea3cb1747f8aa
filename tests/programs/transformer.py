"""Blocks of a transformer: layer norms, causal attention of several heads, rotary positions, a gated feed-forward net."""
from dataclasses import dataclass

import numpy as np


@dataclass
class Block:
    norm1: np.ndarray
    qkv: np.ndarray
    out: np.ndarray
    norm2: np.ndarray
    up: np.ndarray
    gate: np.ndarray
    down: np.ndarray
    heads: int


def layer_norm(x, gain, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axis=-1, keepdims=True) + eps) * gain


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def rotate(x, positions):
    half = x.shape[-1] // 2
    angle = positions[:, None] * 100.0 ** (-np.arange(half) / half)
    c, s = np.cos(angle), np.sin(angle)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * c - b * s, a * s + b * c], axis=-1)


def attention(block, x):
    length, width = x.shape[-2:]
    qkv = (x @ block.qkv).reshape(*x.shape[:-1], 3, block.heads, -1)
    q, k, v = np.moveaxis(qkv, -3, 0)
    q, k, v = (np.swapaxes(t, -2, -3) for t in (q, k, v))
    positions = np.arange(length)
    q, k = rotate(q, positions), rotate(k, positions)
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    mask = np.triu(np.ones((length, length), dtype=bool), k=1)
    scores = np.where(mask, -np.inf, scores)
    mixed = np.swapaxes(softmax(scores) @ v, -2, -3).reshape(*x.shape[:-1], width)
    return mixed @ block.out


def forward(block, x):
    x = x + attention(block, layer_norm(x, block.norm1))
    y = layer_norm(x, block.norm2)
    return x + (gelu(y @ block.gate) * (y @ block.up)) @ block.down


def program(blocks, onehot, embedding):
    x = onehot @ embedding
    for block in blocks:
        x = forward(block, x)
    logits = layer_norm(x, 1.0) @ embedding.T
    p = softmax(logits)
    return logits, -np.log((p[..., :-1, :] * onehot[..., 1:, :]).sum(-1)).mean(), p.argmax(-1)


def arguments(scale=1):
    rng = np.random.default_rng(18)
    d, h, words = 16 * scale, 2, 11

    def normal(*shape):
        return rng.standard_normal(shape) / np.sqrt(shape[0])

    blocks = [Block(np.ones(d), normal(d, 3 * d), normal(d, d), np.ones(d), normal(d, 24), normal(d, 24), normal(24, d), h) for _ in range(2)]
    return blocks, np.eye(words)[rng.integers(0, words, (2, 7 * scale))], normal(words, d)


RTOL = 1e-10
