"""Graphs built from Python through the C library, beside their values in NumPy.

Each node is an `N(id, value)`; `Graphs.check` plans the outputs, runs the plan on the interpreter (no Python, no LLVM in the way)
and compares with the values that NumPy computed.
"""
import ctypes as C
import subprocess
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", None, "float32", "float64"]
MAX_RANK = 16


def build(folder, *layers, extra=(), flags=()):
    """Compiles the C layers and some more files into a shared library; its path."""
    out = Path(folder) / "driver.so"
    sources = [str(p) for la in layers for p in sorted((ROOT / "csrc" / la).glob("*.c"))]
    subprocess.run(["gcc", "-std=gnu17", "-O1", "-g", "-DPYXLA_DEBUG", "-fPIC", "-shared", "-ffp-contract=off", f"-I{ROOT / 'csrc'}", *flags,
                    *sources, *map(str, extra), "-o", str(out), "-lpthread", "-ldl", "-lm"], check=True)
    return out


def op_table():
    """OP name -> number, in the order of ops.def."""
    names, ops = (ROOT / "csrc/ir/ops.def").read_text(), {}
    for line in names.splitlines():
        head = line.split("(", 1)
        kinds = ("SOURCE", "ELEMENTWISE", "COMPOSITE", "VIEW", "PLACE", "REDUCE", "SCAN", "DOT", "CONTROL")
        if head[0] in kinds and line[0].isupper():
            ops[head[1].split(",")[0].strip()] = len(ops) + 1
    return ops


class N:
    def __init__(self, id, value):
        self.id, self.value = id, value

    @property
    def shape(self):
        return self.value.shape


class HostArray(C.Structure):
    _fields_ = [("dtype", C.c_uint8), ("rank", C.c_uint8), ("swapped", C.c_bool), ("shape", C.c_int64 * MAX_RANK), ("stride", C.c_int64 * MAX_RANK)]

    def at(self, address):
        """The array at an address, NULL: None."""
        n, dtype = self.rank, np.dtype(DTYPES[self.dtype]).newbyteorder(">" if self.swapped else "<")
        shape, strides = self.shape[:n], self.stride[:n]
        if 0 in shape:
            return np.empty(shape, dtype)
        if not address:
            return None
        ends = [s * max(0, k - 1) for s, k in zip(strides, shape)]
        low, high = sum(min(0, e) for e in ends), sum(max(0, e) for e in ends) + dtype.itemsize
        return np.ndarray(shape, dtype, (C.c_char * (high - low)).from_address(address + low), -low, strides)


class HostCall(C.Structure):
    _fields_ = [("function", C.c_int64), ("node", C.c_uint32), ("nin", C.c_uint32), ("nout", C.c_uint32), ("nparams", C.c_uint32),
                ("arrays", C.POINTER(HostArray)), ("params", C.POINTER(C.c_int64))]


def host_values(x, y, k):
    """The host function of these tests: x reversed plus k, and the indices that sort all of y."""
    return x[tuple(slice(None, None, -1) for _ in x.shape)] + x.dtype.type(k), np.argsort(y, axis=None, kind="stable")


@C.CFUNCTYPE(C.c_bool, C.POINTER(HostCall), C.POINTER(C.c_void_p), C.c_void_p)
def host_call(call, address, error):
    c = call.contents
    x, y, *results = [c.arrays[i].at(address[i]) for i in range(c.nin + c.nout)]
    if c.function != 3:
        return False
    for r, v in zip(results, host_values(x, y, c.params[0])):
        if r is not None:
            assert r.flags.c_contiguous and r.shape == v.shape
            r[...] = v
    return True


