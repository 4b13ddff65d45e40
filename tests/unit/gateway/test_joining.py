from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from appliance.errors import DeadlineExceeded, IdempotencyMismatch, InputTooLong, Overloaded
from appliance.gateway.asking import Answer, Asker, Question
from appliance.gateway.joining import Joining
from appliance.gateway.terms import Terms
from appliance.wire.subjects import INTERACTIVE
from tests import wait
from tests.unit.making import model


class FakeAsker:
    """Each run waits until the test ends it."""

    def __init__(self) -> None:
        self.runs: list[asyncio.Future[Answer]] = []

    async def ask(self, question: Question) -> Answer:
        self.runs.append(asyncio.get_running_loop().create_future())
        return await self.runs[-1]


class Bench:
    def __init__(self) -> None:
        self.asker = FakeAsker()
        self.joining = Joining(cast(Asker, self.asker))

    async def ask(
        self, body: bytes = b"body", key: str = "a", once: str = "", timeout_s: float = 30.0
    ) -> asyncio.Task[Answer]:
        terms = Terms(key, INTERACTIVE, timeout_s, body, once)
        task = asyncio.create_task(self.joining.ask(Question(model(), "embed", (), ["x"], terms)))
        await wait.turn()
        return task


ANSWER = Answer([b"vector"], [1], [])


def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario(Bench())

    asyncio.run(whole())


def test_the_same_body_from_the_same_key_runs_once() -> None:
    async def scenario(bench: Bench) -> None:
        tasks = [await bench.ask() for _ in range(3)]
        other = [await bench.ask(key="b"), await bench.ask(body=b"other")]
        assert len(bench.asker.runs) == 3
        for one in bench.asker.runs:
            one.set_result(ANSWER)
        assert await asyncio.gather(*tasks, *other) == [ANSWER] * 5
        assert bench.joining.joined == 2
        await bench.ask()
        assert len(bench.asker.runs) == 4  # what is over is over

    run(scenario)


def test_who_joins_in_the_moment_of_the_answer_gets_it() -> None:
    async def scenario(bench: Bench) -> None:
        first = await bench.ask()
        terms = Terms("a", INTERACTIVE, 5.0, b"body")
        second = asyncio.create_task(bench.joining.ask(Question(model(), "embed", (), ["x"], terms)))
        bench.asker.runs[0].set_result(ANSWER)  # both are on in the same turn, the first caller's run before
        assert await asyncio.wait_for(asyncio.gather(first, second), 2.0)
        assert len(bench.asker.runs) == 1

    run(scenario)


def test_an_error_is_everybody_s() -> None:
    async def scenario(bench: Bench) -> None:
        tasks = [await bench.ask() for _ in range(2)]
        bench.asker.runs[0].set_exception(InputTooLong("Long."))
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in results] == [InputTooLong] * 2

    run(scenario)


def test_when_the_first_caller_hangs_up_another_takes_its_place() -> None:
    async def scenario(bench: Bench) -> None:
        first, second, third = [await bench.ask() for _ in range(3)]
        first.cancel()
        await wait.turn(5)
        assert len(bench.asker.runs) == 2
        bench.asker.runs[1].set_result(ANSWER)
        assert [await second, await third] == [ANSWER] * 2

    run(scenario)


def test_the_first_caller_s_deadline_is_not_the_others() -> None:
    async def scenario(bench: Bench) -> None:
        first, second = await bench.ask(timeout_s=1.0), await bench.ask(timeout_s=9.0)
        bench.asker.runs[0].set_exception(DeadlineExceeded("Late."))
        await wait.turn(5)
        bench.asker.runs[1].set_result(ANSWER)
        assert await second == ANSWER
        with pytest.raises(DeadlineExceeded):
            await first

    run(scenario)


def test_a_follower_waits_no_longer_than_it_may() -> None:
    async def scenario(bench: Bench) -> None:
        first, second = await bench.ask(), await bench.ask(timeout_s=0.02)
        with pytest.raises(DeadlineExceeded):
            await second
        bench.asker.runs[0].set_result(ANSWER)
        assert await first == ANSWER

    run(scenario)


def test_with_an_idempotency_key_the_run_survives_its_caller() -> None:
    async def scenario(bench: Bench) -> None:
        first = await bench.ask(once="k1")
        first.cancel()
        await wait.turn(5)
        again = await bench.ask(once="k1")
        bench.asker.runs[0].set_result(ANSWER)
        assert await again == ANSWER
        assert await (await bench.ask(once="k1")) == ANSWER  # kept for a while after
        assert len(bench.asker.runs) == 1
        await bench.ask(once="k1", key="b")
        assert len(bench.asker.runs) == 2  # another key's idempotency keys are its own

    run(scenario)


def test_an_idempotency_key_belongs_to_one_body() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.ask(once="k1")
        with pytest.raises(IdempotencyMismatch):
            await (await bench.ask(body=b"other", once="k1"))

    run(scenario)


@pytest.mark.parametrize(("error", "runs"), [(Overloaded("Full."), 2), (InputTooLong("Long."), 1)])
def test_a_passing_error_is_not_kept_for_those_who_try_again(error: Exception, runs: int) -> None:
    async def scenario(bench: Bench) -> None:
        first = await bench.ask(once="k1")
        bench.asker.runs[0].set_exception(error)
        with pytest.raises(type(error)):
            await first
        again = await bench.ask(once="k1")
        assert len(bench.asker.runs) == runs
        again.cancel()

    run(scenario)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.gateway.joining._KEPT_BYTES", 1000)

    async def scenario(bench: Bench) -> None:
        for number in range(20):
            task = await bench.ask(once=f"k{number}")
            bench.asker.runs[-1].set_result(Answer([b"x" * 200], [1], []))
            await task
        assert len(bench.joining._once) <= 6
        assert bench.joining._kept_bytes <= 1500

    run(scenario)
