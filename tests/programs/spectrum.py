"""A spectral density by Welch's method, with windows, and the peaks in it; the transform is a product with sines and cosines."""
import numpy as np


def segments(x, length, step):
    count = (len(x) - length) // step + 1
    return np.lib.stride_tricks.sliding_window_view(x, length)[::step][:count]


def transform(x):
    n = x.shape[-1]
    angle = 2 * np.pi * np.outer(np.arange(n), np.arange(n // 2 + 1)) / n
    return x @ np.cos(angle), -(x @ np.sin(angle))


def welch(x, rate, length):
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)
    parts = segments(x, length, length // 2)
    parts = parts - parts.mean(axis=1, keepdims=True)
    re, im = transform(parts * window)
    power = (re**2 + im**2) / (rate * (window**2).sum())
    power[:, 1:-1] *= 2
    return np.arange(length // 2 + 1) * rate / length, power.mean(axis=0)


def program(x, rate):
    f, p = welch(x, rate, 32)
    inner = p[1:-1]
    peaks = (inner > p[:-2]) & (inner > p[2:]) & (inner > 2 * np.median(p))
    decibels = 10 * np.log10(np.maximum(p, 1e-12))
    total = np.trapezoid(p, f)
    centroid = np.average(f, weights=p)
    lags = np.array([np.dot(x[k:], x[:len(x) - k]) for k in range(8)]) / np.dot(x, x)
    return f, p, peaks, decibels, total, centroid, lags


def arguments(scale=1):
    rng = np.random.default_rng(19)
    t = np.arange(160 * scale) / 100.0
    return np.sin(2 * np.pi * 12 * t) + 0.3 * np.cos(2 * np.pi * 31 * t) + 0.2 * rng.standard_normal(160 * scale), 100.0


RTOL = 1e-11
