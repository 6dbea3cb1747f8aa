"""Steps of simulations, updates in place of arguments that a stencil reads: how many kernels they take, and what memory besides the arguments'."""
import numpy as np
import pytest
from checking import check

import pyxla

R = np.random.default_rng(0)


def inside(u):
    return u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]


def heat_1d(u):
    u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])


def heat(u):
    u[1:-1, 1:-1] += 0.1 * inside(u)
    return u


def heat_3d(u):
    c = u[1:-1, 1:-1, 1:-1]
    c += 0.1 * (u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2] - 6 * c)


def wave(u, v):
    v[1:-1, 1:-1] += 0.1 * inside(u)
    u += 0.1 * v


def maxwell_1d(e, h):
    h[:-1] += 0.5 * (e[1:] - e[:-1])
    e[1:] += 0.5 * (h[1:] - h[:-1])
    e[100] += 1.0


def maxwell(ez, hx, hy):
    hx[:, :-1] -= 0.5 * (ez[:, 1:] - ez[:, :-1])
    hy[:-1] += 0.5 * (ez[1:] - ez[:-1])
    ez[1:-1, 1:-1] += 0.5 * (hy[1:-1, 1:-1] - hy[:-2, 1:-1] - hx[1:-1, 1:-1] + hx[1:-1, :-2])


def jacobi(a, b):
    b[1:-1, 1:-1] = 0.25 * (a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2])
    a[1:-1, 1:-1] = 0.25 * (b[2:, 1:-1] + b[:-2, 1:-1] + b[1:-1, 2:] + b[1:-1, :-2])


def poisson(p, b):
    pn = p.copy()
    p[1:-1, 1:-1] = 0.25 * (pn[2:, 1:-1] + pn[:-2, 1:-1] + pn[1:-1, 2:] + pn[1:-1, :-2] - b[1:-1, 1:-1])
    p[0] = 0
    p[-1] = p[-2]
    p[:, 0] = 0
    p[:, -1] = p[:, -2]
    return p


def reaction(u, v):
    c, d = u[1:-1, 1:-1], v[1:-1, 1:-1]
    du, dv, cdd = inside(u), inside(v), c * d * d
    c += 0.1 * du - cdd + 0.03 * (1 - c)
    d += 0.05 * dv + cdd - 0.09 * d


# The program, the shape of its arrays, launches, temporaries in arrays: of what is read at neighbours and written in one step, there is one.
STEPS = [(heat_1d, (300_000,), 2, 1), (heat, (500, 600), 2, 1), (heat_3d, (60, 70, 80), 2, 1), (wave, (500, 600), 2, 0), (maxwell_1d, (300_000,), 3, 0),
         (maxwell, (500, 600), 3, 0), (jacobi, (500, 600), 2, 0), (poisson, (500, 600), 6, 1), (reaction, (500, 600), 3, 2)]


@pytest.mark.parametrize("f,shape,launches,temporaries", STEPS, ids=[f.__name__ for f, *_ in STEPS])
def test_step(f, shape, launches, temporaries):
    fields = [R.standard_normal(shape) for _ in range(f.__code__.co_argcount)]
    c = pyxla.jit(f).lower(*fields).compile()
    assert c.launches <= launches and c.workspace_bytes <= temporaries * fields[0].nbytes
    check(f, *fields, calls=1, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("f", [f for f, *_ in STEPS], ids=[f.__name__ for f, *_ in STEPS])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_steps_of_small_and_turned_fields(f, steps):
    def several(*fields):
        for _ in range(steps):
            f(*fields)
        return fields[0].sum()

    shape = {1: (103,), 2: (13, 18), 3: (7, 8, 9)}[len(next(s for g, s, *_ in STEPS if g is f))]
    for order in "CF":
        check(several, *[np.array(R.standard_normal(shape), order=order) for _ in range(f.__code__.co_argcount)], rtol=1e-12, atol=1e-12)


def test_what_an_update_stored_is_read_there():
    """Evaluated again it would read arguments that were written over meanwhile, and so keep copies of them."""
    def f(a, b):
        a[:, 1:] += b[:, :-1]
        b[1:] -= a[:-1]
        a[:-1] *= b[1:]

    a, b = R.random((300, 400)), R.random((300, 400))
    c = pyxla.jit(f).lower(a, b).compile()
    assert c.launches <= 3 and c.workspace_bytes == 0
    check(f, a, b, rtol=1e-15)


def test_two_values_are_stored_before_two_updates():
    """Both updates read both arrays: one kernel for the new values, before either array changes, and a store each."""
    def f(a, b):
        x, y = a[1:] + b[:-1], a[:-1] * b[1:]
        a[1:] += x * y
        b[1:] -= x + y

    a, b = R.random((300, 400)), R.random((300, 400))
    c = pyxla.jit(f).lower(a, b).compile()
    assert c.launches == 3 and c.workspace_bytes <= 2 * a.nbytes
    check(f, a, b, rtol=1e-15)


def heat_of_a_copy(u):
    u = u.copy()
    heat(u)
    return u


def heat_3d_of_a_copy(u):
    u = u.copy()
    heat_3d(u)
    return u


def four_steps(u):
    for _ in range(4):
        heat(u)


@pytest.mark.parametrize("f,shape,launches,temporaries", [(heat_of_a_copy, (500, 600), 3, 0), (heat_3d_of_a_copy, (60, 70, 80), 4, 0), (four_steps, (500, 600), 6, 1)], ids=lambda v: getattr(v, "__name__", None))
def test_both_borders_of_an_axis_are_one_copy(f, shape, launches, temporaries):
    u = R.standard_normal(shape)
    c = pyxla.jit(f).lower(u).compile()
    assert c.launches <= launches and c.workspace_bytes <= temporaries * u.nbytes
    check(f, u, calls=1, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("parts,copied", [(("::199", "1:3"), False), (("::199", "197:199"), False), (("::199", ":2"), True), (("::198", "198:"), True), (("1:3", "::199"), False), (("::90", "50:53"), True)])
def test_first_and_last_rows_keep_clear_of_those_between(parts, copied):
    """Two rows a long step apart, and two others: what is read is no row that is written, or it is, or that is not known (`::90` has three rows)."""
    space = {}
    exec(f"def f(u):\n    u[{parts[0]}] += u[{parts[1]}]\n    return u.sum()", space)
    u = R.standard_normal((200, 300))
    c = pyxla.jit(space["f"]).lower(u).compile()
    assert (c.workspace_bytes >= 2 * 300 * 8) == copied
    check(space["f"], u, rtol=1e-12)
