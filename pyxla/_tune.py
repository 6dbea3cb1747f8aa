"""Schedules by measurement: `tune` tries others than the cost model's choice, `load_tuning` takes over what an earlier run found.

A schedule is a set of knobs (`_core._knobs`; csrc/opt/knobs.def has their meaning). What was found is kept in one table of the
process, by a key of what a group of operations computes at which sizes, and in a JSON file by CPU and key. No knob changes a bit
of any result."""

import copy
import json
import os
import sys
import time
from collections import namedtuple

import numpy as np

from . import _core


def _each(knob, *values):
    return [{knob: value} for value in values]


# Steps of the search: of each, the best is kept, and the later ones start from it.
CANDIDATES = {
    "product": (
        [
            {"pack_b": 1, "order": 1, "rows": 32},
            {"pack_b": 2, "order": 2, "rows": 256},
            {"pack_b": 2, "order": 2, "depth": 256, "columns": 384},
        ],
        _each("order", 1, 2),
        _each("depth", -1, 96, 128, 192, 256, 384, 512, 768),
        _each("columns", -1, 96, 192, 288, 384, 512, 768, 1024),
        _each("tile", 4, 5, 6, 7, 8),
        _each("rows", 16, 32, 48, 64, 96, 128, 256),
        _each("pack_b", 1, 2),
        _each("pack_a", 1, 2),
        _each("workers", 1),
    ),
    "loop": (_each("vectors", 1, 2, 4, 8), _each("block", 1024, 2048, 8192, 16384, 65536), _each("ahead", 1, 2), _each("workers", 1)),
}
LEAST_GAIN = 0.985                # of the time before: less counts as noise

_found = {}                       # key -> what is written to files: knobs, seconds before and after, what it is


class Tuning(namedtuple("Tuning", "before after tried refused choices")):
    """What `tune` found.

    Attributes
    ----------
    before, after : float
        Seconds of a call with the cost model's schedules and with those found.
    tried : int
        Schedules that were measured.
    refused : int
        Schedules left out because a result had other bits (none should).
    choices : list of dict
        For each group of operations with another schedule than before: ``what`` it computes, its ``knobs``, the ``gain``.
    """

    __slots__ = ()

    @property
    def gain(self):
        """Time before over time after."""
        return self.before / self.after

    def __str__(self):
        lines = [f"{self.before * 1e6:.1f} us -> {self.after * 1e6:.1f} us ({self.gain:.2f} times as fast), {self.tried} schedules tried"]
        lines += [f"  {c['what']}: {', '.join(f'{k}={v}' for k, v in c['knobs'].items())} ({c['gain']:.2f})" for c in self.choices]
        return "\n".join(lines)


# ---- files ----


def _cpu():
    info = _core.system_info()
    return f"{info['cpu']}, {info['level']}, caches {'/'.join(str(n >> 10) for n in info['caches'])} KB"


def load_tuning(file, /):
    """Take over the schedules that `tune` has written to a file.

    Functions planned from now on use them. A file may hold several CPUs' schedules; those of others than this machine's are skipped.
    ``PYXLA_TUNING=file`` does it for every function of a process.

    Parameters
    ----------
    file : path-like
        A file written by `tune`.

    Returns
    -------
    int
        How many groups of operations it has schedules for on this CPU.

    Raises
    ------
    ValueError
        If the file holds something else.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> f = jit(lambda x, w: np.maximum(x @ w, 0))
    >>> x, w = np.ones((64, 64), "float32"), np.ones((64, 64), "float32")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "tuning.json")
    ...     found = tune(f, x, w, seconds=0.1, file=file)
    ...     load_tuning(file) >= 1
    True
    """
    entries = _read(file).get(_cpu(), {})
    for key, entry in entries.items():
        _core._tuning_set(int(key, 16), entry["knobs"])
        _found[int(key, 16)] = entry
    return len(entries)


def _read(file):
    """The entries of a tuning file, by CPU and key; checked, so that a table is never filled by half."""
    with open(file) as f:
        try:
            content = json.load(f)
            cpus = content["cpus"]
            for entries in cpus.values():
                for key, entry in entries.items():
                    int(key, 16)
                    if not all(name in _core._knobs and -1 <= value <= 1 << 20 for name, value in entry["knobs"].items()):
                        raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"{os.fspath(file)} is no tuning file of this version of pyxla") from None
    return cpus


