"""A job's results on their way to the disk: written where none is yet, and only then acked."""

from __future__ import annotations

import asyncio

from appliance import log
from appliance.errors import ApplianceError
from appliance.wire import items, subjects
from appliance.wire.items import WorkItem, WorkResult
from appliance.wire.jobs import item_place
from appliance.workqueue import disk
from appliance.workqueue.broker import Broker
from appliance.workqueue.consumer import Delivery, settle

_log = log.Logger("results")

Answered = tuple[list[Delivery], WorkResult]
"""An item's deliveries (more than one where it came again while it was held) and its one result."""


async def store(broker: Broker, answered: list[Answered]) -> None:
    """Write each item's result, then ack it. What cannot be written is not acked and comes again."""
    await asyncio.gather(*(_store(broker, deliveries, result) for deliveries, result in answered))


async def _store(broker: Broker, deliveries: list[Delivery], result: WorkResult) -> None:
    item = deliveries[0].item
    try:
        await put_result(broker, item.item_id, result, _failed(item, result))
    except ApplianceError as exc:
        _log.warning("result", item_id=item.item_id, state="not stored", reason=exc.message)
        return
    settle(broker, deliveries, b"+ACK")


async def put_result(broker: Broker, item_id: str, result: WorkResult, failed: int) -> None:
    """Write an item's result, unless there is one: the first stays. Raises Unavailable, Overloaded."""
    job_id, number = item_place(item_id)
    await disk.put_new(
        broker,
        subjects.job_result(job_id, number, failed),
        items.pack_results([result]),
        subjects.job_result(job_id, number, "*"),
    )


def _failed(item: WorkItem, result: WorkResult) -> int:
    return len(item.inputs) if result.error_code else len(result.errors)
