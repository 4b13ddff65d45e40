"""A small HTTP client for tests: whole replies, and a closed loop of many clients."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import aiohttp

from tests import wait

T = TypeVar("T")


@dataclass(frozen=True)
class Reply:
    """A whole answer; `headers` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body, parse_constant=_refused)

    @property
    def error(self) -> dict[str, Any]:
        """The error of a refused request, its shape checked."""
        error: dict[str, Any] = self.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        assert self.headers["content-type"] == "application/json"
        return error

    @property
    def vectors(self) -> list[list[float]]:
        """The vectors of an answered request, in the order of their index."""
        assert self.status == 200, self.body[:2000]
        data = self.json()["data"]
        assert [entry["index"] for entry in data] == list(range(len(data)))
        return [entry["embedding"] for entry in data]


def _refused(name: str) -> float:
    raise AssertionError(f"{name} is not JSON")


class Client:
    """Speaks to one appliance; used through `connected`."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    async def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        """Send one request; underscores in header names stand for hyphens."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        data = io.BytesIO(body) if body is not None else None  # bytes over 1 MiB would make aiohttp warn
        async with self._session.request(method, self.url + path, data=data, headers=sent) as response:
            got = {name.lower(): value for name, value in response.headers.items()}
            return Reply(response.status, got, await response.read())

    async def post(self, body: bytes, path: str = "/v1/embeddings", **headers: str) -> Reply:
        return await self.send("POST", path, body, **{"Content_Type": "application/json", **headers})

    async def embed(
        self, given: Any, model: str = "fake", headers: Mapping[str, str] | None = None, **fields: Any
    ) -> Reply:
        return await self.post(json.dumps({"model": model, "input": given, **fields}).encode(), **(headers or {}))

    async def holds(self, count: int) -> bool:
        """Return whether the gateway holds so many items, or more."""
        health = (await self.send("GET", "/health")).json()
        return bool(health["gateway"]["held_items"] >= count)

    async def vector(self, text: Any, model: str = "fake", **fields: Any) -> list[float]:
        """Return the vector of one input."""
        (vector,) = (await self.embed(text, model, **fields)).vectors
        return vector


@asynccontextmanager
async def connected(url: str, timeout_s: float = 60.0) -> AsyncIterator[Client]:
    """Give a client without a limit on its connections."""
    sockets: list[socket.socket] = []

    def make(address: aiohttp.AddrInfoType) -> socket.socket:
        sockets.append(socket.socket(*address[:3]))
        return sockets[-1]

    connector = aiohttp.TCPConnector(limit=0, socket_factory=make)
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield Client(url, session)
    # A connection closes when what it had to send is sent, which may be later than the answer.
    await wait.until_async(lambda: all(one.fileno() == -1 for one in sockets), 10)


def talk(url: str, conversation: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    """Run a conversation with the appliance at `url`, in a loop of its own."""

    async def whole() -> T:
        async with connected(url) as client:
            return await conversation(client)

    return asyncio.run(whole())


def get(url: str) -> Reply:
    return talk(url, lambda client: client.send("GET", ""))


def post(url: str, body: bytes, path: str = "/v1/embeddings", **headers: str) -> Reply:
    return talk(url, lambda client: client.post(body, path, **headers))


def embed(url: str, given: Any, model: str = "fake", **fields: Any) -> Reply:
    return talk(url, lambda client: client.embed(given, model, **fields))


@dataclass
class Load:
    """A closed loop of clients, each sending its next request when the last is answered.

    `answers` holds (seconds since the start, status); `broken` the requests that ended without an answer.
    """

    clients: int
    is_same: Callable[[list[float], list[float]], bool] = list.__eq__
    answers: list[tuple[float, int]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    _stopping: bool = False

    async def run(self, client: Client, during: Callable[[Load], Awaitable[None]], model: str = "fake") -> None:
        """Keep the load up until `during` returns, then let every client finish."""
        expected = [await client.vector(f"client {n}", model) for n in range(self.clients)]
        start = time.monotonic()

        async def loop(number: int) -> None:
            while not self._stopping:
                try:
                    reply = await client.embed(f"client {number}", model)
                except aiohttp.ClientError as exc:
                    self.broken.append(f"{type(exc).__name__}: {exc}")
                    continue
                self.answers.append((time.monotonic() - start, reply.status))
                if reply.status == 200 and not self.is_same(reply.vectors[0], expected[number]):
                    self.wrong.append(f"client {number} got another's vector")

        loops = [asyncio.ensure_future(loop(number)) for number in range(self.clients)]
        try:
            await during(self)
        finally:
            self._stopping = True
            await asyncio.gather(*loops)

    @property
    def answered(self) -> int:
        return sum(status == 200 for _, status in self.answers)

    @property
    def refused(self) -> list[int]:
        """The statuses that are not 200."""
        return [status for _, status in self.answers if status != 200]

    @property
    def outage_s(self) -> float:
        """The longest time without a good answer."""
        times = sorted(at for at, status in self.answers if status == 200)
        return max((later - one for one, later in pairwise(times)), default=0.0)
