"""The Mandelbrot set and a Julia set, with smooth colours, in real arithmetic on whole arrays."""
import numpy as np


def escape(x, y, cx, cy, rounds):
    count = np.zeros(x.shape, dtype=np.int32)
    last = np.zeros(x.shape)
    for _ in range(rounds):
        x2, y2 = x * x, y * y
        inside = x2 + y2 <= 4.0
        count += inside
        last = np.where(inside, x2 + y2, last)
        x, y = np.where(inside, x2 - y2 + cx, x), np.where(inside, 2 * x * y + cy, y)
    return count, last


def grid(width, height, centre, scale):
    xs = np.linspace(centre[0] - scale, centre[0] + scale, width)
    ys = np.linspace(centre[1] - scale, centre[1] + scale, height)
    return np.meshgrid(xs, ys)


def program(width, height, centre, scale, julia):
    cx, cy = grid(width, height, centre, scale)
    zero = np.zeros_like(cx)
    count, last = escape(zero, zero, cx, cy, 30)
    other, _ = escape(cx, cy, julia[0], julia[1], 20)
    smooth = count + np.where(count < 30, np.sqrt(last) / 2, 0.0)
    image = np.stack([smooth / 30, other / 20, (count % 2).astype(float)], axis=-1)
    return count, other, (np.clip(image, 0, 1) * 255).astype(np.uint8), (count == 30).mean()


def arguments(scale=1):
    return 40 * scale, 30 * scale, np.array([-0.6, 0.05]), 1.3, np.array([-0.4, 0.6])
