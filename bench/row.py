"""A row of the table: what was measured, its limit, and the bar that it has to reach."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Bar:
    """At least or at most so much, in `unit`; unit "" is a ratio."""

    value: float
    at_least: bool
    unit: str

    @property
    def is_none(self) -> bool:
        """Whether there is nothing to reach: the row is there to be looked at."""
        return self.at_least and self.value == 0

    def holds(self, value: float) -> bool:
        return value >= self.value if self.at_least else value <= self.value


@dataclass(frozen=True)
class Pair:
    """One measurement of the appliance and, just before it, of its limit (None where the row has none)."""

    limit: float | None
    appliance: float
    value: float


@dataclass
class Row:
    """`pairs` in the order measured; the median of their values is held against the bar."""

    name: str
    what: str
    limit_is: str
    unit: str
    bar: Bar
    pairs: list[Pair] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    is_disturbed: bool = False

    @property
    def value(self) -> float:
        return statistics.median(pair.value for pair in self.pairs)

    @property
    def limit(self) -> float | None:
        limits = [pair.limit for pair in self.pairs if pair.limit is not None]
        return statistics.median(limits) if limits else None

    @property
    def appliance(self) -> float:
        return statistics.median(pair.appliance for pair in self.pairs)

    @property
    def is_missed(self) -> bool:
        """True where the bar is not reached, or something went wrong that no figure makes up for."""
        return bool(self.problems) or (bool(self.pairs) and not self.bar.holds(self.value))

    @property
    def verdict(self) -> str:
        """pass, FAIL, or not measured; with a mark where others took part of the cores, so that it proves little."""
        if not self.pairs and not self.problems:
            return "not measured"
        if self.bar.is_none and not self.is_missed:
            return "-"
        return ("FAIL" if self.is_missed else "pass") + (" (disturbed)" if self.is_disturbed else "")

    def as_json(self) -> dict[str, Any]:
        medians = {"limit": self.limit, "appliance": self.appliance, "value": self.value} if self.pairs else {}
        return {**asdict(self), **medians, "verdict": self.verdict}
