"""Cooley and Tukey's transform by hand, in pairs of real arrays: recursive, and in passes after a bit reversal."""
import numpy as np


def fft(re, im):
    n = re.shape[-1]
    if n == 1:
        return re, im
    er, ei = fft(re[..., ::2], im[..., ::2])
    dr, di = fft(re[..., 1::2], im[..., 1::2])
    angle = -2 * np.pi * np.arange(n // 2) / n
    c, s = np.cos(angle), np.sin(angle)
    tr, ti = c * dr - s * di, c * di + s * dr
    return np.concatenate([er + tr, er - tr], axis=-1), np.concatenate([ei + ti, ei - ti], axis=-1)


def reverse_bits(x):
    n = x.shape[-1]
    shape = (2,) * (n.bit_length() - 1)
    return x.reshape(x.shape[:-1] + shape).transpose(*range(x.ndim - 1), *range(x.ndim + len(shape) - 2, x.ndim - 2, -1)).reshape(x.shape)


def fft_in_place(re, im):
    re, im = reverse_bits(re).copy(), reverse_bits(im).copy()
    n, half = re.shape[-1], 1
    while half < n:
        angle = -np.pi * np.arange(half) / half
        c, s = np.cos(angle), np.sin(angle)
        a, b = re.reshape(-1, 2, half), im.reshape(-1, 2, half)
        tr = c * a[:, 1] - s * b[:, 1]
        ti = c * b[:, 1] + s * a[:, 1]
        a[:, 1], b[:, 1] = a[:, 0] - tr, b[:, 0] - ti
        a[:, 0] += tr
        b[:, 0] += ti
        half *= 2
    return re, im


def program(signal):
    zero = np.zeros_like(signal)
    re, im = fft(signal, zero)
    re2, im2 = fft_in_place(signal, zero)
    power = (re**2 + im**2) / signal.shape[-1]
    back, _ = fft(re, -im)
    return power, back / signal.shape[-1], np.abs(re - re2).max() < 1e-10, im2


def arguments():
    rng = np.random.default_rng(3)
    t = np.arange(64) / 64
    return (np.sin(2 * np.pi * 5 * t) + 0.5 * np.sin(2 * np.pi * 12 * t) + 0.1 * rng.standard_normal(64),)
