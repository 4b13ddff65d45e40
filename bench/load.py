"""A closed-loop HTTP load generator that costs little: raw sockets, one protocol object a client, no HTTP library.

It runs on the same cores as what it measures, so what it spends is taken from the measured. Prints `begin` and `end`
at the ends of the measured window, then one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

import uvloop

from bench import session
from bench.tally import Tally
from bench.texts import KINDS, texts

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"Content-Length: "
_GIVE_UP_S = 30.0

Loops = Callable[[int, list[bytes], int, Tally], Awaitable[list[asyncio.Future[None]]]]


class Client(asyncio.Protocol):
    """Sends its next request as soon as the last answer is whole. Takes every `stride`th request from `first` on."""

    def __init__(self, requests: list[bytes], first: int, stride: int, tally: Tally) -> None:
        self._requests = requests
        self._next = first
        self._stride = stride
        self._tally = tally
        self._parts: list[bytes] = []
        self._missing = 0
        self._sent_at = 0.0
        self._clock = time.perf_counter
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        request = self._requests[self._next]
        self._next = (self._next + self._stride) % len(self._requests)
        self._sent_at = self._clock()
        self._transport.write(request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if self._missing:  # the middle of an answer whose length is known
            self._missing -= len(data)
        else:
            if self._parts:
                data = b"".join((*self._parts, data))
            head = data.find(_HEAD_END)
            if head < 0:
                self._parts = [data]
                return
            self._parts = []
            at = data.find(_LENGTH, 0, head) + len(_LENGTH)
            self._status = data[9:12]
            self._missing = head + len(_HEAD_END) + int(data[at : data.find(b"\r\n", at)]) - len(data)
        if self._missing <= 0:
            self._missing = 0
            self._answered()

    def _count(self) -> None:
        tally = self._tally
        if tally.is_counting:
            if self._status == b"200":
                tally.latencies_s.append(self._clock() - self._sent_at)
            else:
                tally.fail(self._status.decode())

    def _answered(self) -> None:
        self._count()
        if self._tally.is_over:
            self._transport.close()
            self._finish()
        else:
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self._tally.fail("connection lost")
            self._finish()

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def loops_raw(port: int, requests: list[bytes], clients: int, tally: Tally) -> list[asyncio.Future[None]]:
    """Start `clients` closed loops on raw sockets; return what is done when each has ended."""
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda n=n: Client(requests, n, clients, tally), "127.0.0.1", port)  # type: ignore[misc]
        for n in range(clients)
    ]
    return [client.done for _, client in made]


async def run(
    loops: Loops, port: int, requests: list[bytes], clients: int, warmup_s: float, seconds: float
) -> dict[str, object]:
    """Run `clients` closed loops on loopback; what is answered in the `seconds` after `warmup_s` counts."""
    tally = Tally()
    ends = await loops(port, requests, clients, tally)
    await asyncio.sleep(warmup_s)
    print("begin", flush=True)
    begin, tally.is_counting = time.perf_counter(), True
    await asyncio.sleep(seconds)
    elapsed_s, tally.is_counting = time.perf_counter() - begin, False
    print("end", flush=True)
    tally.is_over = True
    _, late = await asyncio.wait(ends, timeout=_GIVE_UP_S)
    if late:
        tally.failures["no answer"] = len(late)
    return tally.summary(elapsed_s)


def http_requests(port: int, bodies: list[bytes]) -> list[bytes]:
    """Return the bytes to send for each JSON body."""
    head = (
        b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    return [head % (port, len(body)) + body for body in bodies]


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.load", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--kind", choices=list(KINDS), default="short")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20_000, help="texts to make, sent again once all were")
    parser.add_argument("--client", choices=("raw", "aiohttp"), default="raw", help="raw sockets, or aiohttp's client")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds")
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    made = texts(KINDS[args.kind], args.seed, args.count)
    # base64 is what the openai client asks for by default.
    bodies = [json.dumps({"model": args.model, "input": text, "encoding_format": "base64"}).encode() for text in made]
    sent = bodies if args.client == "aiohttp" else http_requests(args.port, bodies)
    loops = session.loops if args.client == "aiohttp" else loops_raw
    # An application has asyncio's own loop; raw sockets are to cost as little as they can.
    start = asyncio.run if args.client == "aiohttp" else uvloop.run
    json.dump(start(run(loops, args.port, sent, args.clients, args.warmup, args.seconds)), sys.stdout)


if __name__ == "__main__":
    main()
