from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from appliance.wire import items
from appliance.workqueue import consumer
from appliance.workqueue.broker import Broker
from appliance.workqueue.consumer import Delivery, LaneConsumer
from tests import wait
from tests.fakes import FakeBroker, FakeMessage
from tests.unit.making import item

ACK = "$JS.ACK.LIVE.lane.1.7.7.1700000000000000000.0"

TAKES = "_INBOX_fake.t.LIVE.lane"


class Bench:
    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.deliveries: list[Delivery] = []
        self.consumer = LaneConsumer(cast(Broker, self.broker), "lane", 8.0, self.deliveries.append)

    @property
    def asked(self) -> list[int]:
        """The batch sizes of the pulls sent, in order."""
        pulls = [one for one in self.broker.published if one.subject.endswith("MSG.NEXT.LIVE.lane")]
        return [json.loads(pull.data)["batch"] for pull in pulls]

    async def deliver(self, count: int) -> None:
        for _ in range(count):
            await self._message(FakeMessage("LIVE.lane", items.pack_item(item("text")), ACK))

    async def status(self, status: str, pending: int) -> None:
        headers = {"Status": status, "Nats-Pending-Messages": str(pending)}
        await self._message(FakeMessage("", b"", headers=headers))

    async def take(self, count: int, there: int, status: str = "404") -> int:
        """Take while `there` items wait; return how many were said to have come."""
        taking = asyncio.ensure_future(self.consumer.take(count))
        await wait.turn(1)
        for _ in range(min(count, there)):
            await self._message(FakeMessage("LIVE.lane", items.pack_item(item("text")), ACK), TAKES)
        if there < count:
            await self._message(FakeMessage("", b"", headers={"Status": status}), TAKES)
        return await taking

    async def _message(self, message: FakeMessage, inbox: str = "_INBOX_fake.p.LIVE.lane") -> None:
        await self.broker.subscriptions[inbox](message)


