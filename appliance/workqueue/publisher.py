"""The gateway's end of the queue: it holds every item until its answer is there, and publishes again what was lost.

So the broker is never the only copy, and may be killed at any moment.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable

from appliance import log
from appliance.config import Config
from appliance.errors import ApplianceError, BodyTooLarge, Overloaded, Unavailable
from appliance.metrics import LANES
from appliance.wire import items, subjects
from appliance.wire.items import WorkItem
from appliance.workqueue.broker import Broker
from appliance.workqueue.held import Held
from appliance.workqueue.windows import Windows

_log = log.Logger("publisher")

MAX_PAYLOAD_BYTES = 8 << 20
_SWEEP_S = 0.1
_REAP_S = 0.01
_DELETE = f"$JS.API.STREAM.MSG.DELETE.{subjects.LIVE}"
_SEQUENCE = re.compile(rb'"seq":\s*(\d+)')
_FULL = {10077, 10023, 10047, 10122}
"""JetStream error codes: messages per subject, insufficient resources, memory exceeded, bytes exceeded."""


class Publisher:
    """Publishes items and resolves their futures. Publishes are pipelined: nobody waits for an ack in line."""

    def __init__(self, broker: Broker, config: Config, gateway_id: str, clock: Callable[[], float]) -> None:
        self._broker = broker
        self._queue = config.queue
        self._longest_timeout_s = config.server.longest_timeout_s
        self._clock = clock
        self._gateway_id = gateway_id
        self._acks = f"{broker.inbox}.a."
        self.windows = Windows(self._send_first)
        self._held: dict[str, Held] = {}
        self._unacked: dict[int, Held] = {}  # in the order of sending, so the oldest is first
        self._next_number = 0
        self._stream_missing = False
        self._sweeper: asyncio.Task[None] | None = None
        self._abandoned: list[Held] = []
        self._has_abandoned = asyncio.Event()
        self._reaper: asyncio.Task[None] | None = None
        self.republished = 0
        self.duplicates = 0

    async def start(self) -> None:
        self._broker.listen(f"{self._acks}*", self._on_ack)
        self._broker.listen(subjects.reply_subject(self._gateway_id), self._on_results)
        self._broker.on_restored(self._restore)
        await self._broker.ensure_live(self._queue, self._longest_timeout_s)
        self._sweeper = asyncio.create_task(self._sweep())
        self._reaper = asyncio.create_task(self._reap())

    async def stop(self) -> None:
        for task in (self._sweeper, self._reaper):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    @property
    def held(self) -> int:
        return len(self._held)

    def submit(self, lane: str, key: str, item: WorkItem) -> Held:
        """Publish an item as soon as it is its key's turn.

        `answer` of what is returned resolves to its WorkResult, or raises our errors: BodyTooLarge when the packed
        item is over what the broker takes, Overloaded, Unavailable.
        """
        expires_at = self._clock() + item.remaining_ms / 1e3
        held = Held(item, lane, key, expires_at, asyncio.get_running_loop().create_future())
        self._held[item.item_id] = held
        LANES.count("admitted", item.model_id, item.klass)
        self.windows.enter(held)
        return held

    def _send_first(self, held: Held) -> None:
        """Send what has its turn now: the time that it waited is missing to the workers."""
        item = held.item
        remaining_ms = max(0, int((held.expires_at - self._clock()) * 1e3))
        if remaining_ms < item.remaining_ms - 1:  # it waited
            item = item._replace(remaining_ms=remaining_ms)
        held.payload = items.pack_item(item)
        if len(held.payload) > MAX_PAYLOAD_BYTES - 1024:
            size = len(held.payload)
            self._fail(
                held, BodyTooLarge(f"One input is too large: {size} bytes; the limit is {MAX_PAYLOAD_BYTES - 1024}.")
            )
            return
        self._send(held)

    def fail_model(self, name: str, error: ApplianceError) -> None:
        """End everything held for a model that nobody runs any more: waiting for a deadline would tell nothing."""
        for held in [held for held in self._held.values() if held.item.model_id == name]:
            self._unacked.pop(held.number, None)
            self._fail(held, error)

    def abandon(self, held: Held) -> None:
        """Forget an item that nobody waits for: it is not to be run, and a late answer is dropped."""
        if self._held.pop(held.item_id, None) is None:
            return
        held.answer.cancel()
        _count("abandoned", held)
        if held.payload:
            self._abandoned.append(held)
            self._has_abandoned.set()
        self.windows.leave(held)

    async def _reap(self) -> None:
        """Take abandoned items out of the stream, and tell the workers, who may hold them: together, a moment later."""
        while True:
            await self._has_abandoned.wait()
            await asyncio.sleep(_REAP_S)
            self._has_abandoned.clear()
            abandoned, self._abandoned = self._abandoned, []
            try:
                for held in abandoned:
                    # An item whose confirmation is still to come is left to the workers: they know by then.
                    if self._unacked.pop(held.number, None) is None and held.sequence:
                        body = json.dumps({"seq": held.sequence, "no_erase": True}).encode()
                        self._broker.post(_DELETE, body)
                self._broker.post(subjects.CANCELS, items.pack_cancels([held.item_id for held in abandoned]))
            except Unavailable:
                pass  # with the connection the broker's memory may be gone, too; what is left runs for nobody

    def _send(self, held: Held) -> None:
        self._unacked.pop(held.number, None)
        held.number = self._next_number = self._next_number + 1
        held.sent_at, held.sequence = self._clock(), 0
        self._unacked[held.number] = held
        try:
            self._broker.post(
                subjects.lane_subject(held.lane),
                held.payload,
                f"{self._acks}{held.number}",
                b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % held.item_id.encode(),
            )
        except Unavailable:
            pass  # the sweeper sends it again; the caller's deadline is the limit

    def _send_again(self, held: Held) -> None:
        self.republished += 1
        _count("republished", held)
        self._send(held)

    def _on_ack(self, subject: str, reply: str, data: bytes, headers: bytes) -> None:
        held = self._unacked.get(int(subject.rpartition(".")[2]))
        if held is None:
            return
        if headers:
            # No responders: the stream is gone with the memory of a broker that restarted. The sweeper mends both.
            self._stream_missing, held.sent_at = True, 0.0
            return
        # Looked for, not parsed: a success is the case of every request, an error the case of few.
        if b'"error"' not in data:
            del self._unacked[held.number]
            held.sequence = _sequence(data)
            return
        error = json.loads(data)["error"]
        del self._unacked[held.number]
        if error.get("err_code") in _FULL:
            self._fail(held, Overloaded("Too much work waits for this model. Try again in a moment.", retry_after_s=1))
        else:
            _log.warning("publish", item_id=held.item_id, error=error.get("description"), code=error.get("err_code"))
            self._fail(held, Unavailable("The queue does not take work at the moment."))

    def _fail(self, held: Held, error: ApplianceError) -> None:
        if self._held.pop(held.item_id, None) is None:
            return
        if not held.answer.done():
            held.answer.set_exception(error)
        _count("failed", held)
        self.windows.leave(held)

    def _on_results(self, subject: str, reply: str, data: bytes, headers: bytes) -> None:
        """Resolve a batch's results; the first answer wins. Then confirm, so that the worker may ack."""
        for result in items.unpack_results(data):
            held = self._held.pop(result.item_id, None)
            if held is None:
                self.duplicates += 1
                LANES.count("duplicated", "unknown", "unknown")  # the item that would tell is gone
                continue
            self._unacked.pop(held.number, None)
            if not held.answer.done():
                held.answer.set_result(result)
            _count("failed" if result.error_code else "answered", held)
            self.windows.leave(held)
        self._broker.post(reply, b"")

    async def _sweep(self) -> None:
        """Send again what has gone unconfirmed for too long, under the same message id, so that no copy is doubled."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            if not self._broker.is_connected or not await self._has_stream():
                continue
            before = self._clock() - self._queue.publish_timeout_s
            late = [held for held in self._unacked.values() if held.sent_at < before]
            for held in late:
                self._send_again(held)

    async def _has_stream(self) -> bool:
        """Make the stream anew if a publish found it missing; False where that does not work yet."""
        if self._stream_missing:
            try:
                await self._broker.ensure_live(self._queue, self._longest_timeout_s)
            except Unavailable as exc:
                _log.warning("publish", state="no stream", error=exc.message)
                return False
            self._stream_missing = False
        return True

    async def _restore(self) -> None:
        """After a reconnection the server may be another one, with an empty memory: send all that is held again."""
        await self._broker.ensure_live(self._queue, self._longest_timeout_s)
        for held in list(self._held.values()):
            if held.payload:  # the others still wait for their turn
                self._send_again(held)


def _sequence(ack: bytes) -> int:
    """Return the sequence number in a publish ack, `{"stream":"LIVE","seq":7}`, without parsing the rest."""
    found = _SEQUENCE.search(ack)
    return int(found[1]) if found else 0


def _count(what: str, held: Held) -> None:
    LANES.count(what, held.item.model_id, held.item.klass)
