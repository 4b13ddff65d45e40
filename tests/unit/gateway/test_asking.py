from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.config import Queue
from appliance.errors import ApplianceError, DeadlineExceeded, InputTooLong, NotFinite
from appliance.gateway.admission import Admission
from appliance.gateway.asking import Answer, Asker, Input, Question, cut
from appliance.gateway.terms import Terms
from appliance.wire.items import WorkItem, WorkResult, cost_of, failure
from appliance.wire.subjects import INTERACTIVE
from appliance.workqueue.held import Held
from appliance.workqueue.publisher import Publisher
from tests.unit.making import model

TEXTS = st.lists(st.text(max_size=200) | st.lists(st.integers(0, 9), max_size=80), min_size=1, max_size=60)
OPEN = cast(Admission, SimpleNamespace(admit=lambda *_: None))
MODEL = model(content_hash="sha256:now")


@given(TEXTS, st.integers(16, 200), st.integers(1, 8))
def test_a_list_is_cut_into_items_within_both_limits(inputs: list[Input], tokens: int, count: int) -> None:
    chunks = list(cut(inputs, tokens, count))
    assert [one for chunk in chunks for one in chunk.inputs] == inputs
    start = 0
    for chunk in chunks:
        assert chunk.start == start
        start += len(chunk.inputs)
        assert 1 <= len(chunk.inputs) <= count
        assert chunk.cost == sum(cost_of(one) for one in chunk.inputs)
        assert chunk.cost <= tokens or len(chunk.inputs) == 1


class FakePublisher:
    """Answers each submitted item by a script, or not at all; remembers what was abandoned."""

    def __init__(self, script: Callable[[WorkItem], WorkResult | Exception | None]) -> None:
        self.items: list[WorkItem] = []
        self.abandoned: list[str] = []
        self._script = script

    def submit(self, lane: str, key: str, item: WorkItem) -> Held:
        self.items.append(item)
        held = Held(item, lane, key, 0.0, asyncio.get_running_loop().create_future())
        outcome = self._script(item)
        if isinstance(outcome, Exception):
            held.answer.set_exception(outcome)
        elif outcome is not None:
            held.answer.set_result(outcome)
        return held

    def abandon(self, held: Held) -> None:
        if not held.answer.done() or held.answer.cancelled():  # the real one does nothing for what is answered
            self.abandoned.append(held.item_id)
            held.answer.cancel()


def good(item: WorkItem) -> WorkResult:
    """Each output names its input; the second of each item counts as cut."""
    outputs = [str(one).encode() for one in item.inputs]
    return WorkResult(item.item_id, "sha256:now", outputs, [len(o) for o in outputs], [1] if len(outputs) > 1 else [])


def ask(publisher: FakePublisher, inputs: list[Input], timeout_s: float = 30.0) -> Answer:
    asker = Asker(cast(Publisher, publisher), OPEN, Queue(item_inputs=3, item_tokens=1000), "g")
    return asyncio.run(asker.ask(Question(MODEL, "embed", (), inputs, Terms("", INTERACTIVE, timeout_s, b""))))


def test_answers_come_in_the_order_of_the_inputs() -> None:
    publisher = FakePublisher(good)
    answer = ask(publisher, [f"t{n}" for n in range(8)])
    assert [len(item.inputs) for item in publisher.items] == [3, 3, 2]
    assert answer.outputs == [f"t{n}".encode() for n in range(8)]
    assert answer.tokens == [2] * 8
    assert answer.truncated == [1, 4, 7]
    assert publisher.abandoned == []


def test_items_of_one_request_have_ids_of_their_own() -> None:
    publisher = FakePublisher(good)
    ask(publisher, ["a"] * 10)
    ids = [item.item_id for item in publisher.items]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("count", "failing", "failed_input", "param"),
    [(1, 0, 0, "input"), (8, 0, 2, "input[2]"), (8, 3, 1, "input[4]"), (8, 6, 0, "input[6]"), (8, 3, -1, None)],
)
def test_an_error_names_the_input_in_the_request_s_own_numbers(
    count: int, failing: int, failed_input: int, param: str | None
) -> None:
    def script(item: WorkItem) -> WorkResult:
        is_failing = item.item_id.endswith(f".{failing}")
        return failure(item.item_id, InputTooLong("Long."), failed_input) if is_failing else good(item)

    with pytest.raises(InputTooLong) as caught:
        ask(FakePublisher(script), ["a"] * count)
    assert caught.value.param == param


def test_the_first_input_that_failed_decides_and_the_rest_is_abandoned() -> None:
    def script(item: WorkItem) -> WorkResult | Exception | None:
        number = int(item.item_id.rpartition(".")[2])
        return {0: good(item), 3: failure(item.item_id, NotFinite("NaN."), 0), 6: None}[number]

    publisher = FakePublisher(script)
    with pytest.raises(NotFinite):
        ask(publisher, ["a"] * 8)
    assert publisher.abandoned == ["g.1.6"]


def test_no_answer_in_time_is_an_error_of_its_own() -> None:
    publisher = FakePublisher(lambda item: None)
    with pytest.raises(DeadlineExceeded):
        ask(publisher, ["a"], timeout_s=0.01)


def test_an_answer_of_another_model_s_content_is_never_passed_on() -> None:
    def script(item: WorkItem) -> WorkResult:
        return WorkResult(item.item_id, "sha256:before", [b"x"], [1], [])

    with pytest.raises(ApplianceError, match="replaced"):
        ask(FakePublisher(script), ["a"])


def test_a_caller_who_hangs_up_leaves_nothing_held() -> None:
    async def scenario() -> None:
        publisher = FakePublisher(lambda item: None)
        asker = Asker(cast(Publisher, publisher), OPEN, Queue(item_inputs=1), "g")
        inputs: list[Input] = ["a", "b", "c"]
        request = asyncio.ensure_future(
            asker.ask(Question(MODEL, "embed", (), inputs, Terms("", INTERACTIVE, 30.0, b"")))
        )
        await asyncio.wait([request], timeout=0.05)
        request.cancel()
        await asyncio.wait([request])
        assert sorted(publisher.abandoned) == ["g.1.0", "g.1.1", "g.1.2"]

    asyncio.run(scenario())
