"""Shallow water on a rotating plane: a staggered grid, forward-backward steps, open and closed edges."""
import numpy as np


def step(h, u, v, dt, dx, g, f, depth, drag):
    u[1:-1, :] -= dt * (g * (h[1:, :] - h[:-1, :]) / dx + drag * u[1:-1, :])
    v[:, 1:-1] -= dt * (g * (h[:, 1:] - h[:, :-1]) / dx + drag * v[:, 1:-1])
    vc = 0.5 * (v[:, 1:] + v[:, :-1])
    uc = 0.5 * (u[1:, :] + u[:-1, :])
    u[1:-1, :] += dt * f * 0.5 * (vc[1:, :] + vc[:-1, :])
    v[:, 1:-1] -= dt * f * 0.5 * (uc[:, 1:] + uc[:, :-1])
    fluxx, fluxy = u.copy(), v.copy()
    fluxx[1:-1] *= depth + 0.5 * (h[1:] + h[:-1])
    fluxy[:, 1:-1] *= depth + 0.5 * (h[:, 1:] + h[:, :-1])
    h -= dt / dx * (fluxx[1:] - fluxx[:-1] + fluxy[:, 1:] - fluxy[:, :-1])


def program(h, dt, dx, steps, options):
    nx, ny = h.shape
    u, v = np.zeros((nx + 1, ny)), np.zeros((nx, ny + 1))
    mass, energy = [], []
    for _ in range(steps):
        step(h, u, v, dt, dx, **options)
        mass.append(h.sum())
        energy.append(0.5 * options["g"] * np.vdot(h, h) + 0.5 * options["depth"] * (np.vdot(u, u) + np.vdot(v, v)))
    vorticity = np.diff(v[1:-1], axis=0)[:, 1:-1] / dx
    return u, v, np.array(mass), np.array(energy), vorticity


def arguments(scale=1):
    x, y = np.meshgrid(np.linspace(-1, 1, 16 * scale), np.linspace(-1, 1, 14 * scale), indexing="ij")
    return 0.1 * np.exp(-8 * (x**2 + y**2)), 0.01, 0.13, 12, {"g": 9.81, "f": 0.5, "depth": 1.0, "drag": 0.01}
