"""One fault from nothing to its row: data folder, daemon, load, the fault, the end of both, the verdict."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from faults import history, models, needs, settings, wait
from faults.fault import Fault, problems
from faults.instance import ROOT, Instance
from faults.oracle import Verdict, judge
from faults.scene import Scene

_SETTLE_S = 20.0
_SHORT_REQUESTS = 100
_SHORT_GUILTY = 1


@dataclass(frozen=True)
class Options:
    """`store` is a models folder that holds the real model, None: fake models alone. `keep` is where histories stay."""

    seed: int = 1
    short: bool = False
    store: Path | None = None
    keep: Path | None = None


@dataclass
class Row:
    """What came of one fault. `skipped` says why it did not run; `problems` what did not hold."""

    fault: Fault
    verdict: Verdict = field(default_factory=Verdict)
    times: int = 0
    seconds: float = 0.0
    skipped: str = ""
    problems: list[str] = field(default_factory=list)


def run(fault: Fault, options: Options, scratch: Path) -> Row:
    """Run one fault in a new folder below `scratch`."""
    if why := needs.missing(fault.needs):
        return Row(fault, skipped=why)
    start = time.monotonic()
    scene = _scene(fault, options, scratch / fault.name)
    try:
        _play(scene, options)
        row = Row(fault, judge(history.read(scene.path)), scene.times)
        row.problems = scene.problems + problems(fault.expect, row.verdict, not options.short)
    except (wait.TooLate, OSError, subprocess.CalledProcessError) as exc:
        scene.stop_load()
        row = Row(fault, judge(history.read(scene.path)), scene.times, problems=[*scene.problems, str(exc)])
    finally:
        _tidy(scene, options)
    row.seconds = time.monotonic() - start
    return row


def _scene(fault: Fault, options: Options, folder: Path) -> Scene:
    environ = {"PYTHONPATH": str(ROOT / "faults" / "inject"), "APPLIANCE_FAULTS_DIR": str(folder)}
    appliance = Instance(folder, settings.toml(fault.settings), environ)
    times = 1 if options.short else fault.times
    requests = _SHORT_REQUESTS if options.short else fault.requests
    return Scene(fault, appliance, random.Random(f"{options.seed} {fault.name}"), times, requests)


def _play(scene: Scene, options: Options) -> None:
    fault, appliance = scene.fault, scene.appliance
    if fault.prepare is not None:
        fault.prepare(scene)
    has_real = any(not lane.dimensions for lane in fault.mix.lanes)
    is_real = has_real and options.store is not None and (fault.keeps_real or not options.short)
    mix = fault.mix if is_real else fault.mix.without_real()
    mix = mix.with_at_most(_SHORT_GUILTY) if options.short else mix
    appliance.models.mkdir(parents=True, exist_ok=True)
    models.install(appliance.models, mix.lanes, options.store if is_real else None)
    os.sync()  # as the store does, which these models did not come through
    appliance.start_ready()
    golden = appliance.models / models.real_folder() if is_real else None
    scene.start_load(mix, f"{options.seed} {fault.name}", golden)
    fault.act(scene)
    scene.finish_load()
    wait.until(appliance.holds_nothing, _SETTLE_S, f"nothing is held any more: {appliance.health()['gateway']}")
    status = appliance.stop()
    scene.check(status == 0, f"the daemon ended with status {status} after SIGTERM")


def _tidy(scene: Scene, options: Options) -> None:
    """End what runs, undo what was mounted; keep the history and the log where that is wanted."""
    scene.stop_load(0.0)
    scene.appliance.end()
    for cleanup in reversed(scene.cleanups):
        cleanup()
    scene.history.close()
    if options.keep is not None:
        kept = options.keep / scene.fault.name
        kept.mkdir(parents=True, exist_ok=True)
        for path in (scene.path, scene.appliance.log_path):
            if path.exists():
                shutil.copy(path, kept)
    shutil.rmtree(scene.appliance.folder, ignore_errors=True)
