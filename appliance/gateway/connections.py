"""Connections as a whole: how many, from whom, and for how long one may hold its place without doing anything.

aiohttp has no limit of its own on any of that; a few hundred sockets that send a byte now and then would fill it up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from appliance import log
from appliance.config import Server
from appliance.errors import BadRequest, Internal, TooManyConnections
from appliance.gateway.render import INTERNAL, error_response, raw_error

_log = log.Logger("connections")

_SWEEP_S = 1.0
_REFUSED_S = 2.0
"""How long one that is told to go may take to hear it."""
_LATE_S = 0.25
"""How long a connection that came while everything ends may take to ask, and be told so."""
_LOOPBACK = ("127.", "::1", "::ffff:127.")


@dataclass
class _Seen:
    """One connection as of the last sweep."""

    since: float
    has_asked: bool = False
    unsent_bytes: int = 0
    unsent_since: float = 0.0


class Connections:
    """Makes the protocol of each new connection, and closes those that sit idle in a place that others need.

    At `most` are served; `refused` are those that are being told so.
    """

    def __init__(self, server: web.Server, settings: Server, most: int, clock: Callable[[], float]) -> None:
        self._server = server
        self._settings = settings
        self.most = most
        self.refused: set[_Refusal] = set()
        self._clock = clock
        self._seen: dict[RequestHandler, _Seen] = {}

    @property
    def count(self) -> int:
        return len(self._server.connections) + len(self.refused)

    def protocol(self) -> asyncio.Protocol:
        """For loop.create_server: a gate in front of aiohttp's own protocol."""
        return _Gate(self)

    def admit(self, transport: asyncio.Transport) -> RequestHandler | None:
        """Return aiohttp's protocol for a connection, or None where there are too many."""
        address = _address(transport)
        open_now = self._server.connections
        is_full = len(open_now) >= self.most
        if not is_full and not address.startswith(_LOOPBACK):
            same = sum(1 for one in open_now if one.transport is not None and _address(one.transport) == address)
            is_full = same >= self._settings.max_connections_per_address
        if is_full:
            return None
        return _Handler(self._server, loop=asyncio.get_running_loop(), **self._server._kwargs)

    async def hear_out(self) -> None:
        """Let connections that came at the last moment ask and be refused: closed unheard, they would look lost."""
        end = self._clock() + _LATE_S
        while self._clock() < end and any(one.is_new for one in cast(list[_Handler], self._server.connections)):
            await asyncio.sleep(0.01)

    async def sweep(self) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.sweep_once()

    def sweep_once(self) -> None:
        """Close connections that have not sent one whole request head in time, or that do not read their answer."""
        now = self._clock()
        connections = self._server.connections
        self._seen = {one: self._seen.get(one) or _Seen(now) for one in connections}
        for handler, seen in self._seen.items():
            transport = handler.transport
            if transport is None:
                continue
            why = self._idle(handler, transport, seen, now)
            if why:
                _log.info("connection", state="closed", why=why)
                transport.abort()

    def _idle(self, handler: RequestHandler, transport: asyncio.Transport, seen: _Seen, now: float) -> str:
        seen.has_asked = seen.has_asked or handler._current_request is not None or handler._request_count > 0
        if not seen.has_asked and now - seen.since > self._settings.header_timeout_s:
            return "no whole request head in time"
        unsent_bytes = transport.get_write_buffer_size()
        if unsent_bytes == 0 or unsent_bytes != seen.unsent_bytes:
            seen.unsent_bytes, seen.unsent_since = unsent_bytes, now
        elif now - seen.unsent_since > self._settings.write_timeout_s:
            return "does not read its answer"
        return ""


class _Handler(RequestHandler):
    """aiohttp's own, but for its words about a head that is no HTTP: ours are JSON, and quote nothing of it."""

    __slots__ = ()

    @property
    def is_new(self) -> bool:
        """Whether nothing was asked yet, or the first answer is still being made."""
        return not self._force_close and (self._request_count == 0 or self._request_in_progress)

    def close(self) -> None:
        """Closed before its task has begun, aiohttp's would wait for ever for a request that it does not take."""
        super().close()
        if self._request_count == 0 and self._waiter is None:
            self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = INTERNAL,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status >= INTERNAL:
            _log.error("request", exc, state="not handled")
            response = error_response(Internal("Something went wrong here; the log has it."))
        else:
            response = error_response(
                BadRequest("The head of the request is no valid HTTP/1.1, or a line of it is over 8 KiB.")
            )
        response.force_close()
        return response


class _Gate(asyncio.Protocol):
    """Stands in until the connection's address is known; then aiohttp's protocol takes its place, or nobody."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        real = cast(asyncio.Transport, transport)
        handler = self._connections.admit(real)
        if handler is None:
            refusal = _Refusal(self._connections.refused)
            real.set_protocol(refusal)
            refusal.connection_made(real)
            return
        real.set_protocol(handler)
        handler.connection_made(real)


class _Refusal(asyncio.Protocol):
    """Says that there are too many connections to whoever asks something, and waits until that is heard.

    Closed sooner, with the request unread, the connection would be reset and the answer lost with it.
    """

    def __init__(self, refused: set[_Refusal]) -> None:
        self._refused = refused
        self._has_told = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._refused.add(self)
        self._end = asyncio.get_running_loop().call_later(_REFUSED_S, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        if not self._has_told:
            self._has_told = True
            self._transport.write(
                raw_error(TooManyConnections("Too many connections. Close some, or try again shortly."))
            )
            self._transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.cancel()
        self._refused.discard(self)


def _address(transport: asyncio.Transport) -> str:
    name = transport.get_extra_info("peername")
    return str(name[0]) if name else ""
