"""Rows of what is served, each beside the best that the same cores can do: short, mixed, one-client, fake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from appliance.models.catalog import Model
from bench import series
from bench.appliance_under_test import ApplianceUnderTest
from bench.drive import Load, drive, drive_bare
from bench.in_process import InProcessLimit
from bench.options import Options
from bench.row import Bar, Row
from bench.series import Say, Windows
from bench.texts import MIXED, SHORT, Kind


def served_rows(options: Options, appliance: ApplianceUnderTest, model: Model, say: Say) -> Iterator[Row]:
    """Measure the rows that need the real model."""
    limit = InProcessLimit(model)
    limit.check_same_work(appliance)
    if "short" in options.rows:
        load = Load(model.name, SHORT, 64, 20_000)
        yield _throughput("short", Bar(0.75, True, ""), load, options, appliance, limit, say)
    if "mixed" in options.rows:
        load = Load(model.name, MIXED, 32, 4_000)
        yield _throughput("mixed", Bar(0.85, True, ""), load, options, appliance, limit, say)
    if "one-client" in options.rows:
        yield _one_client(options, appliance, limit, say)


def _throughput(
    name: str, bar: Bar, load: Load, options: Options, appliance: ApplianceUnderTest, limit: InProcessLimit, say: Say
) -> Row:
    say(f"{name}: looking for the fastest way in process")
    way, tried = limit.best("best_throughput", load.kind, options.seconds / 2)
    what = f"{load.clients} clients, {_one_of(load.kind)}"
    row = Row(name, what, f"tokenizers and ONNX Runtime in one process: {way}", "texts/s", bar)
    row.details["tried_per_second"] = tried

    def once(number: int) -> Windows:
        best = limit.run("throughput", load.kind, number, options.seconds, way)
        return best, drive(appliance, load, number, options)

    return series.measure(row, once, options, say)


def _one_client(options: Options, appliance: ApplianceUnderTest, limit: InProcessLimit, say: Say) -> Row:
    way, tried = limit.best("best_latency", SHORT, options.seconds / 3)
    what = f"median time to answer 1 client, {_one_of(SHORT)}"
    row = Row("one-client", what, f"one call in process: {way}", "ms", Bar(3.0, False, "ms more"))
    row.details["tried_ms"] = tried
    load = Load(limit.model.name, SHORT, 1, 4_000)

    def once(number: int) -> Windows:
        best = limit.run("latency", SHORT, number, options.seconds, way)
        return best, drive(appliance, load, 100 + number, options)

    return series.measure(row, once, options, say, "p50_ms", series.difference)


def fake_row(name: str, options: Options, appliance: ApplianceUnderTest, scratch: Path, say: Say) -> Row:
    """What the way through the queue costs, beside a handler that does nothing.

    "fake" asks as an application does, with aiohttp's client; "fake-raw" with raw sockets, which cost so little that
    the handler's own time is nearly all that is left: there is no bar for that one, it is there to be looked at.
    """
    client, bar = ("aiohttp", 0.45) if name == "fake" else ("raw", 0.0)
    limit_is = "an aiohttp handler (uvloop, one process, no access log) that answers a constant body of the same size"
    what = f"64 clients ({client}), a model that takes no time"
    row = Row(name, what, limit_is, "requests/s", Bar(bar, True, ""))
    load = Load("fake", SHORT, 64, 60_000, client)
    body = scratch / "body.json"
    body.write_bytes(appliance.embed("fake", "The same body for all", "base64"))
    row.details["body_bytes"] = body.stat().st_size

    def once(number: int) -> Windows:
        return drive_bare(body, load, number, options), drive(appliance, load, number, options)

    return series.measure(row, once, options, say)


def _one_of(kind: Kind) -> str:
    return f"one text of {kind.shortest} to {kind.longest} words a request"
