"""A model that a worker may be asked for: whether it is in memory, and what is known of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum

from appliance.models.manifest import Model
from appliance.wire.heartbeat import ModelState
from appliance.worker.engine_port import EnginePort
from appliance.worker.room import Tenant

_GROWTH = 1.5
"""What a model takes in memory, in sizes of its files, while nobody has measured it."""


class State(Enum):
    COLD = "cold"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


@dataclass
class Resident:
    """One servable model's state; while it is ready, `engine` is the one that it is in. Written by the residency only.

    `memory_bytes` is measured once it was loaded; before, it is a guess from its files.
    """

    model: Model
    state: State = State.COLD
    engine: EnginePort | None = None
    reason: str = ""
    load_s: float = 0.0
    memory_bytes: int = 0
    padding_cost: float = 1.0
    failures: int = 0
    retry_at: float = 0.0
    is_wanted: bool = False
    """It is to be loaded, also again after its engine died."""
    wanted_since: float | None = None
    """Since when work for it waits; None where nobody asked yet."""
    loaded_at: float = 0.0
    used_at: float = 0.0
    running: int = 0
    """Batches of it in the engine."""
    is_leaving: bool = False
    """What runs is its last; then it is unloaded."""
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_in_memory(self) -> bool:
        return self.state in (State.READY, State.LOADING)

    @property
    def is_coming(self) -> bool:
        return self.state is State.LOADING or (self.state is State.COLD and self.is_wanted)

    def is_due(self, now: float) -> bool:
        """Whether it is to be loaded now."""
        return (self.state is State.COLD and self.is_wanted) or (self.state is State.FAILED and now >= self.retry_at)

    def told(self) -> ModelState:
        """For the heartbeat."""
        memory_bytes = self.memory_bytes if self.is_in_memory else 0
        return ModelState(self.state.value, self.reason, self.load_s, memory_bytes)

    def tenant(self, now: float, is_pinned: bool) -> Tenant:
        """As one who may have to make room."""
        unused_s = 0.0 if self.running else now - max(self.used_at, self.loaded_at)
        stayed_s = now - self.loaded_at
        return Tenant(self.model.name, self.memory_bytes, self.load_s, stayed_s, unused_s, is_pinned)


def guessed_bytes(model: Model) -> int:
    """Return what a model may take in memory, before it was measured; a fake one says it itself."""
    if model.fake is not None:
        return model.fake.memory_bytes
    try:
        return int(_GROWTH * sum((model.folder / name).stat().st_size for name in model.files))
    except OSError:
        return 0
