"""Matrix products beside OpenBLAS (np.matmul with out=) and JAX: python -m benchmarks.products [--seconds S] [--no-jax] [TABLE ...]

The table `around` has epilogues, prologues, vectors and constants; `convolutions` those beside torch's, if it is installed; `networks`
whole functions, beside NumPy, JAX and (--torch) torch.compile of the same NumPy code. --plot FILE draws the rows of all tables as a
roofline plot.

One process, pinned to one core; for each row the contenders take turns and the best time of each counts, so that a slow minute of the
machine touches all of them. The FMA peak is measured in the same run, before every row.
"""

import argparse
import os
import sys
import time

ONE = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "PYXLA")} | {"JAX_PLATFORMS": "cpu"}

SQUARES = (4, 8, 16, 31, 32, 48, 64, 96, 100, 128, 192, 256, 384, 500, 512, 768, 1024, 2000, 2048)
THIN = [
    *((2048, n, 2048) for n in (3, 5, 8, 16, 17)),
    *((2048, 2048, k) for k in (3, 5, 8, 16, 17)),
    *((m, 2048, 2048) for m in (3, 5, 8, 16, 17)),
    *((m, 512, 512) for m in (3, 5, 8, 16, 17)),
]
VECTORS = (512, 1024, 2048, 4096)
BATCHES = (3, 4, 5, 8, 12, 16)
LONG = 1e-3               # seconds
FURTHER = ("around", "bytes", "convolutions", "threads", "networks")


def squares(np, dtype):
    for n in SQUARES:
        yield f"{n}", n**3, (n, n), (n, n), lambda a, b: a @ b


