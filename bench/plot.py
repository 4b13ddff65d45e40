"""The results as one picture: each row against its bar, and where the processor time of a request goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from bench.row import Row

_GOOD, _BAD, _UNSURE, _BAR = "#2a7f62", "#c0392b", "#9a8a3c", "#222222"
_COLOURS = {
    "engine": "#2a7f62",
    "in-process": "#86c5ae",
    "gateway": "#d98c21",
    "aiohttp": "#f0c987",
    "nats-server": "#5b7db1",
    "worker": "#9b6fb0",
    "daemon": "#444444",
    "load generator": "#c9c9c9",
}


def draw(path: Path, rows: list[Row]) -> None:
    """Write the picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure = plt.figure(figsize=(11, 7.4), layout="constrained")
    grid: Any = figure.subfigures(2, 1, height_ratios=(1, 1.12))
    upper, lower = grid
    left, right = upper.subplots(1, 2)
    measured = [row for row in rows if row.pairs]
    _ratios(left, [row for row in measured if row.bar.at_least])
    _allowances(right, [row for row in measured if not row.bar.at_least])
    _processor_time(lower, [row for row in measured if "appliance" in row.details and row.bar.at_least])
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _ratios(axes: Axes, rows: list[Row]) -> None:
    """Throughput as a share of the limit's; a line where the bar is, a dot for each pair."""
    for place, row in enumerate(reversed(rows)):
        axes.barh(place, row.value, height=0.55, color=_colour(row))
        axes.plot([row.bar.value] * 2, [place - 0.38, place + 0.38], color=_BAR, linewidth=2.5)
        values = [pair.value for pair in row.pairs]
        axes.plot(values, [place] * len(values), "o", color="white", markersize=4, mec=_BAR)
        axes.text(0.02, place, f"{row.value:.2f}", va="center", color="white", weight="bold")
    _names(axes, rows)
    axes.set_xlim(0, max([1.0, *(row.value * 1.05 for row in rows)]))
    axes.set_xlabel("share of the limit in the same run (line: bar, dots: pairs)")
    axes.set_title("Throughput: more is better", loc="left")


def _allowances(axes: Axes, rows: list[Row]) -> None:
    """What is used of what is allowed; 1 is the bar."""
    for place, row in enumerate(reversed(rows)):
        share = row.value / row.bar.value
        axes.barh(place, share, height=0.55, color=_colour(row))
        label = f"{row.value:.3g} of {row.bar.value:g} {row.bar.unit}"
        inside = share > 0.6
        axes.text(
            0.02 if inside else max(0.0, share) + 0.02,
            place,
            label,
            va="center",
            color="white" if inside else _BAR,
            weight="bold",
        )
    axes.axvline(1.0, color=_BAR, linewidth=2.5)
    _names(axes, rows)
    axes.set_xlim(0, max([1.1, *(row.value / row.bar.value * 1.05 for row in rows)]))
    axes.set_xlabel("share of the allowance used (line: all of it)")
    axes.set_title("Cost of being there: less is better", loc="left")


def _mark(row: Row) -> str:
    return "\n(disturbed)" if row.is_disturbed else ""


def _colour(row: Row) -> str:
    if row.is_disturbed:
        return _UNSURE
    return _BAD if row.is_missed else _GOOD


def _names(axes: Axes, rows: list[Row]) -> None:
    axes.set_yticks(range(len(rows)), [row.name + _mark(row) for row in reversed(rows)])


def _processor_time(figure: Any, rows: list[Row]) -> None:
    """Stacked by process, limit and appliance side by side; a scale of its own for each row."""
    if not rows:
        return
    figure.suptitle("Processor time of one request, by process", x=0.01, ha="left", fontsize=12)
    handles: dict[str, Any] = {}
    for axes, row in zip(figure.subplots(1, len(rows), squeeze=False)[0], rows, strict=True):
        for place, side in enumerate(("limit", "appliance")):
            handles |= _stack(axes, place, row.details[side]["cpu_ms_per_request"])
        axes.set_xticks((0, 1), ("limit", "appliance"))
        axes.set_ylabel("CPU ms a request")
        axes.set_title(row.name)
        axes.margins(y=0.12)
    ordered = [role for role in _COLOURS if role in handles]
    figure.legend([handles[role] for role in ordered], ordered, loc="outside right center", frameon=False)


def _stack(axes: Axes, place: int, used: dict[str, float]) -> dict[str, Any]:
    """Draw one bar; return what the legend needs."""
    bottom, handles = 0.0, {}
    for role in sorted(used, key=lambda one: list(_COLOURS).index(one) if one in _COLOURS else len(_COLOURS)):
        handles[role] = axes.bar(place, used[role], 0.6, bottom=bottom, color=_COLOURS.get(role, "#000000"))
        bottom += used[role]
    axes.text(place, bottom, f"{bottom:.3g}", ha="center", va="bottom")
    return handles
