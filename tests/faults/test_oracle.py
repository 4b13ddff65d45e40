"""The oracle can fail: made-up histories with one thing wrong in each."""

from __future__ import annotations

import math
from typing import Any

import pytest

from faults import fault
from faults.fault import Expect
from faults.history import DOWN, END, EXTRA, SEND, UP, Line
from faults.oracle import Verdict, judge


def send(
    t: float, op: int, n: int = 0, *, model: str = "oak", role: str = "innocent", deadline_s: float = 30.0
) -> Line:
    return {"t": t, "e": SEND, "op": op, "n": n, "model": model, "role": role, "deadline_s": deadline_s}


def end(t: float, op: int, why: str = "good", n: int = 0, **fields: Any) -> Line:
    return {"t": t, "e": END, "op": op, "n": n, "why": why, **fields}


def whole(op: int, t: float, took_s: float = 0.1) -> list[Line]:
    return [send(t, op), end(t + took_s, op)]


def problems(verdict: Verdict, expect: Expect | None = None) -> list[str]:
    return fault.problems(expect or Expect(), verdict)


def test_all_answered_is_nothing_to_complain_of() -> None:
    verdict = judge([*whole(1, 0.0), *whole(2, 0.1)])
    assert (verdict.requests, verdict.admitted, verdict.answered, verdict.lost, verdict.twice) == (2, 2, 2, 0, 0)
    assert problems(verdict) == []


def test_a_request_without_an_end_is_lost() -> None:
    verdict = judge([*whole(1, 0.0), send(0.5, 2)])
    assert (verdict.admitted, verdict.answered, verdict.lost) == (2, 1, 1)
    assert problems(verdict) == ["1 lost"]


@pytest.mark.parametrize("why", ["reset", "silent", "garbage"])
def test_a_connection_that_broke_while_its_gateway_lived_is_lost_though_the_next_attempt_is_answered(why: str) -> None:
    verdict = judge([send(0.0, 1), end(0.1, 1, why), send(0.2, 1, 1), end(0.3, 1, n=1)])
    assert (verdict.lost, verdict.answered, verdict.retried) == (1, 0, 1)


def test_a_reset_because_the_gateway_was_killed_is_unknown_and_its_next_attempt_counts() -> None:
    cut = [send(0.0, 1), {"t": 0.05, "e": DOWN, "who": "gateway0"}, end(0.06, 1, "reset")]
    back = [{"t": 0.5, "e": UP, "who": "gateway0"}, send(0.6, 1, 1)]
    assert judge([*cut, *back, end(0.7, 1, n=1)]).answered == 1
    assert judge([*cut, *back]).lost == 1
    assert judge([*cut, *back, end(0.7, 1, "reset", n=1)]).lost == 0 + 1


def test_a_reset_long_after_the_gateway_was_back_is_lost() -> None:
    kill = [{"t": 0.0, "e": DOWN, "who": "gateway0"}, {"t": 0.5, "e": UP, "who": "gateway0"}]
    assert judge([*kill, send(2.0, 1), end(2.1, 1, "reset"), send(2.2, 1, 1), end(2.3, 1, n=1)]).lost == 1


def test_silence_is_lost_even_while_the_gateway_is_down() -> None:
    assert judge([{"t": 0.0, "e": DOWN, "who": "gateway0"}, send(0.1, 1), end(33.0, 1, "silent")]).lost == 1


def test_an_answer_after_the_deadline_is_lost() -> None:
    assert judge([send(0.0, 1, deadline_s=1.0), end(2.5, 1)]).lost == 1
    assert judge([send(0.0, 1, deadline_s=1.0), end(1.5, 1)]).lost == 0


def test_a_second_answer_is_answered_twice() -> None:
    verdict = judge([*whole(1, 0.0), end(0.2, 1)])
    assert verdict.twice == 1
    assert problems(verdict) == ["1 answered twice"]


def test_an_answer_under_another_s_id_is_answered_twice() -> None:
    assert judge([send(0.0, 1), end(0.1, 1, is_foreign=True)]).twice == 1


def test_bytes_that_nobody_asked_for_are_an_answer_too_many() -> None:
    assert judge([*whole(1, 0.0), {"t": 0.2, "e": EXTRA, "op": 1, "bytes": "HTTP/1.1 200 OK"}]).twice == 1


