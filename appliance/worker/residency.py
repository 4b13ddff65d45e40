"""Which models are in memory: one task loads what is wanted, an engine per runtime, and again after one died."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

from appliance import log
from appliance.config import Config
from appliance.errors import ApplianceError
from appliance.models.manifest import Model
from appliance.supervisor.restart import Backoff, failures_after_exit
from appliance.wire.heartbeat import ModelState
from appliance.worker.engine_port import EngineDied, EnginePort

_log = log.Logger("residency")

_RETRY = Backoff(first_s=10.0, longest_s=300.0)
_CRASHES_UNTIL_FAILED = 3


class State(Enum):
    COLD = "cold"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


@dataclass
class Resident:
    """One wanted model's state; while it is ready, `engine` is the one that it is in. Written by the residency only."""

    model: Model
    state: State = State.COLD
    engine: EnginePort | None = None
    reason: str = ""
    load_s: float = 0.0
    memory_bytes: int = 0
    padding_cost: float = 1.0
    failures: int = 0
    retry_at: float = 0.0


class Residency:
    """Owns the engines and the models in them. `on_change` is called whenever a model becomes ready or fails."""

    def __init__(self, device: str, streams: int, config: Config, on_change: Callable[[], None]) -> None:
        self.residents: dict[str, Resident] = {}
        self.engines: dict[str, EnginePort] = {}
        self.restarts = 0
        self._device = device
        self._streams = streams
        self._config = config
        self._on_change = on_change
        self._backoff = Backoff(config.supervisor.restart_min_s, config.supervisor.restart_max_s)
        self._engine_failures: dict[str, int] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._loaders: dict[str, asyncio.Task[None]] = {}
        self._watchers: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def want(self, models: list[Model]) -> None:
        """Set the models to keep in memory. One whose content changed is loaded anew."""
        for model in models:
            known = self.residents.get(model.name)
            if known is None or known.model.content_hash != model.content_hash:
                self.residents[model.name] = Resident(model)
        for name in self.residents.keys() - {model.name for model in models}:
            del self.residents[name]
        self._changed.set()

    def state_of(self, model_id: str) -> State:
        resident = self.residents.get(model_id)
        return resident.state if resident else State.FAILED

    def engine_for(self, model_id: str) -> EnginePort | None:
        """Return the living engine that holds the model, or None while it is not ready."""
        resident = self.residents.get(model_id)
        if resident is None or resident.state is not State.READY:
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
        if resident is not None and self._engine_failures.get(resident.model.runtime):
            self._engine_failures[resident.model.runtime] = 0

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
        return {
            name: ModelState(r.state.value, r.reason, r.load_s, r.memory_bytes) for name, r in self.residents.items()
        }

    async def stop(self) -> None:
        if self._task is not None:
            loading = [self._task, *self._loaders.values()]
            for task in loading:
                task.cancel()
            await asyncio.gather(*loading, return_exceptions=True)
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*(engine.stop() for engine in self.engines.values()))

    async def _run(self) -> None:
        """Load what is to be loaded, runtimes beside each other: each has an engine of its own to wait for."""
        while True:
            for runtime in {resident.model.runtime for resident in self.residents.values()} - self._loaders.keys():
                if self._next_to_load(runtime) is not None:
                    loader = self._loaders[runtime] = asyncio.create_task(self._load_all(runtime))
                    loader.add_done_callback(partial(self._on_loaded, runtime))
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), 1.0)  # a failed model's time to retry may come
            except asyncio.TimeoutError:
                pass

    def _on_loaded(self, runtime: str, loader: asyncio.Task[None]) -> None:
        del self._loaders[runtime]
        self._changed.set()
        if not loader.cancelled() and (error := loader.exception()) is not None:
            _log.error("load", error, runtime=runtime)

    async def _load_all(self, runtime: str) -> None:
        while (resident := self._next_to_load(runtime)) is not None:
            await self._load(resident)

    def _next_to_load(self, runtime: str) -> Resident | None:
        now = time.monotonic()
        for resident in self.residents.values():
            is_due = resident.state is State.COLD or (resident.state is State.FAILED and now >= resident.retry_at)
            if is_due and resident.model.runtime == runtime:
                return resident
        return None

    async def _load(self, resident: Resident) -> None:
        """Load one model; a crash of the engine while it loads counts against the model, not only the engine."""
        model = resident.model
        resident.state = State.LOADING
        try:
            engine = await self._engine(model.runtime)
            loaded = await engine.load(model.name, model.folder)
        except (EngineDied, ApplianceError, asyncio.TimeoutError) as exc:
            port = self.engines.get(model.runtime)
            if port is not None and port.died_at_work:
                resident.state = State.COLD  # another model's batch took the engine with it
            else:
                self._failed(resident, str(exc) or "the engine did not start in time", _CRASHES_UNTIL_FAILED)
            return
        if loaded.error:
            self._failed(resident, loaded.error, 1)
            return
        if engine.died.done():
            resident.state = State.COLD
            return
        resident.state, resident.reason, resident.failures = State.READY, "", 0
        resident.engine = engine
        resident.load_s, resident.memory_bytes = loaded.load_s, loaded.memory_bytes
        resident.padding_cost = loaded.padding_cost
        _log.info("model", model=model.name, state="ready", load_s=loaded.load_s, memory_bytes=loaded.memory_bytes)
        self._on_change()

    def _failed(self, resident: Resident, reason: str, patience: int) -> None:
        resident.failures += 1
        resident.reason = reason
        if resident.failures < patience:
            resident.state = State.COLD
            return
        retry_in_s = _RETRY.delay_s(resident.failures - patience + 1)
        resident.state, resident.retry_at = State.FAILED, time.monotonic() + retry_in_s
        _log.error("model", model=resident.model.name, state="failed", reason=reason, retry_in_s=retry_in_s)
        self._on_change()

    async def _engine(self, runtime: str) -> EnginePort:
        """Return the runtime's engine, started if it is not there, after the wait that its last deaths earned."""
        engine = self.engines.get(runtime)
        if engine is not None and not engine.died.done():
            return engine
        failures = self._engine_failures.get(runtime, 0)
        if failures > 1:  # the first death may be anybody's; restart at once
            await asyncio.sleep(self._backoff.delay_s(failures - 1))
        engine = self.engines[runtime] = EnginePort(runtime, self._device, self._streams, self._config)
        watcher = asyncio.create_task(self._watch(engine))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        await engine.start()
        _log.info("engine", runtime=runtime, pid=engine.pid, state="ready")
        return engine

    async def _watch(self, engine: EnginePort) -> None:
        """When an engine dies its models are cold again, and wanted."""
        started = time.monotonic()
        reason = await engine.died
        lived_s = time.monotonic() - started
        if not engine.died_at_work:  # else back at once: one poison input must not make everybody wait
            failures = self._engine_failures.get(engine.runtime, 0)
            self._engine_failures[engine.runtime] = failures_after_exit(failures, lived_s)
        self.restarts += 1
        _log.warning("engine", runtime=engine.runtime, pid=engine.pid, state="died", reason=reason, lived_s=lived_s)
        for resident in self.residents.values():
            if resident.engine is engine and resident.state is State.READY:
                resident.state = State.COLD
        self._changed.set()
