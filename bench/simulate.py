"""python -m bench.simulate: what pulling is worth against pushing, by simulation, up to sizes that are hard to measure.

Prints a table; `--out` writes it as JSON, too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.routers import ROUTERS
from bench.simulation import Seen, Simulation, World

PULL = "pull"
STALE_S = 0.25
_P99_S = 0.5
_STEPS = 7
"""Halvings of the range in which a sustained rate is sought: to a hundredth of the capacity."""


@dataclass(frozen=True)
class Policy:
    """Pulling, or a router and how old its knowledge may get."""

    name: str
    router: str = ""
    stale_s: float = 0.0

    def run(self, world: World, seconds: float, seed: int = 1) -> Seen:
        route = ROUTERS[self.router]() if self.router else None
        return Simulation(world, route, self.stale_s, seed).run(seconds)


@dataclass(frozen=True)
class Row:
    """One world under one policy. `sustained` is the rate with a p99 of half a second, where that was sought."""

    world: str
    policy: str
    seen: Seen | None
    sustained: float = 0.0


def policies() -> Iterator[Policy]:
    yield Policy(PULL)
    for router in ROUTERS:
        yield Policy(router, router)
        yield Policy(f"{router}, stale", router, STALE_S)


def worlds(large: bool) -> Iterator[tuple[str, World]]:
    for devices in (4, 8):
        for clients in (256, 512):
            yield f"a: {devices} devices, {clients} clients", World((1.0,) * devices, clients)
    for devices in (4, 8):
        yield f"b: {devices} devices, one slow, 256 clients", World((*(1.0,) * (devices - 1), 3.0), 256)
    for devices in (4, 8):
        yield f"c: {devices} devices, room for 5, 256 clients", World((1.0,) * devices, 256, room=5)
    for devices in (4, 8):
        even = World((1.0,) * devices)
        for share in (0.60, 0.80, 0.95):
            yield f"d: {devices} devices, {share:.0%} of capacity", replace(even, rate=share * even.capacity)
    if large:
        yield "64 devices, 10,000 clients", World((1.0,) * 64, 10_000)


def sustained(policy: Policy, devices: int, seconds: float) -> float:
    """Return the highest rate, in requests a second, at which 99 of 100 are answered within half a second."""
    even = World((1.0,) * devices)
    low, high = 0.0, even.capacity
    for _ in range(_STEPS):
        rate = (low + high) / 2
        seen = policy.run(replace(even, rate=rate), seconds)
        low, high = (rate, high) if seen.p99_s <= _P99_S else (low, rate)
    return low


def rows(seconds: float, large: bool, say: Callable[[str], None]) -> Iterator[Row]:
    for name, world in worlds(large):
        say(name)
        for policy in policies():
            yield Row(name, policy.name, policy.run(world, seconds))
    for devices in (4, 8):
        name = f"d: {devices} devices, sustained at a p99 of {_P99_S:g} s"
        say(name)
        for policy in policies():
            yield Row(name, policy.name, None, sustained(policy, devices, seconds))


def _cells(row: Row, pull: Row) -> list[str]:
    seen = row.seen
    if seen is None or pull.seen is None:
        gain = f"{pull.sustained / row.sustained:.2f}x" if row.sustained else "-"
        return [row.world, row.policy, f"{row.sustained:,.0f}", "", "", "", "", "", gain]
    times = [f"{1e3 * time:.0f}" for time in (seen.p50_s, seen.p99_s)]
    gain = f"{pull.seen.per_second / seen.per_second:.2f}x"
    rate, loads = f"{seen.per_second:,.0f}", f"{seen.loads}"
    return [row.world, row.policy, rate, *times, f"{seen.mean_batch:.1f}", f"{seen.busy_share:.2f}", loads, gain]


def table(found: list[Row]) -> str:
    """Return a Markdown table; the last column says how many times as much pulling carries."""
    header = ["World", "Policy", "Requests/s", "p50, ms", "p99, ms", "Batch", "Busy", "Loads", "Pull carries"]
    pulls = {row.world: row for row in found if row.policy == PULL}
    lines = [header, ["---"] * len(header), *(_cells(row, pulls[row.world]) for row in found)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.simulate", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="simulated, of each row (default: %(default)s)")
    parser.add_argument("--large", action="store_true", help="with 64 devices and 10,000 clients: minutes")
    parser.add_argument("--out", type=Path, help="write the rows to this JSON file")
    arguments = parser.parse_args()
    found = list(rows(arguments.seconds, arguments.large, lambda text: print(text, flush=True)))
    print("\n" + table(found))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
