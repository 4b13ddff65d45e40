from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.worker.batcher import Batch, Limits
from appliance.worker.pace import Line, Pace
from tests.unit.making import pieces

LIMITS = Limits(batch_tokens=640, batch_items=64, overhead_tokens=16)


def batch(count: int, length: int = 10) -> Batch:
    made = pieces([length] * count)
    return Batch(made[0].job.key, made)


def taught(*counts: int, a_s: float = 0.04, b_s: float = 0.0012) -> Pace:
    pace = Pace()
    for count in counts:
        seconds = a_s + b_s * 10 * count
        pace.took(batch(count), seconds, seconds)
    return pace


def test_the_pace_of_full_batches_is_known_from_small_ones() -> None:
    pace = taught(1, 2, 1, 3, 2, 4)
    assert pace.full_cost(LIMITS) == pytest.approx(640)
    assert pace.seconds_per_cost(LIMITS) == pytest.approx((0.04 + 0.0012 * 640) / 640, rel=0.01)


def test_what_few_batches_tell_is_promised_with_a_margin_that_goes() -> None:
    assert taught(*[64] * 5).caution == pytest.approx(1.2)
    assert taught(*[64] * 100).caution == pytest.approx(1.01)
    assert Pace().caution > 1


def test_the_first_batch_s_inputs_count_no_more_than_the_next_ones() -> None:
    pace = Pace()
    for length in (40, 10, 10, 10, 10):
        pace.took(batch(4, length), 0.1, 0.1)
    assert pace.piece_cost == pytest.approx(16)


def test_batches_of_one_size_give_their_own_pace() -> None:
    pace = taught(*[64] * 6)
    assert pace.seconds_per_cost(LIMITS) == pytest.approx((0.04 + 0.0012 * 640) / 640, rel=0.01)


def test_nothing_is_known_before_some_batches_ran() -> None:
    assert Pace().seconds_per_cost(LIMITS) == 0.0
    assert Pace().full_cost(LIMITS) == 0.0
    assert taught(1, 2).seconds_per_cost(LIMITS) == 0.0
    assert taught(1, 2).limit_s(batch(4), 1.0, 10.0, 120.0) == 120.0


def test_a_batch_is_hung_after_many_times_what_it_should_take() -> None:
    pace = taught(1, 2, 4, 8, 16, 32)
    assert pace.limit_s(batch(64), 1.0, 10.0, 120.0) == pytest.approx(10 * (0.04 + 0.768), rel=0.01)
    assert pace.limit_s(batch(1), 1.0, 10.0, 120.0) == 1.0
    assert pace.limit_s(batch(64), 1.0, 1000.0, 120.0) == 120.0


def test_the_pace_follows_a_device_that_slows_down() -> None:
    pace = taught(*[64] * 50)
    before = pace.seconds_per_cost(LIMITS)
    for _ in range(100):
        pace.took(batch(64), 2.0, 2.0)
    assert pace.seconds_per_cost(LIMITS) == pytest.approx(2.0 / 640, rel=0.1)
    assert pace.seconds_per_cost(LIMITS) > 2 * before


@given(st.lists(st.tuples(st.floats(1, 1e5), st.floats(0, 100)), min_size=1, max_size=50), st.floats(1, 1e5))
def test_a_line_never_promises_less_than_nothing(samples: list[tuple[float, float]], x: float) -> None:
    line = Line()
    for one in samples:
        line.add(*one)
    assert line.at(x) >= 0
