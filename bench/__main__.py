"""python -m bench: measures, tells, writes files. Exit status 1 where a bar is missed, 2 where measuring failed."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.models.catalog import Catalog, Model
from bench import machine, plot, report
from bench.appliance_under_test import ApplianceUnderTest, make_data, make_fake_model
from bench.measure import MeasureError
from bench.options import ROWS, Options
from bench.row import Row
from bench.served import fake_row, served_rows
from bench.standing import size_row, standing_rows

CORES = 2
_PATHS = ("--store", "--venv", "--out", "--config")


def main() -> int:
    arguments = _parser().parse_args()
    _take_cores(arguments.cores)
    try:
        options = _options(arguments)
        rows = sorted(_measured(options), key=lambda row: ROWS.index(row.name))
    except (MeasureError, ApplianceError) as exc:
        print(f"bench: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    facts = machine.facts(_command_line(sys.argv[1:]))
    print("\n" + report.terminal(rows))
    report.write(options.out, rows, facts)
    plot.draw(options.out / "results.png", rows)
    print(f"Written: {options.out}/results.md, results.json, results.png")
    return 0 if arguments.report_only or not any(row.is_missed for row in rows) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the appliance beside its limits.")
    parser.add_argument("--rows", default=",".join(ROWS), help="rows to measure, of: %(default)s")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of a measured window (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="pairs of windows in a row (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="one pair of windows of 2 s: does it work?")
    parser.add_argument("--report-only", action="store_true", help="end with status 0 although a bar is missed")
    parser.add_argument("--store", type=Path, default=Path("data/models"), help="models folder (default: %(default)s)")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="embedder to measure (default: %(default)s)")
    parser.add_argument("--venv", type=Path, default=Path(".venv"), help="for the row size (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=Path("bench/results"), help="folder for results (default: %(default)s)"
    )
    parser.add_argument("--config", type=Path, help="the appliance's configuration (default: its defaults)")
    parser.add_argument("--cores", type=int, default=CORES, help="cores that all share (default: %(default)s)")
    return parser


def _options(arguments: argparse.Namespace) -> Options:
    rows = tuple(arguments.rows.split(","))
    if unknown := set(rows) - set(ROWS):
        raise MeasureError(f"There is no row {', '.join(sorted(unknown))}. Rows are: {', '.join(ROWS)}.")
    quick = arguments.quick
    return Options(
        rows=rows,
        seconds=2.0 if quick else arguments.seconds,
        warmup_s=1.0 if quick else 2.0,
        repeats=1 if quick else arguments.repeats,
        store=arguments.store,
        model=arguments.model,
        venv=arguments.venv,
        out=arguments.out,
        config=arguments.config.read_text(encoding="utf-8") if arguments.config else None,
    )


def _measured(options: Options) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="appliance-bench-") as name:
        scratch = Path(name)
        if {"short", "mixed", "one-client", "idle-memory", "start"} & set(options.rows):
            model = _model(options)
            data = make_data(scratch / "real", model.folder, options.config_on("cpu"))
            if {"idle-memory", "start"} & set(options.rows):
                yield from standing_rows(options, data, _say)
            if {"short", "mixed", "one-client"} & set(options.rows):
                with ApplianceUnderTest(data) as appliance:
                    yield from served_rows(options, appliance, model, _say)
        names = [name for name in ("fake", "fake-raw") if name in options.rows]
        if names:
            data = make_data(scratch / "pretended", make_fake_model(scratch / "fake"), options.config_on("virtual0"))
            with ApplianceUnderTest(data) as appliance:
                for name in names:
                    yield fake_row(name, options, appliance, scratch, _say)
        if "size" in options.rows:
            yield size_row(options.venv, _say)


def _model(options: Options) -> Model:
    """Find the model in the store. Raises MeasureError."""
    catalog = Catalog(options.store)
    catalog.scan()
    model = catalog.resolve(options.model)
    if model is None or model.embed is None or model.runtime != "onnx":
        raise MeasureError(f"{options.store} has no ONNX embedder {options.model}. See --store.")
    return model


def _say(text: str) -> None:
    print(text, flush=True)


def _take_cores(count: int) -> None:
    """Restrict this process, and so all that it starts, to the first `count` cores, where there are more."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:count])


def _command_line(arguments: list[str]) -> str:
    """Return the command line without paths, which say more about the machine than about the measurement."""
    shown = [
        word
        for before, word in zip(["", *arguments], arguments, strict=False)
        if before not in _PATHS and word.partition("=")[0] not in _PATHS
    ]
    return shlex.join(["python", "-m", "bench", *shown])


if __name__ == "__main__":
    raise SystemExit(main())
