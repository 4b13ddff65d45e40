"""How a worker with others beside it takes work: one batch at a time, from one lane, when it can start it.

What a worker holds, no other can run, and what it holds of many lanes makes many small batches. So it looks at what
waits just before a place becomes free in its engine, and takes one batch from the lane where the most waits for the
longest. While there is nothing it keeps small pulls waiting, so that the next request comes to it at once; they are
withdrawn as soon as it has something to do.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from appliance.errors import Unavailable
from appliance.wire import subjects
from appliance.worker.dispatcher import Dispatcher
from appliance.worker.engine_port import EnginePort
from appliance.worker.intake import Intake
from appliance.worker.lanes import Lanes, Source
from appliance.worker.neighbours import Neighbours
from appliance.worker.outlook import Hunger
from appliance.worker.residency import Residency
from appliance.worker.resident import State
from appliance.workqueue.broker import Broker
from appliance.workqueue.demand import Demand, Line

_RING = 8
"""The credit of a pull that waits while there is nothing to do: few, since another free worker may take the rest."""
_IDLE_LOOK_S = 0.25
"""How often lanes that do not ring are looked at: accepted jobs, and models that are not in memory."""
_LEAST_LEAD_S, _MOST_LEAD_S, _LEAD_SPARE_S = 0.003, 0.05, 0.002
_FOLLOW = 0.1
_RETRY_S = 0.1
_AGAIN_S = 0.005
"""How soon to look again where nothing waited for an engine that is about to be free."""
_PATIENCE_S = 1.0
"""How long work waits for who holds its model before another loads it, too; twice its load, if that is more."""
_TURN_S = 0.3
"""How long each of those with more room gets to begin the load of a model that nobody holds."""
_FRESH_S = 0.01
"""What counts as its age for an item that has just come, so that of new ones the longest line goes first."""


@dataclass(frozen=True)
class _Choice:
    source: Source
    line: Line
    full: int

    @property
    def worth(self) -> float:
        """Seconds that the first batch's items have waited, about: a long line and an old one both count."""
        return min(self.line.pending, self.full) * (self.line.age_s + _FRESH_S)


