"""SIGSTOP: a process that is there and does nothing, for a while or until somebody ends it."""

from __future__ import annotations

from faults.fault import Act, Fault
from faults.scene import Scene

_LONGER_THAN_A_LEASE_S = 7.0


def _stop(name: str, seconds: float) -> Act:
    def act(scene: Scene) -> None:
        for _ in scene.rounds():
            scene.stop_for(name, seconds)

    return act


def _for_good(name: str) -> Act:
    """Nobody wakes it: whoever looks after it must notice."""

    def act(scene: Scene) -> None:
        for _ in scene.rounds():
            scene.stop_for_good(name)

    return act


FAULTS = (
    Fault(
        "engine-stop",
        "SIGSTOP of the engine for good; batches may take 1 s",
        _for_good("engine fake"),
        settings={"engine.batch_timeout_s": 1.0},
    ),
    Fault("worker-stop", "SIGSTOP of the only worker for 2 s", _stop("worker cpu", 2.0), times=5, in_short=False),
    Fault(
        "worker-stop-long",
        "SIGSTOP of one worker of two for longer than its leases",
        _stop("worker cpu", _LONGER_THAN_A_LEASE_S),
        times=3,
        settings={"worker.devices": ["cpu", "virtual0"]},
        in_short=False,
    ),
    Fault("nats-stop", "SIGSTOP of nats-server for 3 s", _stop("nats-server", 3.0), times=5),
    Fault("gateway-stop", "SIGSTOP of the gateway for 2 s", _stop("gateway0", 2.0), times=5),
    Fault(
        "worker-stop-for-good", "SIGSTOP of the only worker for good", _for_good("worker cpu"), times=3, in_short=False
    ),
    Fault("nats-stop-for-good", "SIGSTOP of nats-server for good", _for_good("nats-server"), times=3, in_short=False),
    Fault("gateway-stop-for-good", "SIGSTOP of the only gateway for good", _for_good("gateway0"), times=3),
    Fault("daemon-stop", "SIGSTOP of the daemon for 3 s", _stop("daemon", 3.0), times=5),
)