class Lib:
    def __init__(self, path):
        self.c = c = C.CDLL(str(path))
        self.ops = op_table()
        P, u32, i64, i32 = C.c_void_p, C.c_uint32, C.c_int64, C.c_int32
        sig = {
            "driver_arena": (P, [P]), "driver_err_size": (C.c_size_t, []), "driver_graph": (P, [P]), "driver_err": (P, [P]),
            "driver_message": (C.c_char_p, [P]), "driver_plan": (P, [P, P, P, C.c_int]), "driver_text": (P, [P]),
            "driver_launches": (u32, [P]), "driver_peak": (i64, [P]), "driver_took": (i32, [P, u32]),
            "driver_strides": (C.c_bool, [P, u32, i32, P]), "driver_run": (i64, [P, P, P]), "driver_free": (None, [P]), "arena_free": (None, [P]),
            "graph_input": (u32, [P, C.c_int, P, C.c_int, C.c_int]), "graph_number": (u32, [P, C.c_int, C.c_double]),
            "graph_add": (u32, [P, C.c_int, P, C.c_int, P, C.c_int, C.c_int, P, C.c_int]),
            "graph_slice_const": (u32, [P, u32, P, P, P]), "graph_update_const": (u32, [P, u32, u32, P, P]),
            "graph_reduce": (u32, [P, C.c_int, u32, C.c_uint64, C.c_double]), "graph_scan": (u32, [P, C.c_int, u32, C.c_int]),
            "graph_output": (None, [P, u32]), "graph_iota": (u32, [P, i64]), "graph_concatenate": (u32, [P, P, C.c_int, C.c_int]),
            "graph_dot": (u32, [P, u32, u32]), "graph_cast": (u32, [P, u32, C.c_int]), "graph_update": (u32, [P, u32, u32, P, P]),
            "graph_slice": (u32, [P, u32, P, P, P]), "graph_pad": (u32, [P, u32, u32, P, P]),
        }
        for name, (res, args) in sig.items():
            f = getattr(c, name)
            f.restype, f.argtypes = res, args
        _ = i32
        c.exec_set_host.restype, c.exec_set_host.argtypes = None, [P]
        c.exec_set_host(C.cast(host_call, P))


def ints(xs, t=C.c_int64):
    return (t * max(1, len(xs)))(*xs)


