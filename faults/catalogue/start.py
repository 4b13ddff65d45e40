"""Starts into a world that is not as it should be: a taken port, what a crash left behind, too few descriptors."""

from __future__ import annotations

import resource

from faults.fault import Expect, Fault
from faults.instance import Instance
from faults.mix import Mix
from faults.scene import Scene

_CANNOT_START = 78
_DESCRIPTORS = 96


def _port_taken(scene: Scene) -> None:
    """A second daemon on the same port, then one on the same data: both end at once, named, and harm nobody."""
    for number in scene.rounds():
        other = Instance(scene.appliance.folder / f"other{number}", "")
        same_data = number % 2 == 1
        if same_data:
            other.data = scene.appliance.data
        else:
            other.port = scene.appliance.port
        try:
            other.start()
            status = other.wait_end(30)
            named = "Another daemon" if same_data else f"Port {scene.appliance.port}"
            scene.check(status == _CANNOT_START, f"a second daemon ended with status {status}")
            scene.check(named in other.log, f"a second daemon did not say why: {other.last_words()}")
        finally:
            other.end()


def _stale(scene: Scene) -> None:
    """What lies about after a crash, and worse: none of it may be believed."""
    for _ in scene.rounds():
        scene.kill_daemon()
        run, models = scene.appliance.data / "run", scene.appliance.models
        (run / "lock").write_text(f"{scene.chance.choice((1, 999999, 'x'))}\n")
        for name in ("nats-server.conf", ".nats-server.conf.new", "admin.json", "nats-server.log"):
            (run / name).write_bytes(scene.chance.choice((b"", b"{", scene.chance.randbytes(300))))
        staged = models / f".staging-{scene.chance.randrange(10**6)}"
        staged.mkdir()
        (staged / "model.toml").write_text("schema = 1\n")
        (models / "half").mkdir(exist_ok=True)
        scene.start_daemon()


def _few_descriptors(scene: Scene) -> None:
    limit = (_DESCRIPTORS, _DESCRIPTORS)
    scene.appliance.preexec = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit)


def _nothing(scene: Scene) -> None:
    """The load itself is the fault."""


FAULTS = (
    Fault("port-taken", "a second daemon on the same port, or on the same data", _port_taken, times=20),
    Fault(
        "stale-files",
        "SIGKILL of the daemon, then a start among garbled locks, configurations, logs and half a model",
        _stale,
        times=20,
        mix=Mix(retries_unavailable=True),
    ),
    Fault(
        "few-descriptors",
        f"{_DESCRIPTORS} descriptors a process, and more clients than that",
        _nothing,
        times=1,
        mix=Mix(clients=2 * _DESCRIPTORS, pause_ms=100.0),
        prepare=_few_descriptors,
        expect=Expect(may_shed=True),
    ),
)
