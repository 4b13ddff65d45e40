from __future__ import annotations

from appliance.wire import heartbeat, subjects
from appliance.wire.heartbeat import ModelState, WorkerBeat
from appliance.worker.neighbours import Neighbours
from tests.fakes import FakeClock

GIB = 1 << 30


def told(neighbours: Neighbours, worker_id: str, state: str = "ready", used: int = 0, **models: str) -> None:
    beat = WorkerBeat(
        worker_id=worker_id,
        device=worker_id,
        pid=1,
        state=state,
        reason="",
        models={name: ModelState(there) for name, there in models.items()},
        engines={},
        held_items=0,
        counters={},
        memory_bytes=used * GIB,
        budget_bytes=8.0 * GIB,
    )
    neighbours.on_beat(subjects.heartbeat_subject(worker_id), "", heartbeat.pack(beat), b"")


def test_others_hold_what_they_have_or_are_loading() -> None:
    neighbours = Neighbours("gpu0", FakeClock())
    told(neighbours, "gpu1", here="ready", coming="loading", gone="cold", broken="failed")
    assert [neighbours.hold(name) for name in ("here", "coming", "gone", "broken", "unknown")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_what_a_worker_tells_of_itself_is_not_a_neighbours() -> None:
    neighbours = Neighbours("gpu0", FakeClock())
    told(neighbours, "gpu0", here="ready")
    assert not neighbours.hold("here")


def test_who_is_silent_or_drains_is_not_counted_on() -> None:
    clock = FakeClock()
    neighbours = Neighbours("gpu0", clock)
    told(neighbours, "gpu1", here="ready")
    told(neighbours, "gpu2", state="draining", there="ready")
    assert neighbours.hold("here")
    assert not neighbours.hold("there")
    clock.now += heartbeat.STALE_AFTER_S + 0.1
    assert not neighbours.hold("here")


def test_each_model_has_one_worker_that_would_take_it_first() -> None:
    """Of workers with the same room, the names decide: the ranks are all different."""
    used = {"gpu0": 4, "gpu1": 2, "gpu2": 4, "gpu3": 7}
    ranks = {}
    for own in used:
        neighbours = Neighbours(own, FakeClock())
        for other, gib in used.items():
            told(neighbours, other, used=gib)
        ranks[own] = neighbours.with_more_room(8.0 * GIB - used[own] * GIB)
    assert ranks == {"gpu1": 0, "gpu2": 1, "gpu0": 2, "gpu3": 3}
