"""Heat that spreads over a plate: one step of a five-point stencil written in three ways, each as one would write it in NumPy.

    in_place    shifted slices of the argument, changed in the caller's array
    rolled      np.roll, so that the plate has no border
    unrolled    several steps in one call: a Python loop over a known range becomes straight code
"""
import time

import numpy as np

import pyxla


def laplacian(u):
    """Of the inner points: the four neighbours less four times the point."""
    return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]


@pyxla.jit
def in_place(u, dt):
    """One step; the border keeps its temperature. Changes u."""
    u[1:-1, 1:-1] += dt * laplacian(u)


@pyxla.jit
def rolled(u, dt):
    """One step on a plate whose opposite borders touch."""
    around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
    return u + dt * (around - 4 * u)


@pyxla.jit
def unrolled(u, dt, steps):
    """Several steps; `steps` is looked at while the function is traced, so a new number traces once more. Changes u."""
    for _ in range(steps):
        u[1:-1, 1:-1] += dt * laplacian(u)


def plate(n):
    """A cold plate with a hot disc."""
    y, x = np.mgrid[:n, :n] / n - 0.5
    return np.where(x * x + y * y < 0.04, 100.0, 0.0)


def best_time(f, *args, calls=7):
    seconds = []
    for _ in range(calls):
        before = time.perf_counter()
        f(*args)
        seconds.append(time.perf_counter() - before)
    return min(seconds)


def main(n=512, steps=200):
    fast, plain = plate(n), plate(n)
    for _ in range(steps):
        in_place(fast, 0.2)
        in_place.__wrapped__(plain, 0.2)
    same = np.array_equal(fast, plain)
    print(f"in place: {steps} steps on {n} x {n} points, {in_place.cache_info().traces} trace; "
          f"the edge of the disc has {fast[n // 2, 7 * n // 10]:.2f} degrees; {'the bits are' if same else 'NOT'} NumPy's")

    ring, expected = plate(n), plate(n)
    for _ in range(steps):
        ring, expected = rolled(ring, 0.2), rolled.__wrapped__(expected, 0.2)
    same = same and np.array_equal(ring, expected)
    print(f"rolled:   no heat is lost, {plate(n).sum():.0f} before and {ring.sum():.0f} after")

    together, ten = plate(n), unrolled.lower(plate(n), 0.2, 10).compile()
    for _ in range(steps // 10):
        unrolled(together, 0.2, 10)
    same = same and np.array_equal(together, fast)
    print(f"unrolled: 10 steps a call, {ten.launches} launches of {len(ten.kernels)} kernels")
    if not same:
        raise SystemExit("the results do not agree")

    print(f"\n{'time of a step':16} {'pyxla':>10} {'NumPy':>10}")
    for f in in_place, rolled:
        times = best_time(f, fast, 0.2), best_time(f.__wrapped__, fast, 0.2)
        print(f"{f.__name__:16} {times[0] * 1e6:7.0f} us {times[1] * 1e6:7.0f} us")


if __name__ == "__main__":
    main()
