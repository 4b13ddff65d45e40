"""A connection to the broker, and the stream and consumers that must be there. Whoever misses them makes them anew."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import nats.errors

from appliance import log
from appliance.config import Queue
from appliance.errors import Unavailable
from appliance.supervisor.leases import Leases
from appliance.wire import subjects
from appliance.wire.launch import BrokerLogin
from appliance.workqueue.connection import Connection, Handler

__all__ = ["Broker"]

_log = log.Logger("broker")
_API_TIMEOUT_S = 2.0
_OTHER_CONFIGURATION = 10058
"""JetStream: a stream of that name is there and differs."""


class Broker:
    """One connection. `epoch` counts the server lives seen: what was leased in an older one is not ours to ack.

    A memory stream starts at sequence 1 after a restart, so an ack from before it could remove another's item. A stream
    on disk goes on where it was, and so do its leases.
    """

    def __init__(self, login: BrokerLogin, process_id: str, leases: Leases | None = None) -> None:
        self.epoch = 0
        self.leases = leases
        self.inbox = f"_INBOX_{login.user}.{process_id}"
        self._login = login
        self._process_id = process_id
        self._server_id = ""
        self._stopping = False
        self._restored: list[Callable[[], Awaitable[None]]] = []
        self.client = Connection()
        self._asked: dict[int, asyncio.Future[bytes | None]] = {}
        self._next_question = 0

    async def start(self) -> None:
        """Connect, trying for as long as the parent lets us. Raises nats.errors.Error on bad credentials."""
        await self.client.connect(
            self._login.url,
            user=self._login.user,
            password=self._login.password,
            name=self._process_id,
            inbox_prefix=self.inbox,
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.1,  # type: ignore[arg-type]  # annotated int, used in asyncio.sleep
            connect_timeout=2,
            ping_interval=5,
            max_outstanding_pings=2,
            pending_size=64 << 20,
            reconnected_cb=self._on_reconnect,
            disconnected_cb=self._on_disconnect,
            error_cb=self._on_error,
            skip_subject_validation=True,  # every subject is built in wire/subjects.py, from tokens made safe there
        )
        self._server_id = self._current_server()
        self.client.listen(f"{self.inbox}.q.*", self._on_answer)

    async def stop(self) -> None:
        """Flush what was published and close."""
        self._stopping = True
        if self.client.is_connected:
            try:
                await self.client.flush(2)
            except (nats.errors.Error, asyncio.TimeoutError):
                pass  # a broker that is gone has nothing left to take
        await self.client.close()

    @property
    def is_connected(self) -> bool:
        return self.client.is_connected

    def on_restored(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Run `callback` after each reconnection, in order of registration."""
        self._restored.append(callback)

    def _current_server(self) -> str:
        return str(self.client._server_info.get("server_id", ""))

    async def _on_reconnect(self) -> None:
        server_id = self._current_server()
        if server_id != self._server_id:
            self._server_id, self.epoch = server_id, self.epoch + 1
            if self.leases is not None:
                self.leases.clear(subjects.is_durable)
        _log.info("broker", state="reconnected", epoch=self.epoch)
        for callback in self._restored:
            try:
                await callback()
            except Exception as exc:
                _log.error("broker", exc, state="not restored")

    async def _on_disconnect(self) -> None:
        if not self._stopping:
            _log.warning("broker", state="disconnected")
        for question in self._asked.values():  # their answers went down with the connection
            _time_out(question)

    async def _on_error(self, error: Exception) -> None:
        # A permission that is missing looks like a time-out elsewhere; here is the only place that names it.
        if not isinstance(error, (ConnectionError, nats.errors.UnexpectedEOF, OSError)):
            _log.warning("broker", error=f"{type(error).__name__}: {error}")

    def post(self, subject: str, data: bytes, reply: str = "", headers: bytes = b"") -> None:
        """Hand a message to the connection's buffer. Raises Unavailable when the buffer is full or closed."""
        try:
            self.client.post(subject, data, reply, headers)
        except nats.errors.Error as exc:
            raise Unavailable("The queue cannot be reached at the moment.") from exc

    async def request(self, subject: str, data: bytes, timeout_s: float, headers: bytes = b"") -> bytes | None:
        """Return the answer, or None where nobody listens. Raises asyncio.TimeoutError when none comes, Unavailable."""
        loop = asyncio.get_running_loop()
        self._next_question += 1
        number = self._next_question
        answer: asyncio.Future[bytes | None] = loop.create_future()
        self._asked[number] = answer
        timer = loop.call_later(timeout_s, _time_out, answer)
        try:
            self.post(subject, data, f"{self.inbox}.q.{number}", headers)
            return await answer
        finally:
            timer.cancel()
            del self._asked[number]

    def _on_answer(self, subject: str, reply: str, data: bytes, headers: bytes) -> None:
        answer = self._asked.get(int(subject.rpartition(".")[2]))
        if answer is not None and not answer.done():
            answer.set_result(None if is_status(headers, b"503") else data)

    def listen(self, subject: str, handler: Handler) -> None:
        """Have `handler` called for each message, at once."""
        self.client.listen(subject, handler)

    def unlisten(self, subject: str) -> None:
        self.client.unlisten(subject)

    async def call(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """Call JetStream's JSON API; nats-py has no field for some of what we need. Raises Unavailable."""
        try:
            answer = await self.request(f"$JS.API.{subject}", json.dumps(body).encode(), _API_TIMEOUT_S)
        except (asyncio.TimeoutError, nats.errors.Error) as exc:
            raise Unavailable("The queue does not answer.") from exc
        if answer is None:
            raise Unavailable("The queue is not up.")
        fields: dict[str, Any] = json.loads(answer)
        return fields

    async def ensure_live(self, queue: Queue, longest_timeout_s: float) -> None:
        """Make the stream LIVE where it is missing or other: memory, work queue, refusing past the limit per lane."""
        config = {
            "name": subjects.LIVE,
            "subjects": [subjects.lane_subject("*")],
            "retention": "workqueue",
            "storage": "memory",
            "discard": "new",
            "discard_new_per_subject": True,
            "max_msgs_per_subject": queue.max_items,
            "max_bytes": queue.max_memory_bytes,
            "max_msgs": -1,
            "num_replicas": 1,
            # As long as a publish may be repeated for want of an ack; the server keeps every id for it, in memory.
            "duplicate_window": int(10e9),
            # Nobody waits for longer than a request may take; what is still there then is nobody's.
            "max_age": int((longest_timeout_s + 60) * 1e9),
        }
        answer = await self.call(f"STREAM.CREATE.{subjects.LIVE}", config)
        if answer.get("error", {}).get("err_code") == _OTHER_CONFIGURATION:
            answer = await self.call(f"STREAM.UPDATE.{subjects.LIVE}", config)
        self._check(answer, "stream")

    async def ensure_quarantine(self) -> None:
        """Make the stream of items set aside: on disk, the newest thousand, for thirty days."""
        config = {
            "name": subjects.QUARANTINE,
            "subjects": [f"{subjects.QUARANTINE}.>"],
            "retention": "limits",
            "storage": "file",
            "discard": "old",
            "max_msgs": 1000,
            "max_bytes": 256 << 20,
            "max_age": int(30 * 86400 * 1e9),
            "num_replicas": 1,
        }
        self._check(await self.call(f"STREAM.CREATE.{subjects.QUARANTINE}", config), "stream")

    async def ensure_lane(self, lane: str, ack_wait_s: float, stream: str = subjects.LIVE) -> None:
        """Make the lane's durable consumer where it is missing; all workers share it."""
        subject = subjects.lane_filter(lane, stream)
        config = {
            "durable_name": lane,
            "name": lane,
            "filter_subject": subject,
            "ack_policy": "explicit",
            "ack_wait": int(ack_wait_s * 1e9),
            "deliver_policy": "all",
            "max_ack_pending": -1,
            "max_waiting": 512,
            "mem_storage": stream == subjects.LIVE,
        }
        answer = await self.call(
            f"CONSUMER.CREATE.{stream}.{lane}.{subject}", {"stream_name": stream, "config": config}
        )
        self._check(answer, f"consumer {lane}")

    @staticmethod
    def _check(answer: dict[str, Any], what: str) -> None:
        error = answer.get("error")
        if error:
            raise Unavailable(f"The queue refused the {what}: {error.get('description')} ({error.get('err_code')}).")


def is_status(headers: bytes, code: bytes) -> bool:
    """Return whether raw headers are the server's own word with this code, such as 503 where nobody listens."""
    return headers.startswith(b"NATS/1.0 " + code)


def parse_status(headers: bytes) -> dict[str, str]:
    """Return the headers of a status message, with its code as "Status" and its text as "Description"."""
    first, *lines = headers.decode().rstrip("\r\n").split("\r\n")
    _, code, description = f"{first}  ".split(" ", 2)
    found = {"Status": code, "Description": description.strip()}
    for line in lines:
        name, _, value = line.partition(":")
        found[name.strip()] = value.strip()
    return found


def _time_out(answer: asyncio.Future[bytes | None]) -> None:
    if not answer.done():
        answer.set_exception(asyncio.TimeoutError())
