"""Spheres and a plane, marched to along rays, with a light and its shadow."""
import numpy as np

SPHERES = np.array([[0.0, 0.0, 3.0, 1.0], [1.5, 0.3, 4.0, 0.7], [-1.4, -0.2, 2.5, 0.5]])


def length(v):
    return np.sqrt(np.sum(v * v, axis=-1))


def normalize(v):
    return v / length(v)[..., None]


def scene(p):
    balls = [length(p - s[:3]) - s[3] for s in SPHERES]
    return np.minimum(np.min(balls, axis=0), p[..., 1] + 1.0)


def march(origin, direction, steps, far=20.0):
    t = np.zeros(direction.shape[:-1])
    for _ in range(steps):
        d = scene(origin + t[..., None] * direction)
        t = np.where(t < far, t + d, t)
    return t


def normal(p, e=1e-4):
    steps = np.eye(3) * e
    return normalize(np.stack([scene(p + s) - scene(p - s) for s in steps], axis=-1))


def camera(width, height, fov):
    y, x = np.mgrid[0:height, 0:width]
    u = (x + 0.5) / width * 2 - 1
    v = 1 - (y + 0.5) / height * 2
    f = 1 / np.tan(fov / 2)
    return normalize(np.stack([u * width / height, v, np.full_like(u, f)], axis=-1))


def program(width, height, fov, light):
    rays = camera(width, height, fov)
    t = march(np.zeros(3), rays, 30)
    hit = t < 20.0
    p = t[..., None] * rays
    n = normal(p)
    to_light = normalize(light - p)
    diffuse = np.clip(np.einsum("...i,...i", n, to_light), 0, None)
    shadow = march(p + 0.01 * n, to_light, 12) < length(light - p) - 0.5
    image = np.where(hit, 0.1 + 0.9 * diffuse * np.where(shadow, 0.3, 1.0), 0.0)
    return hit, np.round(image, 6), n[hit.shape[0] // 2, hit.shape[1] // 2]


def arguments(scale=1):
    return 24 * scale, 18 * scale, 1.1, np.array([2.0, 4.0, -1.0])
