"""Crowds before one virtual device: imports beside a person, ten times too much, and callers who give up."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import psutil

from bench.appliance_under_test import ApplianceUnderTest
from bench.row import Bar, Pair, Row
from bench.series import Say
from bench.texts import WORDS

BATCH_MS = 40.0
TOKEN_MS = 1.2
_SPECIAL = 2
_CHUNK = 32
_BATCH_ITEMS = 64


@dataclass(frozen=True)
class Reply:
    """`retry_after_s` is 0 where the answer was no refusal."""

    status: int
    took_s: float
    retry_after_s: int


class Caller:
    """One application: its key and class, and a session without a limit on connections."""

    def __init__(self, appliance: ApplianceUnderTest, session: aiohttp.ClientSession, **headers: str) -> None:
        self._url = f"http://127.0.0.1:{appliance.port}/v1/embeddings"
        self._session = session
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def ask(self, given: Any, **headers: str) -> Reply:
        start = time.perf_counter()
        body = {"model": "fake", "input": given, "encoding_format": "base64"}
        sent = {**self._headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with self._session.post(self._url, json=body, headers=sent) as response:
            await response.read()
            after = int(response.headers.get("Retry-After", 0)) if response.status == 429 else 0
            return Reply(response.status, time.perf_counter() - start, after)


def session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=300))


def _texts(count: int, seed: int) -> list[str]:
    """Two words each, no text twice."""
    dice = random.Random(seed)
    return [f"{dice.choice(WORDS)} {seed}x{number}" for number in range(count)]


def _p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


def _row(
    name: str, what: str, unit: str, bar: Bar, limit: float | None, measured: float, value: float | None = None
) -> Row:
    """`value` is what is held against the bar, where that is not the measured figure itself."""
    return Row(name, what, "", unit, bar, [Pair(limit, measured, measured if value is None else value)])


# -- imports ----------------------------------------------------------------------------------


async def imports(appliance: ApplianceUnderTest, items: int, say: Say) -> list[Row]:
    """An import of `items` beside one person, and two imports beside each other."""
    full_batch_s = (BATCH_MS + TOKEN_MS * (2 + _SPECIAL) * _BATCH_ITEMS) / 1e3
    async with session() as one:
        person = Caller(appliance, one, Authorization="Bearer person")
        idle = await _person(person, asyncio.create_task(asyncio.sleep(15)))
        alone = max(640, items // 8) / await _import(appliance, one, "first", max(640, items // 8), 1)
        say(f"person alone: p95 {_p95(idle) * 1e3:.0f} ms; import alone: {alone:.0f} items/s")
        running = asyncio.create_task(_import(appliance, one, "second", items, 2))
        beside = await _person(person, running)
        together = items / await running
        say(f"together: person's p95 {_p95(beside) * 1e3:.0f} ms, import {together:.0f} items/s")
        each = max(640, items // 8)
        ends = await asyncio.gather(
            _import(appliance, one, "third", each, 3, callers=8), _import(appliance, one, "fourth", each, 4, callers=32)
        )
        say(f"two imports: {ends[0]:.1f} and {ends[1]:.1f} s")
    waited = (_p95(beside) - _p95(idle)) / full_batch_s
    return [
        _row(
            "person",
            f"p95 of a person beside an import of {items:,}, over the idle one, in full batches ({full_batch_s:.2f} s)",
            "s",
            Bar(1.1, False, "batches"),
            _p95(idle),
            _p95(beside),
            waited,
        ),
        _row(
            "import",
            "speed of the import beside the person",
            "items/s",
            Bar(0.85, True, ""),
            alone,
            together,
            together / alone,
        ),
        _row(
            "two-imports",
            f"two imports of {each:,} under two keys, 8 and 32 callers: how much later one ends",
            "s",
            Bar(0.10, False, ""),
            min(ends),
            max(ends),
            max(ends) / min(ends) - 1,
        ),
    ]


async def _person(caller: Caller, until: asyncio.Future[Any]) -> list[float]:
    """Ask now and then until something is over; return how long each answer took."""
    dice = random.Random(7)
    times: list[float] = []
    while not until.done():
        reply = await caller.ask(f"hello {len(times)} {dice.random()}")
        assert reply.status == 200, reply
        times.append(reply.took_s)
        await asyncio.sleep(dice.uniform(0.0, 0.5))
    return times


async def _import(
    appliance: ApplianceUnderTest, one: aiohttp.ClientSession, key: str, count: int, seed: int, callers: int = 16
) -> float:
    """Hand in `count` texts as lists; return the seconds until all are answered."""
    texts = _texts(count, seed)
    chunks: Iterator[list[str]] = iter([texts[at : at + _CHUNK] for at in range(0, count, _CHUNK)])
    caller = Caller(appliance, one, Authorization=f"Bearer {key}", X_Work_Class="bulk")

    async def work() -> None:
        for chunk in chunks:
            while (reply := await caller.ask(chunk)).status != 200:
                assert reply.status == 429, reply
                await asyncio.sleep(reply.retry_after_s)

    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(callers)))
    return time.perf_counter() - start


# -- too much ---------------------------------------------------------------------------------


async def overload(appliance: ApplianceUnderTest, seconds: float, say: Say) -> list[Row]:
    """Ten times what the device can do, whether those refused come back when told to or not."""
    async with session() as one:
        caller = Caller(appliance, one)
        capacity = await _capacity(caller, 8.0)
        say(f"capacity: {capacity:.0f} requests/s")
        await asyncio.sleep(3)
        members = [one for group in appliance.processes().values() for one in group]
        idle_mib = _resident_mib(members)
        first, second, most_mib = await _flood(members, caller, capacity * 10, seconds)
    good = sum(reply.status == 200 for at, reply in first + second if 2 <= at < seconds) / (seconds - 2)
    refused = sorted(reply.took_s for _, reply in first if reply.status == 429)
    strange = {reply.status for _, reply in first + second} - {200, 429}
    kept = sum(reply.status == 200 for _, reply in second) / max(1, len(second))
    say(f"{len(first)} asked, {len(refused)} refused, {len(second)} came back, {kept:.0%} of them were let in")
    rows = [
        _row(
            "goodput",
            "answers at ten times too much",
            "requests/s",
            Bar(0.95, True, ""),
            capacity,
            good,
            good / capacity,
        ),
        _row(
            "refusal",
            "median time to be refused",
            "ms",
            Bar(10.0, False, "ms"),
            None,
            refused[len(refused) // 2] * 1e3,
        ),
        _row(
            "retry-after",
            f"of {len(second)} who came back when told to, let in",
            "",
            Bar(0.9, True, ""),
            None,
            kept,
        ),
        _row(
            "memory",
            "resident memory of all processes at the worst moment, over idle",
            "MiB",
            Bar(64.0, False, "MiB"),
            idle_mib,
            most_mib,
            most_mib - idle_mib,
        ),
    ]
    if strange:
        rows[0].problems.append(f"answers of status {sorted(strange)}")
    return rows


async def _capacity(caller: Caller, seconds: float) -> float:
    """Return the requests a second of enough callers who each wait for their answer."""
    end, done = time.perf_counter() + seconds, 0

    async def work(number: int) -> None:
        nonlocal done
        while time.perf_counter() < end:
            reply = await caller.ask(f"a {number}x{time.perf_counter()}")
            done += reply.status == 200

    start = time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(64)))
    return done / (time.perf_counter() - start)


Timed = list[tuple[float, Reply]]


async def _flood(
    members: list[psutil.Process], caller: Caller, per_second: float, seconds: float
) -> tuple[Timed, Timed, float]:
    """Ask at a pace that does not wait for answers; every third of those refused comes back at its time.

    Returns the answers with when they came, those of the second try, and the most memory seen.
    """
    first: Timed = []
    second: Timed = []
    start = time.perf_counter()

    async def ask(number: int) -> None:
        reply = await caller.ask(f"b {number}x")
        first.append((time.perf_counter() - start, reply))
        if 0 < reply.retry_after_s <= 90 and number % 3 == 0:
            await asyncio.sleep(reply.retry_after_s)
            again = await caller.ask(f"b {number}x")
            second.append((time.perf_counter() - start, again))

    tasks: list[asyncio.Task[None]] = []
    most_mib, look_at = 0.0, 0.0
    while (now := time.perf_counter() - start) < seconds:
        while len(tasks) < now * per_second:
            tasks.append(asyncio.create_task(ask(len(tasks))))
        if now > look_at:
            most_mib, look_at = max(most_mib, _resident_mib(members)), now + 0.5
        await asyncio.sleep(0.002)
    await asyncio.gather(*tasks)
    return first, second, max(most_mib, _resident_mib(members))


def _resident_mib(members: list[psutil.Process]) -> float:
    return sum(one.memory_info().rss for one in members) / 2**20


# -- callers who give up ------------------------------------------------------------------------


async def late(appliance: ApplianceUnderTest, say: Say) -> list[Row]:
    """A thousand requests that give up after 50 ms, then a hundred that wait."""
    async with session() as one:
        caller = Caller(appliance, one)
        before = _inputs_run(appliance)
        dead = await asyncio.gather(*(caller.ask(f"c {n}", X_Request_Timeout="0.05") for n in range(1000)))
        start = time.perf_counter()
        good = await asyncio.gather(*(caller.ask(f"d {n}") for n in range(100)))
        took_s = time.perf_counter() - start
        await asyncio.sleep(2)  # the heartbeat tells the count
        ran = _inputs_run(appliance) - before - 100
    expired = sum(reply.status == 504 for reply in dead)
    say(f"{expired} of 1,000 expired, the device ran {ran:.0f} of them; the 100 took {took_s:.1f} s")
    answered = sum(reply.status == 200 for reply in good)
    on_time = sum(reply.status == 200 for reply in dead)
    return [
        _row(
            "late",
            "of 100 that wait, after 1,000 that gave up: answered",
            "",
            Bar(100, True, "of 100"),
            None,
            float(answered),
        ),
        _row(
            "late-run",
            "of the 1,000 that gave up: run all the same, for batches were on their way",
            "",
            Bar(3.0 * _BATCH_ITEMS, False, "inputs"),
            None,
            ran - on_time,
        ),
    ]


def _inputs_run(appliance: ApplianceUnderTest) -> float:
    found: float = appliance.health()["workers"][0]["counters"]["inputs"]
    return found
