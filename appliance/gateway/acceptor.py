"""Takes connections off the listening socket one by one, and leaves them in its backlog while there are too many.

The event loop's own server takes all at once, and resets those that there is no descriptor for.
"""

from __future__ import annotations

import asyncio
import resource
import socket

from appliance import log
from appliance.gateway.connections import Connections

_log = log.Logger("acceptor")

_AT_ONCE = 32
_PAUSE_S = 0.01
_OTHER_DESCRIPTORS = 32
"""What a gateway has open beside its clients."""
_BEING_TOLD = 64


def most_connections(wanted: int) -> tuple[int, int]:
    """Return how many connections may be served, and how many there may be with those that are told to go.

    There must be a descriptor for each.
    """
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = descriptors - _OTHER_DESCRIPTORS
    being_told = min(_BEING_TOLD, room // 3)
    served = max(1, min(wanted, room - being_told))
    return served, served + being_told


class Acceptor:
    """`limit` is for served and refused connections together; what is over waits in the kernel."""

    def __init__(self, listener: socket.socket, connections: Connections, limit: int) -> None:
        self._listener = listener
        self._connections = connections
        self._limit = limit
        self._coming: set[asyncio.Task[None]] = set()
        self._is_closed = False
        listener.setblocking(False)

    def start(self) -> None:
        if not self._is_closed:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    async def close(self) -> None:
        """Take no more; return when what was taken has its protocol. The socket stays the daemon's."""
        if not self._is_closed:
            self._is_closed = True
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
        await asyncio.gather(*self._coming)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            if self._connections.count + len(self._coming) >= self._limit:
                self._pause()
                return
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return  # another gateway was faster
            except OSError as exc:
                _log.warning("connection", state="not taken", reason=str(exc))
                self._pause()
                return
            sock.setblocking(False)
            task = asyncio.ensure_future(self._take(sock))
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    async def _take(self, sock: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._connections.protocol, sock)
        except OSError:
            sock.close()  # it went away meanwhile

    def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener)
        loop.call_later(_PAUSE_S, self.start)