def test_another_s_vector_is_wrong() -> None:
    verdict = judge([send(0.0, 1), end(0.1, 1, "wrong"), *whole(2, 0.2)])
    assert (verdict.wrong, verdict.answered) == (1, 1)
    assert problems(verdict) == ["1 wrong"]


def test_a_named_error_is_an_end_but_not_one_that_innocents_may_get() -> None:
    verdict = judge([*whole(1, 0.0), send(0.2, 2), end(0.3, 2, "error", code="unavailable")])
    assert (verdict.admitted, verdict.named_errors, verdict.lost) == (2, 1, 0)
    assert problems(verdict) == ["1 innocent got unavailable"]
    assert problems(verdict, Expect(errors=frozenset({"unavailable"}))) == []


def test_the_guilty_may_get_their_codes_and_must_not_be_answered() -> None:
    lines = [*whole(1, 0.0), send(0.2, 2, role="poison"), end(0.3, 2, "error", code="quarantined")]
    expect = Expect(guilty=frozenset({"quarantined"}), guilty_fail=True)
    assert problems(judge(lines), expect) == []
    answered = judge([*lines, send(0.4, 3, role="poison"), end(0.5, 3)])
    assert problems(answered, expect) == ["1 guilty ones were answered"]
    assert answered.innocents == answered.innocents_answered == 1


def test_who_is_turned_away_at_the_door_is_not_admitted() -> None:
    verdict = judge([*whole(1, 0.0), send(0.2, 2), end(0.3, 2, "error", code="overloaded")])
    assert (verdict.shed, verdict.admitted) == (1, 1)
    assert problems(verdict) == ["1 turned away"]


def test_who_comes_back_as_told_and_is_turned_away_again_is_counted_against_those_who_came_back() -> None:
    away = [end(0.1, op, "error", code="overloaded") for op in range(4)]
    back = [send(1.0, op, 1) for op in range(3)]  # the fourth never comes
    answered = [end(1.1, op, n=1) for op in range(2)]
    again = [end(1.1, 2, "error", n=1, code="overloaded")]
    verdict = judge([*(send(0.0, op) for op in range(4)), *away, *back, *answered, *again])
    assert (verdict.came_back, verdict.put_off) == (3, 1)
    assert problems(verdict, Expect(may_shed=True, put_off=0.4)) == []
    found = problems(verdict, Expect(may_shed=True, put_off=0.3))
    assert found == ["1 of 3 came back as told and were turned away again"]


def test_who_hung_up_is_nobody_s_loss() -> None:
    verdict = judge([*whole(1, 0.0), send(0.2, 2, role="gone"), end(0.21, 2, "gone")])
    assert (verdict.gone, verdict.lost, verdict.admitted) == (1, 0, 1)


def test_the_worst_gap_is_the_longest_wait_without_a_good_answer() -> None:
    verdict = judge([*whole(1, 0.0), send(0.05, 2), end(5.1, 2)])
    assert verdict.gap_s == pytest.approx(5.0)
    assert problems(verdict, Expect(gap_s=2.0)) == ["a gap of 5.00 s, 2 s are allowed"]


def test_a_time_in_which_nobody_asked_is_no_gap() -> None:
    assert judge([*whole(1, 0.0), *whole(2, 9.0)]).gap_s == pytest.approx(0.1)


def test_a_gap_of_one_model_does_not_hide_behind_another_s_answers() -> None:
    stuck = [send(0.0, 1, model="elm"), end(6.0, 1)]
    assert judge([*stuck, *(line for n in range(2, 60) for line in whole(n, n / 10))]).gap_s == pytest.approx(6.0)


def test_nobody_answered_is_a_gap_without_an_end() -> None:
    verdict = judge([send(0.0, 1), end(1.0, 1, "error", code="unavailable")])
    assert verdict.gap_s == math.inf
    assert "nobody was answered at all" in problems(verdict)


def test_p99_is_of_innocents_from_their_first_attempt_on() -> None:
    lines = [line for n in range(200) for line in whole(n, n * 1.0, took_s=0.01)]
    slow = [line for n in range(200, 204) for line in whole(n, n * 1.0, took_s=0.9)]
    assert judge([*lines, *slow]).p99_s == pytest.approx(0.9)
    assert judge(lines).p99_s == pytest.approx(0.01)
