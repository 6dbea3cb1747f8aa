"""Statistics of data with holes: correlation with masks, robust scales, a moving average, a regression and its residuals."""
import numpy as np


def masked_corr(x, ok):
    both = ok.T.astype(float) @ ok
    x = np.where(ok, x, 0.0)
    mean = x.sum(axis=0) / ok.sum(axis=0)
    d = np.where(ok, x - mean, 0.0)
    cov = d.T @ d / np.maximum(both - 1, 1)
    scale = np.sqrt(np.diag(cov))
    return cov / np.outer(scale, scale)


def moving_average(x, ok, width):
    total = np.cumsum(np.concatenate([[0.0], np.where(ok, x, 0.0)]))
    count = np.cumsum(np.concatenate([[0], ok.astype(int)]))
    n = count[width:] - count[:-width]
    return np.where(n > 0, (total[width:] - total[:-width]) / np.maximum(n, 1), np.nan)


def regression(x, y):
    a = np.column_stack([np.ones_like(x), x, x**2])
    ata, aty = a.T @ a, a.T @ y
    beta = np.linalg.solve(ata, aty)
    residual = y - a @ beta
    r2 = 1 - (residual**2).sum() / ((y - y.mean()) ** 2).sum()
    return beta, r2, residual.std(ddof=3)


def program(x):
    ok = ~np.isnan(x)
    corr = masked_corr(x, ok)
    center, spread = np.nanmean(x, axis=0), np.nanstd(x, axis=0, ddof=1)
    z = (x - center) / spread
    outliers = np.abs(z) > 2
    beta, r2, s = regression(np.arange(len(x)) / len(x), np.where(ok[:, 0], x[:, 0], center[0]))
    ranks = (x[:, None, 1] > x[None, :, 1]).sum(axis=1)
    return corr, outliers.sum(axis=0), moving_average(x[:, 0], ok[:, 0], 5), beta, r2, s, ranks, np.nanmax(x, axis=0), np.nanmedian(x, axis=0)


def arguments(scale=1):
    rng = np.random.default_rng(20)
    x = rng.standard_normal((40 * scale, 4)) @ rng.standard_normal((4, 4))
    x[rng.random(x.shape) < 0.1] = np.nan
    return (x,)
