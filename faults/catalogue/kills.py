"""SIGKILL: one process after the other, two at once, anybody at random, the daemon and its whole tree."""

from __future__ import annotations

import signal

from faults.fault import Act, Expect, Fault
from faults.mix import FAKES, REAL, Lane, Mix
from faults.scene import Scene

_GAP_S = 2.0
_ALONE = {"supervisor.restart_max_s": 0.1}
"""Ten deaths in a minute are a crash loop, and would wait longer each time; here each waits as one death alone does."""

_ANYBODY = ("engine fake", "worker cpu", "nats-server", "gateway0")


def _kill(*names: str) -> Act:
    def act(scene: Scene) -> None:
        for number in scene.rounds():
            scene.kill(names[number % len(names)])
            scene.until_each_good()

    return act


def _two_at_once(scene: Scene) -> None:
    for _ in scene.rounds():
        pid = scene.send("worker cpu", signal.SIGKILL)
        scene.kill("nats-server")
        scene.until_replaced("worker cpu", pid)
        scene.until_each_good()


def _anybody(scene: Scene) -> None:
    for _ in scene.rounds():
        scene.kill(scene.chance.choice(_ANYBODY))
        scene.until_each_good()


def _daemon(scene: Scene) -> None:
    for _ in scene.rounds():
        scene.kill_daemon()
        scene.start_daemon()


FAULTS = (
    Fault("engine-kill", "SIGKILL of the engine in the middle of batches", _kill("engine fake"), expect=Expect(_GAP_S)),
    Fault(
        "engine-kill-real",
        "SIGKILL of the real model's engine, half of the load on it",
        _kill("engine onnx"),
        mix=Mix(lanes=(*FAKES, Lane(REAL, 7)), clients=16),
        expect=Expect(_GAP_S),
        keeps_real=True,
        in_short=False,
    ),
    Fault("worker-kill", "SIGKILL of the only worker", _kill("worker cpu"), settings=_ALONE, expect=Expect(_GAP_S)),
    Fault("nats-kill", "SIGKILL of nats-server", _kill("nats-server"), settings=_ALONE, expect=Expect(_GAP_S)),
    Fault("gateway-kill", "SIGKILL of the only gateway", _kill("gateway0"), settings=_ALONE),
    Fault(
        "worker-and-nats-kill",
        "SIGKILL of worker and nats-server at once",
        _two_at_once,
        settings=_ALONE,
        in_short=False,
    ),
    Fault(
        "anybody-kill", "SIGKILL of a process chosen by chance, again and again", _anybody, times=20, settings=_ALONE
    ),
    Fault(
        "daemon-kill",
        "SIGKILL of the daemon; its whole tree goes; started again",
        _daemon,
        mix=Mix(retries_unavailable=True),
    ),
)
