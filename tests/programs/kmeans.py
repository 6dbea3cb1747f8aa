"""Lloyd's k-means with masks, and the quality of the clusters."""
import numpy as np


def distances(points, centres):
    return np.sqrt(((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2))


def assign(points, centres):
    return np.argmin(distances(points, centres), axis=1)


def update(points, labels, centres):
    new = np.empty_like(centres)
    for k in range(len(centres)):
        mine = labels == k
        total = np.sum(points * mine[:, None], axis=0)
        n = np.count_nonzero(mine)
        new[k] = np.where(n > 0, total / np.maximum(n, 1), centres[k])
    return new


def silhouette(points, labels, k):
    d = distances(points, points)
    member = labels[:, None] == np.arange(k)[None, :]
    size = member.sum(axis=0)
    mean = d @ member.astype(float) / np.maximum(size, 1)
    inner = np.where(member, mean, 0.0).sum(axis=1)
    outer = np.where(member | (size == 0), np.inf, mean).min(axis=1)
    return ((outer - inner) / np.maximum(inner, outer)).mean()


def program(points, centres, rounds=6):
    inertia = []
    for _ in range(rounds):
        labels = assign(points, centres)
        inertia.append(np.min(distances(points, centres), axis=1).sum())
        centres = update(points, labels, centres)
    return centres, labels, np.array(inertia), silhouette(points, labels, len(centres))


def arguments(scale=1):
    rng = np.random.default_rng(5)
    points = np.concatenate([rng.standard_normal((20 * scale, 2)) * 0.3 + c for c in ((0, 0), (2, 1), (-1, 2))])
    return points, points[[3, 25, 50]].copy()
