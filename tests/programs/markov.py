"""A hidden Markov model: forward and backward in logarithms, Viterbi, posteriors; and a PageRank."""
import numpy as np


def logsumexp(x, axis):
    top = x.max(axis=axis, keepdims=True)
    return np.squeeze(top, axis) + np.log(np.exp(x - top).sum(axis=axis))


def forward(start, move, emit):
    alpha = np.zeros(emit.shape)
    alpha[0] = start + emit[0]
    for t in range(1, len(emit)):
        alpha[t] = logsumexp(alpha[t - 1][:, None] + move, axis=0) + emit[t]
    return alpha


def backward(move, emit):
    beta = np.zeros_like(emit)
    for t in range(len(emit) - 2, -1, -1):
        beta[t] = np.logaddexp.reduce(move + emit[t + 1] + beta[t + 1], axis=1)
    return beta


def viterbi(start, move, emit):
    score, back = start + emit[0], []
    for e in emit[1:]:
        paths = score[:, None] + move
        back.append(paths.argmax(axis=0))
        score = paths.max(axis=0) + e
    state = score.argmax()
    states = [state]
    for b in reversed(back):
        state = b[state]
        states.append(state)
    return np.array(states[::-1]), score.max()


def pagerank(links, damping, rounds):
    out = links.sum(axis=1, keepdims=True)
    p = np.where(out > 0, links / np.where(out > 0, out, 1), 1 / len(links))
    rank = np.full(len(links), 1 / len(links))
    for _ in range(rounds):
        rank = damping * rank @ p + (1 - damping) / len(links)
    return rank


def program(start, move, emit, links):
    a, b = forward(start, move, emit), backward(move, emit)
    likelihood = np.logaddexp.reduce(a[-1])
    posterior = np.exp(a + b - likelihood)
    states, score = viterbi(start, move, emit)
    return likelihood, posterior, states, score, pagerank(links, 0.85, 20)


def arguments(scale=1):
    rng = np.random.default_rng(23)
    n = 3 * scale
    p = rng.random((n, n))
    return np.log(np.full(n, 1 / n)), np.log(p / p.sum(1, keepdims=True)), np.log(rng.random((9, n))), (rng.random((10 * scale, 10 * scale)) < 0.3).astype(float)
