"""What a result says: tables, a comparison, a plot."""

import math
import re

from benchmarks import limits, roofline

PEERS = ("numpy", "jax", "numba", "numexpr", "torch")
LABELS = {"numpy": "NumPy", "pyxla": "pyxla", "jax": "JAX", "numba": "Numba", "numexpr": "numexpr", "torch": "torch"}
APART = ("math", "products", "programs")  # groups with means of their own
MARKS = ('<!-- benchmarks: make bench ARGS="--from FILE --readme README.md" -->', "<!-- end of benchmarks -->")
COLORS = {"jax": "#3b6fb6", "numba": "#2a9d5c", "numexpr": "#8a6fc0", "torch": "#d1495b"}


def file_name(data):
    """Where the result of a machine is kept."""
    cpu = re.sub(r"\W+", "-", data["machine"]["cpu"].lower()).strip("-")
    flags = data["machine"]["flags"].split()
    level = next((flag for flag in ("avx512f", "avx2", "asimd") if flag in flags), "baseline")
    return f"{cpu}-{level.removesuffix('f')}.json"


def duration(seconds):
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if seconds >= 0.9995 * scale or unit == "ns":
            return f"{seconds / scale:.3g} {unit}"


def aligned(rows, left=1):
    """A Markdown table: the first row is the head, the first `left` columns are texts, the others numbers."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    rule = ["-" * w if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join(
        "| " + " | ".join(c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))) + " |"
        for row in (rows[0], rule, *rows[1:])
    )


def geomean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def time_of(entry, framework):
    return entry["frameworks"].get(framework, {}).get("steady")


def best_peer(entry):
    """The fastest peer and its time."""
    times = [(t, p) for p in PEERS if (t := time_of(entry, p))]
    return min(times)[::-1] if times else (None, None)


def ratio(entry):
    """How many times faster pyxla is than the fastest peer; None where either is missing."""
    ours, (_, theirs) = time_of(entry, "pyxla"), best_peer(entry)
    return theirs / ours if ours and theirs else None


def share(data, entry):
    """pyxla's share of the machine's limit, and what bounds the case; tiny cases are bound by the call."""
    ours = time_of(entry, "pyxla")
    if not ours or entry["read"] + entry["written"] < 4096:
        return None, "call"
    least, bound = roofline.limit(data["machine"], entry)
    return least / ours, bound


def of_limit(data, entry):
    part, bound = share(data, entry)
    return f"{100 * part:.0f} % {bound[:3]}" if part else "-"


def given_up(entry):
    """The peers that gave no result in the time that they may take."""
    late = [f"{LABELS[f]} over {r['limit']:g} s" for f, r in entry["frameworks"].items() if "limit" in r]
    return f" ({', '.join(late)})" if late else ""


def row(data, name, entry):
    ours = entry["frameworks"].get("pyxla", {})
    peer, theirs = best_peer(entry)
    factor = ratio(entry)
    cells = [name, duration(time_of(entry, "numpy")), duration(ours.get("steady"))]
    if "error" in ours:
        cells[2] = "fails"
    elif ours.get("share", 1) < 0.9:
        cells[2] = "~" + cells[2]
    fastest = (f"{LABELS[peer]} {duration(theirs)}" if peer else "-") + given_up(entry)
    cells += [fastest, f"{factor:.2f}" if factor else "-", of_limit(data, entry)]
    first = entry["frameworks"].get(peer, {}).get("first") if peer not in (None, "numpy") else None
    memory = [f"{r['peak'] / 2**20:.1f}" if "peak" in (r := entry["frameworks"].get(f, {})) else "-" for f in ("pyxla", "numpy")]
    return [*cells, duration(ours.get("first")), duration(first), " / ".join(memory)]


def table(data):
    """The cases with their ratios, then the summary, the failures and the calls."""
    head = ["case", "NumPy", "pyxla", "fastest peer", "ratio", "of limit", "first call", "peer's", "MiB / NumPy's"]
    parts = []
    for group in dict.fromkeys(e["group"] for e in data["cases"].values()):
        rows = [row(data, n, e) for n, e in data["cases"].items() if e["group"] == group]
        parts.append(f"### {group}\n\n" + aligned([head, *rows]))
    parts.append(summary(data))
    for part, text in (("calls", calls), ("first_call", first_calls), ("threads", threads), ("memory", growth)):
        if part in data:
            parts.append(f"### {part}\n\n" + text(data[part]))
    if far := beyond(data):
        parts.append("### further than 1.25 from the roofline\n\n" + far)
    if failures := errors(data):
        parts.append("### not measured\n\n" + failures)
    return "\n\n".join(parts)


def beyond(data):
    """The cases that take more than 1.25 times what the machine's limit says, and what holds them."""
    rows = [["case", "of limit", "what holds it"]]
    for name, entry in data["cases"].items():
        part, _ = share(data, entry)
        if part and part < 0.8 and entry["group"] != "programs":
            rows.append([name, of_limit(data, entry), limits.named(name) or "not looked at"])
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], ["---"] * 3, *rows[1:])) if rows[1:] else ""


