"""What the oracle expects is what the fake runtime answers, and only for the text that was asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.texts import WORDS
from faults import expected
from faults.client import Answer
from faults.load import outcome
from faults.mix import MARKER, Asked, Lane
from tests.integration.oracle import vector

LANE = Lane("oak", 1, 8)
TEXTS = ["rent is due", "the cat sits outside"]


def asked(*texts: str) -> Asked:
    return Asked(LANE, "innocent", list(texts), 30.0, 0.0)


def answer(status: int, value: Any, **headers: str) -> Answer:
    return Answer(status, {"x-request-id": "op1.0", **headers}, json.dumps(value).encode())


def good(*texts: str, model: str = "oak") -> Answer:
    data = [{"index": n, "embedding": expected.fake_vector(text, 8)} for n, text in enumerate(texts)]
    return answer(200, {"model": model, "data": data})


@pytest.mark.parametrize("text", ["", "one", "rent is due monthly", "Zürich 契約"])
def test_the_oracle_s_arithmetic_is_the_fake_runtime_s(text: str) -> None:
    assert expected.fake_vector(text, 8) == pytest.approx(vector(text), abs=1e-6)


def test_an_answer_to_one_s_own_texts_is_good() -> None:
    assert outcome(good(*TEXTS), "op1.0", asked(*TEXTS), {})["why"] == "good"


@pytest.mark.parametrize(
    "wrong",
    [good(*reversed(TEXTS)), good(TEXTS[0], TEXTS[0]), good(TEXTS[0]), good(*TEXTS, model="elm")],
    ids=["order", "another's", "too few", "another model's"],
)
def test_any_other_is_wrong(wrong: Answer) -> None:
    assert outcome(wrong, "op1.0", asked(*TEXTS), {})["why"] == "wrong"


def test_an_answer_under_another_id_is_foreign() -> None:
    assert outcome(good(*TEXTS), "op2.0", asked(*TEXTS), {})["is_foreign"]


def test_an_error_needs_its_name_and_its_shape() -> None:
    error = {"message": "no", "type": "server_error", "param": None, "code": "unavailable"}
    named = outcome(answer(503, {"error": error}), "op1.0", asked("x"), {})
    assert (named["why"], named["code"]) == ("error", "unavailable")
    values: list[Any] = [{"error": {**error, "code": ""}}, {"error": "no"}, {}, [], {"error": {"code": "x"}}]
    for value in values:
        assert outcome(answer(503, value), "op1.0", asked("x"), {})["why"] == "garbage"


def test_who_is_turned_away_must_be_told_when_to_come_back() -> None:
    error = {"error": {"message": "no", "type": "rate_limit_error", "param": None, "code": "overloaded"}}
    assert outcome(answer(429, error), "op1.0", asked("x"), {})["why"] == "garbage"
    assert outcome(answer(429, error, **{"retry-after": "1"}), "op1.0", asked("x"), {})["why"] == "error"


def test_no_word_of_the_load_is_taken_for_the_marker() -> None:
    marked = expected.fake_vector(MARKER, 8)
    assert [word for word in WORDS if expected.fake_vector(word, 8) == marked] == []
