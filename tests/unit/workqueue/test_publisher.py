from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from appliance.config import Config, Queue
from appliance.errors import ApplianceError, BodyTooLarge, ModelNotFound, Overloaded, Unavailable
from appliance.wire import items
from appliance.wire.items import WorkResult
from appliance.workqueue.broker import Broker
from appliance.workqueue.held import Held
from appliance.workqueue.publisher import MAX_PAYLOAD_BYTES, Publisher
from tests import wait
from tests.fakes import FakeBroker, FakeClock, FakeMessage, Published
from tests.unit.making import item

CONFIG = Config(queue=Queue(publish_timeout_s=1.0))


class Bench:
    """A publisher before a broker without a server, under a clock that stands."""

    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.clock = FakeClock()
        self.publisher = Publisher(cast(Broker, self.broker), CONFIG, "g", self.clock)

    @property
    def sent(self) -> list[Published]:
        """What went into lanes, in order."""
        return [one for one in self.broker.published if one.subject.startswith("LIVE.")]

    async def submit(self, item_id: str = "g.1.0") -> Held:
        return self.publisher.submit("lane", "", item("text", item_id=item_id))

    async def ack(self, published: Published, error: dict[str, object] | None = None) -> None:
        body = {"error": error} if error else {"stream": "LIVE", "seq": 1}
        await self.broker.subscriptions[f"{self.broker.inbox}.a.*"](
            FakeMessage(published.reply, json.dumps(body).encode())
        )

    async def no_stream(self, published: Published) -> None:
        message = FakeMessage(published.reply, b"", headers={"Status": "503"})
        await self.broker.subscriptions[f"{self.broker.inbox}.a.*"](message)

    async def answer(self, *item_ids: str) -> None:
        results = [WorkResult(item_id, "h", [item_id.encode()], [1], []) for item_id in item_ids]
        message = FakeMessage("r.g", items.pack_results(results), "_INBOX_worker.1")
        await self.broker.subscriptions["r.g"](message)


def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def whole() -> None:
        bench = Bench()
        await bench.publisher.start()
        try:
            await scenario(bench)
        finally:
            await bench.publisher.stop()

    asyncio.run(whole())


def test_an_answer_resolves_its_item_and_is_confirmed() -> None:
    async def scenario(bench: Bench) -> None:
        one, two = await bench.submit("g.1.0"), await bench.submit("g.1.1")
        await bench.answer("g.1.1")
        assert two.answer.result().outputs == [b"g.1.1"]
        assert not one.answer.done()
        assert bench.broker.published[-1] == Published("_INBOX_worker.1", b"", "", None)
        assert bench.publisher.held == 1

    run(scenario)


def test_the_first_answer_wins_and_the_second_is_confirmed_too() -> None:
    async def scenario(bench: Bench) -> None:
        held = await bench.submit()
        await bench.answer("g.1.0")
        await bench.answer("g.1.0")
        assert held.answer.result().outputs == [b"g.1.0"]
        assert bench.publisher.duplicates == 1
        assert [one.subject for one in bench.broker.published].count("_INBOX_worker.1") == 2

    run(scenario)


def test_what_is_not_confirmed_in_time_is_sent_again_under_its_id() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.submit()
        bench.clock.now += CONFIG.queue.publish_timeout_s + 0.01
        await wait.until_async(lambda: len(bench.sent) == 2, 5)
        first, second = bench.sent
        assert first.headers == second.headers == {"Nats-Msg-Id": "g.1.0"}
        assert first.data == second.data
        assert first.reply != second.reply
        assert bench.publisher.republished == 1

    run(scenario)


def test_what_is_confirmed_is_not_sent_again() -> None:
    async def scenario(bench: Bench) -> None:
        confirmed = await bench.submit("g.1.0")
        await bench.ack(bench.sent[0])
        await bench.submit("g.1.1")
        bench.clock.now += CONFIG.queue.publish_timeout_s + 0.01
        await wait.until_async(lambda: len(bench.sent) == 3, 5)
        assert [one.headers for one in bench.sent[1:]] == [{"Nats-Msg-Id": "g.1.1"}] * 2
        assert confirmed.sequence == 1

    run(scenario)


def test_an_ack_of_an_earlier_sending_does_not_count_for_the_later() -> None:
    async def scenario(bench: Bench) -> None:
        held = await bench.submit()
        bench.clock.now += CONFIG.queue.publish_timeout_s + 0.01
        await wait.until_async(lambda: len(bench.sent) == 2, 5)
        await bench.ack(bench.sent[0])
        assert bench.publisher._unacked == {held.number: held}
        await bench.ack(bench.sent[1])
        assert held.sequence == 1

    run(scenario)


def test_a_broker_that_lost_its_memory_is_given_everything_again() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(3):
            await bench.submit(f"g.1.{number}")
            await bench.ack(bench.sent[number])
        for restore in bench.broker.restored:
            await restore()
        assert bench.broker.streams_made == 2
        assert [one.headers for one in bench.sent[3:]] == [{"Nats-Msg-Id": f"g.1.{n}"} for n in range(3)]

    run(scenario)


