"""Burgers' equation with shocks: upwind, Lax-Wendroff with a limiter, WENO-like slopes, and a spectral solve of its linear part."""
import numpy as np


def minmod(a, b):
    return 0.5 * (np.sign(a) + np.sign(b)) * np.minimum(np.abs(a), np.abs(b))


def van_leer(a, b):
    ab = a * b
    return np.where(ab > 0, 2 * ab / np.where(a + b == 0, 1, a + b), 0)


def muscl_step(u, dt, dx, limiter):
    left, right = u - np.roll(u, 1), np.roll(u, -1) - u
    slope = limiter(left, right)
    ul, ur = u + 0.5 * slope, np.roll(u - 0.5 * slope, -1)
    flux_l, flux_r = 0.5 * ul**2, 0.5 * ur**2
    speed = np.maximum(np.abs(ul), np.abs(ur))
    flux = 0.5 * (flux_l + flux_r) - 0.5 * speed * (ur - ul)
    return u - dt / dx * (flux - np.roll(flux, 1))


def heun(u, dt, dx, limiter):
    first = muscl_step(u, dt, dx, limiter)
    return 0.5 * (u + muscl_step(first, dt, dx, limiter))


def diffuse_implicit(u, nu, dt, dx):
    """One implicit step: a cyclic tridiagonal system by its matrix."""
    n = len(u)
    r = nu * dt / dx**2
    matrix = (1 + 2 * r) * np.eye(n) - r * (np.eye(n, k=1) + np.eye(n, k=-1))
    matrix[0, -1] = matrix[-1, 0] = -r
    return np.linalg.solve(matrix, u)


def program(u, nu, steps):
    dx = 2 * np.pi / len(u)
    total = [u.sum() * dx]
    w = u.copy()
    for _ in range(steps):
        dt = 0.4 * dx / 2.0
        u = diffuse_implicit(heun(u, dt, dx, minmod), nu, dt, dx)
        w = heun(w, dt, dx, van_leer)
        total.append(u.sum() * dx)
    variation = np.abs(np.diff(np.r_[w, w[0]])).sum()
    return u, w, np.array(total), variation, np.argmax(np.abs(np.diff(w)))


def arguments(scale=1):
    x = np.arange(48 * scale) * 2 * np.pi / (48 * scale)
    return np.sin(x) + 0.5, 0.02, 6
