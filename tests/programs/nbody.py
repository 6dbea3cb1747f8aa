"""Gravity among bodies: leapfrog with softening, energy and momentum watched."""
import numpy as np

G = 1.0


class System:
    def __init__(self, mass, softening):
        self.mass = mass
        self.eps2 = softening**2

    def acceleration(self, pos):
        d = pos[None, :, :] - pos[:, None, :]
        r2 = (d**2).sum(axis=-1) + self.eps2
        inv_r3 = r2 ** (-1.5)
        np.fill_diagonal(inv_r3, 0.0)
        return G * (d * (inv_r3 * self.mass[None, :])[:, :, None]).sum(axis=1)

    def energy(self, pos, vel):
        kinetic = 0.5 * (self.mass[:, None] * vel * vel).sum()
        d = pos[None, :, :] - pos[:, None, :]
        r = np.sqrt((d**2).sum(-1) + self.eps2)
        pairs = np.triu(np.outer(self.mass, self.mass) / r, k=1)
        return kinetic - G * pairs.sum()


def program(pos, vel, mass, dt, steps):
    system = System(mass, softening=0.05)
    pos, vel = pos.copy(), vel.copy()
    vel -= (mass[:, None] * vel).sum(axis=0) / mass.sum()
    before = system.energy(pos, vel)
    acc = system.acceleration(pos)
    drift = np.zeros(steps)
    for k in range(steps):
        vel += 0.5 * dt * acc
        pos += dt * vel
        acc = system.acceleration(pos)
        vel += 0.5 * dt * acc
        drift[k] = system.energy(pos, vel) - before
    momentum = np.einsum("i,ij->j", mass, vel)
    return {"pos": pos, "vel": vel, "drift": drift, "momentum": momentum}


def arguments(scale=1):
    rng = np.random.default_rng(0)
    n = 12 * scale
    return rng.standard_normal((n, 3)), 0.3 * rng.standard_normal((n, 3)), rng.random(n) + 0.5, 0.01, 10
