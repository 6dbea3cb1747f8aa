"""Logistic regression by gradient descent with momentum, by Newton's method, and its likelihood."""
import numpy as np


def sigmoid(z):
    return np.where(z >= 0, 1 / (1 + np.exp(-np.abs(z))), np.exp(-np.abs(z)) / (1 + np.exp(-np.abs(z))))


def loss(w, x, y, penalty):
    z = x @ w
    return np.mean(np.logaddexp(0, z) - y * z) + 0.5 * penalty * w @ w


def gradient(w, x, y, penalty):
    return x.T @ (sigmoid(x @ w) - y) / len(y) + penalty * w


def hessian(w, x, penalty):
    p = sigmoid(x @ w)
    return (x * (p * (1 - p))[:, None]).T @ x / len(x) + penalty * np.eye(x.shape[1])


def program(x, y, rate, momentum, penalty):
    x = np.c_[np.ones(len(x)), (x - x.mean(0)) / x.std(0)]
    w, v, losses = np.zeros(x.shape[1]), np.zeros(x.shape[1]), []
    for _ in range(15):
        v *= momentum
        v -= rate * gradient(w, x, y, penalty)
        w += v
        losses.append(loss(w, x, y, penalty))
    newton = np.zeros_like(w)
    for _ in range(4):
        newton = newton - np.linalg.solve(hessian(newton, x, penalty), gradient(newton, x, y, penalty))
    guess = sigmoid(x @ newton) > 0.5
    truth = y > 0.5
    table = np.array([[np.sum(guess & truth), np.sum(guess & ~truth)], [np.sum(~guess & truth), np.sum(~guess & ~truth)]])
    return w, np.array(losses), newton, table, table[0, 0] / table[0].sum()


def arguments(scale=1):
    rng = np.random.default_rng(22)
    x = rng.standard_normal((50 * scale, 3))
    return x, (x @ [1.0, -2.0, 0.5] + 0.5 * rng.standard_normal(50 * scale) > 0).astype(float), 0.5, 0.8, 0.01
