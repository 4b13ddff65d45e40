"""The engine processes of a device, one per runtime in use: started when first needed, and again after one died."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from appliance import log
from appliance.config import Config
from appliance.supervisor.restart import Backoff, failures_after_exit
from appliance.worker.engine_port import EnginePort

_log = log.Logger("engines")


class Engines:
    """Owns the ports. `on_died` is called with each engine that ended."""

    def __init__(self, device: str, streams: int, config: Config, on_died: Callable[[EnginePort], None]) -> None:
        self.by_runtime: dict[str, EnginePort] = {}
        self.restarts = 0
        self._device = device
        self._streams = streams
        self._config = config
        self._on_died = on_died
        self._backoff = Backoff(config.supervisor.restart_min_s, config.supervisor.restart_max_s)
        self._failures: dict[str, int] = {}
        self._watchers: set[asyncio.Task[None]] = set()

    def proven(self, runtime: str) -> None:
        """A batch succeeded: the runtime's earlier deaths were not the device's fault."""
        if self._failures.get(runtime):
            self._failures[runtime] = 0

    async def get(self, runtime: str) -> EnginePort:
        """Return the runtime's engine, started if it is not there, after the wait that its last deaths earned.

        Raises EngineDied, or asyncio.TimeoutError where it does not start.
        """
        engine = self.by_runtime.get(runtime)
        if engine is not None and not engine.died.done():
            return engine
        failures = self._failures.get(runtime, 0)
        if failures > 1:  # the first death may be anybody's; restart at once
            await asyncio.sleep(self._backoff.delay_s(failures - 1))
        engine = self.by_runtime[runtime] = EnginePort(runtime, self._device, self._streams, self._config)
        watcher = asyncio.create_task(self._watch(engine))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        await engine.start()
        _log.info("engine", runtime=runtime, pid=engine.pid, state="ready")
        return engine

    async def _watch(self, engine: EnginePort) -> None:
        started = time.monotonic()
        reason = await engine.died
        lived_s = time.monotonic() - started
        if not engine.died_at_work:  # else back at once: one poison input must not make everybody wait
            failures = self._failures.get(engine.runtime, 0)
            self._failures[engine.runtime] = failures_after_exit(failures, lived_s)
        self.restarts += 1
        _log.warning("engine", runtime=engine.runtime, pid=engine.pid, state="died", reason=reason, lived_s=lived_s)
        self._on_died(engine)

    async def stop(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*(engine.stop() for engine in self.by_runtime.values()))
