"""The parent's end of bench.load: one window of HTTP load on the appliance, or on the bare handler."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.appliance_under_test import ApplianceUnderTest
from bench.measure import Window, run_module, watch
from bench.options import Options
from bench.texts import Kind

LOAD = "load generator"
BARE = "aiohttp"


@dataclass(frozen=True)
class Load:
    """What the load generator sends; `count` texts go out before any is sent again; `client` is raw or aiohttp."""

    model: str
    kind: Kind
    clients: int
    count: int
    client: str = "raw"


def drive(appliance: ApplianceUnderTest, load: Load, seed: int, options: Options) -> Window:
    """Load the appliance for one window; what its workers counted meanwhile is laid into the result."""
    before = counters(appliance)
    window = watch(_start(load, appliance.port, seed, options), LOAD, appliance.processes())
    after = counters(appliance)
    window.result.update(_batching({name: after[name] - before.get(name, 0.0) for name in after}))
    return window


def drive_bare(body: Path, load: Load, seed: int, options: Options) -> Window:
    """Load the handler that answers `body` for one window."""
    with _bare(body) as (port, process):
        return watch(_start(load, port, seed, options), LOAD, {BARE: [process]})


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


def _start(load: Load, port: int, seed: int, options: Options) -> subprocess.Popen[str]:
    arguments = {
        "--port": port,
        "--model": load.model,
        "--kind": load.kind.name,
        "--seed": seed,
        "--count": load.count,
        "--clients": load.clients,
        "--client": load.client,
        "--warmup": options.warmup_s,
        "--seconds": options.seconds,
    }
    return run_module("bench.load", [str(word) for pair in arguments.items() for word in pair])


def counters(appliance: ApplianceUnderTest) -> dict[str, float]:
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
