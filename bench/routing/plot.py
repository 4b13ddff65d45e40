"""One picture: what each policy carries in each world, and how long the slowest hundredth waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from bench.routing.table import Row
from bench.routing.worlds import PULL, STALE_S

_COLOURS = {
    PULL: "#2a7f62",
    "round robin": "#d98c21",
    "random": "#5b7db1",
    "two choices": "#9b6fb0",
    "least outstanding": "#c0392b",
}


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Write the picture."""
    cases = list(dict.fromkeys(row.case for row in rows))
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(13, 1.6 + 1.15 * len(cases)), layout="constrained", sharey=True, squeeze=True
    )
    _bars(left, rows, cases, lambda row: row.per_second, "requests a second: more is better")
    timed = [row for row in rows if row.p99_ms == row.p99_ms]
    _bars(right, timed, cases, lambda row: row.p99_ms, "99th percentile, ms: less is better")
    left.invert_yaxis()  # both: they share it
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(f"Pulling against pushing (hatched: knows what was true up to {STALE_S * 1e3:.0f} ms ago)")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _bars(axes: Axes, rows: Sequence[Row], cases: list[str], value: Callable[[Row], float], title: str) -> None:
    policies = list(dict.fromkeys(row.policy for row in rows))
    height = 0.86 / max(1, len(policies))
    for number, policy in enumerate(policies):
        of_policy = {row.case: row for row in rows if row.policy == policy}
        places = [place for place, case in enumerate(cases) if case in of_policy]
        axes.barh(
            [place + (number - len(policies) / 2) * height for place in places],
            [value(of_policy[cases[place]]) for place in places],
            height=height,
            color=_COLOURS[policy.removesuffix(", stale")],
            hatch="///" if policy.endswith(", stale") else "",
            edgecolor="white",
            label=None if policy.endswith(", stale") else policy,
        )
    axes.set_yticks(range(len(cases)), cases)
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
