"""Hand-written stand-ins for the unit tests. They record what was done, and what must never happen."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from appliance.config import Queue
from appliance.errors import Unavailable
from appliance.runtimes.base import Floats, Ints
from appliance.wire import items
from appliance.wire.frames import BatchDone
from appliance.worker.batcher import Batch
from appliance.worker.resident import State


class FakeClock:
    """A clock that stands until told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeMessage:
    """What a subscription's callback gets."""

    subject: str = ""
    data: bytes = b""
    reply: str = ""
    headers: dict[str, str] | None = None


def _raw(headers: dict[str, str] | None) -> bytes:
    """Write headers as the server does: a status, if there is one, in the first line."""
    if headers is None:
        return b""
    rest = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if name != "Status")
    return f"NATS/1.0 {headers['Status']} Because\r\n{rest}\r\n".encode()


@dataclass
class Published:
    subject: str
    data: bytes
    reply: str
    headers: dict[str, str] | None


@dataclass
class FakeBroker:
    """A broker without a server. `answers` scripts `request`: an answer, None (nobody listens) or an exception.

    `violations` records every ack of an item whose result nobody had confirmed before.
    """

    answers: list[bytes | Exception | None] = field(default_factory=list)
    is_connected: bool = True
    is_reachable: bool = True
    epoch: int = 0
    leases: None = None
    inbox: str = "_INBOX_fake"
    published: list[Published] = field(default_factory=list)
    requested: list[tuple[str, bytes]] = field(default_factory=list)
    subscriptions: dict[str, Callable[[Any], Awaitable[None]]] = field(default_factory=dict)
    restored: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    streams_made: int = 0
    lanes_made: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    unlistened: list[str] = field(default_factory=list)
    confirmed: set[str] = field(default_factory=set)
    ack_subject_of: dict[str, str] = field(default_factory=dict)

    def post(self, subject: str, data: bytes, reply: str = "", headers: bytes = b"") -> None:
        if not self.is_reachable:
            raise Unavailable("scripted: the broker is away")
        if data == b"+ACK" and subject not in self.confirmed:
            self.violations.append(f"{subject} acked before its result was confirmed")
        pairs = dict(line.split(": ", 1) for line in headers.decode().split("\r\n")[1:] if line)
        self.published.append(Published(subject, data, reply, pairs or None))

    async def request(self, subject: str, data: bytes, timeout_s: float, headers: bytes = b"") -> bytes | None:
        self.requested.append((subject, data))
        answer = self.answers.pop(0) if self.answers else b""
        if isinstance(answer, Exception):
            raise answer
        self.confirmed |= {self.ack_subject_of[result.item_id] for result in items.unpack_results(data)}
        return answer

    def listen(self, subject: str, handler: Callable[[str, str, bytes, bytes], None]) -> None:
        async def deliver(message: FakeMessage) -> None:
            handler(message.subject, message.reply, message.data, _raw(message.headers))

        self.subscriptions[subject] = deliver

    def unlisten(self, subject: str) -> None:
        self.unlistened.append(subject)

    def on_restored(self, callback: Callable[[], Awaitable[None]]) -> None:
        self.restored.append(callback)

    async def ensure_live(self, queue: Queue, longest_timeout_s: float) -> None:
        self.streams_made += 1

    async def ensure_lane(self, lane: str, ack_wait_s: float, stream: str = "LIVE") -> None:
        self.lanes_made.append(lane)

    def sent(self, verb: bytes) -> list[str]:
        """Return the subjects to which `verb` was published."""
        return [one.subject for one in self.published if one.data == verb]


class FakeEngine:
    """Holds what it is given until the test finishes it. `overfilled` must stay empty."""

    def __init__(self, streams: int = 1) -> None:
        self.streams = streams
        self.running = 0
        self.is_exclusive = False
        self.failures_in_a_row = 0
        self.failed_at = 0.0
        self.ended_for = ""
        self.killed: list[str] = []
        self.batches: list[tuple[Batch, asyncio.Future[BatchDone]]] = []
        self.overfilled: list[Batch] = []
        self.alone: list[bool] = []

    @property
    def has_room(self) -> bool:
        return self.running < self.streams and not self.is_exclusive

    def kill(self, why: str) -> None:
        self.killed.append(why)

    def end(self, why: str) -> None:
        self.ended_for = why
        self.kill(why)

    def run(self, batch: Batch, limit_s: float = 0.0, alone: bool = False) -> asyncio.Future[BatchDone]:
        if self.running >= self.streams:
            self.overfilled.append(batch)
        self.running += 1
        answer: asyncio.Future[BatchDone] = asyncio.get_running_loop().create_future()
        self.batches.append((batch, answer))
        self.alone.append(alone)
        return answer

    def finish(self, errors: dict[int, tuple[str, str]] | None = None) -> Batch:
        """Answer the oldest running batch, each output naming its input."""
        batch, answer = self.batches.pop(0)
        self.running -= 1
        self.is_exclusive = False
        outputs = [f"{piece.job.delivery.item.item_id}/{piece.index}".encode() for piece in batch.pieces]
        answer.set_result(BatchDone(1, 0.1, outputs, errors or {}))
        return batch

    def fail(self, error: Exception) -> Batch:
        batch, answer = self.batches.pop(0)
        self.running -= 1
        self.is_exclusive = False
        answer.set_exception(error)
        return batch


@dataclass
class FakeResident:
    reason: str = ""


class FakeResidency:
    """One engine for every model but those in `others`; models in `failed` cannot be used."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self.others: dict[str, FakeEngine] = {}
        self.failed: dict[str, str] = {}
        self.cold: set[str] = set()
        self.used: list[tuple[str, float]] = []
        self.running: Counter[str] = Counter()

    @property
    def residents(self) -> dict[str, FakeResident]:
        return {name: FakeResident(reason) for name, reason in self.failed.items()}

    def engine_for(self, model_id: str) -> FakeEngine | None:
        return None if model_id in self.failed or model_id in self.cold else self.others.get(model_id, self.engine)

    def use(self, model_id: str, since: float) -> None:
        self.used.append((model_id, since))

    def began(self, model_id: str) -> str:
        self.running[model_id] += 1
        return model_id

    def ended(self, model_id: str) -> None:
        self.running[model_id] -= 1

    def proven(self, model_id: str) -> None:
        self.failed.pop(model_id, None)

    def state_of(self, model_id: str) -> State:
        if model_id in self.cold:
            return State.COLD
        return State.FAILED if model_id in self.failed else State.READY

    def padding_cost(self, model_id: str) -> float:
        return 1.0


class FakeSession:
    """A model whose token states are given: input i of the batch gets `states[i]`."""

    padding_cost = 1.0

    def __init__(self, states: Sequence[Floats]) -> None:
        self.states = states

    @property
    def alone(self) -> FakeSession:
        return self

    def run(self, lengths: Sequence[int], flat_ids: Ints) -> dict[str, Floats]:
        return {"last_hidden_state": np.concatenate(self.states)}
