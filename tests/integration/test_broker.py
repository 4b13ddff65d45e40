"""The queue's two ends on a real nats-server: what each role may do, and what survives which loss."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client as NatsClient

from appliance.config import Config, Queue
from appliance.errors import Overloaded
from appliance.supervisor.nats_server import NatsServer
from appliance.supervisor.process import Process
from appliance.wire import subjects
from appliance.wire.items import WorkResult
from appliance.wire.launch import BrokerLogin
from appliance.workqueue import orphans, replies
from appliance.workqueue.broker import Broker
from appliance.workqueue.consumer import Delivery, LaneConsumer, settle
from appliance.workqueue.held import Held
from appliance.workqueue.publisher import Publisher
from appliance.workqueue.results import Answered
from tests import wait
from tests.unit.making import item

QUEUE = Queue(max_items=8, ack_wait_s=1.0, publish_timeout_s=0.5, max_memory_bytes=16 << 20)
LANE = "interactive-m"
SOON_S = 20.0


class Bench:
    """A server, and the two ends of one lane. `deliveries` is what the worker's end has got."""

    def __init__(self, server: NatsServer) -> None:
        self.server = server
        self.process = server.process()
        self.brokers: list[Broker] = []
        self.deliveries: list[Delivery] = []
        self.publisher: Publisher | None = None
        self.consumer: LaneConsumer | None = None

    async def broker(self, role: str, name: str) -> Broker:
        made = Broker(self.server.login(role), name)
        await made.start()
        self.brokers.append(made)
        return made

    async def start_gateway(self, gateway_id: str = "g") -> Publisher:
        publisher = self.publisher = Publisher(
            await self.broker("gateway", gateway_id), Config(queue=QUEUE), gateway_id, time.monotonic
        )
        await publisher.start()
        return publisher

    async def start_worker(self, credit: int = 100) -> Broker:
        broker = await self.broker("worker", "w")
        self.consumer = LaneConsumer(broker, LANE, QUEUE.ack_wait_s, self.deliveries.append)
        await self.consumer.start()
        self.consumer.want(credit)
        return broker

    async def restart(self) -> None:
        """Kill the server, which forgets all it had in memory, and start it at the same place."""
        self.process.kill()
        await self.process.exited.wait()
        self.process = self.server.process()
        await start(self.process)

    async def got(self, count: int) -> list[Delivery]:
        await wait.until_async(lambda: len(self.deliveries) >= count, SOON_S)
        return self.deliveries

    async def close(self) -> None:
        if self.consumer is not None:
            await self.consumer.stop()
        if self.publisher is not None:
            await self.publisher.stop()
        for broker in self.brokers:
            await broker.stop()
        await self.process.stop(time.monotonic() + 5)


async def start(process: Process) -> None:
    process.start()
    assert await process.wait_ready(SOON_S)


@asynccontextmanager
async def bench(folder: Path) -> AsyncIterator[Bench]:
    made = Bench(NatsServer.plan(QUEUE, folder / "queue", folder))
    await start(made.process)
    try:
        yield made
    finally:
        await made.close()


