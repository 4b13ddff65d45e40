"""python -m bench.discipline: what the queue promises when too many want something. Exit status as of python -m bench.

On a virtual device, whose time for a batch is known (40 ms and 1.2 ms a token), so that waits can be held against it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import crowds, machine, report
from bench.appliance_under_test import ApplianceUnderTest, make_data, make_fake_model
from bench.crowds import BATCH_MS, TOKEN_MS
from bench.measure import MeasureError
from bench.row import Row

_CONFIG = '[worker]\ndevices = ["virtual0"]\n'
_SLOW = f"\n[fake]\na_ms = {BATCH_MS}\nb_ms_per_token = {TOKEN_MS}\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.discipline", description=__doc__)
    parser.add_argument("--items", type=int, default=20_000, help="length of the import (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="of ten times too much (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("bench/results"), help="folder (default: %(default)s)")
    arguments = parser.parse_args()
    rows: list[Row] = []
    try:
        with tempfile.TemporaryDirectory(prefix="appliance-bench-") as name:
            scratch = Path(name)
            model = make_fake_model(scratch / "fake", _SLOW)
            rows += _on(scratch / "imports", model, _CONFIG, lambda one: crowds.imports(one, arguments.items, _say))
            # Batches of eight keep the device slow enough for ten times its load to fit on two cores.
            small = _CONFIG + "batch_items = 8\n"
            rows += _on(scratch / "overload", model, small, lambda one: crowds.overload(one, arguments.seconds, _say))
            rows += _on(scratch / "late", model, _CONFIG, lambda one: crowds.late(one, _say))
    except MeasureError as exc:
        print(f"bench: {exc}", file=sys.stderr)
        return 2
    print("\n" + report.terminal(rows, with_peers=False))
    report.write_table(arguments.out / "discipline.md", "The queue's promises", rows, machine.facts("bench.discipline"))
    return 1 if any(row.is_missed for row in rows) else 0


def _on(data: Path, model: Path, config: str, measure: Callable[[ApplianceUnderTest], object]) -> list[Row]:
    """Measure on an appliance of its own."""
    with ApplianceUnderTest(make_data(data, model, config)) as appliance:
        found: list[Row] = asyncio.run(measure(appliance))  # type: ignore[arg-type]
    return found


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
