"""The results as a table on the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.row import Row

_HEADER = ("Row", "What", "Limit", "Appliance", "Result", "Bar", "")
_PEERS_HEADER = ("Server", "1 client", "16 clients", "64 clients", "32 clients, 5 to 120 words", "Memory", "Installed")
_PEERS = (
    ("SIE 0.10.1", "43", "135", "148", "23", "1.3 GiB", "8.0 GiB"),
    ("infinity 0.0.78 (torch)", "50", "98", "203", "41", "", ""),
    ("ONNX Runtime in process", "", "", "426", "73", "", ""),
)
PEERS_INTRO = (
    "For comparison: requests a second of other servers with the same model, measured earlier on a machine with\n"
    "2 cores; texts of 4 to 12 words where no other length is given. Another run: no ratio can be read off these."
)

Table = Sequence[Sequence[str]]


def terminal(rows: list[Row], with_peers: bool = True) -> str:
    """Return the tables in fixed-width letters."""
    parts = [
        _fixed([_HEADER, *map(_cells, rows)]),
        _fixed([_PROCESS_HEADER, *_process_cells(rows)]),
        *((PEERS_INTRO, _fixed([_PEERS_HEADER, *_PEERS])) if with_peers else ()),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    if not row.pairs:
        return (row.name, row.what, "", "", "", _bar(row), row.verdict)
    limit = f"{_number(row.limit)} {row.unit}" if row.limit is not None else ""
    result = f"{row.value:.2f}" if not row.bar.unit else f"{_number(row.value)} {row.bar.unit}"
    return (row.name, row.what, limit, f"{_number(row.appliance)} {row.unit}", result, _bar(row), row.verdict)


def _bar(row: Row) -> str:
    if row.bar.is_none:
        return "none"
    return f"{'at least' if row.bar.at_least else 'at most'} {row.bar.value:g} {row.bar.unit}".rstrip()


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


# -- by process -------------------------------------------------------------------------------

_PROCESS_HEADER = ("Row", "", "p50", "p95", "p99", "inputs/batch", "padding", "CPU ms a request, by process")


def _process_cells(rows: list[Row]) -> list[tuple[str, ...]]:
    found = []
    for row in rows:
        for side in ("limit", "appliance"):
            if side in row.details:
                found.append((row.name, side, *_seen(row.details[side])))
    return found


def _seen(side: dict[str, Any]) -> tuple[str, ...]:
    times = [f"{side[key]:.2f} ms" if key in side else "" for key in ("p50_ms", "p95_ms", "p99_ms")]
    batch = f"{side['inputs_per_batch']:.1f}" if "inputs_per_batch" in side else ""
    padding = f"{side['padding_share']:.1%}" if "padding_share" in side else ""
    used = side["cpu_ms_per_request"]
    parts = ", ".join(f"{role} {value:.3f}" for role, value in sorted(used.items(), key=lambda item: -item[1]))
    return (*times, batch, padding, f"{sum(used.values()):.3f} = {parts}" if len(used) > 1 else parts)


# -- forms ------------------------------------------------------------------------------------


def _fixed(table: Table) -> str:
    if len(table) < 2:
        return ""
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def markdown(table: Table) -> str:
    if len(table) < 2:
        return ""
    lines = ["| " + " | ".join(line) + " |" for line in table]
    return "\n".join([lines[0], "|" + "---|" * len(table[0]), *lines[1:]])


def write(out: Path, rows: list[Row], facts: dict[str, str]) -> None:
    """Write results.json and results.md."""
    out.mkdir(parents=True, exist_ok=True)
    found = {"facts": facts, "rows": [row.as_json() for row in rows]}
    (out / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (out / "results.md").write_text(_document(rows, facts), encoding="utf-8")


def write_table(path: Path, title: str, rows: list[Row], facts: dict[str, str]) -> None:
    """Write one table, as Markdown and beside it as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [f"# {title}", markdown([_HEADER, *map(_cells, rows)]), markdown([("", ""), *facts.items()])]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    found = {"facts": facts, "rows": [row.as_json() for row in rows]}
    path.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _document(rows: list[Row], facts: dict[str, str]) -> str:
    parts = [
        "# Results",
        "Written by `python -m bench`; what each row means is in [bench/README.md](../README.md).",
        markdown([_HEADER, *map(_cells, rows)]),
        "![Ratios against their bars, and processor time by process](results.png)",
        "## Limits, pair by pair",
        "\n".join(filter(None, map(_pairs, rows))),
        *_section("## By process", markdown([_PROCESS_HEADER, *_process_cells(rows)])),
        *_section("## Idle memory by process", _memory(rows)),
        "## Other servers",
        PEERS_INTRO,
        markdown([_PEERS_HEADER, *_PEERS]),
        "## Measured on and with",
        markdown([("", ""), *facts.items()]),
    ]
    return "\n\n".join(parts) + "\n"


def _section(title: str, text: str) -> list[str]:
    return [title, text] if text else []


def _pairs(row: Row) -> str:
    """One line: the value of each pair, what the limit was, and how much of the cores went to other programs."""
    if not row.pairs:
        return ""
    values = ", ".join(f"{pair.value:.3f}" for pair in row.pairs)
    line = f"- {row.name}: {values}{f' {row.bar.unit}' if row.bar.unit else ''}"
    if row.limit_is:
        line += f". Limit: {row.limit_is}"
    windows = row.details.get("windows", [])
    if windows:
        most = max(window[side]["other_programs"] for window in windows for side in ("limit", "appliance"))
        line += f". Others had at most {most:.0%} of the cores meanwhile"
        if row.details["set_aside"]:
            line += f"; pairs set aside because others disturbed them more: {len(row.details['set_aside'])}"
    return line + "".join(f". PROBLEM: {problem}" for problem in row.problems) + "."


def _memory(rows: list[Row]) -> str:
    for row in rows:
        if "median_rss_mib" in row.details:
            rss, pss = row.details["median_rss_mib"], row.details["median_pss_mib"]
            header = ("Process", "Resident (RSS), MiB", "Shared pages divided (PSS), MiB", "Counted")
            lines = [(role, f"{rss[role]:.0f}", f"{pss[role]:.0f}", "" if role == "engine" else "yes") for role in rss]
            return markdown([header, *lines])
    return ""
