"""The end of connections that have only just begun."""

from __future__ import annotations

import asyncio
import time

from aiohttp import web

from appliance.config import Server
from appliance.gateway.connections import Connections


class Line(asyncio.Transport):
    """A transport that leads nowhere."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed


async def refuse(request: web.BaseRequest) -> web.Response:
    return web.Response(status=503)


def test_a_connection_that_came_with_the_end_does_not_hold_it_up() -> None:
    async def end() -> Line:
        server, line = web.Server(refuse), Line()
        handler = Connections(server, Server(), 10, time.monotonic).admit(line)
        assert handler is not None
        handler.connection_made(line)
        server.pre_shutdown()  # before the connection's own task had its first turn
        await asyncio.wait_for(server.shutdown(5), 1)
        return line

    assert asyncio.run(end()).is_closed


def test_who_has_just_come_is_heard_out_for_a_moment_and_no_longer() -> None:
    async def wait() -> float:
        server, line = web.Server(refuse), Line()
        connections = Connections(server, Server(), 10, time.monotonic)
        handler = connections.admit(line)
        assert handler is not None
        handler.connection_made(line)
        start = time.monotonic()
        await connections.hear_out()
        return time.monotonic() - start

    assert 0.2 < asyncio.run(wait()) < 1
