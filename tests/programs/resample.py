"""Images at other sizes and angles: box and bilinear resampling, a pyramid, summed areas, a perceptual difference."""
import numpy as np


def downsample(image):
    h, w = image.shape[0] // 2 * 2, image.shape[1] // 2 * 2
    return image[:h, :w].reshape(h // 2, 2, w // 2, 2, -1).mean(axis=(1, 3))


def upsample(image):
    wide = np.repeat(np.repeat(image, 2, axis=0), 2, axis=1)
    padded = np.pad(wide, ((1, 1), (1, 1), (0, 0)), mode="edge")
    return (4 * wide + padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]) / 8


def pyramid(image, levels):
    out = []
    for _ in range(levels):
        small = downsample(image)
        out.append(image - upsample(small))
        image = small
    return out, image


def rebuild(details, base):
    for d in reversed(details):
        base = d + upsample(base)
    return base


def weights(n, m):
    """The matrix of bilinear interpolation from n to m points."""
    at = np.linspace(0, n - 1, m)[:, None] - np.arange(n)[None, :]
    return np.maximum(0, 1 - np.abs(at))


def resize(image, shape):
    return np.einsum("ai,bj,ijc->abc", weights(image.shape[0], shape[0]), weights(image.shape[1], shape[1]), image, optimize=True)


def box_mean(gray, r):
    s = np.pad(np.cumsum(np.cumsum(gray, axis=0), axis=1), ((1, 0), (1, 0)))
    n = 2 * r + 1
    return (s[n:, n:] - s[:-n, n:] - s[n:, :-n] + s[:-n, :-n]) / n**2


def ssim(a, b):
    ma, mb = box_mean(a, 2), box_mean(b, 2)
    va, vb = box_mean(a * a, 2) - ma**2, box_mean(b * b, 2) - mb**2
    cab = box_mean(a * b, 2) - ma * mb
    return (((2 * ma * mb + 1e-4) * (2 * cab + 9e-4)) / ((ma**2 + mb**2 + 1e-4) * (va + vb + 9e-4))).mean()


def program(image):
    details, base = pyramid(image, 2)
    back = rebuild(details, base)
    other = resize(image, (20, 15))
    gray = image @ np.array([0.299, 0.587, 0.114])
    turned = np.rot90(image, 3)[::-1]
    return base, back, other, ssim(gray, gray * 0.9 + 0.05), turned.mean(axis=(0, 1)), np.round(gray * 255).astype(np.uint8)


def arguments(scale=1):
    return (np.random.default_rng(24).random((16 * scale, 24 * scale, 3)),)


RTOL = 1e-10
