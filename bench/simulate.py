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
from bench.routing.worlds import DEVICES, P99_S, PULL, Case, Policy, cases, even, policies, sustained_name
from bench.simulation import Seen, Simulation, World

_STEPS = 7
"""Halvings of the range in which a sustained rate is sought: to a hundredth of the capacity."""


@dataclass(frozen=True)
class Row:
    """One world under one policy. `sustained` is the rate with a p99 of half a second, where that was sought."""

    world: str
    policy: str
    seen: Seen | None
    sustained: float = 0.0


def run(policy: Policy, world: World, seconds: float, seed: int = 1) -> Seen:
    """Simulate one world under one policy."""
    route = ROUTERS[policy.router]() if policy.router else None
    return Simulation(world, route, policy.stale_s, seed).run(seconds)


def sustained(policy: Policy, devices: int, seconds: float) -> float:
    """Return the highest rate, in requests a second, at which 99 of 100 are answered within half a second."""
    world = even(devices)
    low, high = 0.0, world.capacity
    for _ in range(_STEPS):
        rate = (low + high) / 2
        seen = run(policy, replace(world, rate=rate), seconds)
        low, high = (rate, high) if seen.p99_s <= P99_S else (low, rate)
    return low


def rows(seconds: float, large: bool, say: Callable[[str], None]) -> Iterator[Row]:
    every = list(cases())
    if large:
        every.append(Case("64 devices, 10,000 clients", even(64, 10_000)))
    for case in every:
        say(case.name)
        for policy in policies():
            yield Row(case.name, policy.name, run(policy, case.world, seconds))
    for devices in DEVICES:
        name = sustained_name(devices)
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
