"""Conway's game of life: on a torus, and inside of walls."""
import numpy as np


def step_torus(world):
    neighbours = sum(np.roll(np.roll(world, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
    return ((neighbours == 3) | ((world == 1) & (neighbours == 2))).astype(world.dtype)


def step_walls(world):
    n = np.zeros(world.shape, dtype=np.int8)
    n[1:] += world[:-1]
    n[:-1] += world[1:]
    n[:, 1:] += world[:, :-1]
    n[:, :-1] += world[:, 1:]
    n[1:, 1:] += world[:-1, :-1]
    n[1:, :-1] += world[:-1, 1:]
    n[:-1, 1:] += world[1:, :-1]
    n[:-1, :-1] += world[1:, 1:]
    world[...] = np.where(world == 1, (n == 2) | (n == 3), n == 3)


def program(torus, walls, generations):
    population = np.zeros((generations, 2), dtype=int)
    for k in range(generations):
        torus = step_torus(torus)
        step_walls(walls)
        population[k] = torus.sum(), np.count_nonzero(walls)
    rows = torus.any(axis=1)
    return torus, population, rows, walls.argmax(axis=1)


def arguments(scale=1):
    rng = np.random.default_rng(4)
    return (rng.random((20 * scale, 24 * scale)) < 0.3).astype(np.int8), (rng.random((16 * scale, 16 * scale)) < 0.4).astype(np.uint8), 8
