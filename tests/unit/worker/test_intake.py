from __future__ import annotations

import asyncio

import pytest

from appliance.errors import ApplianceError, BadRequest, InputTooLong
from appliance.wire.items import WorkResult
from appliance.worker.intake import INLINE_CHARS, Intake, Refused, encode
from appliance.worker.job import Job, Piece
from appliance.workqueue.consumer import Delivery
from tests import wait
from tests.fakes import FakeClock
from tests.unit.making import delivery, item, served


def test_texts_and_ids_are_encoded_in_their_order() -> None:
    ids, truncated = encode(item("one two", [50, 51], "", [], "one"), served())
    (one, two, three, four, five), words = ids, ids[0][1:-1]
    assert len(words) == 2
    assert (two, three, four, five) == ([1, 50, 51, 2], [1, 2], [1, 2], [1, words[0], 2])
    assert one == [1, *words, 2]
    assert truncated == []


def test_ids_that_have_their_special_tokens_are_taken_as_they_are() -> None:
    assert encode(item([1, 50, 2]), served())[0] == [[1, 50, 2]]


@pytest.mark.parametrize(
    ("inputs", "index", "length"),
    [
        (["w " * 15], 0, 17),
        (["a", "w " * 1500, "w " * 15], 1, 1502),
        (["a", [7] * 15], 1, 17),
    ],
)
def test_an_input_that_is_too_long_is_refused_with_both_lengths(
    inputs: list[str | list[int]], index: int, length: int
) -> None:
    with pytest.raises(Refused) as caught:
        encode(item(*inputs), served(max_tokens=16))
    assert caught.value.index == index
    assert isinstance(caught.value.error, InputTooLong)
    assert f"{length} tokens" in caught.value.error.message
    assert "takes 16" in caught.value.error.message


def test_an_input_of_exactly_the_limit_is_taken() -> None:
    ids, truncated = encode(item("w " * 14), served(max_tokens=16))
    assert len(ids[0]) == 16
    assert truncated == []


def test_truncation_is_told_and_keeps_the_special_tokens() -> None:
    whole, _ = encode(item(" ".join(f"w{n}" for n in range(40))), served(max_tokens=64))
    ids, truncated = encode(
        item("short", " ".join(f"w{n}" for n in range(40)), [7] * 40, truncate=True), served(max_tokens=16)
    )
    assert truncated == [1, 2]
    assert ids[1] == [*whole[0][:15], 2]
    assert ids[2] == [1, *[7] * 14, 2]


@pytest.mark.parametrize("ids", [[-1], [5, 1000], [2**40]])
def test_ids_outside_the_vocabulary_are_refused(ids: list[int]) -> None:
    with pytest.raises(Refused) as caught:
        encode(item("a", ids), served(vocab_size=1000))
    assert caught.value.index == 1
    assert isinstance(caught.value.error, BadRequest)
    assert "0 to 999" in caught.value.error.message


class Taken:
    """What the intake handed on."""

    def __init__(self) -> None:
        self.ready: list[tuple[Job, list[Piece]]] = []
        self.refused: list[tuple[Delivery, int, ApplianceError]] = []
        self.whole: list[WorkResult] = []

    def intake(self, clock: FakeClock) -> Intake:
        return Intake(
            lambda job, pieces: self.ready.append((job, pieces)),
            lambda delivery, index, error: self.refused.append((delivery, index, error)),
            lambda job, result: self.whole.append(result),
            clock,
        )


def test_short_texts_are_handed_on_at_once_with_the_time_of_their_arrival() -> None:
    async def scenario() -> None:
        taken, clock = Taken(), FakeClock()
        taken.intake(clock).accept(delivery(item("a b", "c")), served())
        ((job, pieces),) = taken.ready
        assert [piece.length for piece in pieces] == [4, 3] == job.tokens
        assert {piece.arrived for piece in pieces} == {clock.now}
        assert job.missing == 2

    asyncio.run(scenario())


def test_long_texts_are_encoded_off_the_loop_and_still_arrive() -> None:
    async def scenario() -> None:
        taken = Taken()
        intake = taken.intake(FakeClock())
        intake.accept(delivery(item("word " * INLINE_CHARS)), served(max_tokens=10**6))
        intake.accept(delivery(item("word " * INLINE_CHARS)), served(max_tokens=16))
        assert not taken.ready
        await wait.until_async(lambda: taken.ready and taken.refused, 10)
        assert taken.ready[0][0].tokens == [INLINE_CHARS + 2]
        assert isinstance(taken.refused[0][2], InputTooLong)
        intake.stop()

    asyncio.run(scenario())


def test_a_refusal_names_the_input() -> None:
    async def scenario() -> None:
        taken = Taken()
        one = delivery(item("a", "w " * 99))
        taken.intake(FakeClock()).accept(one, served())
        assert [(d, i) for d, i, _ in taken.refused] == [(one, 1)]
        assert taken.ready == []

    asyncio.run(scenario())


def test_an_accepted_job_goes_on_without_the_inputs_that_cannot_be_run() -> None:
    async def scenario() -> None:
        taken = Taken()
        long = "w " * 99
        taken.intake(FakeClock()).accept(delivery(item("a", long, [5, 99999], "b c", gateway_id="")), served())
        ((job, pieces),) = taken.ready
        assert [piece.index for piece in pieces] == [0, 3]
        assert {index: code for index, (code, _) in job.errors.items()} == {1: "input_too_long", 2: "invalid_request"}
        assert job.missing == 2
        assert taken.refused == []

    asyncio.run(scenario())


def test_an_accepted_job_without_an_input_that_can_be_run_is_answered_at_once() -> None:
    async def scenario() -> None:
        taken = Taken()
        taken.intake(FakeClock()).accept(delivery(item("w " * 99, "w " * 98, gateway_id="")), served())
        (result,) = taken.whole
        assert [(index, code) for index, code, _ in result.errors] == [(0, "input_too_long"), (1, "input_too_long")]
        assert not taken.ready
        assert not taken.refused

    asyncio.run(scenario())
