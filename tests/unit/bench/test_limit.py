from __future__ import annotations

from bench.limit import cut


def test_batches_keep_the_order_and_hold_about_the_budget() -> None:
    ordered = [[0] * length for length in (50, 30, 30, 20, 10, 10, 10, 5)]
    batches = cut(ordered, 60)
    assert [one for batch in batches for one in batch] == ordered
    assert [[len(one) for one in batch] for batch in batches] == [[50], [30, 30], [20, 10, 10], [10, 5]]
    assert all(len(batch) * len(batch[0]) <= 60 for batch in batches)


def test_an_input_over_the_budget_runs_alone() -> None:
    assert [len(batch) for batch in cut([[0] * 500, [0] * 400], 60)] == [1, 1]


def test_nothing_gives_no_batch() -> None:
    assert cut([], 60) == []