class Taker:
    """`adjust` follows every change at once; `run` looks and takes."""

    def __init__(
        self,
        broker: Broker,
        lanes: Lanes,
        dispatcher: Dispatcher,
        residency: Residency,
        intake: Intake,
        neighbours: Neighbours,
        clock: Callable[[], float],
    ) -> None:
        self._broker = broker
        self._lanes = lanes
        self._outlook = dispatcher.outlook
        self._turns = dispatcher.turns
        self._residency = residency
        self._intake = intake
        self._neighbours = neighbours
        self._clock = clock
        self._demand = {stream: Demand(broker, stream, clock) for stream in subjects.STREAMS}
        self._seen: dict[str, dict[str, Line]] = {stream: {} for stream in subjects.STREAMS}
        self._looked_at = dict.fromkeys(subjects.STREAMS, -math.inf)
        self._ringing: dict[Source, EnginePort] = {}
        self._changed = asyncio.Event()
        self._take_s = 0.0
        """How long a look and a take last (moving average)."""

    def adjust(self) -> None:
        """Withdraw the pulls of engines that have something to do; top the others up."""
        if self._ringing:
            free = self._free(self._outlook.hungry())
            for source, engine in list(self._ringing.items()):
                if engine in free and self._residency.engine_for(source.model_id) is engine:
                    source.consumer.want(_RING)
                else:
                    source.consumer.withdraw()
                    del self._ringing[source]
        self._changed.set()

    async def run(self) -> None:
        self._broker.listen(subjects.HEARTBEATS, self._neighbours.on_beat)
        while True:
            self._changed.clear()
            try:
                pause_s = await self._step()
            except Unavailable:
                pause_s = _RETRY_S
            try:
                await asyncio.wait_for(self._changed.wait(), pause_s)
            except asyncio.TimeoutError:
                pass

    async def _step(self) -> float:
        """Take what is due; return for how long nothing is to be done unless something changes."""
        if self._intake.is_busy:
            return _IDLE_LOOK_S  # what was taken last is still to be counted
        hungry = self._outlook.hungry()
        now, lead_s = self._clock(), self._lead_s()
        due = {engine: hunger for engine, hunger in hungry.items() if hunger.free_in_s <= lead_s}
        to_look_s = self._looked_at[subjects.LIVE] + _IDLE_LOOK_S - now
        rings = bool(due) and due.keys() <= set(self._ringing.values())  # what comes, comes by itself
        if to_look_s > 0 and (rings or not due):
            return min([to_look_s, *(h.free_in_s - lead_s for h in hungry.values() if h.free_in_s > lead_s)])
        await self._look(now)
        choice = self._best(due)
        if choice is not None:
            taken = await choice.source.consumer.take(choice.full)
            self._take_s += _FOLLOW * (self._clock() - now - self._take_s)
            return 0.0 if taken else _AGAIN_S
        self._ring(self._free(due))
        nexts = [hunger.free_in_s - lead_s if engine not in due else _AGAIN_S for engine, hunger in hungry.items()]
        return min([_IDLE_LOOK_S, *nexts]) if not self._ringing else _IDLE_LOOK_S

    def _lead_s(self) -> float:
        return min(_MOST_LEAD_S, max(_LEAST_LEAD_S, 1.5 * self._take_s + _LEAD_SPARE_S))

    @staticmethod
    def _free(hungry: dict[EnginePort, Hunger]) -> set[EnginePort]:
        return {engine for engine, hunger in hungry.items() if not hunger.free_in_s}

    async def _look(self, now: float) -> None:
        """Look at what waits; at accepted jobs less often, while there are none."""
        streams = [subjects.LIVE]
        if self._seen[subjects.JOBS] or now >= self._looked_at[subjects.JOBS] + _IDLE_LOOK_S:
            streams.append(subjects.JOBS)
        seen = await asyncio.gather(*(self._demand[stream].look() for stream in streams), return_exceptions=True)
        for stream, lines in zip(streams, seen, strict=True):
            self._looked_at[stream] = now
            if isinstance(lines, BaseException):
                self._seen[stream] = {}
                if stream == subjects.LIVE:
                    raise lines
            else:
                self._seen[stream] = lines

    def _best(self, due: dict[EnginePort, Hunger]) -> _Choice | None:
        """Return what to take for the engines that are due: of the class whose turn it is, what is worth the most."""
        choices: defaultdict[str, list[_Choice]] = defaultdict(list)
        cold: dict[str, float] = {}
        for source in self._lanes.sources():
            line = self._seen[source.stream].get(source.consumer.lane)
            state = self._residency.state_of(source.model_id)
            if state is State.COLD:
                if line is not None:
                    cold[source.model_id] = max(line.age_s, cold.get(source.model_id, 0.0))
                else:
                    cold.setdefault(source.model_id, -1.0)
            elif line is None:
                continue
            elif state is State.FAILED:
                if source.stream == subjects.LIVE and not self._neighbours.hold(source.model_id):
                    return _Choice(source, line, _RING)  # nobody can run it: its callers are told
            elif self._may_take(source, due):
                full = self._outlook.full_items(source.model_id, source.klass)
                choices[source.klass].append(_Choice(source, line, full))
        self._consider_loads(cold)
        if not choices:
            return None
        return max(choices[self._turns.next(choices)], key=lambda choice: choice.worth)

    def _may_take(self, source: Source, due: dict[EnginePort, Hunger]) -> bool:
        """Where less than a batch waits here already, only what makes it a fuller one is of use."""
        engine = self._residency.engine_for(source.model_id)
        hunger = due.get(engine) if engine is not None else None
        if hunger is None:
            return False
        return hunger.key is None or (hunger.key.model_id, hunger.key.klass) == (source.model_id, source.klass)

    def _consider_loads(self, cold: dict[str, float]) -> None:
        """Load what nobody holds and somebody waits for, and what has waited too long for those who hold it."""
        now = self._clock()
        for model_id, age_s in cold.items():
            if age_s < 0:
                self._residency.spare(model_id)
                continue
            patience_s = max(_PATIENCE_S, 2 * self._residency.load_s(model_id))
            if not self._neighbours.hold(model_id):
                patience_s = _TURN_S * self._neighbours.with_more_room(self._residency.free_bytes)
            if age_s >= patience_s:
                self._residency.use(model_id, now - age_s)

    def _ring(self, free: set[EnginePort]) -> None:
        """Keep a pull waiting on every lane whose callers wait and whose engine has nothing to do."""
        for source in self._lanes.sources():
            engine = self._residency.engine_for(source.model_id)
            if source.stream == subjects.LIVE and engine is not None and engine in free:
                self._ringing[source] = engine
                source.consumer.want(_RING)
