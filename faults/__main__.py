"""python -m faults: runs the catalogue and prints the table. Exit 1 where something did not hold, 2 on misuse."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import machine
from faults import models, report
from faults.catalogue import FAULTS
from faults.fault import Fault
from faults.instance import ROOT
from faults.run import Options, Row, run

_DOCUMENT = ROOT / "docs" / "faults.md"


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.list:
        print("\n".join(f"{fault.name:22}{fault.what}" for fault in FAULTS))
        return 0
    try:
        chosen = choose(arguments.only, arguments.short)
    except ValueError as exc:
        print(f"faults: {exc}", file=sys.stderr)
        return 2
    store = arguments.store if (arguments.store / models.real_folder()).is_dir() else None
    if store is None and not arguments.short:
        print(f"faults: {arguments.store} has no {models.real_folder()}. See --store.", file=sys.stderr)
        return 2
    options = Options(arguments.seed, arguments.short, store, arguments.keep)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of what unmounts and ends processes
    is_whole = len(chosen) == len(FAULTS) and not arguments.short
    rows = _run_all(chosen, options, _document if is_whole else None)
    print("\n" + report.table(rows))
    return 1 if any(row.problems for row in rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m faults", description="Do harm to a daemon under load, and look.")
    parser.add_argument("--only", default="", help="names of faults, with commas between (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="of load and faults (default: %(default)s)")
    parser.add_argument("--short", action="store_true", help="a few requests each, fake models where that will do")
    parser.add_argument("--list", action="store_true", help="print the catalogue and end")
    parser.add_argument("--store", type=Path, default=Path("data/models"), help="models folder (default: %(default)s)")
    parser.add_argument(
        "--keep",
        type=Path,
        default=ROOT / "build" / "faults",
        help="folder for histories and logs (default: %(default)s)",
    )
    return parser


def choose(names: str, short: bool = False) -> list[Fault]:
    """Return the faults named, or all that have a short form. Raises ValueError for a name that there is not."""
    wanted = set(filter(None, names.split(",")))
    if unknown := wanted - {fault.name for fault in FAULTS}:
        raise ValueError(f"There is no fault {', '.join(sorted(unknown))}. See --list.")
    return [fault for fault in FAULTS if fault.name in wanted or (not wanted and (fault.in_short or not short))]


def _document(rows: list[Row], options: Options) -> None:
    """Write what there is so far: a run of half an hour may be ended before its time."""
    facts = {"faults run": f"{len(rows)} of {len(FAULTS)}", "seed": str(options.seed)}
    report.write(_DOCUMENT, rows, {**facts, **machine.facts("python -m faults")})


def _run_all(
    chosen: list[Fault], options: Options, on_row: Callable[[list[Row], Options], None] | None = None
) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="appliance-faults-") as scratch:
        for number, fault in enumerate(chosen, 1):
            _tell(f"{number}/{len(chosen)} {fault.name} ...")
            rows.append(run(fault, options, Path(scratch)))
            _tell("")
            print(report.line(rows[-1]), flush=True)
            if on_row is not None:
                on_row(rows, options)
    return rows


def _tell(progress: str) -> None:
    """Write over the last line of progress, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\033[K{progress}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
