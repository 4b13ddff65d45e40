"""Rows of what is served, each beside the best that the same cores can do: short, mixed, one-client, fake."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from appliance.models.catalog import Model
from bench.appliance_under_test import ApplianceUnderTest
from bench.limit import Way
from bench.measure import MeasureError, Window, ask, run_module, watch
from bench.options import Options
from bench.row import Bar, Pair, Row
from bench.texts import MIXED, SHORT, Kind

IN_PROCESS = "in-process"
LOAD = "load generator"
BARE = "aiohttp"
_MIN_COSINE = 0.999

Say = Callable[[str], None]


@dataclass(frozen=True)
class Load:
    """What the load generator sends; `count` texts go out before any is sent again."""

    model: str
    kind: Kind
    clients: int
    count: int


def served_rows(options: Options, appliance: ApplianceUnderTest, model: Model, say: Say) -> Iterator[Row]:
    """Measure the rows that need the real model."""
    limit = Limit(model)
    limit.check_same_work(appliance)
    if "short" in options.rows:
        load = Load(model.name, SHORT, 64, 20_000)
        yield _throughput("short", Bar(0.75, True, ""), load, options, appliance, limit, say)
    if "mixed" in options.rows:
        load = Load(model.name, MIXED, 32, 4_000)
        yield _throughput("mixed", Bar(0.85, True, ""), load, options, appliance, limit, say)
    if "one-client" in options.rows:
        yield _one_client(options, appliance, limit, say)


class Limit:
    """Tasks for bench.limit about one model."""

    def __init__(self, model: Model) -> None:
        assert model.embed is not None
        self.model = model
        self._spec = {
            "folder": str(model.folder.resolve()),
            "pooling": model.embed.pooling,
            "normalize": model.embed.normalize,
        }

    def task(self, name: str, kind: Kind, seed: int, seconds: float, way: Way | None = None) -> dict[str, Any]:
        task = {"task": name, "spec": self._spec, "kind": kind.name, "seed": seed, "seconds": seconds}
        return task if way is None else {**task, "way": asdict(way)}

    def best(self, name: str, kind: Kind, seconds: float) -> tuple[Way, dict[str, float]]:
        """Return the fastest way, and what each gave."""
        found = ask("bench.limit", self.task(name, kind, 0, seconds))
        return Way(**found["way"]), found["tried"]

    def run(self, name: str, kind: Kind, seed: int, seconds: float, way: Way) -> Window:
        return watch(run_module("bench.limit", [], self.task(name, kind, seed, seconds, way)), IN_PROCESS, {})

    def check_same_work(self, appliance: ApplianceUnderTest) -> None:
        """See that both give the same vectors. Raises MeasureError."""
        expected = ask("bench.limit", self.task("vectors", SHORT, 0, 0.0))
        for text, vector in zip(expected["texts"], expected["vectors"], strict=True):
            answer = json.loads(appliance.embed(self.model.name, text))
            cosine = _cosine(answer["data"][0]["embedding"], vector)
            if not cosine >= _MIN_COSINE:
                raise MeasureError(f"The appliance's vector is not the one computed in process: cosine {cosine:.6f}.")


def _cosine(one: list[float], other: list[float]) -> float:
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


def _throughput(
    name: str, bar: Bar, load: Load, options: Options, appliance: ApplianceUnderTest, limit: Limit, say: Say
) -> Row:
    say(f"{name}: looking for the fastest way in process")
    way, tried = limit.best("best_throughput", load.kind, options.seconds / 2)
    what = f"{load.clients} clients, one text of {load.kind.shortest} to {load.kind.longest} words a request"
    row = Row(name, what, f"tokenizers and ONNX Runtime in one process: {way}", "texts/s", bar)
    row.details = {"tried_per_second": tried, "windows": []}
    for repeat in range(options.repeats):
        best = limit.run("throughput", load.kind, repeat, options.seconds, way)
        ours = _drive(appliance, load, repeat, options)
        _add(row, best, ours, say)
    row.details |= _summary(row)
    return row


def _one_client(options: Options, appliance: ApplianceUnderTest, limit: Limit, say: Say) -> Row:
    way, tried = limit.best("best_latency", SHORT, options.seconds / 3)
    what = f"median time to answer 1 client, one text of {SHORT.shortest} to {SHORT.longest} words a request"
    row = Row("one-client", what, f"one call in process: {way}", "ms", Bar(3.0, False, "ms more"))
    row.details = {"tried_ms": tried, "windows": []}
    load = Load(limit.model.name, SHORT, 1, 4_000)
    for repeat in range(options.repeats):
        best = limit.run("latency", SHORT, repeat, options.seconds, way)
        ours = _drive(appliance, load, 100 + repeat, options)
        _add(row, best, ours, say, of="p50_ms", value=lambda ours, limit: ours - limit)
    row.details |= _summary(row)
    return row


def fake_row(options: Options, appliance: ApplianceUnderTest, scratch: Path, say: Say) -> Row:
    """What the way through the queue costs, beside a handler that does nothing."""
    limit_is = "an aiohttp handler (uvloop, one process, no access log) that answers a constant body of the same size"
    row = Row("fake", "64 clients, a model that takes no time", limit_is, "requests/s", Bar(0.45, True, ""))
    row.details = {"windows": []}
    load = Load("fake", SHORT, 64, 60_000)
    body = scratch / "body.json"
    body.write_bytes(appliance.embed("fake", "The same body for all"))
    row.details["body_bytes"] = body.stat().st_size
    for repeat in range(options.repeats):
        with _bare(body) as (port, process):
            best = watch(_load(load, port, repeat, options), LOAD, {BARE: [process]})
        ours = _drive(appliance, load, repeat, options)
        _add(row, best, ours, say)
    row.details |= _summary(row)
    return row


@contextmanager
def _bare(body: Path) -> Iterator[tuple[int, psutil.Process]]:
    """Run the bare handler; give its port and process."""
    process = run_module("bench.bare", [str(body)])
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def _load(load: Load, port: int, seed: int, options: Options) -> subprocess.Popen[str]:
    arguments = {
        "--port": port,
        "--model": load.model,
        "--kind": load.kind.name,
        "--seed": seed,
        "--count": load.count,
        "--clients": load.clients,
        "--warmup": options.warmup_s,
        "--seconds": options.seconds,
    }
    return run_module("bench.load", [str(word) for pair in arguments.items() for word in pair])


def _drive(appliance: ApplianceUnderTest, load: Load, seed: int, options: Options) -> Window:
    """Load the appliance for one window; what its workers counted meanwhile is laid into the result."""
    before = _counters(appliance)
    window = watch(_load(load, appliance.port, seed, options), LOAD, appliance.processes())
    after = _counters(appliance)
    grown = {name: after[name] - before.get(name, 0.0) for name in after}
    window.result.update(_batching(grown))
    return window


def _counters(appliance: ApplianceUnderTest) -> dict[str, float]:
    """Return the sum of all workers' counters, as of their last heartbeats."""
    total: dict[str, float] = {}
    for worker in appliance.health()["workers"]:
        for name, value in worker["counters"].items():
            total[name] = total.get(name, 0.0) + value
    return total


