"""Items set aside because they failed again and again: kept on disk, with the reason, for an administrator."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgpack

from appliance.errors import Unavailable
from appliance.wire import items, subjects
from appliance.wire.items import WorkItem, WorkResult
from appliance.workqueue.broker import Broker

_VERSION = 1
_RETRY_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Entry:
    """One item in quarantine. `number` is its place in the stream, `at` the time (Unix seconds) it was set aside."""

    number: int
    item: WorkItem
    reason: str
    failed_input: int
    at: float


async def put(broker: Broker, item: WorkItem, failed_input: int, reason: str) -> None:
    """Set an item aside. Raises Unavailable when the broker does not confirm it."""
    data = msgpack.packb((_VERSION, items.pack_item(item), reason, failed_input, time.time()))
    try:
        answer = await broker.request(subjects.quarantine_subject(subjects.lane(item.model_id)), data, 2.0)
    except asyncio.TimeoutError as exc:
        raise Unavailable("The quarantine did not confirm.") from exc
    if answer is None or b'"error"' in answer:
        raise Unavailable("The quarantine does not take items at the moment.")


class Quarantine:
    """The administrator's view, over the daemon's own login."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def entries(self) -> AsyncIterator[Entry]:
        """Yield what is in quarantine, oldest first."""
        number = 1
        while True:
            message = await self._get({"seq": number, "next_by_subj": f"{subjects.QUARANTINE}.>"})
            if message is None:
                return
            yield message
            number = message.number + 1

    async def entry(self, number: int) -> Entry | None:
        return await self._get({"seq": number})

    async def _get(self, query: dict[str, object]) -> Entry | None:
        answer = await self._broker.call(f"STREAM.MSG.GET.{subjects.QUARANTINE}", query)
        if "error" in answer:
            return None
        message = answer["message"]
        fields = msgpack.unpackb(base64.b64decode(message["data"]))
        _, packed, reason, failed_input, at = fields[:5]
        return Entry(message["seq"], items.unpack_item(packed), reason, failed_input, at)

    async def drop(self, number: int) -> bool:
        """Remove an entry for good; False where there is none of that number."""
        answer = await self._broker.call(f"STREAM.MSG.DELETE.{subjects.QUARANTINE}", {"seq": number})
        return "error" not in answer

    async def retry(self, entry: Entry) -> WorkResult:
        """Run an entry again, as a caller of its own. Raises Unavailable when no answer comes within two minutes."""
        caller = f"retry-{entry.number}-{time.monotonic_ns()}"
        answer: asyncio.Future[WorkResult] = asyncio.get_running_loop().create_future()

        def on_results(subject: str, reply: str, data: bytes, headers: bytes) -> None:
            for result in items.unpack_results(data):
                if not answer.done():
                    answer.set_result(result)
            self._broker.post(reply, b"")

        self._broker.listen(subjects.reply_subject(caller), on_results)
        again = entry.item._replace(item_id=caller, gateway_id=caller, remaining_ms=int(_RETRY_TIMEOUT_S * 1000))
        self._broker.post(subjects.lane_subject(subjects.lane(again.model_id)), items.pack_item(again))
        try:
            return await asyncio.wait_for(answer, _RETRY_TIMEOUT_S)
        except asyncio.TimeoutError as exc:
            raise Unavailable("No answer within two minutes. Is the model loaded? See `appliance status`.") from exc


def describe(entry: Entry) -> dict[str, object]:
    """Return what a table or --json shows: everything but the content."""
    return {
        "number": entry.number,
        "model": entry.item.model_id,
        "operation": entry.item.operation,
        "inputs": len(entry.item.inputs),
        "failed_input": entry.failed_input,
        "reason": entry.reason,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.at)),
        "item_id": entry.item.item_id,
    }


def content(entry: Entry) -> str:
    """Return the inputs as JSON, for `quarantine show`."""
    return json.dumps(entry.item.inputs, ensure_ascii=False, indent=2)