def _write(file, keys):
    """Adds what was found for these keys to a file, which is replaced as a whole."""
    cpus = _read(file) if os.path.exists(file) else {}
    cpus.setdefault(_cpu(), {}).update({f"{key:016x}": _found[key] for key in keys if key in _found})
    beside = f"{os.fspath(file)}.{os.getpid()}"
    with open(beside, "w") as f:
        json.dump({"pyxla": "tuning", "cpus": cpus}, f, indent=1)
    os.replace(beside, file)


# ---- measuring ----


def _same(a, b):
    """Whether two results have the same bits."""
    if isinstance(a, (np.ndarray, np.generic)):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if hasattr(a, "__dict__"):
        return _same(vars(a), vars(b))
    return a == b or repr(a) == repr(b)


class Bench:
    """Calls of one function with the same arguments, under different schedules."""

    def __init__(self, f, args, kwargs):
        self.f, self.args, self.kwargs = f, args, kwargs
        self.lowered = f.lower(*args, **kwargs)
        self.writes = self.lowered.compile()._writes
        self.reference = None
        self.refused = 0

    def arguments(self):
        """Arguments of a call; fresh ones where it changes them."""
        return copy.deepcopy((self.args, self.kwargs)) if self.writes else (self.args, self.kwargs)

    def call(self):
        """(seconds, result and arguments after the call)"""
        args, kwargs = self.arguments()
        start = time.perf_counter()
        result = self.f(*args, **kwargs)
        return time.perf_counter() - start, (result, args, kwargs) if self.writes else result

    def right(self):
        """Plans anew; whether the results have the bits of the first schedule's."""
        self.f._replan()
        _, result = self.call()
        if self.reference is None:
            self.reference = copy.deepcopy(result)
        ok = _same(self.reference, result)
        self.refused += not ok
        return ok

    def seconds(self, least=0.004):
        """The best time of a call; `least` seconds are spent at least."""
        best, spent, n = 1e9, 0.0, 0
        while n < 3 or spent < least and n < 200:
            t, _ = self.call()
            best, spent, n = min(best, t), spent + t, n + 1
        return best


def _set(choice):
    for key, knobs in choice.items():
        _core._tuning_set(key, knobs or None)


def _describe(m, n, k):
    return f"product {m} x {n} x {k}" if k else f"loop over {m} points"


class Search:
    """Coordinate descent over the knobs of each group, the most expensive group first."""

    def __init__(self, bench, seconds, progress):
        self.bench, self.deadline, self.progress = bench, time.perf_counter() + seconds, progress
        rows, share = {}, {}
        for key, m, n, k, ns in bench.lowered.compile()._tunable:
            rows[key] = (m, n, k)
            share[key] = share.get(key, 0) + ns
        self.groups = sorted((key for key in rows if key not in _found), key=lambda key: -share[key])
        self.what = {key: _describe(*rows[key]) for key in rows}
        self.form = {key: "product" if rows[key][2] else "loop" for key in rows}
        self.choice = {key: {} for key in self.groups}
        self.gain = {}
        self.tried = 0
        self.total = sum(len(step) for key in self.groups for step in CANDIDATES[self.form[key]])

    def over(self):
        return time.perf_counter() > self.deadline

    def better(self, key, knobs, now):
        """The time of a schedule, if it is faster than the one in use by more than noise; else None."""
        before = self.choice[key]
        _set({key: knobs})
        if self.bench.right() and self.bench.seconds() < LEAST_GAIN * now:
            old = new = 1e9
            for _ in range(3):                             # taking turns: the machine may have been disturbed
                _set({key: before})
                self.bench.f._replan()
                self.bench.call()
                old = min(old, self.bench.seconds())
                _set({key: knobs})
                self.bench.f._replan()
                self.bench.call()
                new = min(new, self.bench.seconds())
            if new < LEAST_GAIN * old:
                self.gain[key] = self.gain.get(key, 1.0) * old / new
                return new
        _set({key: before})
        return None

    def run_group(self, key):
        self.bench.right()
        now, plans = self.bench.seconds(), {self.bench.lowered.compile().plan}
        for step in CANDIDATES[self.form[key]]:
            for candidate in step:
                self.tried += 1
                self.progress(self)
                if self.over():
                    return
                knobs = {**self.choice[key], **candidate}
                _set({key: knobs})
                plan = self.bench.lowered.compile().plan
                if plan not in plans or "workers" in candidate:      # else it does not fit this group, or changes nothing
                    plans.add(plan)
                    then = self.better(key, knobs, now)
                    if then is not None:
                        self.choice[key], now = knobs, then
                _set({key: self.choice[key]})

    def compare(self):
        """(seconds with the first schedules, seconds with those found)"""
        before = after = 1e9
        for _ in range(5):
            for choice in ({key: {} for key in self.groups}, self.choice):
                _set(choice)
                self.bench.f._replan()
                self.bench.call()
                t = self.bench.seconds()
                if choice is self.choice:
                    after = min(after, t)
                else:
                    before = min(before, t)
        return before, after

    def run(self):
        self.bench.right()
        for key in self.groups:
            if not self.over():
                self.run_group(key)
        before, after = self.compare()
        if after > before:                                 # the gains of single groups were noise
            self.choice, after = {key: {} for key in self.groups}, before
        _set(self.choice)
        self.bench.f._replan()
        for key in self.groups:
            _found[key] = {"what": self.what[key], "knobs": self.choice[key], "gain": round(self.gain.get(key, 1.0), 3)}
            if not self.choice[key]:
                _found[key]["gain"] = 1.0
        choices = [_found[key] for key in self.groups if self.choice[key]]
        return Tuning(before, after, self.tried, self.bench.refused, choices)


