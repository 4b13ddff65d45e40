"""The load: closed loops, or requests that arrive by themselves. Demand over the models follows Zipf's law.

Prints `begin` and `end` at the ends of the measured window, then one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time

import uvloop

from bench import load
from bench.load import Client, http_requests
from bench.tally import Tally

_REQUESTS = 50_000
"""Made ahead, and sent again once all were."""


class Arriving(Client):
    """Sends when it is told to; idle between."""

    def __init__(self, pool: Pool) -> None:
        super().__init__([], 0, 1, pool.tally)
        self._pool = pool

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def ask(self, request: bytes, due_at: float) -> None:
        """Send a request that was due at an instant: what the generator is late counts as waiting."""
        self._sent_at = due_at
        self._transport.write(request)  # type: ignore[attr-defined]

    def _answered(self) -> None:
        self._count()
        self._pool.idle.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """One that is not at work may go: the gateway closes what has never asked anything after ten seconds."""
        if self in self._pool.idle:
            self._pool.idle.remove(self)
        else:
            super().connection_lost(exc)


class Pool:
    """Connections enough for all that is under way."""

    def __init__(self, port: int, tally: Tally) -> None:
        self.tally = tally
        self.idle: list[Arriving] = []
        self._port = port

    async def fill(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(count):
            _, client = await loop.create_connection(lambda: Arriving(self), "127.0.0.1", self._port)
            self.idle.append(client)

    async def arrive(self, requests: list[bytes], rate: float, seed: int, end_at: float) -> None:
        """Send `rate` requests a second, a Poisson process, until `end_at`."""
        dice, clock = random.Random(seed), time.perf_counter
        due, number = clock(), 0
        while due < end_at:
            while due <= clock():
                if not self.idle:
                    self.tally.fail("no connection left")
                else:
                    self.idle.pop().ask(requests[number % len(requests)], due)
                number += 1
                due += dice.expovariate(rate)
            await asyncio.sleep(max(0.0005, due - clock()))


def zipf_requests(port: int, models: int, seed: int) -> list[bytes]:
    """Return requests for the models fake0, fake1 and so on, the k-th asked for 1/k as often as the first.

    No two texts are the same: equal questions at the same time would be answered by one run.
    """
    weights = [1 / (rank + 1) for rank in range(models)]
    drawn = random.Random(seed).choices(range(models), weights, k=_REQUESTS)
    bodies = [
        json.dumps({"model": f"fake{model}", "input": f"a few words {number}", "encoding_format": "base64"}).encode()
        for number, model in enumerate(drawn)
    ]
    return http_requests(port, bodies)


async def _open(args: argparse.Namespace, requests: list[bytes]) -> dict[str, object]:
    tally = Tally()
    pool = Pool(args.port, tally)
    await pool.fill(args.connections)
    end_at = time.perf_counter() + args.warmup + args.seconds
    arriving = asyncio.ensure_future(pool.arrive(requests, args.rate, args.seed, end_at + 0.5))
    await asyncio.sleep(args.warmup)
    print("begin", flush=True)
    begin, tally.is_counting = time.perf_counter(), True
    await asyncio.sleep(args.seconds)
    elapsed_s, tally.is_counting = time.perf_counter() - begin, False
    print("end", flush=True)
    await arriving
    return tally.summary(elapsed_s)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.routing.crowd", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--models", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", type=int, default=0, help="closed loops")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second, in the open")
    parser.add_argument("--connections", type=int, default=900)
    parser.add_argument("--warmup", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=8.0)
    args = parser.parse_args()
    requests = zipf_requests(args.port, args.models, args.seed)
    if args.rate:
        made = uvloop.run(_open(args, requests))
    else:
        made = uvloop.run(load.run(load.loops_raw, args.port, requests, args.clients, args.warmup, args.seconds))
    json.dump(made, sys.stdout)


if __name__ == "__main__":
    main()
