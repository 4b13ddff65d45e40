from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench.load import Client
from bench.tally import Tally

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nServer: x\r\n\r\n0123456789"
REFUSAL = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n{}"


class Wire:
    """Stands for the transport; keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self) -> None:
        self.is_closed = True


def conversation(*received: bytes, is_over: bool = False) -> tuple[Wire, Tally]:
    """Let client 1 of 2 receive the pieces one after the other."""

    async def talk() -> tuple[Wire, Tally]:
        tally, wire = Tally(), Wire()
        tally.is_counting = True
        client = Client([b"a", b"b", b"c", b"d"], 1, 2, tally)
        transport: Any = wire
        client.connection_made(transport)
        tally.is_over = is_over
        for piece in received:
            client.data_received(piece)
        return wire, tally

    return asyncio.run(talk())


@pytest.mark.parametrize("at", range(1, len(ANSWER)))
def test_an_answer_counts_once_wherever_it_is_torn(at: int) -> None:
    wire, tally = conversation(ANSWER[:at], ANSWER[at:])
    assert wire.sent == [b"b", b"d"]
    assert len(tally.latencies_s) == 1


def test_an_answer_in_single_bytes_counts_once() -> None:
    wire, tally = conversation(*(ANSWER[at : at + 1] for at in range(len(ANSWER))))
    assert wire.sent == [b"b", b"d"]
    assert len(tally.latencies_s) == 1


def test_each_client_goes_round_its_own_share_of_the_requests() -> None:
    assert conversation(*[ANSWER] * 3)[0].sent == [b"b", b"d", b"b", b"d"]


def test_what_is_not_a_200_is_a_failure() -> None:
    tally = conversation(REFUSAL, ANSWER)[1]
    assert tally.failures == {"429": 1}
    assert len(tally.latencies_s) == 1


def test_at_the_end_the_last_answer_closes_the_connection() -> None:
    wire, tally = conversation(ANSWER, is_over=True)
    assert wire.is_closed
    assert wire.sent == [b"b"]
    assert not tally.failures
