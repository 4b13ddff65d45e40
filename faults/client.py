"""One HTTP/1.1 connection, read byte by byte: what a library would hide - an answer too many, a torn one - is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

_HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True)
class Answer:
    """A whole answer; `headers` by lower-case name."""

    status: int
    headers: dict[str, str]
    body: bytes


class Broken(Exception):
    """There was no whole answer: refused, reset, silent (past its time) or garbage."""


class Connection(asyncio.Protocol):
    """Carries one request at a time. `on_extra` gets the bytes that come when nothing was asked."""

    def __init__(self, on_extra: Callable[[bytes], None]) -> None:
        self._on_extra = on_extra
        self._buffer = bytearray()
        self._answer: asyncio.Future[Answer] | None = None
        self._transport: asyncio.Transport | None = None
        self.is_open = False

    async def open(self, port: int) -> None:
        """Connect on loopback. Raises Broken."""
        try:
            await asyncio.wait_for(
                asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", port), timeout=10
            )
        except (OSError, asyncio.TimeoutError) as exc:
            raise Broken("refused") from exc

    async def ask(self, request: bytes, timeout_s: float) -> Answer:
        """Send a request and return its answer. Raises Broken."""
        assert self._transport is not None
        if not self.is_open:
            raise Broken("reset")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await asyncio.wait_for(self._answer, timeout_s)
        except asyncio.TimeoutError:
            self.close()
            raise Broken("silent") from None
        finally:
            self._answer = None

    def close(self) -> None:
        """Hang up, whatever is on its way."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio.Protocol -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if not self.is_open or (self._answer is not None and self._answer.cancelled()):
            return  # what comes when we have given up is no answer too many
        if self._answer is None or self._answer.done():
            self._on_extra(data)
            return
        self._buffer += data
        try:
            answer = self._parse()
        except ValueError:
            self._fail("garbage")
            return
        if answer is not None:
            if self._buffer:
                self._on_extra(bytes(self._buffer))
                self._buffer.clear()
            self._answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._buffer.clear()  # a torn answer is none
        self._fail("reset")

    def _fail(self, how: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(Broken(how))

    def _parse(self) -> Answer | None:
        """Return the answer once it is whole. Raises ValueError for what is no HTTP answer with a length."""
        end = self._buffer.find(_HEAD_END)
        if end < 0:
            return None
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        version, status, *_ = first.split(" ")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if not version.startswith("HTTP/1.") or "content-length" not in headers:
            raise ValueError(first)
        if int(status) == 100:
            del self._buffer[: end + len(_HEAD_END)]
            return self._parse()
        start = end + len(_HEAD_END)
        stop = start + int(headers["content-length"])
        if len(self._buffer) < stop:
            return None
        body = bytes(self._buffer[start:stop])
        del self._buffer[:stop]
        return Answer(int(status), headers, body)
