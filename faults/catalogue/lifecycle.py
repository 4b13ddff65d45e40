"""What administrators do while it is busy: reload a configuration, good or broken; drain and start again."""

from __future__ import annotations

import signal

from faults import wait
from faults.fault import Fault
from faults.history import DOWN
from faults.mix import Mix
from faults.scene import Scene
from faults.settings import toml

_BROKEN = (
    "[server\n",
    "",
    "[server]\nno_such_key = 1\n",
    '[server]\nrequest_timeout_s = "soon"\n',
    "[queue]\nack_wait_s = 0.0001\n",
    "\x00\x01",
    '[worker]\ndevices = ["gpu99"]\n',
)
"""Not TOML; another device than before, which needs a restart; an unknown key; a wrong type; out of bounds; rubbish."""


def _reload(scene: Scene, text: str, outcome: str) -> None:
    """Put a configuration in place, say so, and wait for the outcome in the log."""
    told = f"state={outcome}"
    before = scene.appliance.log.count(told)
    scene.appliance.config.write_text(text, encoding="utf-8")
    scene.note("SIGHUP")
    scene.appliance.send(signal.SIGHUP)
    wait.until(lambda: scene.appliance.log.count(told) > before, 60, f"{told} after SIGHUP")


def _broken_reload(scene: Scene) -> None:
    for number in scene.rounds():
        _reload(scene, _BROKEN[number % len(_BROKEN)], '"not reloaded"')
        scene.check(not scene.appliance.has_ended, "the daemon ended over a broken configuration")
    _reload(scene, toml({}), "reloaded")


def _good_reload(scene: Scene) -> None:
    for number in scene.rounds():
        _reload(scene, toml({"server.request_timeout_s": 60.0 + number}), "reloaded")


def _drain(scene: Scene) -> None:
    for _ in scene.rounds():
        scene.history.write(DOWN, who="daemon")
        done = scene.appliance.command("drain")
        scene.check(done.returncode == 0, f"appliance drain: {done.stdout.strip()} {done.stderr.strip()}")
        status = scene.appliance.wait_end()
        scene.check(status == 0, f"the daemon ended with status {status} after its drain")
        scene.start_daemon()


FAULTS = (
    Fault("reload", "SIGHUP with another configuration", _good_reload, times=5),
    Fault("reload-broken", "SIGHUP with a configuration that is broken, each time otherwise", _broken_reload, times=20),
    Fault(
        "drain",
        "appliance drain under load, and a start after it",
        _drain,
        mix=Mix(retries_unavailable=True),
    ),
)
