"""The load of an ordinary application: aiohttp's client on asyncio's own loop, one session, a task a loop.

Dearer than raw sockets by far, on both sides of a comparison alike: what a Python application pays for its requests.
"""

from __future__ import annotations

import asyncio
import time

import aiohttp

from bench.tally import Tally

_HEADERS = {"Content-Type": "application/json"}


async def loops(port: int, bodies: list[bytes], clients: int, tally: Tally) -> list[asyncio.Future[None]]:
    """Start `clients` closed loops; return their tasks."""
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    url = f"http://127.0.0.1:{port}/v1/embeddings"
    running: list[asyncio.Future[None]] = [
        asyncio.ensure_future(_loop(session, url, bodies[n::clients], tally)) for n in range(clients)
    ]
    asyncio.ensure_future(_close(session, running))  # noqa: RUF006 - ends with the loops, before the process does
    return running


async def _loop(session: aiohttp.ClientSession, url: str, bodies: list[bytes], tally: Tally) -> None:
    while True:
        for body in bodies:
            sent_at = time.perf_counter()
            async with session.post(url, data=body, headers=_HEADERS) as response:
                await response.read()
            if tally.is_over:
                return
            if tally.is_counting and response.status == 200:
                tally.latencies_s.append(time.perf_counter() - sent_at)
            elif tally.is_counting:
                tally.fail(str(response.status))


async def _close(session: aiohttp.ClientSession, running: list[asyncio.Future[None]]) -> None:
    await asyncio.wait(running)
    await session.close()
