"""Which models are in memory: loaded at their first use or ahead of it, evicted to make room, within a byte budget."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from appliance import log
from appliance.config import Config
from appliance.errors import ApplianceError
from appliance.models.manifest import Model
from appliance.supervisor.restart import Backoff
from appliance.wire.frames import ModelLoaded
from appliance.wire.heartbeat import ModelState
from appliance.worker import room
from appliance.worker.engine_port import EngineDied, EnginePort
from appliance.worker.engines import Engines
from appliance.worker.resident import Resident, State, guessed_bytes
from appliance.worker.room import Tenant

_log = log.Logger("residency")

_RETRY = Backoff(first_s=10.0, longest_s=300.0)
_CRASHES_UNTIL_FAILED = 3
_LOOK_S = 1.0
"""A failed model's time to retry may come."""
_LOOK_FOR_ROOM_S = 0.1


class Residency:
    """Owns the engines and the models in them. `on_change` is called whenever a model becomes ready or fails."""

    def __init__(
        self,
        device: str,
        streams: int,
        config: Config,
        on_change: Callable[[], None],
        budget_bytes: float = float("inf"),
    ) -> None:
        self.residents: dict[str, Resident] = {}
        self.budget_bytes = budget_bytes
        self.engines = Engines(device, streams, config, self._on_engine_died)
        self.evictions = 0
        self.is_warm = False
        """Whether what is loaded at start is there, or has failed."""
        self._settings = config.worker
        self._on_change = on_change
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._loaders: dict[str, asyncio.Task[None]] = {}
        self._waits_for_room = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def serve(self, models: Sequence[Model]) -> None:
        """Set the models that may be asked for. One whose content changed is loaded anew."""
        for model in models:
            known = self.residents.get(model.name)
            if known is None or known.model.content_hash != model.content_hash:
                is_ahead = self._settings.preload or model.name in self._settings.pinned
                self.residents[model.name] = Resident(model, memory_bytes=guessed_bytes(model), is_wanted=is_ahead)
        for name in self.residents.keys() - {model.name for model in models}:
            self._forget(self.residents.pop(name))
        self._changed.set()

    def _forget(self, resident: Resident) -> None:
        """Free a removed model's memory, once its last batch is back."""
        if resident.state is State.READY and resident.engine is not None:
            engine = resident.engine
            asyncio.ensure_future(self._unload(resident, engine))  # noqa: RUF006 - the engine answers, or dies

    def use(self, model_id: str, since: float) -> None:
        """Work for this model has waited since the instant `since`: load it, if it is not there."""
        resident = self.residents.get(model_id)
        if resident is None or resident.state is not State.COLD:
            return
        if resident.wanted_since is None:
            resident.wanted_since = since
            self._changed.set()
        resident.is_wanted = True

    def spare(self, model_id: str) -> None:
        """Nobody waits for this model any more; what is being loaded stays."""
        resident = self.residents.get(model_id)
        if resident is not None and resident.state is State.COLD and resident.wanted_since is not None:
            resident.wanted_since, resident.is_wanted = None, False

    def load_s(self, model_id: str) -> float:
        """Return what the last load of a model took here; 0.0 while that is unknown."""
        resident = self.residents.get(model_id)
        return resident.load_s if resident else 0.0

    @property
    def free_bytes(self) -> float:
        return self.budget_bytes - self.used_bytes

    def living_engines(self) -> list[EnginePort]:
        return [
            engine for engine in self.engines.by_runtime.values() if not engine.died.done() and not engine.is_ending
        ]

    def began(self, model_id: str) -> Resident:
        """A batch of this model goes to its engine; return what is to be told when it is back."""
        resident = self.residents[model_id]
        resident.running += 1
        resident.idle.clear()
        return resident

    def ended(self, resident: Resident) -> None:
        """A batch is back, or lost."""
        resident.running -= 1
        resident.used_at = time.monotonic()
        if not resident.running:
            resident.idle.set()

    def state_of(self, model_id: str) -> State:
        resident = self.residents.get(model_id)
        return resident.state if resident else State.FAILED

    def engine_for(self, model_id: str) -> EnginePort | None:
        """Return the living engine that holds the model, or None while it is not ready."""
        resident = self.residents.get(model_id)
        if resident is None or resident.state is not State.READY or resident.is_leaving:
            return None
        # A dead one's batches are handed back before the model is cold again: they must not go to it once more, nor
        # to its successor, which has not loaded the model yet.
        engine = resident.engine
        return engine if engine is not None and not engine.died.done() and not engine.is_ending else None

    def padding_cost(self, model_id: str) -> float:
        """Return what a token of padding costs this model, in real ones."""
        resident = self.residents.get(model_id)
        return resident.padding_cost if resident else 1.0

    def proven(self, model_id: str) -> None:
        """A batch of this model succeeded: its engine's earlier deaths were not the device's fault."""
        resident = self.residents.get(model_id)
        if resident is not None:
            self.engines.proven(resident.model.runtime)

    def failed(self) -> set[str]:
        """Return the models that cannot be used at the moment."""
        return {name for name, resident in self.residents.items() if resident.state is State.FAILED}

    def out_of_service(self) -> str:
        """Return why nothing can run on this device, its last failure's reason; empty while something can."""
        residents = self.residents.values()
        if not residents or any(resident.state is not State.FAILED for resident in residents):
            return ""
        return next(resident.reason for resident in residents)

    def states(self) -> dict[str, ModelState]:
        """For the heartbeat."""
        return {name: resident.told() for name, resident in self.residents.items()}

    @property
    def used_bytes(self) -> int:
        """What is taken of the budget, by what is there and what is being loaded."""
        return sum(resident.memory_bytes for resident in self.residents.values() if resident.is_in_memory)

    async def stop(self) -> None:
        if self._task is not None:
            loading = [self._task, *self._loaders.values()]
            for task in loading:
                task.cancel()
            await asyncio.gather(*loading, return_exceptions=True)
        await self.engines.stop()

    async def _run(self) -> None:
        """Load what is to be loaded, runtimes beside each other: each has an engine of its own to wait for."""
        while True:
            self._changed.clear()
            self._waits_for_room = False
            for runtime in {resident.model.runtime for resident in self.residents.values()} - self._loaders.keys():
                resident, going = self._next_to_load(runtime)
                if resident is not None:
                    resident.state = State.LOADING  # its bytes are taken from now on
                    self._on_change()
                    loader = self._loaders[runtime] = asyncio.create_task(self._load(resident, going))
                    loader.add_done_callback(partial(self._on_loaded, runtime))
            if self.residents and not any(one.is_coming for one in self.residents.values()):
                self.is_warm = True
            try:
                await asyncio.wait_for(self._changed.wait(), _LOOK_FOR_ROOM_S if self._waits_for_room else _LOOK_S)
            except asyncio.TimeoutError:
                pass

    def _on_loaded(self, runtime: str, loader: asyncio.Task[None]) -> None:
        del self._loaders[runtime]
        self._changed.set()
        if not loader.cancelled() and (error := loader.exception()) is not None:
            _log.error("load", error, runtime=runtime)

    def _next_to_load(self, runtime: str) -> tuple[Resident | None, list[Resident]]:
        """Return which model to load and who makes room for it: first what work waits for, then pins, then others."""
        now = time.monotonic()
        due = [one for one in self.residents.values() if one.model.runtime == runtime and one.is_due(now)]
        for resident in sorted(due, key=self._urgency):
            going = self._room_for(resident, now)
            if going is not None:
                return resident, going
        return None, []

    def _urgency(self, resident: Resident) -> tuple[bool, float, bool]:
        since = resident.wanted_since
        return since is None, since or 0.0, resident.model.name not in self._settings.pinned

    def _room_for(self, newcomer: Resident, now: float) -> list[Resident] | None:
        """Return who has to go for a newcomer; None where it has to wait, or was to be loaded only if there is room."""
        missing = self.used_bytes + newcomer.memory_bytes - self.budget_bytes
        if missing <= 0:
            return []
        is_pinned = newcomer.model.name in self._settings.pinned
        if newcomer.wanted_since is None and not is_pinned:
            newcomer.is_wanted = False
            return None
        if newcomer.memory_bytes > self.budget_bytes:
            self._failed(newcomer, self._too_large(newcomer), 1)
            return None
        waited_s = float("inf") if newcomer.wanted_since is None else now - newcomer.wanted_since
        names = room.evicted(self._tenants(now), missing, waited_s, newcomer.load_s)
        self._waits_for_room = self._waits_for_room or names is None
        return None if names is None else [self.residents[name] for name in names]

    def _too_large(self, resident: Resident) -> str:
        return (
            f"It needs about {resident.memory_bytes >> 20} MiB, and models may take {int(self.budget_bytes) >> 20} MiB "
            "of this device. Raise worker.memory_bytes, or use a smaller model."
        )

    def _tenants(self, now: float) -> list[Tenant]:
        pinned = self._settings.pinned
        ready = [one for one in self.residents.values() if one.state is State.READY and not one.is_leaving]
        return [one.tenant(now, one.model.name in pinned) for one in ready]

    async def _load(self, resident: Resident, going: list[Resident]) -> None:
        """Load one model; a crash of the engine while it loads counts against the model, not only the engine."""
        model = resident.model
        try:
            await asyncio.gather(*(self._evict(one, model.name) for one in going))
            engine = await self.engines.get(model.runtime)
            loaded = await engine.load(model.name, model.folder)
        except (EngineDied, ApplianceError, asyncio.TimeoutError) as exc:
            port = self.engines.by_runtime.get(model.runtime)
            if port is not None and port.died_at_work:
                resident.state = State.COLD  # another model's batch took the engine with it
            else:
                self._failed(resident, str(exc) or "the engine did not start in time", _CRASHES_UNTIL_FAILED)
            return
        if loaded.error:
            self._failed(resident, loaded.error, 1)
        elif engine.died.done():
            resident.state = State.COLD
        else:
            await self._settle(resident, engine, loaded)

    async def _settle(self, resident: Resident, engine: EnginePort, loaded: ModelLoaded) -> None:
        """Take a loaded model in, at the size that was measured."""
        now = time.monotonic()
        resident.state, resident.reason, resident.failures = State.READY, "", 0
        resident.engine, resident.wanted_since = engine, None
        resident.load_s, resident.memory_bytes = loaded.load_s, loaded.memory_bytes
        resident.padding_cost = loaded.padding_cost
        resident.loaded_at = resident.used_at = now
        name = resident.model.name
        _log.info("model", model=name, state="ready", load_s=loaded.load_s, memory_bytes=loaded.memory_bytes)
        if self.residents.get(name) is not resident:  # removed or replaced meanwhile
            await self._unload(resident, engine)
            return
        if loaded.memory_bytes > self.budget_bytes:
            await self._evict(resident, "its own size")
            self._failed(resident, self._too_large(resident), 1)
            return
        self._on_change()
        # It may be larger than its guess was.
        excess = self.used_bytes - self.budget_bytes
        names = room.evicted(self._tenants(now), excess, float("inf"), 0.0) or []
        await asyncio.gather(*(self._evict(self.residents[gone], name) for gone in names))

    async def _evict(self, resident: Resident, newcomer: str) -> None:
        """Let a model's running batches end, and unload it. Returns once its memory is free."""
        self.evictions += 1
        _log.info("model", model=resident.model.name, state="evicted", to_make_room_for=newcomer)
        engine = resident.engine
        if engine is not None:
            await self._unload(resident, engine)
        if resident.state is State.READY:
            resident.state = State.COLD
        resident.engine, resident.is_wanted, resident.wanted_since = None, False, None
        self._on_change()

    async def _unload(self, resident: Resident, engine: EnginePort) -> None:
        resident.is_leaving = True
        try:
            if resident.running:
                idle = asyncio.ensure_future(resident.idle.wait())
                ends: list[asyncio.Future[Any]] = [idle, engine.died]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                idle.cancel()
            if not engine.died.done():
                await engine.unload(resident.model.name)
        except EngineDied:
            pass  # and its memory is free
        finally:
            resident.is_leaving = False

    def _failed(self, resident: Resident, reason: str, patience: int) -> None:
        resident.failures += 1
        resident.reason = reason
        if resident.failures < patience:
            resident.state = State.COLD
            return
        retry_in_s = _RETRY.delay_s(resident.failures - patience + 1)
        resident.state, resident.retry_at = State.FAILED, time.monotonic() + retry_in_s
        resident.wanted_since = None
        _log.error("model", model=resident.model.name, state="failed", reason=reason, retry_in_s=retry_in_s)
        self._on_change()

    def _on_engine_died(self, engine: EnginePort) -> None:
        """Its models are cold again, and wanted."""
        for resident in self.residents.values():
            if resident.engine is engine and resident.state is State.READY:
                resident.state = State.COLD
        self._changed.set()