def test_a_missing_stream_is_made_anew_and_the_item_sent_again() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.submit()
        await bench.no_stream(bench.sent[0])
        await wait.until_async(lambda: len(bench.sent) == 2, 5)
        assert bench.broker.streams_made == 2

    run(scenario)


def test_nothing_is_lost_while_the_broker_cannot_be_reached() -> None:
    async def scenario(bench: Bench) -> None:
        bench.broker.is_reachable = False
        held = await bench.submit()
        assert not held.answer.done()
        bench.broker.is_reachable = True
        bench.clock.now += CONFIG.queue.publish_timeout_s + 0.01
        await wait.until_async(lambda: bench.sent, 5)
        await bench.answer("g.1.0")
        assert held.answer.result().item_id == "g.1.0"

    run(scenario)


@pytest.mark.parametrize(
    ("code", "cls"),
    [(10077, Overloaded), (10023, Overloaded), (10047, Overloaded), (10122, Overloaded), (10003, Unavailable)],
)
def test_a_refusal_of_the_broker_is_the_item_s_error(code: int, cls: type[ApplianceError]) -> None:
    async def scenario(bench: Bench) -> None:
        held = await bench.submit()
        await bench.ack(bench.sent[0], {"code": 503, "err_code": code, "description": "scripted"})
        assert type(held.answer.exception()) is cls
        assert bench.publisher.held == 0

    run(scenario)


def test_an_abandoned_item_is_forgotten() -> None:
    async def scenario(bench: Bench) -> None:
        held = await bench.submit()
        bench.publisher.abandon(held)
        assert bench.publisher.held == 0
        await bench.answer("g.1.0")
        bench.clock.now += CONFIG.queue.publish_timeout_s + 0.01
        other = await bench.submit("g.1.1")
        bench.clock.now += CONFIG.queue.publish_timeout_s + 0.01
        await wait.until_async(lambda: len(bench.sent) == 3, 5)
        assert {json.dumps(one.headers) for one in bench.sent[1:]} == {json.dumps({"Nats-Msg-Id": "g.1.1"})}
        assert not other.answer.done()

    run(scenario)


def test_an_item_over_the_broker_s_limit_is_refused_before_it_is_sent() -> None:
    async def scenario(bench: Bench) -> None:
        held = bench.publisher.submit("lane", "", item("x" * MAX_PAYLOAD_BYTES))
        with pytest.raises(BodyTooLarge):
            await held.answer
        assert bench.sent == []
        assert bench.publisher.held == 0

    run(scenario)


def test_when_a_model_is_gone_its_items_of_every_class_fail_and_no_others() -> None:
    async def scenario(bench: Bench) -> None:
        gone = [
            bench.publisher.submit(lane, "", item("x", item_id=f"g.1.{lane}"))
            for lane in ("interactive-fake", "bulk-fake")
        ]
        other = bench.publisher.submit("interactive-other", "", item("x", item_id="g.2.0", model_id="other"))
        bench.publisher.fail_model("fake", ModelNotFound("It was removed."))
        for held in gone:
            with pytest.raises(ModelNotFound):
                await held.answer
        assert not other.answer.done()
        assert bench.publisher.held == 1

    run(scenario)


def test_what_is_over_the_window_waits_for_an_answer_and_tells_less_time_then() -> None:
    async def scenario(bench: Bench) -> None:
        bench.publisher.windows.set("lane", 10.0, 0.0)
        first = bench.publisher.submit("lane", "a", item("x", item_id="g.1.0", cost=10))
        second = bench.publisher.submit("lane", "a", item("y", item_id="g.1.1", cost=10))
        assert [items.unpack_item(one.data).item_id for one in bench.sent] == ["g.1.0"]
        bench.clock.now += 5.0
        await bench.answer("g.1.0")
        assert (await first.answer).item_id == "g.1.0"
        sent = items.unpack_item(bench.sent[-1].data)
        assert (sent.item_id, sent.remaining_ms) == ("g.1.1", 55_000)
        await bench.answer("g.1.1")
        assert (await second.answer).item_id == "g.1.1"

    run(scenario)


def test_one_that_waits_for_its_turn_is_forgotten_without_a_word_to_the_broker() -> None:
    async def scenario(bench: Bench) -> None:
        bench.publisher.windows.set("lane", 10.0, 0.0)
        bench.publisher.submit("lane", "a", item("x", item_id="g.1.0", cost=10))
        bench.publisher.abandon(bench.publisher.submit("lane", "a", item("y", item_id="g.1.1", cost=10)))
        await bench.answer("g.1.0")
        await wait.turn(20)
        assert len(bench.sent) == 1
        assert bench.publisher.windows.lanes["lane"].waiting == 0
        assert not [one for one in bench.broker.published if one.subject.startswith(("c.", "$JS.API"))]

    run(scenario)
