"""A closed-loop HTTP load generator that costs little: raw sockets, one protocol object a client, no HTTP library.

It runs on the same cores as what it measures, so what it spends is taken from the measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import uvloop


@dataclass
class Result:
    """Requests a second, latencies in ms, and what was not a 200."""

    seconds: float
    latencies_ms: list[float] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)

    def summary(self) -> dict[str, object]:
        ordered = sorted(self.latencies_ms)
        at = lambda q: round(ordered[min(len(ordered) - 1, int(q * len(ordered)))], 3) if ordered else None  # noqa: E731
        return {
            "requests": len(ordered),
            "per_second": round(len(ordered) / self.seconds, 1),
            "p50_ms": at(0.5),
            "p95_ms": at(0.95),
            "p99_ms": at(0.99),
            "failures": self.failures,
        }


class Client(asyncio.Protocol):
    """Sends the next request as soon as the last answer is whole, until the end."""

    def __init__(self, requests: list[bytes], offset: int, begin: float, end: float, result: Result) -> None:
        self._requests = requests
        self._next = offset
        self._begin, self._end = begin, end
        self._result = result
        self._buffer = bytearray()
        self._sent_at = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        request = self._requests[self._next % len(self._requests)]
        self._next += 1
        self._sent_at = time.perf_counter()
        self._transport.write(request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        head = buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = buffer.lower().find(b"content-length:", 0, head)
        if len(buffer) < head + 4 + int(buffer[at + 15 : buffer.index(b"\r\n", at)]):
            return
        self._count(bytes(buffer[9:12]))
        buffer.clear()
        if time.perf_counter() >= self._end:
            self._transport.close()
            self.done.set_result(None)
        else:
            self._send()

    def _count(self, status: bytes) -> None:
        now = time.perf_counter()
        if not self._begin <= now < self._end:
            return
        if status == b"200":
            self._result.latencies_ms.append((now - self._sent_at) * 1e3)
        else:
            key = status.decode()
            self._result.failures[key] = self._result.failures.get(key, 0) + 1

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self._result.failures["reset"] = self._result.failures.get("reset", 0) + 1
            self.done.set_result(None)


async def run(host: str, port: int, bodies: list[bytes], clients: int, warmup_s: float, seconds: float, path: str) -> Result:
    """Run `clients` closed loops for `warmup_s` + `seconds`; only answers in the last part count."""
    requests = [
        b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        % (path.encode(), host.encode(), len(body), body)
        for body in bodies
    ]
    begin = time.perf_counter() + warmup_s
    result = Result(seconds)
    loop = asyncio.get_running_loop()
    made = []
    for n in range(clients):
        _, client = await loop.create_connection(
            lambda n=n: Client(requests, n * 7919, begin, begin + seconds, result), host, port  # type: ignore[misc]
        )
        made.append(client.done)
    await asyncio.wait(made, timeout=warmup_s + seconds + 30)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bodies", type=Path, help="file with one JSON body a line")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", default="/v1/embeddings")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--warmup", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    bodies = args.bodies.read_bytes().splitlines()
    result = uvloop.run(run(args.host, args.port, bodies, args.clients, args.warmup, args.seconds, args.path))
    json.dump(result.summary(), sys.stdout)


if __name__ == "__main__":
    main()
