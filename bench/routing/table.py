"""Rows of the table: what was measured of a world under a policy, its medians, and what it is held against."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.routing.measure import Measured
from bench.routing.worlds import PULL
from bench.simulation import Seen

ROUND_ROBIN = "round robin"


@dataclass
class Row:
    """One world under one policy: a window for each repeat, and what the simulation says of it."""

    case: str
    policy: str
    windows: list[Measured] = field(default_factory=list)
    simulated: Seen | None = None

    def median(self, what: Callable[[Measured], float]) -> float:
        return statistics.median(map(what, self.windows))

    @property
    def per_second(self) -> float:
        return self.median(lambda one: one.per_second)

    @property
    def p99_ms(self) -> float:
        return self.median(lambda one: one.p99_ms)

    @property
    def spread(self) -> float:
        """How far the repeats are apart, as a share of their median."""
        rates = [one.per_second for one in self.windows]
        return (max(rates) - min(rates)) / self.per_second

    @property
    def off(self) -> float:
        """By what share the simulation is off what was measured; nan where it has nothing to say."""
        return self.simulated.per_second / self.per_second - 1 if self.simulated else float("nan")

    def as_json(self) -> dict[str, Any]:
        return {
            "case": self.case,
            "policy": self.policy,
            "windows": [asdict(one) for one in self.windows],
            "simulated": asdict(self.simulated) if self.simulated else None,
        }


@dataclass(frozen=True)
class Verdict:
    """A bar that a world's row has to reach."""

    case: str
    what: str
    value: float
    bar: float
    at_least: bool = True

    @property
    def holds(self) -> bool:
        return self.value >= self.bar if self.at_least else self.value <= self.bar


_LEAST_GAIN = {
    "a: 4 devices, 256": 1.55,
    "a: 4 devices, 512": 1.4,
    "a: 8 devices, 256": 2.0,
    "a: 8 devices, 512": 1.8,
    "b: ": 1.6,
    "c: ": 1.3,
    "d: 4 devices, sustained": 2.5,
    "d: 8 devices, sustained": 2.5,
    "e: ": 1.0,
}
_LEAST_OVER_ROUND_ROBIN = {"b: ": 2.2}
_MOST_P99 = {"a: ": 1.0, "d: 4 devices, 80%": 0.5, "d: 8 devices, 80%": 0.5}
_LEAST_BUSY = {"a: 4 devices, 256": 0.95}
_MOST_OFF = 0.15


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Hold every world's rows against their bars; those of worlds without routers are left out."""
    found: list[Verdict] = []
    for case in dict.fromkeys(row.case for row in rows):
        by_policy = {row.policy: row for row in rows if row.case == case}
        pull = by_policy.pop(PULL, None)
        if pull is None or not by_policy:
            continue
        best = max(row.per_second for row in by_policy.values())
        soonest = min(row.p99_ms for row in by_policy.values())
        found += _held(case, "requests a second, over the best router's", pull.per_second / best, _LEAST_GAIN)
        if ROUND_ROBIN in by_policy:
            over = pull.per_second / by_policy[ROUND_ROBIN].per_second
            found += _held(case, "requests a second, over round robin's", over, _LEAST_OVER_ROUND_ROBIN)
        found += _held(case, "p99, over the lowest of all routers", pull.p99_ms / soonest, _MOST_P99, False)
        busy = pull.median(lambda one: one.busy_share)
        found += _held(case, "busy share of the devices, pulling", busy, _LEAST_BUSY)
        off = [abs(row.off) for row in [pull, *by_policy.values()] if row.simulated]
        if off:
            found.append(Verdict(case, "simulation off by, at most of all policies", max(off), _MOST_OFF, False))
    return found


def _held(case: str, what: str, value: float, bars: dict[str, float], at_least: bool = True) -> list[Verdict]:
    return [Verdict(case, what, value, bar, at_least) for start, bar in bars.items() if case.startswith(start)]
