"""Pairs of windows, limit and appliance in turns, into a row. Pairs that others disturbed are measured again."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from bench.measure import Window
from bench.options import Options
from bench.row import Pair, Row

CALM = 0.05
"""A pair counts as undisturbed while others had no more than this share of the cores in either of its windows."""

Windows = tuple[Window, Window]
Say = Callable[[str], None]


def ratio(limit: float, appliance: float) -> float:
    return appliance / limit


def difference(limit: float, appliance: float) -> float:
    return appliance - limit


def measure(
    row: Row,
    once: Callable[[int], Windows],
    options: Options,
    say: Say,
    of: str = "per_second",
    value: Callable[[float, float], float] = ratio,
) -> Row:
    """Fill the row with `options.repeats` pairs of `once`(number), which gives the limit's window and the appliance's.

    Disturbed pairs are repeated, up to as many again, and the least disturbed are kept: chosen by what others used
    of the cores, never by what came out.
    """
    seen: list[tuple[Windows, Pair]] = []
    while (
        len(seen) < 2 * options.repeats and sum(_disturbance(windows) <= CALM for windows, _ in seen) < options.repeats
    ):
        windows = once(len(seen))
        limit, appliance = (window.result[of] for window in windows)
        seen.append((windows, Pair(limit, appliance, value(limit, appliance))))
        say(_told(row, windows, seen[-1][1], len(seen)))
    kept = least_disturbed([_disturbance(windows) for windows, _ in seen], options.repeats)
    row.pairs = [seen[index][1] for index in kept]
    row.is_disturbed = any(_disturbance(seen[index][0]) > CALM for index in kept)
    row.problems = [problem for windows, _ in seen for problem in _problems(windows)]
    described = [{"limit": _described(limit), "appliance": _described(ours)} for (limit, ours), _ in seen]
    row.details["windows"] = [described[index] for index in kept]
    row.details["set_aside"] = [one for index, one in enumerate(described) if index not in kept]
    for side in ("limit", "appliance"):
        row.details[side] = _median([window[side] for window in row.details["windows"]])
    return row


def least_disturbed(disturbances: list[float], count: int) -> list[int]:
    """Return the indexes of the `count` smallest, in order of time; calm ones are equal, the earlier wins."""
    ranked = sorted(range(len(disturbances)), key=lambda index: max(CALM, disturbances[index]))
    return sorted(ranked[:count])


def _disturbance(windows: Windows) -> float:
    return max(window.foreign for window in windows)


def _problems(windows: Windows) -> list[str]:
    failures = [window.result["failures"] for window in windows if window.result.get("failures")]
    return [f"not every answer was a 200: {found}" for found in failures]


def _told(row: Row, windows: Windows, pair: Pair, number: int) -> str:
    result = f"{pair.value:.3f} {row.bar.unit}" if row.bar.unit else f"ratio {pair.value:.3f}"
    others = " and ".join(f"{window.foreign:.0%}" for window in windows)
    disturbed = ", disturbed" if _disturbance(windows) > CALM else ""
    return (
        f"{row.name} {number}: limit {pair.limit:.2f} {row.unit}, appliance {pair.appliance:.2f} {row.unit}, {result}"
        f" (others had {others} of the cores{disturbed})"
    )


def _described(window: Window) -> dict[str, Any]:
    return {**window.result, "cpu_ms_per_request": window.cpu_ms_per_request, "other_programs": window.foreign}


def _median(seen: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median over the windows of everything that is a number."""
    found: dict[str, Any] = {}
    for key, value in seen[0].items():
        if key == "cpu_ms_per_request":
            found[key] = {role: statistics.median(one[key].get(role, 0.0) for one in seen) for role in value}
        elif isinstance(value, (int, float)):
            found[key] = statistics.median(one[key] for one in seen)
    return found