def squares_at_once(np, dtype):
    """Squares without the call's share: as many in one call as leave operands and results in the second cache."""
    for n in (n for n in SQUARES if 8 <= n <= 128):
        count = max(1, 100_000 // n**2)
        yield f"{count} of {n}", count * n**3, (count, n, n), (count, n, n), lambda a, b: a @ b


def transposed(np, dtype):
    for n in (64, 128, 256, 512, 1024, 2048):
        yield f"A B^T {n}", n**3, (n, n), (n, n), lambda a, b: a @ b.T
        yield f"A^T B {n}", n**3, (n, n), (n, n), lambda a, b: a.T @ b


def thin(np, dtype):
    for m, n, k in THIN:
        yield f"m={m} n={n} k={k}", m * n * k, (m, k), (k, n), lambda a, b: a @ b


def vectors(np, dtype):
    for n in VECTORS:
        yield f"A x {n}", n * n, (n, n), (n,), lambda a, b: a @ b
        yield f"x A {n}", n * n, (n,), (n, n), lambda a, b: a @ b
    yield "x A 768x3072", 768 * 3072, (768,), (768, 3072), lambda a, b: a @ b


def batches(np, dtype):
    for n in BATCHES:
        yield f"10000 of {n}x{n}", 10000 * n**3, (10000, n, n), (10000, n, n), lambda a, b: a @ b


def bytes_by_words(np, pyxla, peak, options):
    """int8 and uint8 cast to int32; the peak is that of instructions that add four products of bytes to each int32 lane."""
    print(f"\nbytes, as int32\n{'':24}{'Gop/s':>9}{'of peak':>9}{'us':>11}")
    rng = np.random.default_rng(1)
    for n in (32, 64, 128, 256, 512, 1024, 2048):
        for left in ("uint8", "int8"):
            a, b = rng.integers(0, 127, (n, n)).astype(left), rng.integers(-127, 127, (n, n)).astype("int8")
            compiled = pyxla.jit(lambda a, b: a.astype("int32") @ b.astype("int32"))
            assert (compiled(a, b)[0] == a[0].astype("int32") @ b.astype("int32")).all()
            t = best_times([lambda: compiled(a, b)], options.seconds)[0]
            rate = 2e-9 * n**3 / t
            print(f"{left + ' ' + str(n):24}{rate:9.1f}{rate / (4 * peak()):9.2f}{1e6 * t:11.2f}", flush=True)


def best_wall(call, seconds):
    """The least wall time of a call."""
    call()
    best, end = 1e9, time.perf_counter() + seconds
    while best == 1e9 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def two_threads(np, pyxla, cores, options):
    """Wall times with one thread and with two, in turns; the results' bits must be equal."""
    if len(cores) < 2:
        print("\ntwo threads: there is one core")
        return
    print(f"\ntwo threads, wall time\n{'':24}{'one, us':>11}{'two, us':>11}{'ratio':>7}")
    os.sched_setaffinity(0, cores)
    rng = np.random.default_rng(1)
    for dtype in options.dtype:
        for n in (256, 512, 768, 1024, 2048):
            a, b = (rng.standard_normal((n, n)).astype(dtype) for _ in range(2))
            compiled, best, bits = pyxla.jit(lambda a, b: a @ b), {1: 1e9, 2: 1e9}, set()
            for threads in (1, 2) * 3:
                pyxla.set_num_threads(threads)
                best[threads] = min(best[threads], best_wall(lambda: compiled(a, b), options.seconds))
                bits.add(compiled(a, b).tobytes())
            line = f"{dtype + ' ' + str(n):24}{1e6 * best[1]:11.2f}{1e6 * best[2]:11.2f}{best[1] / best[2]:7.2f}"
            print(line + ("" if len(bits) == 1 else " WRONG BITS"), flush=True)
    pyxla.set_num_threads(None)


TABLES = {"squares": squares, "at-once": squares_at_once, "transposed": transposed, "thin": thin, "vectors": vectors, "batches": batches}


def best_times(calls, seconds):
    """The least time of one call of each, taking turns for `seconds` together. Of long calls the process' time, as no stretch of theirs is
    undisturbed on a busy core; of short ones the clock's, since a virtual machine's system may leave out time of the process."""
    best, repeats, clocks = [1e9] * len(calls), [], []
    for call in calls:
        call()
        start = time.process_time()
        call()
        taken = time.process_time() - start
        repeats.append(max(1, int(100e-6 / (taken + 1e-9))))
        clocks.append(time.process_time if taken > LONG else time.perf_counter)
    end, rounds = time.perf_counter() + seconds * len(calls), 0
    while rounds < 4 or time.perf_counter() < end:
        rounds += 1
        for i, (call, clock) in enumerate(zip(calls, clocks, strict=True)):
            start = clock()
            for _ in range(repeats[i]):
                call()
            best[i] = min(best[i], (clock() - start) / repeats[i])
    return best


def contenders(jax, torch):
    """(name, a whole function's name, its arguments and whether it needs nn to its call)"""
    import numpy as np

    import pyxla
    from benchmarks import networks

    ours = networks.functions(np, pyxla.nn)
    theirs = networks.functions(jax.numpy, networks.jax_nn(jax)) if jax else None

    def plain(f, args):
        return lambda: f(*args)

    def compiled(fn, args, needs_nn):
        return plain(pyxla.jit(getattr(ours, fn)), args)

    def numpys(fn, args, needs_nn):
        return plain(getattr(ours, fn), args)

    def jaxed(fn, args, needs_nn):
        jitted, args = jax.jit(getattr(theirs, fn)), jax.tree.map(jax.numpy.asarray, args)
        return lambda: jax.block_until_ready(jitted(*args))

    def torched(fn, args, needs_nn):
        if not needs_nn:
            return plain(torch.compile(getattr(ours, fn)), args)
        call = plain(torch.compile(getattr(networks.torch_functions(torch), fn)), [torch.from_numpy(a) for a in args])
        return torch.no_grad()(call)

    found = [("pyxla", compiled), ("NumPy", numpys)]
    if jax:
        found.append(("JAX", jaxed))
    if torch:
        found.append(("torch", torched))
    return found


def run_networks(options, library, jax, points):
    """The table of whole functions."""
    import numpy as np

    from benchmarks import networks

    torch = None
    if options.torch:
        import torch

        torch.set_num_threads(1)
    among = contenders(jax, torch)
    print(f"\nwhole functions, float32\n{'':28}{'GFLOP/s':>9}{'of peak':>9}" + "".join(f"{c[0] + ' us':>14}{'':>7}" for c in among))
    for name, fn, args, flops, needs_nn in networks.rows(np):
        if options.only and options.only not in name:
            continue
        calls = [call(fn, args, needs_nn) for _, call in among]
        peak = 2e-9 * library.fma_f32(0.02)
        times = best_times(calls, options.seconds)
        line = f"{name:28}{1e-9 * flops / times[0]:9.1f}{1e-9 * flops / times[0] / peak:9.2f}{1e6 * times[0]:14.1f}{'':>7}"
        print(line + "".join(f"{1e6 * t:14.1f}{t / times[0]:7.2f}" for t in times[1:]), flush=True)
        points += [(c[0], name, flops / networks.size(args), 1e-9 * flops / t) for c, t in zip(among, times, strict=True)]


def draw(file, points, library):
    """The roofline plot of what was measured."""
    import numpy as np

    from benchmarks import plot

    room = np.ones((64 << 20) + 64, np.uint8)
    memory = 1e-9 * library.read_rate(room.ctypes.data + -room.ctypes.data % 64, 64 << 20, 0.2)
    peak = max(2e-9 * library.fma_f32(0.05) for _ in range(5))
    with open(file, "w") as f:
        f.write(plot.roofline(points, peak, memory))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", help=f"of {', '.join(TABLES)}, {', '.join(FURTHER)}; all without")
    parser.add_argument("--seconds", type=float, default=0.15, help="per contender and row")
    parser.add_argument("--dtype", nargs="*", default=["float32", "float64"])
    parser.add_argument("--no-jax", action="store_true")
    parser.add_argument("--torch", action="store_true", help="torch.compile beside the whole functions")
    parser.add_argument("--plot", help="a file for the roofline plot (SVG)")
    parser.add_argument("--only", help="rows whose name contains this")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    options = parser.parse_args()
    cores = os.sched_getaffinity(0)
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # NumPy must not be there yet
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.products", *sys.argv[1:]], os.environ | ONE)
    os.sched_setaffinity(0, {options.core})

    import numpy as np

    import pyxla
    from benchmarks import around, convolutions, roofline

    jax = None
    if not options.no_jax:
        try:
            import jax

            jax.config.update("jax_enable_x64", True)
        except ImportError:
            print("JAX is not installed")
    library, worst, points = roofline.library(), [], []
    rng = np.random.default_rng(1)
    for table in options.tables or (*TABLES, *FURTHER):
        if table == "around":
            around.run(np, pyxla, library, best_times, options.seconds)
        if table == "bytes":
            bytes_by_words(np, pyxla, lambda: 2e-9 * library.fma_f32(0.02), options)
        if table == "convolutions":
            convolutions.run(np, pyxla, lambda: 2e-9 * library.fma_f32(0.02), best_times, options.seconds, options.only)
        if table == "threads":
            two_threads(np, pyxla, cores, options)
        if table == "networks":
            run_networks(options, library, jax, points)
        for dtype in options.dtype if table in TABLES else ():
            print(f"\n{table}, {dtype}")
            print(f"{'':24}{'GFLOP/s':>9}{'of peak':>9}{'us':>11}{'OpenBLAS':>11}{'ratio':>7}{'JAX':>11}{'ratio':>7}")
            for name, fmas, sa, sb, f in TABLES[table](np, dtype):
                if options.only and options.only not in name:
                    continue
                a, b = rng.standard_normal(sa).astype(dtype), rng.standard_normal(sb).astype(dtype)
                out, compiled = f(a, b), pyxla.jit(f)
                x, y = (a.T if "A^T" in name else a), (b.T if "B^T" in name else b)
                calls = [lambda: compiled(a, b), lambda: np.matmul(x, y, out=out)]
                if jax:
                    ja, jb, jf = jax.numpy.asarray(a), jax.numpy.asarray(b), jax.jit(f)
                    calls.append(lambda: jf(ja, jb).block_until_ready())
                error = np.abs(compiled(a, b) - out).max() / np.abs(out).max()
                if error > (1e-4 if dtype == "float32" else 1e-12):
                    print(f"{name:24} WRONG: {error}")
                    continue
                peak = 2e-9 * getattr(library, "fma_f32" if dtype == "float32" else "fma_f64")(0.02)
                t = best_times(calls, options.seconds)
                rate = 2e-9 * fmas / t[0]
                line = f"{name:24}{rate:9.1f}{rate / peak:9.2f}{1e6 * t[0]:11.2f}{1e6 * t[1]:11.2f}{t[1] / t[0]:7.2f}"
                print(line + (f"{1e6 * t[2]:11.2f}{t[2] / t[0]:7.2f}" if jax else ""), flush=True)
                if dtype == "float32":
                    flop = 2 * fmas / (a.nbytes + b.nbytes + out.nbytes)
                    points += [(c, f"{table} {name}", flop, 2e-9 * fmas / s) for c, s in zip(("pyxla", "NumPy", "JAX"), t, strict=False)]
                worst.append((min(t[1:]) / t[0], f"{table} {dtype} {name}"))
    if options.plot:
        draw(options.plot, points, library)
    print("\nworst:", *(f"{r:.2f} {name}" for r, name in sorted(worst)[:10]), sep="\n  ")


if __name__ == "__main__":
    main()