def short(data, names, picture):
    """The README's part: a few cases, the means and the plot, between the two marks."""
    rows = [row(data, name, data["cases"][name])[:5] for name in names if name in data["cases"]]
    head = ["case", "NumPy", "pyxla", "fastest peer", "ratio"]
    return f"{MARKS[0]}\n{aligned([head, *rows])}\n\n![times as fast as NumPy]({picture})\n\n{summary(data)}\n{MARKS[1]}"


def put(text, part):
    """A document with the part between its two marks replaced."""
    before, rest = text.split(MARKS[0])
    return before + part + rest.split(MARKS[1])[1]


def summary(data):
    """Geometric means of the ratio to the fastest peer, and the machine."""
    lines = ["Ratio to the fastest peer, geometric means:", ""]
    kinds = {}
    for entry in data["cases"].values():
        if factor := ratio(entry):
            kind = entry["group"] if entry["group"] in APART else share(data, entry)[1]
            kinds.setdefault(kind, []).append(factor)
    names = {
        "memory": "bound by memory bandwidth",
        "arithmetic": "bound by arithmetic",
        "call": "bound by the call",
        "math": "elementary functions alone (against NumPy)",
        "products": "matrix products and what is built on them",
        "programs": "whole programs",
    }
    for kind, factors in kinds.items():
        slower = sum(f < 1 for f in factors)
        lines.append(f"- {names[kind]}: {geomean(factors):.2f} ({len(factors)} cases, {slower} slower than the fastest peer)")
    fma = {k: f"{v / 1e9:.0f}" for k, v in data["machine"]["fma"].items()}
    rates = [
        f"{roofline.rate_at(data['machine'], 'copy', n) / 1e9:.0f} at {text}"
        for n, text in ((16 << 10, "16 KiB"), (512 << 10, "512 KiB"), (8 << 20, "8 MiB"), (128 << 20, "128 MiB"))
    ]
    versions = ", ".join(f"{LABELS[f]} {v}" for f, v in data["versions"].items())
    peaks = f"{fma['float32']} (float32) and {fma['float64']} (float64) GFMA/s; copy, GB/s: {', '.join(rates)}"
    noisy = sum(r.get("share", 1) < 0.9 for e in data["cases"].values() for r in e["frameworks"].values())
    if noisy:
        lines.append(f"- {noisy} measurements while other work took more than a tenth of the core (~)")
    lines += ["", f"{data['machine']['cpu']}, one core; {peaks}; {versions}; {data['date']}, {data['commit']}."]
    return "\n".join(lines)


