"""Graphs and plans as text, beside golden.txt."""
import difflib
import re

import golden
import pytest

import pyxla


def sections(text):
    parts = re.split(r"^==== (.*)\n", text, flags=re.M)
    return dict(zip(parts[1::2], (p.strip() for p in parts[2::2])))


@pytest.fixture(scope="module")
def now():
    if pyxla._core.system_info()["level"] not in ("avx2", "avx512"):
        pytest.skip("the text is that of a machine with AVX2")
    return sections(golden.fixed_text())


@pytest.mark.parametrize("name", golden.PROGRAMS)
def test_text(now, name):
    want = sections(golden.TEXT.read_text())[name]
    assert now[name] == want, "\n".join(difflib.unified_diff(want.splitlines(), now[name].splitlines(), "golden.txt", "now", lineterm=""))


def test_nothing_else_stands_there():
    assert list(sections(golden.TEXT.read_text())) == list(golden.PROGRAMS)
