"""The broker's store on disk: full, read-only, with bytes of its files changed, without power."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from faults import wait
from faults.fault import Expect, Fault
from faults.mix import ORDINARY, POISON, Guilty, Lane, Mix
from faults.scene import Scene

_QUEUE_MIB = 768
_DATA_MIB = 1024
_READ_ONLY_S = 3.0
_KEPT = 1000
"""The quarantine's own limit."""

_POISONED = Mix(
    lanes=(*ORDINARY, Lane("yew", 1, 8, fail_mode="error")),
    guilty=Guilty(POISON, every=60, models=("yew",)),
    retries_unavailable=True,
)
_NAMED = frozenset({"quarantined", "engine_failed", "unavailable"})


def _queue_disk(scene: Scene) -> None:
    scene.use_disk(scene.appliance.data / "queue", _QUEUE_MIB)


def _fill(scene: Scene) -> None:
    for _ in scene.rounds():
        scene.disk.fill()
        scene.note("no byte free")
        scene.until_good(max(20, scene.requests // (4 * scene.times)))
        scene.disk.free()


def _start_full(scene: Scene) -> None:
    """Not a byte free when it starts: interactive work needs no disk."""
    for _ in scene.rounds():
        scene.stop_daemon()
        scene.disk.fill()
        scene.start_daemon()
        scene.until_good(max(20, scene.requests // (4 * scene.times)))
        scene.disk.free()


def _read_only(scene: Scene) -> None:
    """Files that are open for writing keep a remount from working: the server is killed, and finds it on its return."""
    for _ in scene.rounds():
        scene.send("nats-server", signal.SIGKILL)
        wait.until(lambda: scene.disk.set_read_only(True), 1, "a read-only file system")
        scene.note("read-only")
        wait.pause(_READ_ONLY_S)
        scene.disk.set_read_only(False)


def _corrupt(scene: Scene) -> None:
    """Stop, change some files of the store, start: it must come up and serve, whatever became of the quarantine."""
    for _ in scene.rounds():
        scene.stop_daemon()
        files = sorted(path for path in (scene.appliance.data / "queue").rglob("*") if path.is_file())
        for path in scene.chance.sample(files, min(3, len(files))):
            scene.note(f"{_harm(scene, path)} {path.name}")
        scene.start_daemon()


def _harm(scene: Scene, path: Path) -> str:
    data = bytearray(path.read_bytes())
    how = scene.chance.choice(("flip", "cut", "garbage", "empty"))
    if how == "flip" and data:
        data[scene.chance.randrange(len(data))] ^= 1 << scene.chance.randrange(8)
    elif how == "cut":
        del data[len(data) // 2 :]
    elif how == "garbage":
        data = bytearray(scene.chance.randbytes(len(data) or 64))
    else:
        data.clear()
    path.write_bytes(bytes(data))
    return how


def _data_disk(scene: Scene) -> None:
    scene.use_disk(scene.appliance.data, _DATA_MIB)


def _cut_power(scene: Scene) -> None:
    """The data folder loses its power under load; what the quarantine had taken before is there afterwards."""
    for _ in scene.rounds():
        before = _numbers(scene)
        scene.disk.cut_power()
        scene.kill_daemon()
        scene.disk.unmount()
        scene.disk.mount()
        scene.start_daemon()
        missing = before - _numbers(scene)
        scene.check(
            len(before) >= _KEPT or not missing, f"{len(missing)} quarantine entries are gone after a power cut"
        )
        scene.check(_is_whole(scene), "the broker's configuration is not whole after a power cut")


def _numbers(scene: Scene) -> set[int]:
    done = scene.appliance.command("quarantine", "list", "--json")
    if done.returncode:
        raise wait.TooLate(f"quarantine list: {done.stderr.strip()}")
    return {row["number"] for row in json.loads(done.stdout)}


def _is_whole(scene: Scene) -> bool:
    try:
        return "authorization" in json.loads((scene.appliance.data / "run" / "nats-server.conf").read_text())
    except ValueError:
        return False


FAULTS = (
    Fault(
        "store-full",
        f"not a byte free where the broker keeps its files ({_QUEUE_MIB} MiB), poison to set aside meanwhile",
        _fill,
        times=5,
        mix=_POISONED,
        needs=("loop",),
        prepare=_queue_disk,
        expect=Expect(guilty=_NAMED, guilty_fail=True),
        in_short=False,
    ),
    Fault(
        "store-full-start",
        "not a byte free where the broker keeps its files when the daemon starts again",
        _start_full,
        times=3,
        mix=_POISONED,
        in_short=False,
        needs=("loop",),
        prepare=_queue_disk,
        expect=Expect(guilty=_NAMED, guilty_fail=True),
    ),
    Fault(
        "store-read-only",
        f"the broker's file system is read-only for {_READ_ONLY_S:g} s, and its server is started again on it",
        _read_only,
        times=5,
        mix=_POISONED,
        settings={"supervisor.restart_max_s": 1.0},
        needs=("loop",),
        prepare=_queue_disk,
        expect=Expect(guilty=_NAMED, guilty_fail=True),
    ),
    Fault(
        "store-corrupt",
        "three files of the broker's store changed, cut, emptied or garbled between stop and start",
        _corrupt,
        times=20,
        mix=_POISONED,
        expect=Expect(guilty=_NAMED, guilty_fail=True),
    ),
    Fault(
        "power-cut",
        "the data folder's ext4 loses its power (EXT4_IOC_SHUTDOWN) under load; started again on what the disk had",
        _cut_power,
        times=20,
        mix=_POISONED,
        needs=("loop",),
        prepare=_data_disk,
        expect=Expect(guilty=_NAMED, guilty_fail=True),
    ),
)
