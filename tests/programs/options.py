"""Monte Carlo prices of options from normal numbers that are passed in: European, Asian, barrier, with greeks and errors."""
import numpy as np


def paths(spot, rate, vol, years, normals):
    steps = normals.shape[1]
    dt = years / steps
    logs = (rate - 0.5 * vol**2) * dt + vol * np.sqrt(dt) * normals
    return spot * np.exp(np.cumsum(logs, axis=1))


def discounted(payoff, rate, years):
    value = np.exp(-rate * years) * payoff
    return value.mean(), value.std(ddof=1) / np.sqrt(value.size)


def normal_cdf(x):
    t = 1 / (1 + 0.2316419 * np.abs(x))
    poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * poly
    return np.where(x >= 0, 1 - tail, tail)


def black_scholes(spot, strike, rate, vol, years):
    d1 = (np.log(spot / strike) + (rate + vol**2 / 2) * years) / (vol * np.sqrt(years))
    d2 = d1 - vol * np.sqrt(years)
    return spot * normal_cdf(d1) - strike * np.exp(-rate * years) * normal_cdf(d2)


def program(spot, strikes, rate, vol, years, normals):
    both = np.concatenate([normals, -normals])              # antithetic
    s = paths(spot, rate, vol, years, both)
    european = [discounted(np.maximum(s[:, -1] - k, 0), rate, years) for k in strikes]
    asian = discounted(np.maximum(s.mean(axis=1) - strikes[0], 0), rate, years)
    alive = (s.max(axis=1) < 1.3 * spot) & (s.min(axis=1) > 0.7 * spot)
    barrier = discounted(np.where(alive, np.maximum(s[:, -1] - strikes[0], 0), 0), rate, years)
    lookback = discounted(s[:, -1] - np.minimum.accumulate(s, axis=1)[:, -1], rate, years)
    delta = (np.exp(-rate * years) * (s[:, -1] > strikes[0]) * s[:, -1] / spot).mean()
    return np.array(european), asian, barrier, lookback, delta, black_scholes(spot, strikes, rate, vol, years)


def arguments(scale=1):
    return 100.0, np.array([90.0, 100.0, 110.0]), 0.03, 0.25, 1.0, np.random.default_rng(8).standard_normal((300 * scale, 16))
