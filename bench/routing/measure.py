"""One measurement: an appliance of its own, with a queue or a router, under one world's load."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench import drive
from bench.appliance_under_test import ApplianceUnderTest, make_fake_model
from bench.drive import LOAD
from bench.measure import MeasureError, run_module, watch
from bench.routing.push import Routing
from bench.routing.worlds import P99_S, Policy
from bench.simulation import World

_MODEL_BYTES = 1 << 30
_CONNECTIONS_PER_S = 1.5
"""Open connections for each request a second: as many as may be under way when answers take over a second."""

_LEAST, _MOST, _STEPS = 0.6, 1.25, 5
"""Where a sustained rate is sought, in shares of the guess, and how often the range is halved."""
_CALM_S = 2.0
"""For what a rate that was too high has left over."""


@dataclass(frozen=True)
class Measured:
    """What came out of one window. `cpu_ms` is by process, a request; the load generator's is among them."""

    per_second: float
    p50_ms: float
    p99_ms: float
    mean_batch: float
    busy_share: float
    padding_share: float
    foreign: float
    loads: float
    cpu_ms: dict[str, float] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)


def measure(world: World, policy: Policy, warmup_s: float, seconds: float, seed: int) -> Measured:
    """Start the appliance, load it, stop it. Raises MeasureError."""
    with _running(world, policy) as appliance:
        return _window(appliance, world, warmup_s, seconds, seed)


def sustained(world: World, policy: Policy, guess: float, warmup_s: float, seconds: float, seed: int) -> Measured:
    """Return the window with the highest rate found at which 99 of 100 are answered within P99_S.

    It is sought around a `guess`, by halves: to some 3 % of it.
    """
    low, high = _LEAST * guess, min(_MOST * guess, world.capacity)
    best: Measured | None = None
    with _running(world, policy) as appliance:
        for _ in range(_STEPS):
            rate = (low + high) / 2
            one = _window(appliance, replace(world, rate=rate), warmup_s, seconds, seed)
            if one.p99_ms <= P99_S * 1e3 and not one.failures:
                low, best = rate, one
            else:
                high = rate
            time.sleep(_CALM_S)
    if best is None:
        raise MeasureError(f"{policy.name}: not even {low:.0f} requests a second are answered in time.")
    return best


@contextmanager
def _running(world: World, policy: Policy) -> Iterator[ApplianceUnderTest]:
    workers = [f"virtual{number}" for number in range(len(world.slowness))]
    with tempfile.TemporaryDirectory(prefix="appliance-routing-") as name:
        data = _data(Path(name), world, workers)
        module, environment = "appliance", {}
        if policy.router:
            module = "bench.routing.daemon"
            environment = Routing(policy.router, workers, policy.stale_s).environment()
        with ApplianceUnderTest(data, module, environment) as appliance:
            yield appliance


def _window(appliance: ApplianceUnderTest, world: World, warmup_s: float, seconds: float, seed: int) -> Measured:
    arguments: dict[str, Any] = {
        "--port": appliance.port,
        "--models": world.models,
        "--seed": seed,
        "--clients": world.clients,
        "--rate": world.rate,
        "--connections": int(_CONNECTIONS_PER_S * world.rate),
        "--warmup": warmup_s,
        "--seconds": seconds,
    }
    crowd = run_module("bench.routing.crowd", [str(word) for pair in arguments.items() for word in pair])
    seen: list[dict[str, float]] = []
    window = watch(crowd, LOAD, appliance.processes(), lambda: seen.append(drive.counters(appliance)))
    before, after = seen
    grown = {name: after[name] - before[name] for name in after}
    batches = max(1.0, grown["batches"])
    return Measured(
        per_second=window.result["per_second"],
        p50_ms=window.result["p50_ms"],
        p99_ms=window.result["p99_ms"],
        mean_batch=grown["inputs"] / batches,
        busy_share=grown["run_s"] / seconds / len(world.slowness),
        padding_share=1 - grown["real_tokens"] / max(1.0, grown["padded_tokens"]),
        foreign=window.foreign,
        loads=grown["evictions"],
        cpu_ms=window.cpu_ms_per_request,
        failures=window.result["failures"],
    )


def _data(scratch: Path, world: World, workers: list[str]) -> Path:
    script = (
        f"\n[fake]\na_ms = {world.a_s * 1e3}\nc_ms_per_item = {world.b_s * 1e3}\n"
        f"load_ms = {world.load_s * 1e3}\nmemory_bytes = {_MODEL_BYTES}\n"
    )
    slow = [(name, factor) for name, factor in zip(workers, world.slowness, strict=True) if factor != 1.0]
    for name, factor in slow:  # one at most
        script += f'slow_device = "{name}"\nslow_factor = {factor}\n'
    for number in range(world.models):
        make_fake_model(scratch / "models" / f"fake{number}", script)
    devices = ", ".join(f'"{name}"' for name in workers)
    config = "[server]\nmax_connections = 20000\n"
    config += f"[worker]\ndevices = [{devices}]\nbatch_items = {world.batch_items}\n"
    if world.room:
        config += f"memory_bytes = {world.room * _MODEL_BYTES}\n"
    (scratch / "config.toml").write_text(config, encoding="utf-8")
    return scratch
