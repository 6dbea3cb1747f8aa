"""Histogram equalisation: of the whole image, clipped, by tiles; Otsu's threshold; and matching to another image."""
import numpy as np


def histogram(image):
    return np.histogram(image, bins=64, range=(0, 64))[0]


def lookup(counts):
    cdf = counts.cumsum()
    first = cdf[np.argmax(cdf > 0)]
    return np.round((cdf - first) / np.maximum(cdf[-1] - first, 1) * 63).clip(0, 63).astype(np.uint8)


def equalise(image):
    return lookup(histogram(image))[image]


def clipped(image, limit):
    counts = histogram(image)
    excess = np.maximum(counts - limit, 0).sum()
    return lookup(np.minimum(counts, limit) + excess // 64)[image]


def by_tiles(image, n):
    out = np.empty_like(image)
    h, w = image.shape[0] // n, image.shape[1] // n
    for i in range(n):
        for j in range(n):
            tile = image[i * h:(i + 1) * h, j * w:(j + 1) * w]
            out[i * h:(i + 1) * h, j * w:(j + 1) * w] = equalise(tile)
    return out


def otsu(image):
    p = histogram(image) / image.size
    levels = np.arange(64)
    weight = np.cumsum(p)
    mean = np.cumsum(p * levels)
    between = (mean[-1] * weight - mean) ** 2 / np.where((weight > 0) & (weight < 1), weight * (1 - weight), np.inf)
    return np.argmax(between)


def match(image, reference):
    a = np.cumsum(histogram(image)) / image.size
    b = np.cumsum(histogram(reference)) / reference.size
    return np.interp(a, b, np.arange(64))[image]


def program(image, reference):
    flat = equalise(image)
    return flat, clipped(image, 6), by_tiles(image, 2), otsu(image), image > otsu(image), match(image, reference), np.percentile(flat, [5, 50, 95])


def arguments(scale=1):
    rng = np.random.default_rng(26)
    return (rng.beta(2, 5, (16 * scale, 20 * scale)) * 63).astype(np.uint8), (rng.beta(5, 2, (12 * scale, 12 * scale)) * 63).astype(np.uint8)
