"""Answers on their way back: the results of a batch, one confirmed message to each gateway, then the acks."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator

from appliance import log
from appliance.errors import Unavailable
from appliance.wire import items, subjects
from appliance.wire.items import WorkResult
from appliance.workqueue import results
from appliance.workqueue.broker import Broker
from appliance.workqueue.consumer import settle
from appliance.workqueue.results import Answered

_log = log.Logger("replies")

_CONFIRM_S = 2.0
_TRIES = 5
_MESSAGE_BYTES = 4 << 20


async def send(broker: Broker, answered: list[Answered]) -> None:
    """Send each gateway its results, wait for its confirmation, ack. What is not confirmed is not acked.

    Nobody listening means that the gateway, and with it the caller, is gone: ack and drop. Results of accepted jobs
    have no gateway and are stored, after those that somebody waits for.
    """
    groups: dict[str, list[Answered]] = defaultdict(list)
    for entry in answered:
        groups[entry[0][0].item.gateway_id].append(entry)
    of_jobs = groups.pop("", [])
    for gateway_id, group in groups.items():
        for part in _parts(group):
            if await _confirmed(broker, gateway_id, [result for _, result in part]):
                settle(broker, [delivery for deliveries, _ in part for delivery in deliveries], b"+ACK")
    if of_jobs:
        await results.store(broker, of_jobs)


async def _confirmed(broker: Broker, gateway_id: str, results: list[WorkResult]) -> bool:
    """Return True once the gateway has confirmed or is known to be gone; False leaves it to the lease's end."""
    payload = items.pack_results(results)
    for _ in range(_TRIES):
        try:
            answer = await broker.request(subjects.reply_subject(gateway_id), payload, _CONFIRM_S)
        except (asyncio.TimeoutError, Unavailable):
            continue
        if answer is None:
            _log.warning("reply", gateway=gateway_id, results=len(results), state="gateway gone")
        return True
    _log.warning("reply", gateway=gateway_id, results=len(results), state="not confirmed")
    return False


def _parts(group: list[Answered]) -> Iterator[list[Answered]]:
    """Cut a group into messages of at most a few MiB."""
    part: list[Answered] = []
    size = 0
    for entry in group:
        entry_bytes = sum(map(len, entry[1].outputs))
        if part and size + entry_bytes > _MESSAGE_BYTES:
            yield part
            part, size = [], 0
        part.append(entry)
        size += entry_bytes
    if part:
        yield part
