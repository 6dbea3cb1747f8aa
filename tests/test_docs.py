"""The examples in the documents are run; every PYXLA_ variable is documented; links lead to files."""
import doctest
import os
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
NAMES = [str(p.relative_to(ROOT)) for p in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_examples(page):
    if page.name == "how_it_works.md" and os.environ.get("PYXLA_BACKEND") == "interp":
        pytest.skip("shows machine code")
    result = doctest.testfile(str(page), module_relative=False, globs={"__name__": "__main__"}, encoding="utf-8")
    assert result.failed == 0


def test_user_guide_has_examples():
    parser = doctest.DocTestParser()
    assert len(parser.get_examples((ROOT / "docs/user_guide.md").read_text())) > 30


def test_readme_example_is_one_kernel():
    code = re.search(r"(?:^    .*\n|^\n)*^    import numpy as np\n(?:^    .*\n|^\n)*", (ROOT / "README.md").read_text(), re.M)[0]
    space = {"__name__": "__main__"}
    exec(textwrap.dedent(code), space)
    f = space["standardize"]
    assert f.cache_info()[:3] == (1, 1, 1)
    assert f.lower(space["np"].zeros((1000, 256))).compile().launches == 1


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target
    for path in re.findall(r"`((?:csrc|docs|examples|tests|pyxla|benchmarks)/[\w./]+\.\w+)`", page.read_text()):
        assert (ROOT / path).exists(), path


def test_accuracy_table_is_that_of_the_rows():
    row = re.compile(r"^ELEMENTWISE\((\w+),[^\n]*?MATH, +([\d.]+), ([\d.]+)", re.M)
    rows = {m[1]: (m[2], m[3]) for m in row.finditer((ROOT / "csrc/ir/ops.def").read_text())}
    table = re.findall(r"^\| `([a-z0-9]+)` \| ([\d.]+) \| [\d.]+ \| [\d.]+ \| ([\d.]+) \| [\d.]+ \| [\d.]+ \|$", (ROOT / "docs/numerics.md").read_text(), re.M)
    assert rows == {name: (f32, f64) for functions, f32, f64 in table for name in functions.split()}


def test_every_variable_is_documented():
    sources = [p for p in [ROOT / "setup.py", ROOT / "Makefile", *ROOT.glob("csrc/**/*.[ch]"), *ROOT.glob("pyxla/**/*.py"), *ROOT.glob("tests/*.py"),
                           *ROOT.glob("benchmarks/**/*.py")] if p != Path(__file__)]
    read = re.compile(r"(?:getenv\(|environ\.get\(|environ\[)\"(PYXLA_\w+)")
    used = {name for p in sources for name in read.findall(p.read_text())}
    documented = set(re.findall(r"^\| `(PYXLA_\w+)`", (ROOT / "docs/environment.md").read_text(), re.M))
    assert used == documented


def test_design_lists_every_file():
    text = (ROOT / "docs/design.md").read_text()
    section = text[text.index("## 3. Layers"):text.index("## 4. ")]
    listed = set(re.findall(r"\w+", section))
    missing = [f"{p.parent.name}/{p.name}" for p in sorted(ROOT.glob("csrc/*/*.c")) if p.stem not in listed and not p.stem.startswith("math")]
    assert not missing
