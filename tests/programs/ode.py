"""Solvers of ordinary differential equations: Euler, Runge-Kutta 4, Dormand-Prince with its error, symplectic, on several systems."""
import numpy as np


def lorenz(t, y, sigma=10.0, rho=28.0, beta=8 / 3):
    x, y_, z = y
    return np.array([sigma * (y_ - x), x * (rho - z) - y_, x * y_ - beta * z])


def pendulum(t, y):
    return np.array([y[1], -np.sin(y[0]) - 0.1 * y[1] + 0.3 * np.cos(0.7 * t)])


def rk4(f, y, t0, t1, steps):
    h = (t1 - t0) / steps
    out = np.empty((steps + 1,) + y.shape)
    out[0] = y
    for i in range(steps):
        t = t0 + i * h
        k1 = f(t, y)
        k2 = f(t + h / 2, y + h / 2 * k1)
        k3 = f(t + h / 2, y + h / 2 * k2)
        k4 = f(t + h, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        out[i + 1] = y
    return out


C = [0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1]
A = [[], [1 / 5], [3 / 40, 9 / 40], [44 / 45, -56 / 15, 32 / 9], [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
     [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656], [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84]]
E = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])


def dormand_prince(f, y, t, h, steps, tolerance):
    """Steps whose size follows the error, accepted or not by masks."""
    taken = np.zeros(steps)
    for n in range(steps):
        k = []
        for c, row in zip(C, A):
            k.append(f(t + c * h, y + h * sum((a * v for a, v in zip(row, k)), np.zeros_like(y))))
        k = np.array(k)
        new = y + h * np.tensordot(np.array(A[6]), k[:6], axes=1)
        error = np.max(np.abs(h * (E @ k)) / (tolerance * (1 + np.abs(y))))
        accept = error <= 1
        t = np.where(accept, t + h, t)
        y = np.where(accept, new, y)
        taken[n] = np.where(accept, h, 0.0)
        h = h * np.clip(0.9 * (1 / np.maximum(error, 1e-10)) ** 0.2, 0.2, 5.0)
    return t, y, taken


def leapfrog(q, p, h, steps):
    for _ in range(steps):
        p = p - h / 2 * q
        q = q + h * p
        p = p - h / 2 * q
    return q, p


def program(y0, angle, t1):
    orbit = rk4(lorenz, y0, 0.0, t1, 40)
    swing = rk4(pendulum, np.array([angle, 0.0]), 0.0, 5.0, 25)
    t, y, taken = dormand_prince(pendulum, np.array([angle, 0.0]), 0.0, 0.1, 8, 1e-6)
    q, p = leapfrog(y0, np.zeros_like(y0), 0.1, 10)
    return orbit, swing, t, y, taken, 0.5 * (q**2 + p**2)


def arguments():
    return np.array([1.0, 1.0, 1.05]), 0.8, 0.8


RTOL = 1e-9
