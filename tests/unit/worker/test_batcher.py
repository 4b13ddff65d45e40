from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.worker import batcher
from appliance.worker.batcher import MAX_ATTEMPTS, Batch, Limits
from appliance.worker.job import Key, Piece
from tests.unit.making import pieces

LENGTHS = st.lists(st.integers(1, 600), min_size=1, max_size=80)
LIMITS = st.builds(Limits, st.integers(16, 2048), st.integers(1, 64), st.integers(0, 64), st.floats(0, 1))
Waiting = dict[Key, list[Piece]]


@st.composite
def waitings(draw: st.DrawFn) -> Waiting:
    """Up to three models' worth of waiting inputs, each in order of arrival."""
    waiting: Waiting = {}
    for number in range(draw(st.integers(1, 3))):
        made = pieces(draw(LENGTHS), f"m{number}", arrived=draw(st.floats(0, 10)))
        waiting[made[0].job.key] = made
    return waiting


def chosen(waiting: Waiting, limits: Limits) -> Batch:
    key = batcher.oldest(waiting)
    assert key is not None
    return batcher.form(key, waiting[key], limits)


@given(waitings(), LIMITS)
def test_a_batch_holds_the_oldest_input_of_all(waiting: Waiting, limits: Limits) -> None:
    oldest = min((made[0] for made in waiting.values()), key=lambda piece: piece.arrived)
    assert oldest in chosen(waiting, limits).pieces


@given(waitings(), LIMITS)
def test_a_batch_is_within_its_limits_or_one_input_alone(waiting: Waiting, limits: Limits) -> None:
    batch = chosen(waiting, limits)
    assert len(batch.pieces) <= limits.batch_items
    assert batch.size <= limits.batch_tokens or len(batch.pieces) == 1


@given(waitings(), LIMITS)
def test_a_batch_is_of_one_key_without_repeats(waiting: Waiting, limits: Limits) -> None:
    batch = chosen(waiting, limits)
    assert {piece.job.key for piece in batch.pieces} == {batch.key}
    assert len(set(map(id, batch.pieces))) == len(batch.pieces)


@given(waitings(), LIMITS)
def test_everything_runs_once_when_batches_are_taken_to_the_end(waiting: Waiting, limits: Limits) -> None:
    ran: list[Piece] = []
    everything = {id(piece) for made in waiting.values() for piece in made}
    while (key := batcher.oldest(waiting)) is not None:
        batch = batcher.form(key, waiting[key], limits)
        ran += batch.pieces
        waiting[batch.key] = batcher.without(waiting[batch.key], batch)
    assert sorted(map(id, ran)) == sorted(everything)


@given(st.integers(17, 5000), LENGTHS)
def test_an_input_over_the_budget_runs_alone(length: int, others: list[int]) -> None:
    made = pieces([length, *others])
    limits = Limits(batch_tokens=16, batch_items=64, overhead_tokens=16)
    assert chosen({made[0].job.key: made}, limits).pieces == [made[0]]


def test_nothing_waits_nothing_runs() -> None:
    key = pieces([1])[0].job.key
    assert batcher.oldest({}) is None
    assert batcher.oldest({key: []}) is None


@pytest.mark.parametrize(
    ("lengths", "limits", "expected"),
    [
        ([8] * 10, Limits(64, 64, 16), 8),
        ([8] * 10, Limits(64, 4, 16), 4),
        ([8] * 3, Limits(64, 64, 16), 3),
    ],
)
def test_inputs_of_one_length_fill_the_budget(lengths: list[int], limits: Limits, expected: int) -> None:
    made = pieces(lengths)
    assert len(chosen({made[0].job.key: made}, limits).pieces) == expected


def test_a_long_input_does_not_make_short_ones_pay_for_its_padding() -> None:
    made = pieces([4, 4, 4, 4, 500, 4, 4, 4])
    batch = chosen({made[0].job.key: made}, Limits(4096, 64, 16))
    assert [piece.length for piece in batch.pieces] == [4] * 7


def test_padding_that_costs_nothing_separates_nobody() -> None:
    made = pieces([4, 4, 4, 4, 500, 4, 4, 4])
    batch = chosen({made[0].job.key: made}, Limits(4096, 64, 16, padding_cost=0.0))
    assert len(batch.pieces) == 8
    assert batch.size == batch.real_tokens


@given(LENGTHS, LIMITS)
def test_no_window_around_the_oldest_is_better(lengths: list[int], limits: Limits) -> None:
    made = pieces(lengths)
    best = chosen({made[0].job.key: made}, limits)
    order = sorted(made, key=lambda piece: piece.length)
    at = order.index(made[0])
    for first in range(at + 1):
        for last in range(at, len(order)):
            other = Batch(best.key, order[first : last + 1], limits.padding_cost)
            fits = len(other.pieces) <= limits.batch_items and other.size <= limits.batch_tokens
            if fits and limits.overhead_tokens:
                assert score(other, limits) <= score(best, limits) * (1 + 1e-9)


def score(batch: Batch, limits: Limits) -> float:
    return batch.real_tokens / (limits.overhead_tokens + batch.size)


def run_with_guilty(count: int, guilty: set[int]) -> tuple[dict[int, int], list[int]]:
    """Run one batch to its end; return how often each input ran, and those given up."""
    made = pieces([1] * count)
    runs = dict.fromkeys(range(count), 0)
    given_up: list[int] = []
    queue = deque([Batch(made[0].job.key, made)])
    while queue:
        batch = queue.popleft()
        assert batch.pieces
        for piece in batch.pieces:
            runs[piece.index] += 1
        if guilty & {piece.index for piece in batch.pieces}:
            again, lost = batcher.after_failure(batch)
            queue.extend(again)
            given_up += [piece.index for piece in lost]
    return runs, given_up


@given(st.integers(1, 200), st.data())
def test_one_poison_input_is_found_and_harms_only_itself(count: int, data: st.DataObject) -> None:
    guilty = data.draw(st.integers(0, count - 1))
    runs, given_up = run_with_guilty(count, {guilty})
    assert given_up == [guilty]
    assert max(runs.values()) <= MAX_ATTEMPTS


@given(st.integers(1, 60), st.data())
def test_several_poison_inputs_are_found_and_harm_only_themselves(count: int, data: st.DataObject) -> None:
    guilty = data.draw(st.sets(st.integers(0, count - 1)))
    runs, given_up = run_with_guilty(count, guilty)
    assert sorted(given_up) == sorted(guilty)
    assert max(runs.values()) <= MAX_ATTEMPTS
