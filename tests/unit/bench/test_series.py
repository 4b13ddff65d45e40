from __future__ import annotations

from pathlib import Path

import pytest

from bench import series
from bench.measure import Window
from bench.options import Options
from bench.row import Bar, Row

OPTIONS = Options(("short",), 1.0, 0.0, 2, Path(), "model", Path(), Path(), None)


def window(per_second: float, foreign: float, **failures: int) -> Window:
    return Window({"requests": 10, "per_second": per_second, "failures": failures}, {"engine": 0.02}, foreign)


def measured(*pairs: tuple[Window, Window]) -> Row:
    """Return a row of two pairs out of those that come, in order."""
    row = Row("short", "what", "limit", "texts/s", Bar(0.75, True, ""))
    return series.measure(row, lambda number: pairs[number], OPTIONS, lambda text: None)


def test_two_calm_pairs_are_enough() -> None:
    row = measured((window(100, 0.01), window(80, 0.05)), (window(100, 0.0), window(60, 0.0)))
    assert [pair.value for pair in row.pairs] == [0.8, 0.6]
    assert row.details["set_aside"] == []


def test_a_disturbed_pair_is_measured_again_whatever_it_gave() -> None:
    row = measured(
        (window(100, 0.01), window(80, 0.01)),
        (window(100, 0.4), window(120, 0.0)),
        (window(100, 0.0), window(60, 0.0)),
    )
    assert [pair.value for pair in row.pairs] == [0.8, 0.6]
    assert len(row.details["set_aside"]) == 1


def test_where_it_never_gets_calm_the_least_disturbed_are_kept() -> None:
    levels = (0.5, 0.1, 0.2, 0.3)
    row = measured(*((window(100, level), window(level * 100, 0.0)) for level in levels))
    assert [pair.value for pair in row.pairs] == pytest.approx([0.1, 0.2])
    assert row.verdict == "FAIL (disturbed)"


def test_what_was_calm_is_not_marked() -> None:
    assert measured(*[(window(100, 0.05), window(80, 0.0))] * 2).verdict == "pass"


def test_a_failure_in_any_window_is_a_problem_of_the_row() -> None:
    row = measured(
        (window(100, 0.01), window(80, 0.01)),
        (window(100, 0.9), window(80, 0.01, reset=3)),
        (window(100, 0.0), window(80, 0.0)),
    )
    assert row.verdict == "FAIL"
    assert "reset" in row.problems[0]


def test_processor_time_is_told_per_request() -> None:
    row = measured(*[(window(100, 0.0), window(80, 0.0))] * 2)
    assert row.details["appliance"]["cpu_ms_per_request"] == {"engine": 2.0}
