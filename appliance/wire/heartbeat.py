"""What processes tell about themselves once a second: the raw material of /health, /metrics and status."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import msgpack

INTERVAL_S = 1.0
STALE_AFTER_S = 3.5
"""A process not heard of for this long is not counted on."""


@dataclass(frozen=True)
class ModelState:
    """A model as one worker sees it. `state` is cold, loading, ready or failed (then with a reason)."""

    state: str
    reason: str = ""
    load_s: float = 0.0
    memory_bytes: int = 0
    seconds_per_cost: float = 0.0
    """The device's seconds for one unit of an item's cost while batches are full; 0.0 while that is unknown."""
    appetite: float = 0.0
    """The cost that the worker holds at most, running and waiting, of each class; 0.0 while that is unknown."""


@dataclass(frozen=True)
class WorkerBeat:
    """One worker's state and its counters since it started."""

    worker_id: str
    device: str
    pid: int
    state: str
    reason: str
    models: dict[str, ModelState]
    engines: dict[str, dict[str, Any]]
    held_items: int
    counters: dict[str, float]
    is_warm: bool = True
    """Whether the models that are loaded at start are there, or have failed."""
    memory_bytes: int = 0
    """What models take of the device's memory, and may take at most (`budget_bytes`; 0.0: no limit)."""
    budget_bytes: float = 0.0
    lanes: list[tuple[str, str, str, int]] = field(default_factory=list)
    """What became of items, by lane: what, model, class, how many so far."""


@dataclass(frozen=True)
class DaemonBeat:
    """The supervisor's view: every child process with its state, restarts and last failure."""

    version: str
    pid: int
    uptime_s: float
    processes: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """What else is not as it should be, a sentence each."""


def pack(beat: WorkerBeat | DaemonBeat) -> bytes:
    packed: bytes = msgpack.packb({"kind": type(beat).__name__, **asdict(beat)})
    return packed


def unpack(data: bytes) -> WorkerBeat | DaemonBeat:
    fields = msgpack.unpackb(data)
    if fields.pop("kind") == "DaemonBeat":
        return DaemonBeat(**fields)
    fields["models"] = {name: ModelState(**state) for name, state in fields["models"].items()}
    return WorkerBeat(**fields)