class Graphs:
    """One graph under construction."""

    def __init__(self, lib):
        self.lib, self.c = lib, lib.c
        self.errmem = C.create_string_buffer(self.c.driver_err_size())
        self.arena = self.c.driver_arena(self.errmem)
        self.g = self.c.driver_graph(self.arena)
        self.inputs = []
        self.second_cache(1 << 20)

    def close(self):
        self.c.arena_free(self.arena)

    def fail(self):
        m = self.c.driver_message(self.c.driver_err(self.g))
        raise RuntimeError(m.decode() if m else "no node and no error")

    def node(self, id, value):
        if not id:
            self.fail()
        return N(id, np.asarray(value))

    def dtype(self, value):
        return DTYPES.index(np.asarray(value).dtype.name)

    def input(self, array):
        self.inputs.append(array)
        return self.node(self.c.graph_input(self.g, self.dtype(array), ints(array.shape), array.ndim, 0), array.astype(array.dtype.newbyteorder("=")))

    def number(self, value, dtype):
        return self.node(self.c.graph_number(self.g, DTYPES.index(np.dtype(dtype).name), float(value)), np.array(value, dtype))

    def add(self, op, nodes, attrs, value, shape=()):
        ids = ints([n.id for n in nodes], C.c_uint32)
        value = np.asarray(value)
        return self.node(self.c.graph_add(self.g, self.lib.ops[op], ids, len(nodes), ints(attrs), len(attrs), self.dtype(value), ints(shape),
                                          len(shape)), value)

    def broadcast(self, a, shape):
        return a if a.shape == tuple(shape) else self.add("broadcast", [a], shape, np.broadcast_to(a.value, shape))

    def elementwise(self, op, *args):
        shape = np.broadcast_shapes(*[a.shape for a in args])
        args = [self.broadcast(a, shape) for a in args]
        with np.errstate(all="ignore"):
            return self.add(op, args, [], getattr(np, op)(*[a.value for a in args]))

    def cast(self, a, dtype):
        with np.errstate(all="ignore"):
            return self.node(self.c.graph_cast(self.g, a.id, DTYPES.index(np.dtype(dtype).name)), a.value.astype(dtype))

    def transpose(self, a, perm):
        return self.add("transpose", [a], perm, a.value.transpose(perm))

    def reshape(self, a, shape):
        return self.add("reshape", [a], shape, a.value.reshape(shape))

    def slice(self, a, *slices):
        v = a.value[slices]
        r = [s.indices(n) for s, n in zip(slices, a.shape)]
        start, step = [x[0] for x in r], [x[2] for x in r]
        start = [0 if n == 0 else s for s, n in zip(start, v.shape)]
        return self.node(self.c.graph_slice_const(self.g, a.id, ints(start), ints(step), ints(v.shape)), v)

    def window(self, a, axis, size, stride, step):
        v = np.lib.stride_tricks.sliding_window_view(a.value, (size - 1) * step + 1, axis)[..., ::step]
        return self.add("window", [a], [axis, size, stride, step], v[(slice(None),) * axis + (slice(None, None, stride),)])

    def gather(self, a, *index):
        return self.add("gather", [a, *index], [], a.value[tuple(i.value for i in index)])

    def scatter(self, a, v, combine, axes, *index):
        """a[:, i, ...] = v, or np.combine.at(...); v has the index arrays' axes first."""
        out = a.value.copy()
        to = np.moveaxis(out, axes, range(len(axes)))
        key = tuple(i.value for i in index)
        with np.errstate(all="ignore"):
            for at in np.ndindex(*index[0].shape):
                k = tuple(int(i[at]) for i in key)
                to[k] = v.value[at] if not combine else getattr(np, combine)(to[k], v.value[at])
        attrs = [self.lib.ops[combine] if combine else 0, sum(1 << d for d in axes)]
        return self.add("scatter", [a, v, *index], attrs, out)

    def update(self, a, v, *slices):
        out = a.value.copy()
        out[slices] = v.value
        r = [s.indices(n) for s, n in zip(slices, a.shape)]
        return self.node(self.c.graph_update_const(self.g, a.id, v.id, ints([x[0] for x in r]), ints([x[2] for x in r])), out)

    def reduce(self, op, a, axes, ddof=0.0):
        f = {"var": lambda v, axis: np.var(v.astype(np.float64), axis=axis, ddof=ddof).astype(v.dtype)}.get(op, getattr(np, op, None))
        with np.errstate(all="ignore"):
            if op in ("argmax", "argmin"):
                value = f(a.value, axis=axes[0])
            elif op in ("sum", "prod") :
                wide = np.float64 if a.value.dtype.kind == "f" else a.value.dtype
                value = f(a.value, axis=tuple(axes), dtype=wide).astype(a.value.dtype)
            else:
                value = f(a.value, axis=tuple(axes))
        mask = sum(1 << x for x in axes)
        return self.node(self.c.graph_reduce(self.g, self.lib.ops["reduce_" + op], a.id, mask, ddof), value)

    def scan(self, op, a, axis):
        with np.errstate(all="ignore"):
            running = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}[op].accumulate
            return self.node(self.c.graph_scan(self.g, self.lib.ops[op], a.id, axis), running(a.value, axis=axis, dtype=a.value.dtype))

    def concatenate(self, parts, axis):
        ids = ints([p.id for p in parts], C.c_uint32)
        return self.node(self.c.graph_concatenate(self.g, ids, len(parts), axis), np.concatenate([p.value for p in parts], axis))

    def pad(self, a, fill, widths):
        v = np.pad(a.value, widths, constant_values=fill.value)
        return self.node(self.c.graph_pad(self.g, a.id, fill.id, ints([w[0] for w in widths]), ints([w[1] for w in widths])), v)

    def dot(self, a, b):
        with np.errstate(all="ignore"):
            return self.node(self.c.graph_dot(self.g, a.id, b.id), np.matmul(a.value, b.value))

    def host(self, x, y, k):
        values = host_values(x.value, y.value, k)
        attrs = [3, 2]
        for v in values:
            attrs += [self.dtype(v), v.ndim, *v.shape]
        call = self.add("host", [x, y], [*attrs, k], values[0])
        return [self.add("item", [call], [i], v) for i, v in enumerate(values)]

    def second_cache(self, size):
        """Plans from now on are for a second cache of so many bytes."""
        C.c_size_t.in_dll(self.c, "driver_l2").value = size

    def check(self, outputs, into=None, vector_bytes=32, rtol=None, donated=(), constant=()):
        """Plans, runs and compares; returns the plan's text. donated, constant: numbers of inputs."""
        into = into or [-2] * len(outputs)
        for o in outputs:
            self.c.graph_output(self.g, o.id)
        arrays = [a.copy(order="K") if not getattr(a, "base", None) is not None else a for a in self.inputs]
        arrays = [copy_layout(a) for a in self.inputs]
        strides = []
        for i, a in enumerate(arrays):
            s = [x if n > 1 else 0 for x, n in zip(a.strides, a.shape)]
            strides += s + [0] * (MAX_RANK - a.ndim) + [not a.dtype.isnative, i in donated, i in constant]
        plan = self.c.driver_plan(self.g, ints(strides), ints(into, C.c_int32), vector_bytes)
        if not plan:
            self.fail()
        outs = [self.output(plan, i, o.value) for i, o in enumerate(outputs)]
        self.peak = self.c.driver_peak(plan)
        self.took = [self.c.driver_took(plan, i) if k < 0 else -1 for i, k in enumerate(into)]
        outs = [arrays[k] if k >= 0 else o for o, k in zip(outs, self.took)]
        text = self.c.driver_text(plan)
        self.text = C.string_at(text).decode()
        self.c.driver_free(text)
        inp = (C.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])
        outp = (C.c_void_p * max(1, len(outs)))(*[o.ctypes.data if k < 0 else None for o, k in zip(outs, into)])
        status = self.c.driver_run(plan, inp, outp)
        assert status == 0, status
        for i, (o, k) in enumerate(zip(outputs, into)):
            compare(outs[i] if k < 0 else arrays[k], o.value, rtol, f"output {i}")
        for i, a in enumerate(arrays):
            if i not in into and i not in donated:
                np.testing.assert_array_equal(a, self.inputs[i])
        return self.text


    def output(self, plan, i, value):
        """A new array for output i, as the plan wants it."""
        a, stride = np.full(value.shape, 77).astype(value.dtype), ints([0] * value.ndim)
        if not self.c.driver_strides(plan, i, value.ndim, stride):
            return a
        order = sorted(range(a.ndim), key=lambda d: -stride[d])
        a = a.transpose(order).copy().transpose(np.argsort(order))
        assert all(s == t for s, t, n in zip(a.strides, stride, a.shape) if n > 1), (a.strides, list(stride), a.shape)
        return a


def copy_layout(a):
    """A copy with the same strides (also negative, zero and padded ones)."""
    if a.size == 0:
        return a.copy()
    low = sum(min(0, s * (n - 1)) for s, n in zip(a.strides, a.shape))
    high = sum(max(0, s * (n - 1)) for s, n in zip(a.strides, a.shape)) + a.itemsize
    buf = np.zeros(high - low, np.uint8)
    out = np.ndarray(a.shape, a.dtype, buf, offset=-low, strides=a.strides)
    out[...] = a
    return out


def compare(got, want, rtol, what):
    if want.dtype.kind == "f":
        tol = rtol if rtol is not None else (2e-5 if want.dtype == np.float32 else 1e-12)
        np.testing.assert_allclose(got, want, rtol=tol, atol=tol, err_msg=what)
    else:
        np.testing.assert_array_equal(got, want, err_msg=what)
