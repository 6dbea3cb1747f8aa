"""The plan of a case and the hot loops of its kernels."""

import re

from benchmarks import cases, report

LABEL = re.compile(r"^(\.?\w+):")
JUMP = re.compile(r"^\s+j\w+\s+(\.L\w+)")


def kernels(assembly):
    """The instructions and labels of each function, in order."""
    found, current = [], None
    for line in assembly.splitlines():
        if line.startswith("kernel:"):
            current = []
            found.append(current)
        elif line.startswith(".Lfunc_end"):
            current = None
        elif current is not None and not line.strip().startswith((".p2align", ".cfi", "#")):
            current.append(line)
    return found


def innermost(lines):
    """The loops of one basic block that work on vectors, as lists of lines: from a label to the jump back to it."""
    at, found = None, []
    for i, line in enumerate(lines):
        if m := LABEL.match(line):
            at = (m[1], i)
        elif m := JUMP.match(line):
            if at and m[1] == at[0]:
                found.append(lines[at[1] : i + 1])
            at = None
    return [loop for loop in found if any(re.search(r"\(.*%[xyz]mm", line) for line in loop)]


def shortened(plan, most=12):
    """A plan without the launches after the first dozen: unrolled loops have hundreds."""
    lines = plan.splitlines()
    launches = [line for line in lines if line.startswith("launch ")]
    dropped = set(launches[most:])
    return "\n".join([line for line in lines if line not in dropped] + [f"({len(dropped)} more launches)"] * bool(dropped))


def counts(loop):
    """A line that says what a loop is made of."""
    code = [line.strip() for line in loop if not LABEL.match(line)]
    vector = [c for c in code if re.search(r"%[xyz]mm", c)]
    moves = [c for c in vector if re.match(r"vmov[au]p|vmovdq", c)]
    stores = [c for c in moves if c.endswith(")") or re.search(r"\)\s*\{%k\d\}$", c)]
    spills = [c for c in vector if "%rsp" in c]
    loads = [c for c in vector if "(%" in c and c not in stores]
    traffic = f"{len(loads)} read memory, {len(stores)} write, {len(spills)} on the stack"
    return f"{len(code)} instructions, {len(vector)} on vectors ({traffic})"


def text(case, group, machine, entry):
    """Everything to judge a case by."""
    import pyxla

    compiled = pyxla.jit(getattr(cases.load(group), case.fn)).lower(*cases.arguments(case)).compile()
    parts = [f"## {case.name}: {report.of_limit({'machine': machine}, entry)} of the limit", shortened(compiled.plan)]
    for k, lines in enumerate(kernels(compiled.assembly)):
        for loop in innermost(lines):
            parts.append(f"kernel {k}, {loop[0].rstrip(':')}: {counts(loop)}\n" + "\n".join(loop))
    return "\n".join(parts)
