"""Graph -> plan -> interpreter against NumPy: groups, schedules and shared buffers, without LLVM and without a trace."""
import os
import random

import graphs
import numpy as np
import pytest
from graphs import ROOT, Graphs, Lib

SEEDS = int(os.environ.get("PYXLA_FUZZ", "400"))


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    return Lib(graphs.build(tmp_path_factory.mktemp("plan"), "base", "ir", "opt", "run", extra=[ROOT / "tests/c/plan_driver.c"]))


@pytest.fixture
def g(lib):
    g = Graphs(lib)
    yield g
    g.close()


def arr(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def test_elementwise_is_one_launch(g):
    x, y = g.input(arr(5, 7)), g.input(arr(5, 7, seed=1))
    z = g.elementwise("add", g.elementwise("multiply", x, y), x)
    assert "1 launches" in g.check([z, g.elementwise("exp", z)])


def test_softmax_is_one_kernel(g):
    x = g.input(arr(6, 20))
    m = g.reduce("max", x, [1])
    e = g.elementwise("exp", g.elementwise("subtract", x, g.reshape(m, (6, 1))))
    s = g.reduce("sum", e, [1])
    text = g.check([g.elementwise("divide", e, g.reshape(s, (6, 1)))])
    assert "1 launches" in text


@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("op", ["sum", "max", "prod", "var", "argmax"])
def test_reductions(g, op, axes):
    if op == "argmax" and len(axes) > 1:
        pytest.skip("argmax is over one axis")
    x = g.input(1 + 0.1 * arr(3, 40, 33, dtype="float64"))
    g.check([g.reduce(op, x, axes)])


@pytest.mark.parametrize("shape,axes", [((300000,), [0]), ((3000, 40), [0]), ((4, 30000), [1]), ((200, 30, 40), [0, 1, 2]), ((5000, 8), [0, 1])])
@pytest.mark.parametrize("op", ["sum", "max", "var", "argmax"])
def test_split_reductions(g, op, shape, axes):
    if op == "argmax" and len(axes) > 1:
        pytest.skip("argmax is over one axis")
    x = g.input(arr(*shape))
    r = g.reduce(op, x, axes)
    outs = [r]
    if op != "argmax":
        wide = g.broadcast(g.reshape(r, [1 if d in axes else n for d, n in enumerate(shape)]), shape)
        outs.append(g.elementwise("subtract", x, wide))
    g.check(outs, rtol=1e-4)


REDUCE = ["sum", "max", "argmin", "prod", "var"]


@pytest.mark.parametrize("seed", range(40))
def test_reductions_over_different_axes_read_their_operand_once(g, seed):
    rng = random.Random(seed)
    shape = tuple(rng.choice([3, 8, 20, 37, 70]) for _ in range(rng.choice([2, 2, 3, 4]) if seed else 2))
    flips = tuple(rng.choice([slice(None), slice(None, None, -1)]) for _ in shape)
    x = g.input(np.abs(arr(*shape, seed=seed)).astype(rng.choice(["float32", "float64"]))[flips])
    v = g.elementwise("exp", x) if seed % 3 == 0 else g.elementwise("multiply", x, x) if seed % 3 == 1 else x
    subsets = [[d for d in range(len(shape)) if k >> d & 1] for k in range(1, 2 ** len(shape))]
    chosen = rng.sample(subsets, rng.randrange(2, min(6, len(subsets)) + 1))
    ops = [rng.choice(REDUCE if len(axes) == 1 else REDUCE[:2]) for axes in chosen]
    rows = [g.reduce(op, v, axes) for op, axes in zip(ops, chosen)]
    outs = [g.elementwise("multiply", r, r) if r.value.dtype.kind == "f" else r for r in rows] + ([v] if seed % 4 == 0 and seed % 3 < 2 else [])
    l2 = rng.choice([64, 4096])
    g.second_cache(l2)
    text = g.check(outs, rtol=2e-4, vector_bytes=rng.choice([16, 32, 64]))
    if x.value.nbytes > l2 and "var" not in ops:               # a variance along the last axis is two loops over its row
        assert sum("in0" in line for line in text.splitlines() if line.startswith("launch")) == 1, text[:1500]


def test_views_cost_no_launch(g):
    x = g.input(arr(6, 8))
    t = g.transpose(x, [1, 0])
    s = g.slice(t, slice(7, None, -2), slice(1, 5, 1))
    assert "1 launches" in g.check([g.elementwise("negative", s)])


def test_reshape_that_joins_axes(g):
    x, y = g.input(arr(4, 6)), g.input(arr(24, seed=3))
    z = g.reshape(g.elementwise("exp", g.transpose(x, [1, 0])), [24])
    g.check([g.elementwise("add", z, y), z])


def test_stencil(g):
    u = g.input(arr(9, 11))
    a, b = g.slice(u, slice(0, 7, 1), slice(1, 10, 1)), g.slice(u, slice(2, 9, 1), slice(1, 10, 1))
    c = g.slice(u, slice(1, 8, 1), slice(0, 9, 1))
    assert "1 launches" in g.check([g.elementwise("add", g.elementwise("add", a, b), c)])


def test_update_in_place_of_the_argument(g):
    x = g.input(arr(9))
    v = g.elementwise("multiply", g.slice(x, slice(2, 6, 1)), g.number(2, "float32"))
    u = g.update(x, v, slice(2, 6, 1))
    assert "1 launches" in g.check([u], into=[0])


def test_update_that_reads_its_neighbours(g):
    x = g.input(arr(9))
    v = g.elementwise("add", g.slice(x, slice(0, 7, 1)), g.slice(x, slice(2, 9, 1)))
    g.check([g.update(x, v, slice(1, 8, 1))], into=[0])


def test_update_of_a_new_array(g):
    z = g.broadcast(g.number(0, "float64"), (4, 6))
    x = g.input(arr(6, dtype="float64"))
    for i in range(4):
        z = g.update(z, g.broadcast(g.elementwise("multiply", x, g.number(i, "float64")), (1, 6)), slice(i, i + 1, 1), slice(0, 6, 1))
    g.check([z])


def test_old_value_is_kept_where_it_is_read(g):
    x = g.input(arr(5))
    u = g.update(x, g.slice(g.elementwise("negative", x), slice(0, 2, 1)), slice(3, 5, 1))
    g.check([u, g.elementwise("add", x, u)], into=[0, -1])


@pytest.mark.parametrize("steps", [2, 3, 4, 7])
@pytest.mark.parametrize("into", [-1, 0])
def test_steps_over_the_same_box(g, steps, into):
    """Each new version carries over the same border: no two of them may lie in one array."""
    u = g.input(arr(9, 8, dtype="float64"))
    inner = (slice(1, 8, 1), slice(1, 7, 1))
    for _ in range(steps):
        v = g.elementwise("add", g.slice(u, slice(0, 7, 1), slice(1, 7, 1)), g.slice(u, slice(2, 9, 1), slice(1, 7, 1)))
        u = g.update(u, g.elementwise("subtract", v, g.slice(u, *inner)), *inner)
    g.check([u], into=[into])


def test_two_updates_of_one_array(g):
    t = g.elementwise("exp", g.input(arr(9)))
    a = g.update(t, g.slice(g.elementwise("negative", t), slice(2, 4, 1)), slice(0, 2, 1))
    b = g.update(t, g.slice(a, slice(0, 3, 1)), slice(5, 8, 1))
    g.check([b, g.elementwise("add", a, a)])


def test_donated_to_an_output(g):
    x, y = g.input(arr(40, 50)), g.input(arr(40, 50, seed=1))
    g.check([g.elementwise("add", g.elementwise("multiply", x, y), x)], donated=[0])
    assert g.took == [0] and g.peak == 0


def test_donated_to_one_output_of_two(g):
    x = g.input(arr(40, 50))
    g.check([g.elementwise("exp", x), g.elementwise("negative", x)], donated=[0])
    assert sorted(g.took) == [-1, 0]


def test_donated_to_a_temporary(g):
    x, w = g.input(arr(70, 60)), g.input(arr(60, 60, seed=1))
    h = g.dot(g.dot(g.elementwise("exp", x), w), w)
    first = g.check([h], rtol=1e-3, donated=[0])
    assert g.took == [0] or "tmp" not in first, first


def test_donated_is_read_to_the_end(g):
    """An element that another one still needs keeps the memory."""
    x = g.input(arr(40, 40))
    g.check([g.elementwise("add", x, g.transpose(x, [1, 0]))], donated=[0])
    assert g.took == [-1]


@pytest.mark.parametrize("other", [arr(40, 50, dtype="float64"), np.asfortranarray(arr(40, 50)), arr(40, 50).astype(">f4"), arr(50, 40)])
def test_donated_of_another_kind(g, other):
    x, y = g.input(arr(40, 50)), g.input(other)
    g.check([g.elementwise("exp", x), g.reduce("sum", y, [0])], donated=[1])
    assert g.took == [-1, -1]


def test_concatenate_pad(g):
    x, y = g.input(arr(3, 4)), g.input(arr(2, 4, seed=1))
    c = g.concatenate([x, g.elementwise("exp", y), x], 0)
    p = g.pad(c, g.number(3, "float32"), [(1, 2), (0, 1)])
    g.check([p, g.elementwise("add", p, p)])


def test_cumsum(g):
    x = g.input(arr(4, 9, dtype="float64"))
    g.check([g.scan("cumsum", g.elementwise("exp", x), 1), g.scan("cumprod", x, 0), g.scan("cummax", x, 1), g.scan("cummin", g.elementwise("negative", x), 0)])


@pytest.mark.parametrize("shape", [(70, 45), (32, 64), (130, 67), (33, 200), (300, 40)])
@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64"])
def test_transposed_operands_go_through_tiles(g, shape, dtype):
    x, y = [g.input(np.asarray(arr(*s, seed=i) * 4).astype(dtype)) for i, s in enumerate([shape, shape[::-1]])]
    z = g.elementwise("maximum", g.transpose(x, [1, 0]), y)
    text = g.check([z, g.elementwise("equal", z, y), g.transpose(x, [1, 0])], into=[-1, -1, -1])
    assert "transpose x" in text


def test_transposed_operands_of_three_axes(g):
    x, y = g.input(arr(40, 3, 50)), g.input(arr(50, 3, 40, seed=1))
    z = g.elementwise("add", g.transpose(x, [2, 1, 0]), y)
    w = g.elementwise("multiply", g.transpose(x, [0, 1, 2]), g.transpose(y, [2, 1, 0]))
    assert "transpose x" in g.check([z, w])


def test_written_operands_are_not_transposed(g):
    x = g.input(arr(64, 64))
    g.check([g.elementwise("add", x, g.transpose(x, [1, 0]))], into=[0])


@pytest.mark.parametrize("m,k,n", [(4, 5, 6), (1, 30, 40), (40, 30, 1), (33, 17, 65), (64, 100, 70)])
def test_dot(g, m, k, n):
    a, b = g.input(arr(m, k)), g.input(arr(k, n, seed=1))
    g.check([g.dot(a, b)])


def test_dot_epilogue_is_one_launch(g):
    x, w, b = g.input(arr(50, 40)), g.input(arr(40, 60)), g.input(arr(60))
    r = g.elementwise("maximum", g.elementwise("add", g.dot(x, w), b), g.number(0, "float32"))
    m = g.reshape(g.reduce("max", r, [1]), (50, 1))
    e = g.elementwise("exp", g.elementwise("subtract", r, m))
    assert "1 launches" in g.check([g.elementwise("divide", e, g.reshape(g.reduce("sum", e, [1]), (50, 1)))])


def test_empty(g):
    x = g.input(np.zeros((0, 3), "float32"))
    g.check([g.elementwise("exp", x), g.reduce("sum", x, [0]), g.concatenate([x, x], 0)])


def test_host_call_between_kernels(g):
    x = g.input(arr(5, 7))
    a, b = g.host(g.elementwise("exp", x), g.transpose(x, [1, 0]), 2)
    text = g.check([g.elementwise("negative", a), g.elementwise("add", b, b), a])
    assert text.count("host function 3") == 1
    assert "3 launches" in text


def test_host_calls_of_equal_inputs_are_one(g):
    x = g.input(arr(6))
    a, _ = g.host(x, x, 1)
    b, _ = g.host(x, x, 1)
    c, _ = g.host(x, x, 2)
    assert g.check([g.elementwise("add", a, b), c]).count("host function 3") == 2


def test_host_call_that_nobody_reads(g):
    x = g.input(arr(6))
    g.host(x, x, 1)
    assert "host" not in g.check([g.elementwise("negative", x)])


def test_host_call_reads_an_argument_where_it_lies(g):
    x = g.input(np.asfortranarray(arr(5, 7))[::-1])
    y = g.input(arr(4))
    a, b = g.host(x, y, 1)
    assert "1 launches" in g.check([a, b])


def test_host_calls_one_after_the_other(g):
    x = g.input(arr(4, 3))
    a, b = g.host(x, x, 1)
    c, d = g.host(a, b, 2)
    e, _ = g.host(g.reshape(c, [12]), g.number(1, "float32"), 3)
    g.check([e, d, a], into=[-1, -1, 0])


def test_host_results_in_places(g):
    x, y = g.input(arr(2, 3)), g.input(arr(6))
    a, b = g.host(x, y, 0)
    c = g.concatenate([g.elementwise("exp", x), a, x], 0)
    u = g.update(y, g.slice(g.reshape(a, [6]), slice(0, 2, 1)), slice(2, 4, 1))
    g.check([c, u, g.cast(b, "float32")], into=[-1, 1, -1])


def test_host_of_empty_arrays(g):
    x, y = g.input(np.zeros((0, 3), "float32")), g.input(np.zeros(0, "float32"))
    g.check([*g.host(x, y, 1), g.elementwise("exp", y)])


# ---- random programs ----

UNARY = ["negative", "absolute", "sign"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum"]
COMPARE = ["less", "equal"]


def random_layout(rng, a):
    """The same values in another layout: padded, reversed, in Fortran order or with their bytes swapped."""
    if rng.random() < 0.15:
        a = a.astype(a.dtype.newbyteorder())
    kind = rng.randrange(4)
    if kind == 0 or a.ndim == 0:
        return a
    if kind == 1:
        return np.asfortranarray(a)
    if kind == 2:
        return a[tuple(slice(None, None, -1) for _ in a.shape)].copy()[tuple(slice(None, None, -1) for _ in a.shape)]
    big = np.zeros(tuple(2 * n for n in a.shape), a.dtype)
    view = big[tuple(slice(0, 2 * n, 2) for n in a.shape)]
    view[...] = a
    return view


def random_program(rng, g):
    nprng = np.random.default_rng(rng.randrange(1 << 30))
    dims = [rng.choice([1, 2, 3, 5, 8, 17]) for _ in range(3)]
    dtype = rng.choice(["float64", "int64", "int32", "float64"])

    def fresh(shape):
        v = nprng.integers(-4, 5, shape).astype(dtype)
        return g.input(random_layout(rng, v))

    pool = [fresh(tuple(rng.sample(dims, rng.randrange(0, 4)))) for _ in range(rng.randrange(1, 4))]
    inputs = list(pool)
    written = {}

    def pick():
        return rng.choice(pool[-6:]) if rng.random() < 0.8 else rng.choice(pool)

    def small(n):
        return g.elementwise("remainder", n, g.number(7, dtype)) if n.value.size and np.abs(n.value).max() > 1000 else n

    for _ in range(rng.randrange(2, 14)):
        kind, x = rng.randrange(17), pick()
        r = x.value.ndim
        if kind == 0:
            pool.append(g.elementwise(rng.choice(UNARY), x))
        elif kind in (1, 2, 3):
            same = [p for p in pool if compatible(p.shape, x.shape)]
            pool.append(small(g.elementwise(rng.choice(BINARY), x, rng.choice(same))))
        elif kind == 4 and r:
            perm = list(range(r))
            rng.shuffle(perm)
            pool.append(g.transpose(x, perm))
        elif kind == 5 and r:
            pool.append(g.slice(x, *[random_slice(rng, n) for n in x.shape]))
        elif kind == 6 and r and x.value.size:
            axes = sorted(rng.sample(range(r), rng.randrange(1, r + 1)))
            op = rng.choice(["sum", "max", "min", "argmax"])
            red = g.reduce(op, x, axes[:1] if op == "argmax" else axes)
            if op == "argmax":
                red = g.cast(red, dtype)
            pool.append(small(red))
            if rng.random() < 0.6 and op != "argmax":
                keep = [1 if d in axes else n for d, n in enumerate(x.shape)]
                pool.append(g.elementwise("subtract", x, g.reshape(pool[-1], keep)))
        elif kind == 7:
            pool.append(g.reshape(x, random_shape(rng, x.value.size)))
        elif kind == 8 and r:
            other = [p for p in pool if p.value.ndim == r and p.shape[1:] == x.shape[1:]]
            pool.append(g.concatenate([x, rng.choice(other)] + [x] * rng.randrange(2), 0))
        elif kind == 9 and r and x.value.dtype.name == dtype:
            box = [random_slice(rng, n) for n in x.shape]
            shape = x.value[tuple(box)].shape
            src = [p for p in pool if compatible(p.shape, shape) and np.broadcast_shapes(p.shape, shape) == shape]
            v = g.broadcast(rng.choice(src), shape) if src else g.broadcast(g.number(1, dtype), shape)
            if x.value.size:
                new = g.update(x, v, *box)
                pool.append(new)
                for k, old in list(written.items()) or []:
                    if old is x:
                        written[k] = new
                if x in inputs and rng.random() < 0.7:
                    written.setdefault(inputs.index(x), new)
        elif kind == 10 and r and x.value.size:
            pool.append(small(g.scan(rng.choice(["cumsum", "cummax", "cummin"]), x, rng.randrange(r))))
        elif kind == 11 and r == 2:
            other = [p for p in pool if p.value.ndim == 2 and p.shape[0] == x.shape[1]]
            if other:
                pool.append(small(g.dot(x, rng.choice(other))))
        elif kind == 15 and 0 < r < 5 and 0 < x.value.size < 5000:
            axis = rng.randrange(r)
            size, step = rng.randrange(1, 4), rng.randrange(1, 3)
            if (size - 1) * step < x.shape[axis]:
                pool.append(g.window(x, axis, size, rng.randrange(1, 3), step))
        elif kind == 16 and r > 2 and x.value.size < 2000:
            other = [p for p in pool if p.value.ndim == r and p.shape[:-2] == x.shape[:-2] and p.shape[-2] == x.shape[-1]]
            y = rng.choice(other) if other else g.transpose(x, [*range(r - 2), r - 1, r - 2])
            pool.append(small(g.reduce("sum", g.dot(x, y), sorted(rng.sample(range(r - 2), rng.randrange(1, r - 1))))))
        elif kind == 12:
            a, b = g.host(x, pick(), rng.randrange(3))
            pool += [small(a), g.cast(b, dtype)] if rng.random() < 0.7 else [small(a)]
        elif kind == 13 and r and x.value.size:
            pool.append(g.gather(x, *random_index(rng, g, pool, dims, x.shape[:rng.randrange(1, r + 1)])))
        elif kind == 14 and r and x.value.size and x.value.dtype.name == dtype:
            axes = sorted(rng.sample(range(r), rng.randrange(1, r + 1)))
            index = random_index(rng, g, pool, dims, [x.shape[d] for d in axes])
            shape = index[0].shape + tuple(n for d, n in enumerate(x.shape) if d not in axes)
            src = [p for p in pool if p.value.dtype.name == dtype and compatible(p.shape, shape) and np.broadcast_shapes(p.shape, shape) == shape]
            v = g.broadcast(rng.choice(src), shape) if src else g.broadcast(g.number(1, dtype), shape)
            if rng.random() < 0.4 and r <= 4:
                to = g.gather(g.transpose(x, axes + [d for d in range(r) if d not in axes]), *index)
                v = g.elementwise("subtract", to, v)
            new = small(g.scatter(x, v, rng.choice([None, None, "add", "maximum", "subtract"]), axes, *index))
            pool.append(new)
            for k, old in list(written.items()):
                if old is x:
                    written[k] = new
            if x in inputs and rng.random() < 0.7:
                written.setdefault(inputs.index(x), new)
    for i, x in enumerate(inputs):
        same = [p for p in pool if p.shape == x.shape and p not in inputs]
        if same and i not in written and rng.random() < 0.4:
            written[i] = rng.choice(same)
    outs = [rng.choice(pool[-4:]) for _ in range(rng.randrange(1, 4))]
    into = [rng.choice([-1, -2, -2]) for _ in outs] + list(written)
    return outs + list(written.values()), into


def random_index(rng, g, pool, dims, extents):
    """Index arrays of one shape for axes of these extents: inputs, or computed from what is there."""
    near = [p for p in pool[-6:] if p.value.dtype.kind in "iu" and p.value.ndim < 3 and p.value.size]
    if near and rng.random() < 0.6:
        x = g.cast(rng.choice(near), "int64")
        return [g.elementwise("remainder", x if rng.random() < 0.5 else g.elementwise("add", x, g.number(k, "int64")), g.number(n, "int64"))
                for k, n in enumerate(extents)]
    shape, r = tuple(rng.sample(dims, rng.randrange(0, 3))), np.random.default_rng(rng.randrange(2**32))
    return [g.input(r.integers(0, n, shape)) for n in extents]


def compatible(a, b):
    try:
        np.broadcast_shapes(a, b)
        return True
    except ValueError:
        return False


def random_slice(rng, n):
    step = rng.choice([1, 1, 1, 2, -1, -2])
    a, b = sorted((rng.randrange(n + 1), rng.randrange(n + 1))) if n else (0, 0)
    if rng.random() < 0.3:
        a, b = 0, n
    return slice(a, b, step) if step > 0 else slice(b - 1 if b else None, a - 1 if a else None, step)


def random_shape(rng, size):
    if size == 0:
        return rng.choice([(0,), (0, 3), (2, 0)])
    shape = []
    for p in (2, 3, 5, 17):
        while size % p == 0:
            size //= p
            if shape and rng.random() < 0.5:
                shape[-1] *= p
            else:
                shape.append(p)
    if size > 1:
        shape.append(size)
    rng.shuffle(shape)
    return tuple(shape)


@pytest.mark.parametrize("block", range(8))
def test_random_programs(lib, block):
    for seed in range(block * SEEDS // 8, (block + 1) * SEEDS // 8):
        rng, g = random.Random(seed), Graphs(lib)
        try:
            outs, into = random_program(rng, g)
            donated = [i for i in range(len(g.inputs)) if i not in into and rng.random() < 0.3]
            constant = [i for i in range(len(g.inputs)) if i not in into and i not in donated and seed % 2 and rng.random() < 0.6]
            g.second_cache(64 if seed % 3 == 0 else 1 << 20)   # a tiny one: arrays are past it
            g.check(outs, into, vector_bytes=rng.choice([16, 32, 64]), rtol=1e-9, donated=donated, constant=constant)
        except Exception as e:
            raise AssertionError(f"seed {seed}: {e}\n{getattr(g, 'text', '')[:3000]}") from e
        finally:
            g.close()
