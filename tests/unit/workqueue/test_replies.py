from __future__ import annotations

import asyncio
from typing import cast

import pytest

from appliance.errors import Unavailable
from appliance.wire import items
from appliance.wire.items import WorkResult
from appliance.workqueue import replies
from appliance.workqueue.broker import Broker
from appliance.workqueue.consumer import Delivery
from appliance.workqueue.results import Answered
from tests.fakes import FakeBroker
from tests.unit.making import delivery, item

Answers = list[bytes | Exception | None]


def send(names: list[str], answers: Answers, *, output: bytes = b"x", epochs: tuple[int, ...] = (0,)) -> FakeBroker:
    """Send one result for each `<gateway>/<item>`; return the broker as it was left."""
    broker = FakeBroker(answers=answers)
    answered: list[Answered] = []
    for name in names:
        deliveries: list[Delivery] = []
        for number, epoch in enumerate(epochs):
            one = delivery(item(item_id=name, gateway_id=name.partition("/")[0]), epoch)
            deliveries.append(Delivery(one.item, f"$JS.ACK.{name}.{number}", epoch, 1 + number, 0.0))
            broker.confirmed |= set() if number == 0 else {deliveries[-1].ack_subject}
        broker.ack_subject_of[name] = deliveries[0].ack_subject
        answered.append((deliveries, WorkResult(name, "h", [output], [1], [])))
    asyncio.run(replies.send(cast(Broker, broker), answered))
    assert broker.violations == []
    return broker


def test_a_batch_s_results_go_to_each_gateway_as_one_message() -> None:
    broker = send(["g1/a", "g2/b", "g1/c"], [b"", b""])
    told = {subject: [r.item_id for r in items.unpack_results(data)] for subject, data in broker.requested}
    assert told == {"r.g1": ["g1/a", "g1/c"], "r.g2": ["g2/b"]}
    assert len(broker.sent(b"+ACK")) == 3


@pytest.mark.parametrize(
    ("answers", "requests", "acks"),
    [
        ([b""], 1, 1),
        ([asyncio.TimeoutError(), b""], 2, 1),
        ([Unavailable("away"), asyncio.TimeoutError(), b""], 3, 1),
        ([None], 1, 1),  # nobody listens: the caller is gone
        ([asyncio.TimeoutError()] * 9, 5, 0),  # left to the lease's end
    ],
)
def test_an_item_is_acked_only_once_its_answer_is_confirmed(answers: Answers, requests: int, acks: int) -> None:
    broker = send(["g/a"], answers)
    assert len(broker.requested) == requests
    assert len(broker.sent(b"+ACK")) == acks


def test_large_results_are_sent_in_parts() -> None:
    broker = send([f"g/{n}" for n in range(5)], [], output=b"x" * (2 << 20))
    assert len(broker.requested) > 1
    assert max(len(data) for _, data in broker.requested) < 8 << 20
    assert len(broker.sent(b"+ACK")) == 5


def test_every_delivery_of_an_item_that_came_again_is_acked() -> None:
    broker = send(["g/a"], [b""], epochs=(0, 0))
    assert broker.sent(b"+ACK") == ["$JS.ACK.g/a.0", "$JS.ACK.g/a.1"]


def test_what_an_earlier_life_of_the_broker_leased_is_not_acked() -> None:
    broker = send(["g/a"], [b""], epochs=(7,))
    assert len(broker.requested) == 1
    assert broker.sent(b"+ACK") == []
