"""Devices and memory: a pass without an end, a device that is broken, too little memory, slow loads."""

from __future__ import annotations

import os
from contextlib import suppress

import psutil

from faults import models, needs, wait
from faults.fault import Expect, Fault
from faults.mix import FAKES, ORDINARY, POISON, REAL, Guilty, Lane, Mix
from faults.scene import Scene

_QUARANTINED = frozenset({"quarantined"})
_SLOW_S = 10.0


def _nothing(scene: Scene) -> None:
    """The load itself is the fault."""


def _sticky(scene: Scene) -> None:
    trigger = scene.appliance.folder / "sticky"
    for _ in scene.rounds():
        pid = scene.appliance.pid_of("engine fake")
        trigger.touch()
        wait.pause(0.05)  # until a pass has met it
        trigger.unlink()
        scene.until_replaced("engine fake", pid)


def _limit_memory(scene: Scene) -> None:
    """No more address space for the engine than it has; what its worker starts in its place has all again."""
    for _ in scene.rounds():
        pid = scene.appliance.pid_of("engine onnx")
        with suppress(psutil.NoSuchProcess):
            engine = psutil.Process(pid)
            size = engine.memory_info().vms - (8 << 20)
            scene.note(f"RLIMIT_AS of engine onnx ({pid}) = {size}")
            engine.rlimit(psutil.RLIMIT_AS, (size, size))
        scene.until_good(20)


def _out_of_memory(scene: Scene) -> None:
    """The kernel's out-of-memory killer takes the engine: its group may have 4 MiB more than nothing."""
    group = needs.memory_cgroups() / f"appliance-faults-{os.getpid()}"
    group.mkdir()
    scene.cleanups.append(lambda: _remove(group))
    limit = group / "memory.limit_in_bytes"
    (limit if limit.exists() else group / "memory.max").write_text(str(4 << 20))
    for _ in scene.rounds():
        pid = scene.appliance.pid_of("engine onnx")
        scene.note(f"engine onnx ({pid}) into a group of 4 MiB")
        with suppress(OSError):
            (group / "cgroup.procs").write_text(str(pid))
        scene.until_good(20)


def _remove(group: os.PathLike[str]) -> None:
    with suppress(OSError):
        os.rmdir(group)


def _slow_load(scene: Scene) -> None:
    seconds = _SLOW_S / 3 if scene.is_short else _SLOW_S
    (scene.appliance.folder / "slow").write_text(str(seconds))
    for number in scene.rounds():
        models.write_fake(scene.appliance.models, Lane(f"late{number}", 0, 8))
        name = f"late{number}"
        wait.until(lambda: _state_of(scene, name) == "ready", 3 * _SLOW_S, f"{name} is ready")  # noqa: B023


def _state_of(scene: Scene, name: str) -> str:
    with suppress(OSError, ValueError):
        return next((m["state"] for m in scene.appliance.health()["models"] if m["name"] == name), "")
    return ""


_LONG = (*FAKES, Lane(REAL, 7))

FAULTS = (
    Fault(
        "engine-hang",
        f"inputs at which a pass never returns ({POISON}); batches may take 1 s",
        _nothing,
        mix=Mix(
            lanes=(*ORDINARY, Lane("yew", 1, 8, fail_mode="hang")),
            guilty=Guilty(POISON, every=40, models=("yew",), most=5),
        ),
        settings={"engine.batch_timeout_s": 1.0},
        expect=Expect(guilty=_QUARANTINED, guilty_fail=True),
    ),
    Fault("device-sticky", "a device that fails every pass until its process is started anew", _sticky),
    Fault(
        "memory-limit",
        "an engine that gets no more memory (RLIMIT_AS)",
        _limit_memory,
        mix=Mix(lanes=_LONG, clients=12),
        keeps_real=True,
        in_short=False,
    ),
    Fault(
        "out-of-memory",
        "the kernel kills the engine for want of memory (cgroup)",
        _out_of_memory,
        mix=Mix(lanes=_LONG, clients=12),
        needs=("memory cgroup",),
        keeps_real=True,
    ),
    Fault(
        "slow-load",
        f"models that take {_SLOW_S:g} s to load come while others are asked",
        _slow_load,
        times=2,
        expect=Expect(gap_s=2.0),
        in_short=False,
    ),
    Fault(
        "slow-load-one-stream",
        "the same on a device that runs one batch at once, as GPUs do",
        _slow_load,
        times=2,
        settings={"worker.streams": 1},
        expect=Expect(gap_s=2.0),
    ),
)