def run(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def whole() -> None:
        bench = Bench()
        await bench.consumer.start()
        try:
            await scenario(bench)
        finally:
            await bench.consumer.stop()

    asyncio.run(whole())


def test_credit_is_asked_for_once_and_again_when_half_is_used() -> None:
    async def scenario(bench: Bench) -> None:
        bench.consumer.want(10)
        bench.consumer.want(10)
        assert bench.asked == [10]
        await bench.deliver(4)
        bench.consumer.want(10)
        assert bench.asked == [10]
        await bench.deliver(1)
        bench.consumer.want(10)
        assert bench.asked == [10, 5]
        assert len(bench.deliveries) == 5

    run(scenario)


def test_a_worker_that_wants_nothing_asks_for_nothing() -> None:
    async def scenario(bench: Bench) -> None:
        bench.consumer.want(0)
        assert bench.asked == []

    run(scenario)


@pytest.mark.parametrize("status", ["404", "408"])
def test_a_pull_that_expired_is_asked_anew(status: str) -> None:
    async def scenario(bench: Bench) -> None:
        bench.consumer.want(10)
        await bench.status(status, 10)
        assert bench.asked == [10, 10]
        assert bench.broker.lanes_made == ["lane"]

    run(scenario)


def test_a_heartbeat_of_a_waiting_pull_changes_nothing() -> None:
    async def scenario(bench: Bench) -> None:
        bench.consumer.want(10)
        await bench.status("100", 0)
        assert bench.asked == [10]

    run(scenario)


def test_a_consumer_that_is_gone_is_made_anew() -> None:
    async def scenario(bench: Bench) -> None:
        bench.consumer.want(10)
        await bench.status("409", 10)
        await wait.until_async(lambda: bench.asked == [10, 10], 5)
        assert bench.broker.lanes_made == ["lane", "lane"]

    run(scenario)


def test_after_a_reconnection_all_credit_is_asked_for_again() -> None:
    async def scenario(bench: Bench) -> None:
        bench.consumer.want(10)
        await bench.deliver(2)
        for restore in bench.broker.restored:
            await restore()
        assert bench.asked == [10, 10]
        assert bench.broker.lanes_made == ["lane", "lane"]

    run(scenario)


def test_garbage_in_the_lane_is_dropped_for_good_and_the_next_item_taken() -> None:
    async def scenario(bench: Bench) -> None:
        bench.consumer.want(10)
        await bench.broker.subscriptions["_INBOX_fake.p.LIVE.lane"](FakeMessage("LIVE.lane", b"\xc1\x00", ACK))
        await bench.deliver(1)
        assert bench.broker.sent(b"+TERM") == [ACK]
        assert len(bench.deliveries) == 1

    run(scenario)


@pytest.mark.parametrize(
    ("ack_subject", "delivered"),
    [
        ("$JS.ACK.LIVE.lane.1.7.7.1700000000000000000.0", 1),
        ("$JS.ACK.LIVE.lane.3.7.7.1700000000000000000.0", 3),
        ("$JS.ACK.box.ACCOUNT.LIVE.lane.2.7.7.1700000000000000000.0", 2),
        ("$JS.ACK.box.ACCOUNT.LIVE.lane.2.7.7.1700000000000000000.0.token", 2),
    ],
)
def test_how_often_an_item_was_delivered_is_read_from_either_form(ack_subject: str, delivered: int) -> None:
    found, waited_s = consumer._facts(ack_subject)
    assert found == delivered
    assert waited_s > 0


@pytest.mark.parametrize("verb", [b"-NAK", b"+WPI", b"+TERM"])
def test_only_leases_of_the_broker_s_present_life_are_settled(verb: bytes) -> None:
    broker = FakeBroker(epoch=2)
    leases = [Delivery(item(), f"ack.{epoch}", epoch, 1, 0.0) for epoch in (1, 2)]
    consumer.settle(cast(Broker, broker), leases, verb)
    assert broker.sent(verb) == ["ack.2"]


def test_a_closed_one_asks_for_nothing_more() -> None:
    async def scenario(bench: Bench) -> None:
        bench.consumer.want(10)
        bench.consumer.close()
        bench.consumer.want(20)
        assert bench.asked == [10]

    run(scenario)


@pytest.mark.parametrize(("there", "came"), [(0, 0), (3, 3), (8, 8), (20, 8)])
def test_a_take_ends_with_what_it_asked_for_or_with_what_was_there(there: int, came: int) -> None:
    async def scenario(bench: Bench) -> None:
        assert await bench.take(8, there) == came
        assert len(bench.deliveries) == came
        (pull,) = bench.broker.published
        assert json.loads(pull.data) == {"batch": 8, "no_wait": True}

    run(scenario)


def test_a_take_has_nothing_to_do_with_what_waits() -> None:
    async def scenario(bench: Bench) -> None:
        bench.consumer.want(10)
        await bench.take(8, 5)
        bench.consumer.want(10)
        assert bench.asked == [10, 8]  # the pull is still there for ten

    run(scenario)


def test_a_take_from_a_lane_that_is_gone_makes_it_anew() -> None:
    async def scenario(bench: Bench) -> None:
        assert await bench.take(8, 0, status="409") == 0
        await wait.turn()
        assert bench.broker.lanes_made == ["lane", "lane"]

    run(scenario)


def test_a_broker_that_is_away_gives_nothing_and_is_no_error() -> None:
    async def scenario(bench: Bench) -> None:
        bench.broker.is_reachable = False
        assert await bench.consumer.take(8) == 0

    run(scenario)


def test_a_pull_that_is_withdrawn_is_forgotten_by_the_server_and_what_was_on_its_way_still_comes() -> None:
    async def scenario(bench: Bench) -> None:
        bench.consumer.want(10)
        bench.consumer.withdraw()
        assert bench.broker.unlistened == ["_INBOX_fake.p.LIVE.lane"]
        await bench.deliver(1)
        assert len(bench.deliveries) == 1
        bench.consumer.want(10)
        assert bench.broker.published[-1].reply == "_INBOX_fake.p.LIVE.lane.1"
        assert bench.asked == [10, 10]

    run(scenario)


def test_where_no_pull_waits_there_is_nothing_to_withdraw() -> None:
    async def scenario(bench: Bench) -> None:
        bench.consumer.withdraw()
        assert bench.broker.unlistened == []

    run(scenario)


def test_a_closed_one_takes_nothing_and_does_not_listen_again() -> None:
    async def scenario(bench: Bench) -> None:
        bench.consumer.want(10)
        bench.consumer.close()
        bench.consumer.withdraw()
        assert await bench.consumer.take(8) == 0
        assert bench.asked == [10]
        assert "_INBOX_fake.p.LIVE.lane.1" not in bench.broker.subscriptions

    run(scenario)
