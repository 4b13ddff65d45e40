from __future__ import annotations

import pytest

from bench.row import Bar, Pair, Row


def row(bar: Bar, *values: float) -> Row:
    return Row("short", "what", "limit", "texts/s", bar, [Pair(100.0, value * 100, value) for value in values])


@pytest.mark.parametrize(
    ("bar", "values", "verdict"),
    [
        (Bar(0.75, True, ""), (0.1, 0.75, 0.9), "pass"),
        (Bar(0.75, True, ""), (0.9, 0.74, 0.1), "FAIL"),
        (Bar(3.0, False, "ms"), (3.0,), "pass"),
        (Bar(3.0, False, "ms"), (3.1, 3.2, 0.0), "FAIL"),
        (Bar(3.0, False, "ms"), (), "not measured"),
    ],
)
def test_the_median_decides(bar: Bar, values: tuple[float, ...], verdict: str) -> None:
    assert row(bar, *values).verdict == verdict


def test_nan_holds_no_bar() -> None:
    assert row(Bar(0.75, True, ""), float("nan")).verdict == "FAIL"
    assert row(Bar(3.0, False, "ms"), float("nan")).verdict == "FAIL"


def test_a_problem_fails_a_row_however_fast_it_was() -> None:
    fast = row(Bar(0.75, True, ""), 0.9)
    fast.problems.append("not all requests were answered with 200")
    assert fast.verdict == "FAIL"
