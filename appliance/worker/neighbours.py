"""What the other workers have told of themselves of late: who holds which model, and who has room for one more."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from appliance.wire import heartbeat, subjects
from appliance.wire.heartbeat import WorkerBeat

_HOLDING = ("ready", "loading")


class Neighbours:
    """Listens to heartbeats. A worker that is not heard of any more is not counted on."""

    def __init__(self, own_id: str, clock: Callable[[], float]) -> None:
        self._own_id = own_id
        self._clock = clock
        self._beats: dict[str, tuple[float, WorkerBeat]] = {}

    def on_beat(self, subject: str, reply: str, data: bytes, headers: bytes) -> None:
        if subject == subjects.heartbeat_subject(self._own_id):
            return
        beat = heartbeat.unpack(data)
        if isinstance(beat, WorkerBeat):
            self._beats[beat.worker_id] = (self._clock(), beat)

    def hold(self, model_id: str) -> bool:
        """Return whether another one has this model in memory, or will have."""
        states = (beat.models.get(model_id) for beat in self._fresh())
        return any(state is not None and state.state in _HOLDING for state in states)

    def with_more_room(self, free_bytes: float) -> int:
        """Return how many would take one more model sooner than a worker with this much room for models."""
        return sum((_free_bytes(beat), beat.worker_id) > (free_bytes, self._own_id) for beat in self._fresh())

    def _fresh(self) -> Iterator[WorkerBeat]:
        since = self._clock() - heartbeat.STALE_AFTER_S
        return (beat for heard_at, beat in self._beats.values() if heard_at >= since and beat.state == "ready")


def _free_bytes(beat: WorkerBeat) -> float:
    return beat.budget_bytes - beat.memory_bytes if beat.budget_bytes else float("inf")
