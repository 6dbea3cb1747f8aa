"""Filters of images: Gaussian blur, Sobel edges, sharpening, a median, erosion, a bilateral filter."""
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def gaussian_kernel(radius, sigma):
    x = np.arange(-radius, radius + 1)
    k = np.exp(-(x**2) / (2 * sigma**2))
    return k / k.sum()


def blur(image, k):
    r = len(k) // 2
    padded = np.pad(image, ((r, r), (0, 0)), mode="reflect")
    rows = sum(k[i] * padded[i:i + image.shape[0]] for i in range(len(k)))
    padded = np.pad(rows, ((0, 0), (r, r)), mode="reflect")
    return sliding_window_view(padded, len(k), axis=1) @ k


def convolve(image, kernel):
    padded = np.pad(image, 1, mode="edge")
    out = np.zeros_like(image)
    for (i, j), w in np.ndenumerate(kernel):
        out += w * padded[i:i + image.shape[0], j:j + image.shape[1]]
    return out


def sobel(image):
    kx = np.array([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    gx, gy = convolve(image, kx), convolve(image, kx.T)
    return np.hypot(gx, gy), np.arctan2(gy, gx)


def windows(image):
    padded = np.pad(image, 1, mode="symmetric")
    return np.stack([padded[i:i + image.shape[0], j:j + image.shape[1]] for i in range(3) for j in range(3)])


def bilateral(image, sigma_space, sigma_value):
    total, weight = np.zeros_like(image), np.zeros_like(image)
    padded = np.pad(image, 2, mode="edge")
    for dy in range(-2, 3):
        for dx in range(-2, 3):
            other = padded[2 + dy:2 + dy + image.shape[0], 2 + dx:2 + dx + image.shape[1]]
            w = np.exp(-(dx * dx + dy * dy) / (2 * sigma_space**2) - (other - image) ** 2 / (2 * sigma_value**2))
            total += w * other
            weight += w
    return total / weight


def program(image, sigma):
    smooth = blur(image, gaussian_kernel(3, sigma))
    edges, angle = sobel(smooth)
    sharp = np.clip(image + 1.5 * (image - smooth), 0, 1)
    stack = windows(image)
    middle = np.median(stack, axis=0)
    return smooth, edges, angle, sharp, middle, stack.min(axis=0), stack.max(0), bilateral(image, 1.5, 0.2), (edges > edges.mean()).astype(np.uint8)


def arguments(scale=1):
    return np.random.default_rng(11).random((20 * scale, 26 * scale)), 1.2
