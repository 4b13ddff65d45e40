"""What a fault works with: the appliance, the load beside it, and the verbs that most faults are made of."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from faults import load, wait
from faults.disk import Disk
from faults.fault import Fault
from faults.history import DOWN, NOTE, UP, History, Progress
from faults.instance import ROOT, Instance
from faults.mix import Mix

_ROUND_S = 90.0
_LOAD_S = 240.0
_LOAD_END_S = 120.0


class Scene:
    """One run of one fault. `problems` collects what the oracle cannot see."""

    def __init__(self, fault: Fault, appliance: Instance, chance: random.Random, times: int, requests: int) -> None:
        self.fault = fault
        self.appliance = appliance
        self.chance = chance
        self.times = times
        self.requests = requests
        self.is_short = requests < fault.requests
        self.problems: list[str] = []
        self.path = appliance.folder / "history.jsonl"
        self.history = History(self.path)
        self.progress = Progress(self.path)
        self.cleanups: list[Callable[[], None]] = []
        self._disk: Disk | None = None
        self._load: subprocess.Popen[bytes] | None = None

    # -- the load ---------------------------------------------------------------------------

    def start_load(self, mix: Mix, seed: str, golden: Path | None) -> None:
        self._load = subprocess.Popen([sys.executable, "-m", "faults.load"], cwd=ROOT, stdin=subprocess.PIPE)
        assert self._load.stdin is not None
        self._load.stdin.write(load.order(self.appliance.port, mix, seed, self.path, golden))
        self._load.stdin.flush()

    def finish_load(self) -> None:
        """Let the load reach its number of requests, then let every client come to its end."""
        self.until_finished(self.requests)
        self.stop_load()

    def stop_load(self, within_s: float = _LOAD_END_S) -> None:
        """Let every client come to its end; those that are not there in time are ended, and told."""
        if self._load is None:
            return
        assert self._load.stdin is not None
        self._load.stdin.close()
        try:
            status = self._load.wait(within_s)
        except subprocess.TimeoutExpired:
            self._load.kill()
            status = self._load.wait()
        self._load = None
        if status:
            self.problems.append(f"the load ended with status {status}")

    def until_finished(self, count: int) -> None:
        wait.until(lambda: self.progress.finished >= count, _LOAD_S, f"the end of {count} requests")

    def until_good(self, more: int) -> None:
        """Return when so many more good answers have come. Raises TooLate."""
        wanted = self.progress.good + more
        wait.until(lambda: self.progress.good >= wanted, _ROUND_S, f"{wanted} answers, {self.progress.good} came")

    def until_each_good(self) -> None:
        """Return when every model that has answered before has answered again: its outage is over, and counts alone."""
        before = self.progress.good_of()
        wait.until(lambda: self._each_is_past(before), _ROUND_S, "every model")

    def _each_is_past(self, before: Counter[str]) -> bool:
        now = self.progress.good_of()
        return all(now[model] > count for model, count in before.items())

    def rounds(self) -> Iterator[int]:
        """Yield the number of each injection, the load's answers between one and the next."""
        for number in range(self.times):
            self.until_good(max(1, self.requests // (2 * self.times)))
            yield number
            self.until_good(1)

    # -- what is done -----------------------------------------------------------------------

    def note(self, text: str) -> None:
        self.history.write(NOTE, text=text)

    def send(self, name: str, number: signal.Signals) -> int:
        """Send a signal to a process of the appliance by its name; return its pid."""
        pid = self.appliance.pid_of(name)
        self.note(f"{number.name} to {name} ({pid})")
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        return pid

    def kill(self, name: str) -> None:
        """SIGKILL a process and wait until another has its place."""
        self._end(name, signal.SIGKILL)

    def stop_for_good(self, name: str) -> None:
        """SIGSTOP a process and wait until it is replaced."""
        self._end(name, signal.SIGSTOP)

    def _end(self, name: str, number: signal.Signals) -> None:
        holds_connections = name.startswith("gateway")
        if holds_connections:
            self.history.write(DOWN, who=name)
        self.until_replaced(name, self.send(name, number))
        if holds_connections:
            self.history.write(UP, who=name)

    def until_replaced(self, name: str, pid: int) -> None:
        wait.until(lambda: self.appliance.is_replaced(name, pid), 60, f"another {name} than {pid}")

    def stop_for(self, name: str, seconds: float) -> None:
        """SIGSTOP a process, SIGCONT it later; it may have been replaced meanwhile."""
        holds_connections = name.startswith("gateway")
        pid = self.send(name, signal.SIGSTOP)
        wait.pause(seconds)
        if holds_connections and self.appliance.is_replaced(name, pid):
            self.history.write(DOWN, who=name)
            self.history.write(UP, who=name)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def kill_daemon(self) -> None:
        """SIGKILL the daemon and see that its whole tree goes with it. The caller starts it again."""
        self.history.write(DOWN, who="daemon")
        self.appliance.send(signal.SIGKILL)
        self.appliance.wait_end()

    def stop_daemon(self) -> None:
        """SIGTERM; the load goes on and waits. The caller starts it again."""
        self.history.write(DOWN, who="daemon")
        status = self.appliance.stop()
        if status:
            self.problems.append(f"the daemon ended with status {status} after SIGTERM")

    def start_daemon(self) -> None:
        self.appliance.start_ready()
        self.history.write(UP, who="daemon")

    # -- its disk ---------------------------------------------------------------------------

    def use_disk(self, folder: Path, size_mib: int) -> None:
        """Have a folder of the appliance on a disk of its own; for `prepare`."""
        self._disk = Disk(folder, self.appliance.folder / "disk.img", size_mib)
        self.cleanups.append(self._disk.remove)

    @property
    def disk(self) -> Disk:
        assert self._disk is not None, "prepare made none"
        return self._disk

    def check(self, holds: bool, text: str) -> None:
        """Note a problem unless something holds."""
        if not holds:
            self.problems.append(text)
