from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.supervisor.restart import STABLE_AFTER_S, Backoff, failures_after_exit


@pytest.mark.parametrize(("failures", "delay_s"), [(1, 0.1), (2, 0.2), (3, 0.4), (8, 12.8), (9, 25.6), (10, 30.0)])
def test_the_wait_doubles_up_to_the_longest(failures: int, delay_s: float) -> None:
    assert Backoff(0.1, 30.0).delay_s(failures) == pytest.approx(delay_s)


@given(st.integers(1, 10**9), st.floats(0.01, 60), st.floats(0.1, 3600))
def test_the_wait_never_exceeds_the_longest_nor_falls(failures: int, first_s: float, longest_s: float) -> None:
    backoff = Backoff(first_s, longest_s)
    assert 0 < backoff.delay_s(failures) <= longest_s
    assert backoff.delay_s(failures) <= backoff.delay_s(failures + 1)


@pytest.mark.parametrize(
    ("ready_for_s", "failures"),
    [
        ([0.0, 0.0, 0.0], 3),
        ([1.0, STABLE_AFTER_S - 1, 0.0], 3),
        ([0.0, 0.0, STABLE_AFTER_S], 1),
        ([0.0, STABLE_AFTER_S + 5, 0.0], 2),
    ],
)
def test_a_process_that_was_stable_starts_afresh(ready_for_s: list[float], failures: int) -> None:
    count = 0
    for seconds in ready_for_s:
        count = failures_after_exit(count, seconds)
    assert count == failures
