"""Trains and uses a classifier of handwritten digits; the training step and the inference are plain NumPy under `@pyxla.jit`.

    python examples/digits.py                      # trains, compares with NumPy, draws demo.png
    python examples/digits.py --epochs 2 --figure ''

The data are the 1797 images of 8 x 8 pixels that come with scikit-learn; nothing is downloaded. The same functions run a second
time un-jitted, from the same seed, and the parameters of the two runs have to agree within BOUND.
"""
import argparse
import sys
import time
from typing import NamedTuple

import numpy as np

import pyxla

BATCH, HIDDEN, CLASSES, SEED = 64, 128, 10, 7
BOUND = 1e-9    # largest difference of a parameter (they are about 1) between the two runs: rounding, grown over all steps


class Layer(NamedTuple):
    weights: np.ndarray
    bias: np.ndarray


# ---- the model: NumPy, and nothing but NumPy ----

def forward(model, images):
    """Activations of the hidden layer and logits of the output."""
    hidden, output = model
    active = np.maximum(images @ hidden.weights + hidden.bias, 0)
    return active, active @ output.weights + output.bias


@pyxla.jit
def train_step(model, velocity, images, labels, rate, momentum=0.9):
    """Returns the mean loss of a batch; changes model and velocity in place."""
    target = labels[:, None] == np.arange(CLASSES)
    active, logits = forward(model, images)
    logits -= logits.max(axis=1, keepdims=True)
    odds = np.exp(logits)
    total = odds.sum(axis=1, keepdims=True)
    loss = np.mean(np.log(total) - np.sum(logits * target, axis=1, keepdims=True))

    d_logits = (odds / total - target) / len(images)
    d_active = d_logits @ model[1].weights.T * (active > 0)
    gradient = (
        Layer(images.T @ d_active, d_active.sum(axis=0)),
        Layer(active.T @ d_logits, d_logits.sum(axis=0)),
    )
    for layer, speed, slope in zip(model, velocity, gradient):
        for p, v, g in zip(layer, speed, slope):
            v *= momentum
            v -= rate * g
            p += v
    return loss


@pyxla.jit
def predict(model, images):
    """The likeliest digit of each image and its probability."""
    logits = forward(model, images)[1]
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return logits.argmax(axis=1), odds.max(axis=1) / odds.sum(axis=1)


