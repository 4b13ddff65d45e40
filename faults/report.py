"""The table: on the terminal as it grows, in docs/faults.md when the whole catalogue has run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from faults.run import Row

_HEADER = (
    "Fault",
    "Times",
    "Requests",
    "Turned away",
    "Admitted",
    "Answered",
    "Named errors",
    "Lost",
    "Answered twice",
    "Wrong",
    "Worst gap, s",
    "p99 of innocents, s",
    "Innocents answered",
    "Verdict",
)

_INTRO = """\
# Faults

Written by `make faults`. Each row is a daemon of its own under a seeded load through the fake runtime and the real
MiniLM; an oracle outside of the product writes every request and its end into a history, and the figures are read off
that. How it works and how to add one: [faults/README.md](../faults/README.md).

- **Admitted**: not turned away with 429 or 503 at the door. **Lost**: admitted, and neither its own right answer nor a
  named error before its deadline, or a connection that broke while its gateway lived. A connection that broke because
  the fault killed who held it is unknown: the same body was sent again, and that one counts.
- **Answered twice**: more than one answer, or one under another's id. **Wrong**: not its texts' vectors.
- **Worst gap**: the longest time for which somebody waited for a model and nobody got a good answer from it.
- **Innocents**: everybody but the callers that are the fault (poison, crowds, those that hang up).
"""


def cells(row: Row) -> tuple[str, ...]:
    """Return a row's cells, one for each column."""
    if row.skipped:
        return (row.fault.name, *[""] * (len(_HEADER) - 2), f"skipped: {row.skipped}")
    found = row.verdict
    counts = (found.requests, found.shed, found.admitted, found.answered)
    return (
        row.fault.name,
        str(row.times),
        *(f"{count:,}" for count in counts),
        _errors(row),
        *(str(count) for count in (found.lost, found.twice, found.wrong)),
        _seconds(found.gap_s),
        _seconds(found.p99_s),
        f"{_share(found.innocents_answered, found.innocents)} %",
        "; ".join(row.problems) or "ok",
    )


def _errors(row: Row) -> str:
    """Return how many there were, and of what codes."""
    total: dict[str, int] = {}
    for codes in row.verdict.errors.values():
        for code, count in codes.items():
            total[code] = total.get(code, 0) + count
    return ", ".join(f"{count} {code}" for code, count in sorted(total.items())) or "0"


def _seconds(value: float) -> str:
    return "-" if math.isnan(value) else "never ended" if math.isinf(value) else f"{value:.2f}"


def _share(part: int, whole: int) -> str:
    """Rounded down, so that 100 means all."""
    return f"{math.floor(1000 * part / whole) / 10:g}" if whole else "-"


def line(row: Row) -> str:
    """Return a row for the terminal."""
    if row.skipped:
        return f"{row.fault.name}: skipped: {row.skipped}"
    found = row.verdict
    told = (
        f"{found.requests} requests, {found.answered} answered, errors {_errors(row)}, {found.shed} turned away, "
        f"{found.lost} lost, {found.twice} twice, {found.wrong} wrong, gap {_seconds(found.gap_s)} s, "
        f"p99 {_seconds(found.p99_s)} s"
    )
    if found.came_back:
        told += f", {found.put_off} of {found.came_back} who came back as told turned away again"
    problems = "".join(f"\n    NOT HELD: {problem}" for problem in row.problems)
    examples = "".join(f"\n    {example}" for example in found.examples) if row.problems else ""
    return f"{row.fault.name}: {told} ({row.seconds:.0f} s){problems}{examples}"


def table(rows: list[Row]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in map(cells, rows)]
    return "\n".join(["| " + " | ".join(_HEADER) + " |", "|" + "---|" * len(_HEADER), *lines])


def write(path: Path, rows: list[Row], facts: Mapping[str, str]) -> None:
    """Write the document."""
    what = "\n".join(f"- **{row.fault.name}**: {row.fault.what}" for row in rows)
    run_with = "\n".join(["| | |", "|---|---|", *(f"| {key} | {value} |" for key, value in facts.items())])
    parts = [_INTRO, table(rows), "## What each one does", what, "## Run on and with", run_with]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")