def _batching(grown: dict[str, float]) -> dict[str, float]:
    batches, padded = max(1.0, grown["batches"]), max(1.0, grown["padded_tokens"])
    return {
        "inputs_per_batch": grown["inputs"] / batches,
        "padding_share": 1 - grown["real_tokens"] / padded,
        "batch_ms": grown["run_s"] * 1e3 / batches,
    }


def _ratio(ours: float, limit: float) -> float:
    return ours / limit


def _add(
    row: Row,
    best: Window,
    ours: Window,
    say: Say,
    of: str = "per_second",
    value: Callable[[float, float], float] = _ratio,
) -> None:
    """Add a pair, and what was seen meanwhile."""
    pair = Pair(best.result[of], ours.result[of], value(ours.result[of], best.result[of]))
    row.pairs.append(pair)
    for side in (best, ours):
        if side.result.get("failures"):
            row.problems.append(f"not all requests were answered with 200: {side.result['failures']}")
    row.details["windows"].append({"limit": _described(best), "appliance": _described(ours)})
    say(
        f"{row.name} {len(row.pairs)}: limit {pair.limit:.2f} {row.unit}, appliance {pair.appliance:.2f} {row.unit}, "
        f"{'ratio ' if not row.bar.unit else ''}{pair.value:.3f} {row.bar.unit}"
        f" (other programs: {best.foreign:.0%} and {ours.foreign:.0%} of the cores)"
    )


def _described(window: Window) -> dict[str, Any]:
    return {**window.result, "cpu_ms_per_request": window.cpu_ms_per_request, "other_programs": window.foreign}


def _summary(row: Row) -> dict[str, Any]:
    """Return the medians over the repeats of everything seen, for each side."""
    windows = row.details["windows"]
    return {side: _median([window[side] for window in windows]) for side in ("limit", "appliance")}


def _median(seen: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in seen[0].items():
        if key == "cpu_ms_per_request":
            found[key] = {role: statistics.median(one[key].get(role, 0.0) for one in seen) for role in value}
        elif isinstance(value, (int, float)):
            found[key] = statistics.median(one[key] for one in seen)
    return found
