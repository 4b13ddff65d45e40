"""nats-py's client with a short way in and out for what every request does.

The library's own way is six coroutines to publish a message, and a queue, a task and an object to receive one: more
than the rest of our work on it. Connecting, reconnecting, parsing and everything rare stay the library's. This leans on
names that it does not promise, hence the exact version in constraints.txt; the integration tests notice a change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from appliance import log

_log = log.Logger("connection")

_LATE_S = 5.0
"""For how long a message may be on its way to a handler that nobody listens with any more."""

Handler = Callable[[str, str, bytes, bytes], None]
"""Takes a message: subject, reply subject ("" for none), payload, raw headers (b"" for none)."""


class Connection(Client):
    """`post` and `listen` beside the library's `publish` and `subscribe`."""

    def __init__(self) -> None:
        super().__init__()
        self._handlers: dict[int, Handler] = {}
        self._sids: dict[str, int] = {}  # of what is listened to, by subject
        self._is_write_due = False

    def listen(self, subject: str, handler: Handler) -> None:
        """Call `handler` for each message as soon as it is parsed; it must not block, and its errors are logged.

        The library's object is there to be subscribed again after a reconnection; its queue and its task are not used.
        """
        self._sid += 1
        self._subs[self._sid] = Subscription(self, self._sid, subject, cb=_unused)
        self._handlers[self._sid], self._sids[subject] = handler, self._sid
        self._write_soon(b"SUB %b  %d\r\n" % (subject.encode(), self._sid))

    def unlisten(self, subject: str) -> None:
        """Tell the server that nobody listens; what it has sent by then still comes to the handler."""
        sid = self._sids.pop(subject, None)
        if sid is not None:
            del self._subs[sid]
            self._write_soon(b"UNSUB %d\r\n" % sid)
            asyncio.get_running_loop().call_later(_LATE_S, self._handlers.pop, sid, None)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        handler = self._handlers.get(sid)
        if handler is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        try:
            handler(subject.decode(), reply.decode(), data, headers or b"")
        except Exception as exc:
            _log.error("message", exc, subject=subject.decode())

    def post(self, subject: str, data: bytes, reply: str = "", headers: bytes = b"") -> None:
        """Publish without waiting; all that one turn of the loop posts goes out in one write.

        While the connection is away it is kept, up to the pending size. Raises nats.errors.Error beyond that.
        """
        if self.is_closed:
            raise nats.errors.ConnectionClosedError
        if self._pending_data_size + len(data) > self._max_pending_size:
            raise nats.errors.OutboundBufferLimitError
        if headers:
            size = len(headers)
            command = b"HPUB %b %b %d %d\r\n%b%b\r\n" % (
                subject.encode(),
                reply.encode(),
                size,
                size + len(data),
                headers,
                data,
            )
        else:
            command = b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(data), data)
        self._write_soon(command)

    def _write_soon(self, command: bytes) -> None:
        self._pending.append(command)
        self._pending_data_size += len(command)
        if not self._is_write_due:
            self._is_write_due = True
            asyncio.get_running_loop().call_soon(self._write_out)

    def _write_out(self) -> None:
        self._is_write_due = False
        if self.is_connected and self._pending and self._transport is not None:
            self._transport.writelines(self._pending)
            self._pending = []
            self._pending_data_size = 0


async def _unused(message: Msg) -> None:
    """The library wants a callback for a subscription; `_process_msg` never lets one get here."""
