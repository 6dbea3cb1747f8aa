"""Tuning: other schedules give the same bits, the winner is kept, files carry it from process to process."""
import itertools
import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest

import pyxla
from pyxla import _core, _tune


@pytest.fixture(autouse=True)
def untouched():
    """The table and what was found, as before."""
    before, found = _core._tuning(), dict(_tune._found)
    yield
    for key in _core._tuning():
        _core._tuning_set(key, before.get(key))
    _tune._found.clear()
    _tune._found.update(found)


def keys_of(f, *args):
    _core._tuning_watch(True)
    try:
        return {row[0]: row for row in f.lower(*args).compile()._tunable}
    finally:
        _core._tuning_watch(False)


def normal(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


PROGRAMS = {
    "product": (lambda x, w: x @ w, [normal(70, 90), normal(90, 110)]),
    "large": (lambda x, w: x @ w, [normal(300, 400), normal(400, 500)]),
    "transposed": (lambda x, w: x @ w.T, [normal(130, 300), normal(500, 300)]),
    "transposed left": (lambda x, w: x.T @ w, [normal(300, 130), normal(300, 500)]),
    "strided": (lambda x, w: x[:, ::2] @ w[::2, ::3], [normal(60, 300), normal(300, 700)]),
    "thin": (lambda x, w: x @ w, [normal(3, 800), normal(800, 900)]),
    "rows by rows": (lambda x, w: x @ w.T, [normal(3, 700, dtype="float64"), normal(2, 700, dtype="float64")]),
    "vector": (lambda x, w: x @ w, [normal(700), normal(700, 600)]),
    "epilogue": (lambda x, w: np.maximum(x @ w + x[:, :1], 0) * 2, [normal(100, 256), normal(256, 300)]),
    "softmax": (lambda x, w: np.exp((y := x @ w) - y.max(1, keepdims=True)) / np.exp(y - y.max(1, keepdims=True)).sum(1, keepdims=True),
                [normal(64, 128), normal(128, 200)]),
    "attention": (lambda q, k: (p := np.exp((s := q @ k.swapaxes(1, 2)) - s.max(-1, keepdims=True))) / p.sum(-1, keepdims=True) @ k,
                  [normal(3, 100, 64), normal(3, 100, 64)]),
    "float64": (lambda x, w: x @ w - w[0], [normal(200, 300, dtype="float64"), normal(300, 250, dtype="float64")]),
    "integers": (lambda x, w: x @ w, [normal(50, 80).astype("int32"), normal(80, 70).astype("int32")]),
    "bytes": (lambda x, w: np.matmul(x, w, dtype="int32"), [(9 * normal(70, 130)).astype("int8"), (9 * normal(130, 90)).astype("int8")]),
    "complex": (lambda x, w: x @ w, [normal(40, 50).astype("complex64") * 1j, normal(50, 60).astype("complex64")]),
    "window": (lambda x: pyxla.nn.conv(x, np.ones((8, 3, 3, 3), "float32")), [normal(2, 3, 20, 20)]),
    "prologue": (lambda x, w: np.abs(x) @ np.exp(w.T), [normal(100, 300), normal(400, 300)]),
    "shared": (lambda x, w: (x @ w.T) @ w + x, [normal(200, 300), normal(300, 300)]),
    "causal": (lambda q, k: (p := np.exp((s := np.where(np.arange(100) <= np.arange(100)[:, None], q @ k.swapaxes(1, 2), np.float32(-np.inf)))
               - s.max(-1, keepdims=True))) / p.sum(-1, keepdims=True) @ k, [normal(3, 100, 64), normal(3, 100, 64)]),
    "loop": (lambda x, y: np.exp(x) * y + 1, [normal(300, 400), normal(400)]),
    "long loop": (lambda x: np.sqrt(np.abs(x)), [normal(100_000, dtype="float64")]),
    "columns": (lambda x: (x * x).sum(0) + x.max(0), [normal(500, 300)]),
    "sum": (lambda x: x.sum() + x.mean(1), [normal(200, 300)]),
    "scan": (lambda x: np.cumsum(x, axis=0), [normal(50, 300)]),
    "turned": (lambda x, y: x.T + y, [normal(120, 200), normal(200, 120)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_knobs_change_no_bit(name):
    f, args = PROGRAMS[name]
    g = pyxla.jit(f)
    want, keys, r = g(*args), keys_of(g, *args), random.Random(name)
    assert keys
    steps = list(itertools.chain(*_tune.CANDIDATES["product"], *_tune.CANDIDATES["loop"]))
    for candidate in [*steps, *({**r.choice(steps), **r.choice(steps), **r.choice(steps), "tile": r.randint(1, 9)} for _ in range(40))]:
        for key in keys:
            _core._tuning_set(key, candidate)
        g._replan()
        got = g(*args)
        assert got.tobytes() == want.tobytes(), candidate


def test_knobs_reach_the_schedule():
    x, w = normal(600, 400), normal(400, 500)            # of few rows B is read in place
    f = pyxla.jit(lambda x, w: x @ w)
    (key, row), = keys_of(f, x, w).items()
    assert row[1:4] == (600, 500, 400)
    plain = f.lower(x, w).compile()
    def plan(knobs):
        _core._tuning_set(key, knobs)
        return f.lower(x, w).compile().plan

    for knobs in ({"pack_b": 1}, {"rows": 32}, {"columns": 96}, {"depth": 128}, {"tile": 4}):
        assert plan(knobs) != plain.plan, knobs
    assert plan({"order": 1}) != plan({"order": 2})                 # one of them is what is chosen without
    _core._tuning_set(key, {})
    assert f.lower(x, w).compile().plan == plain.plan


def test_tune():
    x, w = normal(100, 200), normal(200, 150)
    f = pyxla.jit(lambda x, *, w: {"y": np.tanh(x @ w), "x": (x.sum(1), 3)})
    want = f(x, w=w)
    found = pyxla.tune(f, x, w=w, seconds=0.3)
    assert found.tried > 0 and found.refused == 0 and 0 < found.after <= found.before and found.gain >= 1
    assert "schedules tried" in str(found) and all({"what", "knobs", "gain"} <= c.keys() for c in found.choices)
    got = f(x, w=w)
    assert got["y"].tobytes() == want["y"].tobytes() and got["x"][0].tobytes() == want["x"][0].tobytes()
    assert pyxla.tune(f, x, w=w, seconds=0.3).tried == 0          # it is known
    with pytest.raises(TypeError, match="jitted"):
        pyxla.tune(len, x)


def test_arguments_that_are_written_to():
    def f(x, w):
        x += x @ w
        return x.sum()

    g, w = pyxla.jit(f), normal(64, 64)
    x = normal(64, 64)
    y = x.copy()
    pyxla.tune(g, x, w, seconds=0.2)
    assert np.array_equal(x, y)                                # tuning has worked on copies
    g(x, w)
    assert not np.array_equal(x, y)


def test_other_bits_are_refused(monkeypatch):
    monkeypatch.setattr(_tune, "_same", lambda a, b: False)
    f, x = pyxla.jit(lambda x: np.exp(x) + 1), normal(20_000)
    found = pyxla.tune(f, x, seconds=0.5)
    assert found.refused > 0 and not found.choices


def test_file(tmp_path):
    file = tmp_path / "tuning.json"
    f, x, w = pyxla.jit(lambda x, w: x @ w), normal(64, 80), normal(80, 96)
    pyxla.tune(f, x, w, seconds=0.2, file=file)
    (key,) = keys_of(f, x, w)
    content = json.loads(file.read_text())
    entries = content["cpus"][_tune._cpu()]
    assert entries[f"{key:016x}"]["what"] == "product 64 x 96 x 80"
    entries[f"{key:016x}"]["knobs"] = {"rows": 16}
    content["cpus"]["another one"] = {"1": {"what": "", "knobs": {"tile": 2}, "gain": 2}}
    file.write_text(json.dumps(content))
    assert pyxla.load_tuning(file) == len(entries)
    assert _core._tuning()[key] == {"rows": 16} and 1 not in _core._tuning()
    pyxla.tune(f, x, w, seconds=0.2, file=file)               # keeps the other CPU's
    assert "another one" in json.loads(file.read_text())["cpus"]


@pytest.mark.parametrize("text", ["", "[]", '{"cpus": {"a": {"1": {"knobs": {"no": 1}}}}}', '{"cpus": {"a": {"x": {"knobs": {}}}}}',
                                  '{"cpus": {"a": {"1": {"knobs": {"rows": 99999999}}}}}'])
def test_no_tuning_file(tmp_path, text):
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(ValueError, match="no tuning file"):
        pyxla.load_tuning(file)


def test_environment(tmp_path):
    code = """
import numpy as np, pyxla
f = pyxla.jit(lambda x: x @ x, tune=0.2)
f(np.ones((48, 48)))
print(len(pyxla._core._tuning()), len(pyxla._tune._found))
"""
    def run(tune):
        env = {**os.environ, "PYXLA_TUNING": str(tmp_path / "t.json")}
        r = subprocess.run([sys.executable, "-c", code.replace("tune=0.2", tune)], env=env, capture_output=True, text=True, timeout=120)
        assert r.returncode == 0, r.stderr
        return r.stdout.split()

    assert run("tune=0.2")[1] == "1"
    assert run("tune=0")[1] == "1"                             # read from the file


def test_option():
    x = normal(50, 50)
    f = pyxla.jit(lambda x, n=1: x @ x * n, tune=0.1)
    np.testing.assert_array_equal(f(x, n=2), pyxla.jit(lambda x: x @ x * 2)(x))
    n = len(_tune._found)
    assert n >= 1
    f(x, n=3)                                                  # no new plan
    assert len(_tune._found) == n
    with pytest.raises(ValueError, match="tune"):
        pyxla.jit(lambda x: x, tune=-1)


def test_bad_knobs():
    for knobs, error in (({"none": 1}, ValueError), ({"rows": 1 << 30}, ValueError), ({"rows": "a"}, TypeError), ([1], TypeError)):
        with pytest.raises(error):
            _core._tuning_set(1, knobs)
    assert 1 not in _core._tuning()


def test_many_entries():
    for key in range(1000, 0, -1):
        _core._tuning_set(key, {"rows": key})
    assert all(_core._tuning()[key] == {"rows": key} for key in range(1, 1001))
    for key in range(1, 1001):
        _core._tuning_set(key, None)
    assert not set(range(1, 1001)) & set(_core._tuning())