@pyxla.jit
def shifts(images):
    """The images, and copies of them moved by a pixel up, down, left and right."""
    x = np.pad(images.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    moved = [x[:, i:i + 8, j:j + 8] for i, j in ((1, 1), (2, 1), (0, 1), (1, 2), (1, 0))]
    return np.concatenate(moved).reshape(-1, 64)


# ---- the program ----

def load():
    """(images, labels) to train on, with shifted copies, and to test with; pixels from 0 to 1."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images /= 16
    order = np.random.default_rng(SEED).permutation(len(images))
    train, test = order[:1437], order[1437:]
    return (shifts(images[train]), np.tile(labels[train], 5)), (images[test], labels[test])


def new_model(rng):
    sizes = [(64, HIDDEN), (HIDDEN, CLASSES)]
    return tuple(Layer(rng.normal(0, np.sqrt(2 / n), (n, m)), np.zeros(m)) for n, m in sizes)


def progress(done, total, text, width=30):
    """One line that is drawn again and again on a terminal, and once elsewhere."""
    if sys.stdout.isatty() or done == total:
        filled = width * done // total
        print(f"\r{'#' * filled}{'.' * (width - filled)} {text}", end="\n" if done == total else "", flush=True)


def train(step, data, epochs, name):
    """A trained model, the mean loss of each epoch, and the seconds of each step."""
    rng = np.random.default_rng(SEED)
    model = new_model(rng)
    velocity = tuple(Layer(np.zeros_like(w), np.zeros_like(b)) for w, b in model)
    images, labels = data
    losses, seconds = [], []
    for epoch in range(epochs):
        rate = 0.1 * (1 + np.cos(np.pi * epoch / epochs)) / 2
        order = rng.permutation(len(images))
        total = 0.0
        for start in range(0, len(order), BATCH):           # the last batch is smaller: one more signature
            batch = order[start:start + BATCH]
            x, y = images[batch], labels[batch]
            before = time.perf_counter()
            loss = step(model, velocity, x, y, rate)
            seconds.append(time.perf_counter() - before)
            total += loss * len(batch)
        losses.append(total / len(order))
        progress(epoch + 1, epochs, f"{name:5} epoch {epoch + 1:3}, loss {losses[-1]:.4f}")
    return model, losses, seconds


def largest_difference(a, b):
    return max(np.abs(p - q).max() for one, other in zip(a, b) for p, q in zip(one, other))


def compare(functions, calls, rounds=5):
    """Seconds of the fastest call of each function: what it costs on a machine that has time for it. Runs of calls take turns, not
    calls: the threads of one library would still be awake in the first microseconds of the other."""
    best = [np.inf] * len(functions)
    for _ in range(rounds):
        for k, f in enumerate(functions):
            for _ in range(calls):
                before = time.perf_counter()
                f()
                best[k] = min(best[k], time.perf_counter() - before)
    return best


def time_all(model, fast, plain, data, calls):
    """Rows (what, seconds with pyxla, seconds with NumPy); trains copies of the model."""
    images, labels = data
    rows = []
    for what, n in ("training step, batch of 64", BATCH), ("training step, batch of 1024", 1024):
        states = [[tuple(Layer(w.copy(), b.copy()) for w, b in model) for _ in range(2)] for _ in range(2)]
        x, y = images[:n], labels[:n]
        rows.append((what, *compare([lambda f=f, s=s: f[0](*s, x, y, 1e-6) for f, s in zip((fast, plain), states)], calls)))
    for what, n in ("inference, 1 image", 1), ("inference, 360 images", 360):
        x = images[:n]
        rows.append((what, *compare([lambda f=f: f[1](model, x) for f in (fast, plain)], calls)))
    return rows


def microseconds(seconds):
    return f"{seconds * 1e6:.{0 if seconds >= 1e-5 else 1}f} us"


def print_times(rows):
    print(f"\n{'fastest call':30} {'pyxla':>10} {'NumPy':>10} {'speed-up':>9}")
    for what, fast, plain in rows:
        print(f"{what:30} {microseconds(fast):>10} {microseconds(plain):>10} {plain / fast:8.1f}x")


def print_cache(functions):
    print(f"\n{'cache':12} {'calls':>6} {'hits':>6} {'traces':>7} {'kernels':>8} {'tracing':>9} {'compiling':>10}")
    for f in functions:
        info = f.cache_info()
        kernels, spent = info.compiled + info.reused, info.seconds
        print(f"{f.__name__:12} {info.hits + info.misses:6} {info.hits:6} {info.traces:7} {kernels:8} "
              f"{spent['trace'] * 1e3:6.0f} ms {spent['compile'] * 1e3:7.0f} ms")


def draw(path, losses, test, found, sure, rows):
    """The figure: loss curves, digits with predictions, times."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    blue, grey, red = "#2463a8", "#9aa5b1", "#c8322b"
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.titleweight": "bold"})
    figure = plt.figure(figsize=(13, 7.5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.15])
    top, bottom = left.subplots(2, 1)

    epochs = range(1, len(losses[0]) + 1)
    top.semilogy(epochs, losses[1], color=grey, lw=5, alpha=0.6, label="NumPy")
    top.semilogy(epochs, losses[0], color=blue, lw=1.5, label="pyxla")
    top.set(title="The same training, step by step", xlabel="epoch", ylabel="mean loss")
    top.legend(frameon=False)

    place = np.arange(len(rows))[::-1]
    for offset, column, colour, name in (0.2, 1, blue, "pyxla"), (-0.2, 2, grey, "NumPy"):
        bars = bottom.barh(place + offset, [row[column] / row[2] for row in rows], 0.38, color=colour, label=name)
        bottom.bar_label(bars, [microseconds(row[column]).replace("us", "µs") for row in rows], padding=3, fontsize=9)
    bottom.set(title="Fastest call, NumPy = 1", yticks=place, yticklabels=[what.replace(", ", "\n") for what, *_ in rows])
    bottom.margins(x=0.15)
    bottom.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.06), ncol=2)

    images, labels = test
    wrong = np.flatnonzero(found != labels)
    chosen = np.concatenate([wrong[:8], np.flatnonzero(found == labels)])[:48]      # mistakes first: they say the most
    chosen = np.random.default_rng(SEED).permutation(chosen)
    right.suptitle(f"Digits not seen in training: {np.mean(found == labels):.1%} right "
                   f"({len(wrong)} of {len(labels)} wrong, {min(8, len(wrong))} of them here)", fontweight="bold")
    for axes, k in zip(right.subplots(6, 8).flat, chosen):
        good = found[k] == labels[k]
        axes.imshow(images[k].reshape(8, 8), cmap="gray_r", interpolation="nearest")
        name = f"{found[k]}" if good else f"{found[k]}, is {labels[k]}"
        axes.set_title(name, color="black" if good else red, fontsize=10, pad=3)
        axes.set_xlabel(f"{sure[k]:.0%}", fontsize=8, color=grey if good else red, labelpad=2)
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(visible=True, color="#d5dae0" if good else red, linewidth=0.8 if good else 2)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--calls", type=int, default=100, help="calls in a row of each measured function")
    parser.add_argument("--figure", default="demo.png", help="file to draw; empty: none")
    options = parser.parse_args(argv)

    data, test = load()
    print(f"{len(data[0])} images to train on, {len(test[0])} to test with; "
          f"64-{HIDDEN}-{CLASSES} units, batches of {BATCH}, {options.epochs} epochs")
    fast = train_step, predict
    plain = train_step.__wrapped__, predict.__wrapped__

    model, losses, seconds = train(fast[0], data, options.epochs, "pyxla")
    info = fast[0].cache_info()
    expected, plain_losses, plain_seconds = train(plain[0], data, options.epochs, "NumPy")
    difference = largest_difference(model, expected)
    found, sure = fast[1](model, test[0])
    right, plain_right = np.mean(found == test[1]), np.mean(plain[1](expected, test[0])[0] == test[1])
    print(f"\n{'steps':>14}: {len(seconds)} with 2 batch sizes, {info.traces} traces, {info.hits} hits")
    print(f"{'all steps':>14}: {sum(seconds):.2f} s with tracing and compiling; the first took {seconds[0] * 1e3:.0f} ms")
    print(f"{'median step':>14}: {microseconds(np.median(seconds))}; NumPy {microseconds(np.median(plain_seconds))}")
    print(f"{'right':>14}: {right:.2%} of the test images; NumPy {plain_right:.2%}")
    print(f"{'parameters':>14}: differ from NumPy's by at most {difference:.1e} (bound {BOUND:.0e})")
    if difference > BOUND:
        raise SystemExit("the two runs do not agree")

    rows = time_all(model, fast, plain, data, options.calls)
    print_times(rows)
    print_cache(fast)
    if options.figure:
        draw(options.figure, (losses, plain_losses), test, found, sure, rows)
        print(f"\n{options.figure} shows it.")


if __name__ == "__main__":
    main()
