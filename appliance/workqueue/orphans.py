"""Items that the server handed to a worker which died before it had read them: nobody's, until their lease runs out.

A worker's shared memory tells what it had taken up (supervisor/leases.py); this finds the rest. In a work queue what is
acked is gone, so what is still there up to a consumer's last delivery is leased: to a living worker, or to nobody.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from appliance.errors import Unavailable
from appliance.wire import subjects
from appliance.workqueue.broker import Broker

_MOST = 1000
"""Per lane; a worker's credit is far less."""


async def give_back(broker: Broker, stream: str, held: Collection[int]) -> int:
    """Give back what is leased and not in `held` (numbers in the stream); return how many. Raises Unavailable.

    One that a living worker was sent a moment ago and has not taken up yet may be among them: it runs twice then, and
    is answered once.
    """
    count, offset = 0, 0
    while True:
        answer = await broker.call(f"CONSUMER.LIST.{stream}", {"offset": offset})
        found: list[dict[str, Any]] = answer.get("consumers") or []
        for consumer in found:
            if consumer["num_ack_pending"]:
                count += await _give_back_of(broker, stream, consumer, held)
        offset += len(found)
        if not found or offset >= answer.get("total", 0):
            return count


async def _give_back_of(broker: Broker, stream: str, consumer: dict[str, Any], held: Collection[int]) -> int:
    delivered, floor = consumer["delivered"], consumer["ack_floor"]["stream_seq"]
    count, number = 0, floor + 1
    while count < _MOST and number <= delivered["stream_seq"]:
        query = {"seq": number, "next_by_subj": consumer["config"]["filter_subject"]}
        answer = await broker.call(f"STREAM.MSG.GET.{stream}", query)
        if "error" in answer:  # nothing from there on
            return count
        found: int = answer["message"]["seq"]
        if found > delivered["stream_seq"]:
            return count
        if found not in held:
            ack_subject = subjects.ack_subject(stream, consumer["name"], found, delivered["consumer_seq"])
            try:
                broker.post(ack_subject, b"-NAK")
            except Unavailable:
                return count
            count += 1
        number = found + 1
    return count
