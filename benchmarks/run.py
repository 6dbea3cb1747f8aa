"""Measures pyxla beside its peers: python -m benchmarks.run [--quick] [--case NAME] [--compare OLD.json] ...

One process per framework and group of cases, each pinned to the same core. Without a choice of cases everything is run and the
result written to benchmarks/results/; `--from FILE` reports on a file instead of running.
"""

import argparse
import fnmatch
import json
import os
import platform
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks import cases, report
from benchmarks.frameworks import FRAMEWORKS, ONE_THREAD

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"
STARTING = 120  # seconds for a framework to be imported
OWN = 60  # seconds for one case of pyxla or NumPy, its compilation included; peers have --limit


def python(*args):
    return [sys.executable, "-m", *map(str, args)]


def environment():
    return os.environ | ONE_THREAD | {"PYTHONPATH": str(ROOT)}


def said(command):
    """The JSON that a program prints."""
    return json.loads(subprocess.run(command, cwd=ROOT, env=environment(), check=True, capture_output=True, text=True).stdout)


class Worker:
    """A worker process and the lines that it says."""

    def __init__(self, framework, group, seconds, core, names, folder):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            python("benchmarks.worker", framework, group, seconds, core, *names),
            cwd=ROOT,
            text=True,
            env=environment() | {"TORCHINDUCTOR_CACHE_DIR": folder},
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def next(self, patience):
        """What it says next; None when it ended; queue.Empty when it says nothing for `patience` seconds."""
        return self.lines.get(timeout=patience)

    def end(self):
        """Ends the process; the last line of its error output."""
        self.process.kill()
        self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        return lines[-1] if lines else f"exit status {self.process.returncode}"


def run_group(framework, group, options, core, names, folder):
    """{case: record} of one framework, and its version or None: starts a process again after a case that ended one."""
    records, left, version = {}, list(names), None
    limit = OWN if framework in ("numpy", "pyxla") else options.limit
    while left:
        worker, current, late = Worker(framework, group, options.seconds, core, left, folder), None, False
        try:
            while line := worker.next(limit if current else STARTING):
                if line.get("ready") is False:
                    return {}, None
                version = line.get("version", version)
                current = line.get("start", current)
                if "case" in line:
                    records[line["case"]] = line["record"]
                    left.remove(line["case"])
                    current = None
        except queue.Empty:
            late = True
        last = worker.end()
        if current is None:
            if left and worker.process.returncode != 0:
                print(f"{framework}, {group}: {last}", file=sys.stderr)
            break
        records[current] = {"error": f"no result after {limit:g} s", "limit": limit} if late else {"error": f"ended: {last}"}
        left.remove(current)
    return records, version


def chosen(options):
    """{group: cases} to run."""
    groups = options.group or [g for g in cases.GROUPS if not options.quick or options.case]
    result = {}
    for group in groups or cases.GROUPS:
        table = cases.load(group).CASES
        if options.case:
            table = [c for c in table if any(c.name == p or fnmatch.fnmatch(c.name, p) for p in options.case)]
        elif options.quick:
            table = [c for c in table if c.quick]
        if table:
            result[group] = table
    return result


def machine(core):
    """The computer, and what it can do at most."""
    described = subprocess.run(["lscpu", "-J"], capture_output=True, text=True).stdout
    fields = {f["field"].rstrip(":"): f["data"] for f in json.loads(described)["lscpu"]} if described else {}
    limits = said(python("benchmarks.roofline", core))
    return {
        "cpu": fields.get("Model name", platform.processor()),
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "flags": fields.get("Flags", ""),
        **limits,
    }


def commit():
    described = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return described.stdout.strip()


def run(options):
    """Runs what was chosen; everything that the harness knows, as it is written to the file."""
    core = options.core if options.core is not None else max(os.sched_getaffinity(0))
    wanted = options.framework or list(FRAMEWORKS)
    data = {"date": time.strftime("%Y-%m-%d"), "commit": commit(), "machine": machine(core), "versions": {}, "cases": {}}
    with tempfile.TemporaryDirectory() as folder:
        for group, table in chosen(options).items():
            data["cases"] |= {c.name: {"group": group, "frameworks": {}} for c in table}
            for framework in wanted:
                names = [c.name for c in table if not c.only or framework in c.only]
                start = time.monotonic()
                records, version = run_group(framework, group, options, core, names, folder) if names else ({}, None)
                if version:
                    data["versions"][framework] = version
                keep(data["cases"], framework, records)
                print(f"{group}, {framework}: {len(records)} cases, {time.monotonic() - start:.0f} s", file=sys.stderr)
    if not options.case and not options.quick and not options.group:
        for part in ("calls", "first_call", "threads", "memory"):
            data[part] = said(python(f"benchmarks.{part}", "--json"))
    return data


def keep(into, framework, records):
    """Files the records of a framework: what is a fact of the case goes to the case."""
    for name, record in records.items():
        if record is None:
            continue
        for fact in ("read", "written", "ops", "dtype"):
            if fact in record:
                into[name][fact] = record.pop(fact)
        into[name]["frameworks"][framework] = record


def parse(argv):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few cases, short measurements")
    parser.add_argument("--case", action="append", metavar="NAME", help="a case or a pattern of names; may be given again")
    parser.add_argument("--group", action="append", choices=cases.GROUPS)
    parser.add_argument("--framework", action="append", choices=FRAMEWORKS)
    parser.add_argument("--seconds", type=float, help="for each steady measurement (0.15, quick 0.05)")
    parser.add_argument("--limit", type=float, default=20, help="seconds that a peer may take for a case, its compilation included (20)")
    parser.add_argument("--core", type=int, help="the core to run on (default: the last that this process may use)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the result goes (default: benchmarks/results/, for a whole run)")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="report on this result, run nothing")
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="what changed since an earlier result")
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    parser.add_argument("--readme", type=Path, metavar="README.md", help="renew this document's table and plot")
    parser.add_argument("--asm", action="store_true", help="the plans and hot loops of the cases chosen")
    parser.add_argument("--list", action="store_true", help="the names of the cases")
    options = parser.parse_args(argv)
    options.seconds = options.seconds or (0.05 if options.quick else 0.15)
    return options


def main(argv=None):
    options = parse(argv)
    if options.list:
        return print("\n".join(c.name for table in chosen(options).values() for c in table))
    data = json.loads(options.source.read_text()) if options.source else run(options)
    whole = not (options.source or options.quick or options.case or options.group or options.framework)
    out = options.out or (RESULTS / report.file_name(data) if whole else None)
    if out:
        out.write_text(json.dumps(data, indent=1) + "\n")
    print(report.table(data))
    if options.compare:
        print("\n" + report.comparison(json.loads(options.compare.read_text()), data))
    kept = out or options.source
    picture = options.plot or (kept.with_suffix(".png") if kept and (whole or options.readme) else None)
    if picture:
        report.plot(data, picture)
    if options.readme:
        names = [c.name for group in cases.GROUPS for c in cases.load(group).CASES if c.quick]
        part = report.short(data, names, os.path.relpath(picture, options.readme.parent))
        options.readme.write_text(report.put(options.readme.read_text(), part))
    if options.asm:
        from benchmarks import asm

        for group, table in chosen(options).items():
            for c in table:
                print("\n" + asm.text(c, group, data["machine"], data["cases"][c.name]))


if __name__ == "__main__":
    main()