def run(folder: Path, scene: Callable[[Bench], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with bench(folder) as made:
            await scene(made)

    asyncio.run(whole())


def answered(delivery: Delivery) -> Answered:
    return [delivery], WorkResult(delivery.item.item_id, "h", [b"vector"], [1], [])


async def result_of(held: Held) -> WorkResult:
    return await asyncio.wait_for(held.answer, SOON_S)


# -- permissions ----------------------------------------------------------------------------------


@asynccontextmanager
async def logged_in(login: BrokerLogin, errors: list[str]) -> AsyncIterator[NatsClient]:
    async def on_error(error: Exception) -> None:
        errors.append(str(error).lower())

    client = NatsClient()
    try:
        await client.connect(
            login.url, user=login.user, password=login.password, error_cb=on_error, allow_reconnect=False
        )
        yield client
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("role", "verb", "subject"),
    [
        ("gateway", "publish", "$JS.API.STREAM.DELETE.LIVE"),
        ("gateway", "publish", "$JS.API.STREAM.PURGE.LIVE"),
        ("gateway", "publish", "$JS.API.CONSUMER.MSG.NEXT.LIVE.interactive-m"),
        ("gateway", "publish", "r.another-gateway"),
        ("gateway", "subscribe", "LIVE.>"),
        ("gateway", "subscribe", ">"),
        ("gateway", "subscribe", "_INBOX_worker.>"),
        ("worker", "publish", "LIVE.interactive-m"),
        ("worker", "publish", "$JS.API.STREAM.DELETE.LIVE"),
        ("worker", "publish", "$SYS.REQ.SERVER.PING"),
        ("worker", "subscribe", "LIVE.>"),
        ("worker", "subscribe", "r.>"),
        ("worker", "subscribe", "_INBOX_gateway.>"),
    ],
)
def test_the_server_refuses_what_is_not_a_role_s_part(tmp_path: Path, role: str, verb: str, subject: str) -> None:
    async def scene(made: Bench) -> None:
        errors: list[str] = []
        async with logged_in(made.server.login(role), errors) as client:
            if verb == "publish":
                await client.publish(subject, b"")
            else:
                await client.subscribe(subject)
            await client.flush()
            await wait.until_async(lambda: errors, SOON_S)
            assert "permissions violation" in errors[0]

    run(tmp_path, scene)


@pytest.mark.parametrize(("user", "password"), [("", ""), ("gateway", "wrong"), ("nobody", "x"), ("daemon", "")])
def test_the_server_takes_nobody_without_a_password(tmp_path: Path, user: str, password: str) -> None:
    async def scene(made: Bench) -> None:
        login = BrokerLogin(made.server.login("daemon").url, user, password)
        with pytest.raises(nats.errors.Error, match=r"(?i)authorization violation"):
            async with logged_in(login, []):
                pass

    run(tmp_path, scene)


# -- the way of an item ---------------------------------------------------------------------------


def test_an_item_goes_one_way_and_its_answer_the_other(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        publisher = await made.start_gateway()
        worker = await made.start_worker()
        held = [publisher.submit(LANE, "", item(f"text {n}", item_id=f"g.{n}")) for n in range(5)]
        deliveries = await made.got(5)
        assert [one.item.item_id for one in deliveries] == [f"g.{n}" for n in range(5)]
        assert {one.delivered for one in deliveries} == {1}
        await replies.send(worker, [answered(one) for one in deliveries])
        assert [(await result_of(one)).item_id for one in held] == [f"g.{n}" for n in range(5)]
        assert publisher.held == 0

    run(tmp_path, scene)


def test_what_is_given_back_comes_again_and_says_how_often(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        publisher = await made.start_gateway()
        worker = await made.start_worker()
        held = publisher.submit(LANE, "", item("text", item_id="g.1"))
        (first,) = await made.got(1)
        settle(worker, [first], b"-NAK")
        second = (await made.got(2))[1]
        assert (second.item, second.delivered) == (first.item, 2)
        await replies.send(worker, [answered(second)])
        assert (await result_of(held)).outputs == [b"vector"]

    run(tmp_path, scene)


def test_a_lease_that_is_not_renewed_runs_out_and_one_that_is_does_not(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        publisher = await made.start_gateway()
        worker = await made.start_worker()
        for name in ("g.kept", "g.lost"):
            publisher.submit(LANE, "", item("text", item_id=name))
        kept, lost = await made.got(2)

        async def renewed() -> bool:
            settle(worker, [kept], b"+WPI")
            return len(made.deliveries) > 2

        await wait.until_async(renewed, SOON_S)
        assert [(one.item.item_id, one.delivered) for one in made.deliveries[2:]] == [("g.lost", 2)]
        assert lost.item == made.deliveries[2].item

    run(tmp_path, scene)


def test_an_answer_for_a_gateway_that_is_gone_is_dropped_and_its_item_acked(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        publisher = await made.start_gateway("gone")
        worker = await made.start_worker()
        publisher.submit(LANE, "", item("text", item_id="gone.1", gateway_id="gone"))
        (delivery,) = await made.got(1)
        await publisher.stop()
        await made.brokers[0].stop()
        await replies.send(worker, [answered(delivery)])
        await made.start_gateway("next")
        assert await messages(made) == 0

    run(tmp_path, scene)


async def messages(made: Bench) -> int:
    """Return how many items the stream holds, leased ones included."""
    daemon = await made.broker("daemon", "d")
    return int((await daemon.call("STREAM.INFO.LIVE", {}))["state"]["messages"])


def test_a_full_lane_refuses_the_next_item_and_another_lane_does_not(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        publisher = await made.start_gateway()
        held = [publisher.submit(LANE, "", item("text", item_id=f"g.{n}")) for n in range(QUEUE.max_items + 3)]
        await wait.until_async(lambda: sum(one.answer.done() for one in held) == 3, SOON_S)
        assert [one.item_id for one in held if one.answer.done()] == [f"g.{QUEUE.max_items + n}" for n in range(3)]
        assert isinstance(held[-1].answer.exception(), Overloaded)
        other = publisher.submit("interactive-other", "", item("text", item_id="g.other"))
        await wait.until_async(lambda: other.sequence, SOON_S)
        for one in held[-3:]:
            one.answer.exception()

    run(tmp_path, scene)


# -- losses ---------------------------------------------------------------------------------------


def test_what_a_broker_forgot_is_published_again_and_answered_once(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        publisher = await made.start_gateway()
        held = [publisher.submit(LANE, "", item("text", item_id=f"g.{n}")) for n in range(5)]
        await wait.until_async(lambda: all(one.sequence for one in held), SOON_S)
        await made.restart()
        await wait.until_async(lambda: publisher.republished >= 5 and all(one.sequence for one in held), SOON_S)
        worker = await made.start_worker()
        deliveries = await made.got(5)
        assert sorted(one.item.item_id for one in deliveries) == [f"g.{n}" for n in range(5)]
        await replies.send(worker, [answered(one) for one in deliveries])
        assert {(await result_of(one)).outputs[0] for one in held} == {b"vector"}

    run(tmp_path, scene)


def test_a_worker_that_held_items_over_the_broker_s_death_still_answers_them(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        publisher = await made.start_gateway()
        worker = await made.start_worker()
        held = publisher.submit(LANE, "", item("text", item_id="g.1"))
        (before,) = await made.got(1)
        await made.restart()
        after = (await made.got(2))[1]
        assert (before.epoch, after.epoch) == (0, 1)
        await replies.send(worker, [answered(before)])
        assert (await result_of(held)).outputs == [b"vector"]
        # The second copy is answered too: the gateway confirms it and counts it, and nobody waits for it any more.
        await replies.send(worker, [answered(after)])
        assert publisher.duplicates == 1
        assert await messages(made) == 0

    run(tmp_path, scene)


def test_a_worker_s_credit_survives_the_broker_s_death(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        publisher = await made.start_gateway()
        await made.start_worker()
        await made.restart()
        await wait.until_async(lambda: all(broker.is_connected for broker in made.brokers), SOON_S)
        publisher.submit(LANE, "", item("text", item_id="g.1"))
        assert (await made.got(1))[0].item.item_id == "g.1"

    run(tmp_path, scene)


def test_an_item_sent_twice_under_its_id_is_delivered_once(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        publisher = await made.start_gateway()
        held = publisher.submit(LANE, "", item("text", item_id="g.1"))
        await wait.until_async(lambda: held.sequence == 1, SOON_S)
        publisher._send(held)
        await wait.until_async(lambda: held.sequence == 1, SOON_S)
        assert await messages(made) == 1

    run(tmp_path, scene)


def test_what_is_submitted_while_the_broker_is_away_arrives_when_it_is_back(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        publisher = await made.start_gateway()
        await made.start_worker()
        made.process.kill()
        await made.process.exited.wait()
        await wait.until_async(lambda: not any(broker.is_connected for broker in made.brokers), SOON_S)
        for number in range(3):
            publisher.submit(LANE, "", item("text", item_id=f"g.{number}"))
        made.process = made.server.process()
        await start(made.process)
        deliveries = await made.got(3)
        assert sorted({one.item.item_id for one in deliveries}) == ["g.0", "g.1", "g.2"]

    run(tmp_path, scene)


def test_what_a_dead_worker_never_read_is_found_and_given_back_and_nothing_else(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        publisher = await bench.start_gateway()
        daemon = await bench.broker("daemon", "daemon")
        await bench.start_worker()
        held = [publisher.submit(LANE, "", item("text", item_id=f"g.{n}")) for n in range(6)]
        first = [*await bench.got(6)]
        living = {subjects.sequence_of(one.ack_subject)[1] for one in first[:2]}
        start = time.monotonic()
        assert await orphans.give_back(daemon, subjects.LIVE, living) == 4
        again = (await bench.got(10))[6:]
        assert time.monotonic() - start < QUEUE.ack_wait_s / 2
        assert {one.item.item_id for one in again} == {one.item.item_id for one in first[2:]}
        assert {one.delivered for one in again} == {2}
        assert not any(one.answer.done() for one in held)

    run(tmp_path, scene)
