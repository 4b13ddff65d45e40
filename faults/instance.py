"""The appliance as its users run it: a process of its own, on one port for all its lives, its children by name."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from bench.appliance_under_test import free_port
from faults import wait

ROOT = Path(__file__).resolve().parents[1]
_START_S = 90.0
_STOP_S = 45.0
_TAG = "APPLIANCE_FAULTS_RUN"
_STARTED = re.compile(r'process name="?([^"=]+?)"? pid=(\d+) state=started')


class Instance:
    """One data folder and the daemon's lives on it. `preexec` runs in the daemon's process before it is one."""

    def __init__(self, folder: Path, config: str, environ: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.models = self.data / "models"
        self.config = folder / "config.toml"
        self.log_path = folder / "log"
        self.port = free_port()
        self.preexec: Callable[[], None] | None = None
        self._tag = uuid.uuid4().hex
        self._environ = environ or {}
        self._popen: subprocess.Popen[bytes] | None = None
        self._life_start = 0
        folder.mkdir(parents=True, exist_ok=True)
        self.config.write_text(config, encoding="utf-8")

    # -- life -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the daemon; returns at once."""
        self._life_start = self.log_path.stat().st_size if self.log_path.exists() else 0
        argv = [sys.executable, "-m", "appliance", "run", "--config", str(self.config), "--data", str(self.data)]
        with self.log_path.open("ab") as log:
            self._popen = subprocess.Popen(
                [*argv, "--port", str(self.port)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._environ, _TAG: self._tag},
                preexec_fn=self.preexec,
            )

    def start_ready(self) -> None:
        self.start()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Return once every usable model is ready. Raises TooLate, also where the daemon ended."""
        wait.until(lambda: self.has_ended or self.is_ready(), _START_S, f"ready; {self.last_words()}")
        if self.has_ended:
            raise wait.TooLate(f"it ended instead of being ready; {self.last_words()}")

    def is_ready(self) -> bool:
        try:
            return self.get("/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def wait_end(self, timeout_s: float = _STOP_S) -> int:
        """Return the daemon's exit status once it and all of its children are gone. Raises TooLate."""
        assert self._popen is not None
        wait.until(lambda: self.has_ended, timeout_s, f"end of the daemon; {self.last_words()}")
        status = self._popen.returncode
        self._popen = None
        wait.until(lambda: not self.processes(), 5, "end of the daemon's children")
        return status

    def stop(self) -> int:
        """Ask it to drain and stop; return its exit status."""
        self.send(signal.SIGTERM)
        return self.wait_end()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the daemon alone."""
        assert self._popen is not None
        self._popen.send_signal(number)

    def end(self) -> None:
        """End whatever still runs, by its pid, however things went."""
        if self._popen is not None and self._popen.poll() is None:
            self._popen.kill()
            self._popen.wait()
        self._popen = None
        for process in self.processes():
            process.kill()

    @property
    def has_ended(self) -> bool:
        return self._popen is None or self._popen.poll() is not None

    @property
    def pid(self) -> int:
        assert self._popen is not None
        return self._popen.pid

    # -- its processes ----------------------------------------------------------------------

    def processes(self) -> list[psutil.Process]:
        """Return every process of this instance, whoever its parent is by now."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_TAG) == self._tag
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def pids(self) -> dict[str, int]:
        """Return the latest pid of each name in this life's log: nats-server, gateway0, worker cpu, engine fake."""
        return {name: int(pid) for name, pid in _STARTED.findall(self.log)}

    def pid_of(self, name: str) -> int:
        if name == "daemon":
            return self.pid
        return wait.until(lambda: self.pids().get(name), 10, f"a process {name}")

    def is_replaced(self, name: str, pid: int) -> bool:
        return self.pids().get(name, pid) != pid

    # -- its words --------------------------------------------------------------------------

    @property
    def log(self) -> str:
        """What the present life has written."""
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as file:
            file.seek(self._life_start)
            return file.read().decode(errors="replace")

    def last_words(self) -> str:
        return " / ".join(self.log.splitlines()[-4:])

    def get(self, path: str, timeout_s: float = 2.0) -> tuple[int, bytes]:
        """Return status and body. Raises OSError or HTTPException."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("/health", 5.0)[1])
        return found

    def holds_nothing(self) -> bool:
        """Return whether neither gateway nor workers hold an item any more."""
        try:
            health = self.health()
        except (OSError, http.client.HTTPException, ValueError):
            return False
        held = [worker["held_items"] for worker in health["workers"] if worker["is_fresh"]]
        return not any([health["gateway"]["held_items"], *held])

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another command of the appliance on the same data and configuration."""
        argv = [sys.executable, "-m", "appliance", *arguments, "--config", str(self.config), "--data", str(self.data)]
        return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
