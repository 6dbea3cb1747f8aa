"""A Kalman filter and smoother for a body that is seen through noise."""
import numpy as np


def filtered(z, F, H, Q, R, x, P):
    n = len(z)
    xs, Ps, preds, Pp = np.zeros((n, 4)), np.zeros((n, 4, 4)), np.zeros((n, 4)), np.zeros((n, 4, 4))
    eye = np.eye(4)
    likelihood = 0.0
    for k in range(n):
        x = F @ x
        P = F @ P @ F.T + Q
        preds[k], Pp[k] = x, P
        y = z[k] - H @ x
        S = H @ P @ H.T + R
        det = S[0, 0] * S[1, 1] - S[0, 1] * S[1, 0]
        Si = np.array([[S[1, 1], -S[0, 1]], [-S[1, 0], S[0, 0]]]) / det
        K = P @ H.T @ Si
        x = x + K @ y
        P = (eye - K @ H) @ P
        likelihood -= 0.5 * (np.log(det) + y @ Si @ y + 2 * np.log(2 * np.pi))
        xs[k], Ps[k] = x, P
    return xs, Ps, preds, Pp, likelihood


def smoothed(xs, Ps, preds, Pp, F):
    out = xs.copy()
    for k in reversed(range(len(xs) - 1)):
        C = Ps[k] @ F.T @ np.linalg.inv(Pp[k + 1])
        out[k] += C @ (out[k + 1] - preds[k + 1])
    return out


def program(z, dt, q, r):
    F = np.eye(4)
    F[0, 2] = F[1, 3] = dt
    H = np.zeros((2, 4))
    H[0, 0] = H[1, 1] = 1.0
    Q = q * np.diag([dt**4 / 4, dt**4 / 4, dt**2, dt**2])
    xs, Ps, preds, Pp, likelihood = filtered(z, F, H, Q, r * np.identity(2), np.zeros(4), 10 * np.eye(4))
    out = smoothed(xs, Ps, preds, Pp, F)
    return xs, out, likelihood, np.sqrt(np.mean((out[:, :2] - z) ** 2))


def arguments():
    rng = np.random.default_rng(7)
    t = np.arange(12)
    return np.stack([t * 0.5, 0.1 * t**2], axis=1) + 0.2 * rng.standard_normal((12, 2)), 1.0, 0.01, 0.04
