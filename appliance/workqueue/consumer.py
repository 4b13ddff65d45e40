"""The worker's end of one lane: a raw pull kept waiting, with credit for what the worker can start next, no more."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from appliance import log
from appliance.errors import Unavailable
from appliance.wire import items, subjects
from appliance.wire.items import WorkItem
from appliance.workqueue.broker import Broker, parse_status

_log = log.Logger("consumer")

_PULL_EXPIRES_S = 30.0
_PULL_HEARTBEAT_S = 5.0
_RETRY_S = 0.2
_TAKE_S = 2.0


class Delivery(NamedTuple):
    """An item as fetched: ours until the lease runs out, to be acked, given back or dropped."""

    item: WorkItem
    ack_subject: str
    epoch: int
    delivered: int
    waited_s: float
    """How long it was in the stream, by the clock of its broker's box and ours."""


class LaneConsumer:
    """Pulls from one lane. `want` sets the credit; deliveries come to `on_delivery` as they arrive."""

    def __init__(
        self,
        broker: Broker,
        lane: str,
        ack_wait_s: float,
        on_delivery: Callable[[Delivery], None],
        stream: str = subjects.LIVE,
    ) -> None:
        self.lane = lane
        self._stream = stream
        self._broker = broker
        self._ack_wait_s = ack_wait_s
        self._on_delivery = on_delivery
        self._inbox = f"{broker.inbox}.p.{stream}.{lane}"
        self._take_inbox = f"{broker.inbox}.t.{stream}.{lane}"
        self._withdrawals = 0
        self._taking: asyncio.Future[None] | None = None
        self._missing = 0
        self._pull = subjects.pull_subject(lane, stream)
        self._is_closed = False
        self._wanted = 0
        self._outstanding = 0
        self._heard_at = 0.0
        self._watch: asyncio.Task[None] | None = None
        self._recovery: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._broker.ensure_lane(self.lane, self._ack_wait_s, self._stream)
        self._broker.listen(self._inbox, self._on_message)
        self._broker.listen(self._take_inbox, self._on_taken)
        self._broker.on_restored(self._restore)
        self._watch = asyncio.create_task(self._watch_pulls())

    def close(self) -> None:
        """Take nothing new, and have the server forget the waiting pull before it hears anything said after this.

        It would go on filling it, and what is given back would come again and again, as if it failed each time.
        """
        self._is_closed = True
        self._broker.unlisten(self._inbox)
        self._broker.unlisten(self._take_inbox)

    async def stop(self) -> None:
        """Close, and end what this started."""
        self.close()
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    def want(self, count: int) -> None:
        """Set how many more items may be delivered from now on. Asks only when half of it is used up."""
        if self._is_closed:
            return  # nobody would hear what came
        self._wanted = count
        missing = count - self._outstanding
        if count and missing * 2 >= count:
            if not self._outstanding:
                self._heard_at = asyncio.get_running_loop().time()
            self._outstanding += missing
            self._ask(missing)

    def withdraw(self) -> None:
        """Have the server forget the waiting pull: it drops one whose inbox nobody listens to.

        What it had sent by then comes all the same.
        """
        self._wanted = 0
        if self._is_closed or not self._outstanding:
            return
        self._outstanding = 0
        self._broker.unlisten(self._inbox)
        self._withdrawals += 1
        self._inbox = f"{self._broker.inbox}.p.{self._stream}.{self.lane}.{self._withdrawals}"
        self._broker.listen(self._inbox, self._on_message)

    async def take(self, count: int) -> int:
        """Take up to `count` of the items that wait now; return how many came. One take at a time."""
        if self._is_closed:
            return 0
        self._missing = count
        self._taking = asyncio.get_running_loop().create_future()
        try:
            self._broker.post(self._pull, json.dumps({"batch": count, "no_wait": True}).encode(), self._take_inbox)
            await asyncio.wait_for(self._taking, _TAKE_S)
        except (Unavailable, asyncio.TimeoutError):
            pass  # what comes later is taken all the same
        self._taking = None
        return count - self._missing

    def _on_taken(self, subject: str, reply: str, data: bytes, headers: bytes) -> None:
        if reply:
            self._missing -= 1
            self._deliver(reply, data)
        else:
            self._on_end_of_take(parse_status(headers))
        if self._taking is not None and not self._taking.done() and (not reply or self._missing <= 0):
            self._taking.set_result(None)

    def _on_end_of_take(self, headers: dict[str, str]) -> None:
        """404: no more is there; anything else is as for a waiting pull."""
        if headers["Status"] not in ("404", "408"):
            self._on_lost(headers)

    def _ask(self, count: int) -> None:
        body = {
            "batch": count,
            "expires": int(_PULL_EXPIRES_S * 1e9),
            "idle_heartbeat": int(_PULL_HEARTBEAT_S * 1e9),
        }
        try:
            self._broker.post(self._pull, json.dumps(body).encode(), self._inbox)
        except Unavailable:
            self._outstanding -= count  # the reconnection asks again

    def _on_message(self, subject: str, reply: str, data: bytes, headers: bytes) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        if not reply:
            self._on_status(parse_status(headers))
            return
        self._outstanding = max(0, self._outstanding - 1)
        self._deliver(reply, data)

    def _deliver(self, reply: str, data: bytes) -> None:
        if self._broker.leases is not None:
            self._broker.leases.add(reply)
        try:
            item = items.unpack_item(data)
        except (ValueError, TypeError) as exc:
            _log.error("delivery", exc, lane=self.lane)
            _send(self._broker, reply, b"+TERM")
            return
        self._on_delivery(Delivery(item, reply, self._broker.epoch, *_facts(reply)))

    def _on_status(self, headers: dict[str, str]) -> None:
        """A pull ended, or lives: 100 heartbeat, 404 empty, 408 expired, 409 consumer changed, 503 gone."""
        status = headers["Status"]
        if status == "100":
            return
        unfilled = int(headers.get("Nats-Pending-Messages", self._outstanding))
        self._outstanding = max(0, self._outstanding - unfilled)
        if status in ("404", "408"):
            self.want(self._wanted)
        else:
            self._on_lost(headers)

    def _on_lost(self, headers: dict[str, str]) -> None:
        if self._recovery is None or self._recovery.done():
            status = headers["Status"]
            _log.warning("pull", lane=self.lane, status=status, why=headers["Description"])
            self._recovery = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        """The consumer or its stream is gone: make it anew, and try later where that fails."""
        self._outstanding = 0
        try:
            await self._broker.ensure_lane(self.lane, self._ack_wait_s, self._stream)
        except Unavailable as exc:
            _log.warning("pull", lane=self.lane, state="not restored", error=exc.message)
            await asyncio.sleep(_RETRY_S)
        self.want(self._wanted)

    async def _restore(self) -> None:
        """After a reconnection the server knows no pull of ours. The stream may take the gateway a moment to remake."""
        self._outstanding = 0
        for _ in range(50):
            try:
                await self._broker.ensure_lane(self.lane, self._ack_wait_s, self._stream)
                break
            except Unavailable:
                await asyncio.sleep(_RETRY_S / 4)
        self.want(self._wanted)

    async def _watch_pulls(self) -> None:
        """A pull that has gone silent for two heartbeats is lost; ask anew."""
        while True:
            await asyncio.sleep(_PULL_HEARTBEAT_S)
            silent_s = asyncio.get_running_loop().time() - self._heard_at
            if self._outstanding and silent_s > 2 * _PULL_HEARTBEAT_S + 1 and self._broker.is_connected:
                _log.warning("pull", lane=self.lane, state="silent", silent_s=silent_s)
                await self._recover()
                self.want(self._wanted)


def _facts(ack_subject: str) -> tuple[int, float]:
    """Return how often the item was delivered and how many seconds ago it was stored, from its ack subject."""
    parts = ack_subject.split(".")
    first = subjects.ack_fields(parts)
    stored_at_s = int(parts[first + 3]) / 1e9
    return int(parts[first]), max(0.0, time.time() - stored_at_s)


def settle(broker: Broker, deliveries: Iterable[Delivery], verb: bytes) -> None:
    """Send `+ACK`, `-NAK`, `+TERM` or `+WPI` for each.

    What an earlier life of the server leased from its memory is not ours now; what is on disk still is.
    """
    for delivery in deliveries:
        if delivery.epoch == broker.epoch or delivery.item.is_job:
            _send(broker, delivery.ack_subject, verb)


def _send(broker: Broker, ack_subject: str, verb: bytes) -> None:
    if broker.leases is not None and verb != b"+WPI":
        broker.leases.remove(ack_subject)
    try:
        broker.post(ack_subject, verb)
    except Unavailable:
        pass  # the lease's end says it