def _bar(name):
    """A progress bar on stderr."""
    shown = [0.0]

    def show(search, end=""):
        now = time.perf_counter()
        if now - shown[0] < 0.1 and not end:
            return
        shown[0] = now
        done = 1.0 if end else min(1.0, search.tried / max(1, search.total))
        bar = "#" * int(30 * done)
        left = max(0.0, search.deadline - now)
        sys.stderr.write(f"\rtuning {name} [{bar:<30}] {search.tried} schedules, {0.0 if end else left:.0f} s left{end}")
        sys.stderr.flush()

    return show


def tune(f, /, *args, seconds=10.0, file=None, progress=None, **kwargs):
    """Measure schedules of a jitted function for these arguments, and keep the fastest.

    The cost model chooses blocks, orders, packing and the number of threads by rules. Tuning tries others (for products the
    register block, the blocks for the caches, packed operands or not, the order of the loops; for other loops the vectors taken at
    once, the block of a thread, asking for lines ahead; threads for both), and keeps what is faster for the rest of the process:
    for this function at once, for functions with the same operations at the same sizes when they are planned. The results are the
    same bits.

    Parameters
    ----------
    f : Jit
        A jitted function.
    *args, **kwargs
        Its arguments. The function is called many times; arguments that it writes to are copied before.
    seconds : float
        About how long to search.
    file : path-like, optional
        A JSON file to which what was found is added, by CPU, for `load_tuning`. ``PYXLA_TUNING`` is the default.
    progress : bool, optional
        Show a progress bar on stderr; by default if that is a terminal.

    Returns
    -------
    Tuning
        The times ``before`` and ``after``, the ``gain``, and the ``choices``; ``print`` shows them.

    Raises
    ------
    TypeError
        If `f` is not jitted.

    See Also
    --------
    load_tuning : takes over what is in a file.
    jit : its option `tune` tunes at the first call.

    Examples
    --------
    >>> import numpy as np
    >>> f = jit(lambda x, w: np.tanh(x @ w))
    >>> x, w = np.ones((96, 96), "float32"), np.ones((96, 96), "float32")
    >>> before = f(x, w)
    >>> found = tune(f, x, w, seconds=0.2)
    >>> found.tried > 0, found.refused, found.after <= found.before
    (True, 0, True)
    >>> np.array_equal(f(x, w), before)
    True
    """
    if not isinstance(f, _core.Jit):
        raise TypeError(f"tune: a jitted function, not a {type(f).__name__}")
    progress = sys.stderr.isatty() if progress is None else progress
    file = file or os.environ.get("PYXLA_TUNING")
    _core._tuning_watch(True)
    try:
        search = Search(Bench(f, args, kwargs), seconds, _bar(f.__name__) if progress else lambda search: None)
        keys = list(search.what)
        found = search.run()
    finally:
        _core._tuning_watch(False)
    if progress:
        _bar(f.__name__)(search, f", {found.gain:.2f} times as fast\n")
    if file:
        _write(file, keys)
    return found


def first_call(f, args, kwargs, seconds):
    """Tunes a function made with ``jit(tune=...)`` for the arguments of its first call (csrc/py/dispatch.c)."""
    tune(f, *args, seconds=seconds, **kwargs)


if os.path.exists(os.environ.get("PYXLA_TUNING", "")):
    load_tuning(os.environ["PYXLA_TUNING"])