def errors(data):
    """Why there is no time: for pyxla in full, for each peer one line."""
    failed = {}
    for name, entry in data["cases"].items():
        for framework, record in entry["frameworks"].items():
            if "error" in record:
                failed.setdefault(framework, {})[name] = record["error"]
    lines = [f"- {name}: {error}" for name, error in failed.pop("pyxla", {}).items()]
    return "\n".join(lines + [f"- {LABELS[f]}: " + "; ".join(f"{n} ({e[:60]})" for n, e in e.items()) for f, e in failed.items()])


def first_calls(measured):
    from benchmarks import first_call

    return first_call.table(measured)


def threads(measured):
    rows = [["work", "1 thread", "2 threads", "ratio"]]
    return aligned(rows + [[name, duration(one), duration(two), f"{one / two:.2f}"] for name, (one, two) in measured.items()])


def growth(measured):
    return aligned([["many calls of", "memory gained"], *([name, f"{size / 1024:.0f} KiB"] for name, size in measured.items())])


def calls(measured):
    rows = [["call", "time", "to NumPy's x + y"]]
    plain = measured["NumPy x + y"]
    rows += [[name, duration(seconds), f"{seconds / plain:.2f}"] for name, seconds in measured.items()]
    return aligned(rows)


def comparison(old, new):
    """pyxla's times in two results; NumPy's column shows how far the machine itself differs."""
    rows = [["case", "old", "new", "old/new", "NumPy old/new", "first old", "first new"]]
    factors = []
    for name, entry in new["cases"].items():
        before = old["cases"].get(name)
        if not before or not time_of(before, "pyxla") or not time_of(entry, "pyxla"):
            continue
        factors.append(time_of(before, "pyxla") / time_of(entry, "pyxla"))
        numpy = [time_of(e, "numpy") for e in (before, entry)]
        first = [duration(e["frameworks"]["pyxla"]["first"]) for e in (before, entry)]
        mark = "" if 0.95 < factors[-1] < 1.05 else "  faster" if factors[-1] > 1 else "  slower"
        rows.append(
            [
                name + mark,
                duration(time_of(before, "pyxla")),
                duration(time_of(entry, "pyxla")),
                f"{factors[-1]:.2f}",
                f"{numpy[0] / numpy[1]:.2f}" if all(numpy) else "-",
                *first,
            ]
        )
    return f"### since {old['commit']}\n\n{aligned(rows)}\n\ngeometric mean {geomean(factors):.3f} over {len(factors)} cases"


def plot(data, path):
    """Bars of pyxla's speed in units of NumPy's, on a log scale, with a mark for each peer."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    shown = [(n, e) for n, e in data["cases"].items() if e["group"] not in ("math", "programs")]
    shown = [(n, e) for n, e in shown if time_of(e, "pyxla") and time_of(e, "numpy")]
    if not shown:
        return
    figure, axes = plt.subplots(figsize=(8.6, 0.9 + 0.165 * len(shown)), dpi=110)
    places = range(len(shown), 0, -1)
    ours = [time_of(e, "numpy") / time_of(e, "pyxla") for _, e in shown]
    axes.barh(places, [v - 1 for v in ours], left=1, height=0.72, color="#f2a93b", label="pyxla")
    for peer, color in COLORS.items():
        points = [(time_of(e, "numpy") / time_of(e, peer), y) for (_, e), y in zip(shown, places) if time_of(e, peer)]
        if points:
            axes.plot(*zip(*points), "D", color=color, markersize=3.6, markeredgecolor="white", label=LABELS[peer])
    axes.set_xscale("log")
    axes.set_xlim(left=0.1)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_ylim(0.3, len(shown) + 0.7)
    axes.set_yticks(places, [n for n, _ in shown], fontsize=6.5)
    axes.set_xticks([0.1, 0.3, 1, 3, 10, 30, 100], ["0.1", "0.3", "1", "3", "10", "30", "100"])
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(axis="x", linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("times as fast as NumPy (one core)", fontsize=8)
    axes.legend(fontsize=7, loc="lower right")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
