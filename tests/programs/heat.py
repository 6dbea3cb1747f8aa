"""The heat equation on a plate: explicit steps with fixed, insulated and leaking edges."""
import numpy as np


def laplacian(u, h):
    return (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]) / h**2


def set_edges(u, hot, ambient, leak):
    u[0, :] = hot
    u[-1, :] = u[-2, :]                 # insulated
    u[:, 0] += leak * (ambient - u[:, 0])
    u[:, -1] = u[:, -2]


def program(u, conductivity, hot, ambient, steps=20):
    h = 1.0 / (u.shape[0] - 1)
    dt = 0.2 * h * h / 1.5
    history = []
    for _ in range(steps):
        k = conductivity[1:-1, 1:-1]
        u[1:-1, 1:-1] += dt * k * laplacian(u, h)
        set_edges(u, hot, ambient, leak=0.1)
        history.append(u.mean())
    gy, gx = np.gradient(u, h)
    flux = -conductivity * np.hypot(gx, gy)
    return np.array(history), flux, u.max() - u.min(), np.argmax(u.sum(axis=0))


def arguments(scale=1):
    rng = np.random.default_rng(1)
    shape = 24 * scale, 30 * scale
    return rng.random(shape), 0.5 + rng.random(shape), 2.0, 0.3
