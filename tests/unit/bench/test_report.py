from __future__ import annotations

import json
from pathlib import Path

from bench import plot, report
from bench.row import Bar, Pair, Row

SEEN = {
    "requests": 100,
    "p50_ms": 1.0,
    "p95_ms": 2.0,
    "p99_ms": 3.0,
    "inputs_per_batch": 4.0,
    "padding_share": 0.05,
    "cpu_ms_per_request": {"gateway": 0.25, "engine": 0.5},
    "other_programs": 0.02,
}


def rows() -> list[Row]:
    windows = [{"limit": SEEN, "appliance": SEEN}]
    details = {"limit": SEEN, "appliance": SEEN, "windows": windows, "set_aside": []}
    return [
        Row(
            "short",
            "64 clients",
            "in one process",
            "texts/s",
            Bar(0.75, True, ""),
            [Pair(400.0, 320.0, 0.8)],
            [],
            details,
        ),
        Row("start", "until ready", "", "s", Bar(3.0, False, "s"), [Pair(None, 3.5, 3.5)]),
        Row("size", "the environment", "", "MiB", Bar(350.0, False, "MiB")),
    ]


def test_the_terminal_shows_every_row_with_its_verdict() -> None:
    lines = [line.split() for line in report.terminal(rows()).splitlines() if line]
    verdicts = {words[0]: words[-1] for words in lines[2:5]}
    assert verdicts == {"short": "pass", "start": "FAIL", "size": "measured"}


def test_processor_time_is_told_by_process() -> None:
    assert "0.750 = engine 0.500, gateway 0.250" in report.terminal(rows())


def test_the_files_hold_what_was_measured(tmp_path: Path) -> None:
    report.write(tmp_path, rows(), {"CPU": "x"})
    plot.draw(tmp_path / "results.png", rows())
    found = json.loads((tmp_path / "results.json").read_text())
    assert [(row["name"], row["verdict"], row.get("value")) for row in found["rows"]] == [
        ("short", "pass", 0.8),
        ("start", "FAIL", 3.5),
        ("size", "not measured", None),
    ]
    assert (
        "| short | 64 clients | 400 texts/s | 320 texts/s | 0.80 | at least 0.75 | pass |"
        in (tmp_path / "results.md").read_text()
    )
    assert (tmp_path / "results.png").read_bytes()[1:4] == b"PNG"
