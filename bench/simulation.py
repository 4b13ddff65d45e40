"""A discrete-event simulation of workers that pull from one shared queue, and of workers that a router pushes at.

Either way a batch is all that waits for one model, up to a full one. Workers that are pushed at run, as the product's
batcher does, the model whose oldest request waits longest; those that pull take, as worker/taking.py does, from where
the most waits for the longest. So what differs is where a request waits: where every worker sees it, or where one does.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from bench.routers import Route

_PATIENCE_S, _LEAST_STAY_S, _LOOK_S = 1.0, 1.0, 0.1
_FRESH_S = 0.01
"""What counts as its age for a request that has just come."""


@dataclass(frozen=True)
class World:
    """Devices, models and demand. Times are in seconds.

    `slowness` has a factor for each device: a batch of n takes (a_s + b_s * n) * factor. Either `clients` ask in a
    closed loop, each again `turn_s` after its answer, or `rate` requests a second arrive, a Poisson process. Demand
    over the models follows Zipf's law. `room` is how many models a device holds at once, 0 for all; a load takes
    `load_s`. `hop_s` passes between the end of a batch and the start of the next.
    """

    slowness: tuple[float, ...]
    clients: int = 0
    rate: float = 0.0
    models: int = 9
    room: int = 0
    load_s: float = 0.5
    a_s: float = 0.040
    b_s: float = 0.0012
    batch_items: int = 64
    turn_s: float = 0.002
    hop_s: float = 0.001

    @property
    def capacity(self) -> float:
        """Requests a second while every batch is full."""
        full_s = self.a_s + self.b_s * self.batch_items
        return sum(self.batch_items / (full_s * factor) for factor in self.slowness)


@dataclass(frozen=True)
class Seen:
    """What came out, less the first seconds."""

    per_second: float
    mean_s: float
    p50_s: float
    p99_s: float
    mean_batch: float
    busy_share: float
    loads: int


@dataclass(slots=True)
class _Request:
    model: int
    arrived: float
    client: int


class _Waiting:
    """Requests by model, each line in order of arrival."""

    def __init__(self) -> None:
        self.lines: dict[int, deque[_Request]] = {}

    def add(self, request: _Request) -> None:
        self.lines.setdefault(request.model, deque()).append(request)

    def take(self, model: int, most: int) -> list[_Request]:
        line = self.lines[model]
        taken = [line.popleft() for _ in range(min(most, len(line)))]
        if not line:
            del self.lines[model]
        return taken

    def worthiest(self, among: Callable[[int], bool], most: int, now: float) -> int | None:
        """Return the model whose first batch has waited for the most request-seconds, about."""
        worth = [
            (min(most, len(line)) * (now - line[0].arrived + _FRESH_S), model)
            for model, line in self.lines.items()
            if among(model)
        ]
        return max(worth)[1] if worth else None

    def oldest(self, among: Callable[[int], bool]) -> int | None:
        """Return the model whose first request waits longest, of those that `among` allows."""
        heads = [(line[0].arrived, model) for model, line in self.lines.items() if among(model)]
        return min(heads)[1] if heads else None


@dataclass
class _Stay:
    """Of a model in memory: since when, and when its last batch ended."""

    loaded_at: float
    used_at: float


@dataclass
class _Device:
    factor: float
    waiting: _Waiting
    """Its own, or the one that all share."""
    residents: dict[int, _Stay] = field(default_factory=dict)
    is_busy: bool = False
    is_loading: bool = False
    busy_s: float = 0.0
    outstanding: int = 0


class Simulation:
    """One run. `route` None means that workers pull; `stale_s` is how old a router's knowledge may get."""

    def __init__(self, world: World, route: Route | None = None, stale_s: float = 0.0, seed: int = 1) -> None:
        self._world = world
        self._route = route
        self._stale_s = stale_s
        self._dice = random.Random(seed)
        self._shared = _Waiting()
        self._devices = [_Device(factor, self._shared if route is None else _Waiting()) for factor in world.slowness]
        self._known = [0] * len(self._devices)
        self._weights = [1 / (rank + 1) for rank in range(world.models)]
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._now = 0.0
        self._from = 0.0
        self._waits: list[float] = []
        self._batches: list[int] = []
        self._loads = 0

    def run(self, seconds: float, warmup_s: float = 4.0) -> Seen:
        """Simulate `warmup_s`, then `seconds` that count."""
        self._from = warmup_s
        for client in range(self._world.clients):
            self._at(self._dice.uniform(0.0, 0.05), partial(self._arrive, client))
        if self._world.rate:
            self._at(0.0, self._arrive_by_itself)
        if self._stale_s:
            self._at(0.0, self._tell)
        if self._world.room:
            for device in self._devices:
                device.residents = {model: _Stay(0.0, 0.0) for model in range(self._world.room)}
            self._at(0.0, self._look)
        while self._events and self._events[0][0] <= warmup_s + seconds:
            self._now, _, what = heapq.heappop(self._events)
            what()
        waits = sorted(self._waits) or [float("inf")]
        return Seen(
            len(self._waits) / seconds,
            sum(waits) / len(waits),
            waits[len(waits) // 2],
            waits[int(len(waits) * 0.99)],
            sum(self._batches) / max(1, len(self._batches)),
            sum(device.busy_s for device in self._devices) / seconds / len(self._devices),
            self._loads,
        )

    def _at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), what))

    # -- requests ---------------------------------------------------------------------------------

    def _arrive_by_itself(self) -> None:
        self._arrive(-1)
        self._at(self._now + self._dice.expovariate(self._world.rate), self._arrive_by_itself)

    def _arrive(self, client: int) -> None:
        model = self._dice.choices(range(self._world.models), self._weights)[0]
        request = _Request(model, self._now, client)
        if self._route is None:
            self._shared.add(request)
            idle = [device for device in self._devices if not device.is_busy]
            self._dice.shuffle(idle)
            while idle and self._shared.lines:
                self._begin(idle.pop())
            return
        fresh = [device.outstanding for device in self._devices]
        device = self._devices[self._route(self._known if self._stale_s else fresh, self._dice)]
        device.outstanding += 1
        device.waiting.add(request)
        if not device.is_busy:
            self._begin(device)

    def _tell(self) -> None:
        """A stale router hears from its workers now and then."""
        self._known = [device.outstanding for device in self._devices]
        self._at(self._now + self._stale_s, self._tell)

    # -- batches ----------------------------------------------------------------------------------

    def _begin(self, device: _Device) -> None:
        """Give a device that is free its next batch; loads run beside it."""
        world = self._world
        if world.room:
            self._load(device)
        choice = self._next(device, lambda model: not world.room or model in device.residents)
        if choice is None:
            return
        batch = device.waiting.take(choice, world.batch_items)
        takes_s = (world.a_s + world.b_s * len(batch)) * device.factor
        device.is_busy = True
        if self._now >= self._from:
            self._batches.append(len(batch))
            device.busy_s += takes_s
        self._at(self._now + world.hop_s + takes_s, partial(self._finish, device, choice, batch))

    def _next(self, device: _Device, among: Callable[[int], bool]) -> int | None:
        if self._route is None:
            return device.waiting.worthiest(among, self._world.batch_items, self._now)
        return device.waiting.oldest(among)

    # -- models in memory, by the rules of worker/room.py and worker/taking.py ---------------------

    def _load(self, device: _Device) -> None:
        """Begin a load that is due, where none is under way; another model goes for it where that is needed."""
        heads = [(line[0].arrived, model) for model, line in device.waiting.lines.items()]
        for arrived, model in sorted(heads):
            waited_s = self._now - arrived
            if device.is_loading or model in device.residents or waited_s < self._patience_s(device, model):
                continue
            if len(device.residents) >= self._world.room:
                victim = self._victim(device, waited_s)
                if victim is None:
                    continue
                del device.residents[victim]
            device.is_loading = True
            self._loads += self._now >= self._from
            self._at(self._now + self._world.load_s, partial(self._loaded, device, model))

    def _patience_s(self, device: _Device, model: int) -> float:
        """A worker that pulls leaves to others what they hold, unless it waits for too long."""
        if self._route is not None or not any(model in one.residents for one in self._devices if one is not device):
            return 0.0
        return max(_PATIENCE_S, 2 * self._world.load_s)

    def _victim(self, device: _Device, waited_s: float) -> int | None:
        load_s = self._world.load_s
        for model, stay in sorted(device.residents.items(), key=lambda one: one[1].used_at):
            may_go = self._now - stay.loaded_at >= max(_LEAST_STAY_S, 2 * load_s)
            if may_go and (self._now - stay.used_at > load_s or waited_s >= 4 * load_s):
                return model
        return None

    def _loaded(self, device: _Device, model: int) -> None:
        device.residents[model] = _Stay(self._now, self._now)
        device.is_loading = False
        if not device.is_busy:
            self._begin(device)

    def _look(self) -> None:
        """Workers look for what they do not hold now and then."""
        for device in self._devices:
            self._load(device)
        self._at(self._now + _LOOK_S, self._look)

    def _finish(self, device: _Device, model: int, batch: list[_Request]) -> None:
        device.is_busy = False
        device.outstanding -= len(batch)
        if model in device.residents:
            device.residents[model].used_at = self._now
        for request in batch:
            if self._now >= self._from:
                self._waits.append(self._now - request.arrived)
            if request.client >= 0:
                self._at(self._now + self._world.turn_s, partial(self._arrive, request.client))
        self._begin(device)
