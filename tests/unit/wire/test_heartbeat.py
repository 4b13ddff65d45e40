from __future__ import annotations

from appliance.wire import heartbeat
from appliance.wire.heartbeat import DaemonBeat, ModelState, WorkerBeat


def test_a_worker_s_beat_round_trips() -> None:
    beat = WorkerBeat(
        "gpu0",
        "gpu0",
        7,
        "ready",
        "",
        {"m": ModelState("failed", "why", 1.5, 10)},
        {"fake": {"pid": 8, "running": 1, "state": "up"}},
        3,
        {"batches": 2.0},
    )
    assert heartbeat.unpack(heartbeat.pack(beat)) == beat


def test_the_daemon_s_beat_round_trips() -> None:
    beat = DaemonBeat("0.1.0", 7, 1.5, {"gateway0": {"state": "ready", "pid": 8, "restarts": 0, "reason": ""}})
    assert heartbeat.unpack(heartbeat.pack(beat)) == beat
