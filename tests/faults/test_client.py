"""The oracle's connection tells what a library would hide."""

from __future__ import annotations

import asyncio

import pytest

from faults.client import Answer, Broken, Connection
from tests import wait

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Request-Id: a\r\n\r\n{}"


def ask(reply: bytes) -> tuple[Answer | str, list[bytes]]:
    """Ask a server that answers with `reply` and hangs up; return the answer or how it broke, and the extra bytes."""
    extra: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()
        writer.close()

    async def run() -> Answer | str:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        connection = Connection(extra.append)
        try:
            await connection.open(server.sockets[0].getsockname()[1])
            return await connection.ask(b"GET / HTTP/1.1\r\n\r\n", 5.0)
        except Broken as broken:
            return str(broken)
        finally:
            await wait.until_async(lambda: not connection.is_open, 5)
            server.close()
            await server.wait_closed()

    return asyncio.run(run()), extra


def test_a_whole_answer_is_an_answer() -> None:
    answer, extra = ask(OK)
    assert isinstance(answer, Answer)
    assert (answer.status, answer.headers["x-request-id"], answer.body, extra) == (200, "a", b"{}", [])


def test_a_second_answer_is_extra() -> None:
    answer, extra = ask(OK + OK)
    assert isinstance(answer, Answer)
    assert b"".join(extra) == OK


@pytest.mark.parametrize(
    ("reply", "how"),
    [(b"", "reset"), (OK[:-1], "reset"), (OK[:20], "reset"), (b"SSH-2.0 hello\r\n\r\n", "garbage")],
)
def test_anything_else_is_told_apart(reply: bytes, how: str) -> None:
    assert ask(reply) == (how, [])


def test_nobody_there_is_refused() -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        await Connection(lambda data: None).open(port)

    with pytest.raises(Broken, match="refused"):
        asyncio.run(run())
