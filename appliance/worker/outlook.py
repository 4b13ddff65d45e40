"""What the engines will want next: when each has room for a batch, and what waits for it here already."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from appliance.worker.batcher import Batch, Limits
from appliance.worker.credit import Holding
from appliance.worker.engine_port import EnginePort
from appliance.worker.job import Key
from appliance.worker.pace import Pace
from appliance.worker.residency import Residency
from appliance.worker.waiting import Waiting

_LATE_S = 0.001
"""In how long a batch is expected to end that should have by now."""


@dataclass(frozen=True)
class Hunger:
    """An engine that could do with more: in how many seconds it has room (0.0: now, inf: unknown), and what waits."""

    free_in_s: float
    key: Key | None = None


class Outlook:
    """Follows the batches that run. `again` are parts of failed ones, which need their engine alone."""

    def __init__(
        self,
        waiting: Waiting,
        again: Iterable[Batch],
        residency: Residency,
        paces: Mapping[str, Pace],
        holding: Mapping[str, Holding],
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        self._waiting = waiting
        self._again = again
        self._residency = residency
        self._paces = paces
        self._holding = holding
        self._limits = limits
        self._clock = clock
        self._running: dict[int, tuple[EnginePort, Batch, float]] = {}

    def began(self, engine: EnginePort, batch: Batch, started: float) -> None:
        # When it ends is worked out when somebody asks: a worker without others beside it never does.
        self._running[id(batch)] = engine, batch, started

    def ended(self, batch: Batch) -> None:
        del self._running[id(batch)]

    def hungry(self) -> dict[EnginePort, Hunger]:
        """Return the engines for which less than a full batch waits."""
        waiting: defaultdict[EnginePort | None, list[Key]] = defaultdict(list)
        for key in self._waiting.lines:
            waiting[self._residency.engine_for(key.model_id)].append(key)
        awaited = {self._residency.engine_for(part.key.model_id) for part in self._again}
        found = {}
        for engine in self._residency.living_engines():
            keys = waiting[engine]
            if engine in awaited or len(keys) > 1:
                continue
            if not keys:
                found[engine] = Hunger(self._free_in_s(engine))
            elif len(self._waiting.lines[keys[0]]) < self._full_pieces(keys[0].model_id):
                found[engine] = Hunger(self._free_in_s(engine), keys[0])
        return found

    def full_items(self, model_id: str, klass: str) -> int:
        """Return how many items like the recent ones make a full batch."""
        return max(1, int(self._full_pieces(model_id) / max(1.0, self._holding[klass].mean_item_pieces)))

    def _free_in_s(self, engine: EnginePort) -> float:
        if engine.has_room:
            return 0.0
        ends = [self._end(batch, started) for its, batch, started in self._running.values() if its is engine]
        return max(_LATE_S, min(ends, default=0.0) - self._clock())

    def _end(self, batch: Batch, started: float) -> float:
        return started + (self._paces[batch.key.model_id].run.at(batch.size) or math.inf)

    def _full_pieces(self, model_id: str) -> float:
        tokens = self._paces[model_id].piece_tokens
        return (
            min(self._limits.batch_items, max(1.0, self._limits.batch_tokens / tokens))
            if tokens
            else self._limits.batch_items
        )
