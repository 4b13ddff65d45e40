"""The routing results as Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bench.report import markdown
from bench.routing.table import Row, Verdict, verdicts
from bench.routing.worlds import PULL

_HEADER = (
    "World",
    "Policy",
    "Requests/s",
    "Spread",
    "p50, ms",
    "p99, ms",
    "Batch",
    "Busy",
    "Padding",
    "Loads",
    "CPU ms a request",
    "Pull carries",
    "Simulated",
    "Off by",
)
_ROLES = ("gateway", "worker", "nats-server", "engine", "daemon", "load generator")


def write(path: Path, rows: Sequence[Row], facts: dict[str, str]) -> None:
    """Write `path`, Markdown, and the JSON beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [
        "# Pulling against pushing",
        "Written by `python -m bench.routing`; what the worlds are is in [bench/README.md](../README.md).",
        markdown([("World", "What", "Value", "Bar", ""), *map(_verdict, verdicts(rows))]),
        f"![Requests a second and p99 of each policy]({path.stem}.png)",
        markdown([_HEADER, *_cells(rows)]),
        "CPU by process, in ms a request, is in the JSON; the figure here is of all of the appliance's processes.",
        markdown([("", ""), *facts.items()]),
    ]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    found = {"facts": facts, "rows": [row.as_json() for row in rows]}
    path.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def terminal(rows: Sequence[Row]) -> str:
    return "\n".join(" ".join(_verdict(one)) for one in verdicts(rows))


def _verdict(one: Verdict) -> tuple[str, ...]:
    bar = f"{'at least' if one.at_least else 'at most'} {one.bar:g}"
    return (one.case, one.what, f"{one.value:.2f}", bar, "pass" if one.holds else "MISSED")


def _cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    pulls = {row.case: row.per_second for row in rows if row.policy == PULL}
    return [_row(row, pulls.get(row.case)) for row in rows]


def _row(row: Row, pull: float | None) -> tuple[str, ...]:
    seen = row.simulated
    used = [sum(ms for role, ms in one.cpu_ms.items() if role != _ROLES[-1]) for one in row.windows]
    return (
        row.case,
        row.policy,
        f"{row.per_second:,.0f}",
        f"{row.spread:.1%}",
        f"{row.median(lambda one: one.p50_ms):.0f}",
        f"{row.p99_ms:.0f}",
        f"{row.median(lambda one: one.mean_batch):.1f}",
        f"{row.median(lambda one: one.busy_share):.2f}",
        f"{row.median(lambda one: one.padding_share):.1%}",
        f"{row.median(lambda one: one.loads):.0f}",
        f"{sorted(used)[len(used) // 2]:.2f}",
        f"{pull / row.per_second:.2f}x" if pull else "",
        f"{seen.per_second:,.0f}" if seen else "",
        f"{row.off:+.1%}" if seen else "",
    )
