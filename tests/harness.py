"""Runs the appliance for a test: a data folder with models, the daemon as a subprocess, and an end that is checked."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from tests import wait
from tests.client import Reply, get

START_S = 60.0
STOP_S = 60.0
_TAG = "APPLIANCE_TEST_RUN"
_ROLES = {
    "daemon": "appliance run",
    "nats-server": "nats-server -c",
    "gateway": "appliance.gateway.main",
    "worker": "appliance.worker.main",
    "engine": "appliance.engine.main",
}

FAKE = """\
schema = 1
name = "{name}"
aliases = {aliases}
operations = ["embed"]
runtime = "fake"
[limits]
max_tokens = {max_tokens}
vocab_size = 30000
[embed]
dimensions = 8
pooling = "mean"
normalize = true
[fake]
a_ms = {a_ms}
load_ms = {load_ms}
memory_bytes = {memory_bytes}
fail_marker = "{fail_marker}"
fail_mode = "{fail_mode}"
"""

FAST_CONFIG = """\
[worker]
devices = ["virtual0"]
[supervisor]
restart_min_s = 0.05
"""


def fake_manifest(
    name: str = "fake",
    template: str = FAKE,
    *,
    aliases: tuple[str, ...] = (),
    max_tokens: int = 64,
    a_ms: float = 0.0,
    load_ms: float = 0.0,
    memory_bytes: int = 0,
    fail_marker: str = "",
    fail_mode: str = "error",
) -> str:
    """Return the model.toml of a model of the fake runtime."""
    return template.format(
        name=name,
        aliases=list(aliases),
        max_tokens=max_tokens,
        a_ms=a_ms,
        load_ms=load_ms,
        memory_bytes=memory_bytes,
        fail_marker=fail_marker,
        fail_mode=fail_mode,
    )


def write_fake(models: Path, name: str = "fake", **values: Any) -> Path:
    """Install a model of the fake runtime, whole or not at all, as the store does; `values` as in fake_manifest."""
    return write_model(models, name, fake_manifest(name, **values))


def write_model(models: Path, name: str, manifest: str) -> Path:
    """Install a folder with this model.toml."""
    staged, folder = models / f".staging-{name}", models / name
    staged.mkdir(parents=True)
    (staged / "model.toml").write_text(manifest, encoding="utf-8")
    staged.rename(folder)
    return folder


class Appliance:
    """One daemon and its data folder. `log` is all that its processes have written so far."""

    def __init__(self, folder: Path, config: str = FAST_CONFIG, environ: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.models = self.data / "models"
        self.config = folder / "config.toml"
        self.exit_status: int | None = None
        self._log_path = folder / "log.txt"
        self._out_path = folder / "out.txt"
        self._tag = uuid.uuid4().hex
        self._environ = environ or {}
        self._popen: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self.models.mkdir(parents=True, exist_ok=True)
        self.config.write_text(config, encoding="utf-8")

    # -- life -----------------------------------------------------------------------------------

    def start(self, *options: str) -> None:
        """Start the daemon; returns at once."""
        self._log_start = self._log_path.stat().st_size if self._log_path.exists() else 0
        argv = [sys.executable, "-m", "appliance", "run", "--config", str(self.config), "--data", str(self.data)]
        with self._log_path.open("ab") as log, self._out_path.open("ab") as out:
            self._popen = subprocess.Popen(
                [*argv, *(options or ("--port", "0"))],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                env={**os.environ, **self._environ, _TAG: self._tag},
            )

    def start_ready(self) -> None:
        """Start the daemon and wait until a request would be answered."""
        self.start()
        self.wait_ready()

    def wait_ready(self) -> None:
        wait.until(lambda: self._has_ended() or self.port, START_S, f"listening\n{self.log}")
        wait.until(lambda: self._has_ended() or self.is_ready(), START_S, f"ready\n{self.log}")
        assert not self._has_ended(), self.log

    def is_ready(self) -> bool:
        try:
            return self.get("/readyz").status == 200
        except aiohttp.ClientError:
            return False  # its gateway is not up, or not up again

    def wait_exit(self, timeout_s: float = STOP_S) -> int:
        """Return the exit status once the daemon has ended, and check that none of its processes is left."""
        assert self._popen is not None
        wait.until(self._has_ended, timeout_s, f"end of the daemon\n{self.log}")
        self.exit_status = self._popen.returncode
        self._popen = None
        wait.until(lambda: not self.processes(), 5, f"end of {self.processes()}")
        return self.exit_status

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask the daemon to drain and stop; return its exit status."""
        self.send(number)
        return self.wait_exit()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the daemon alone."""
        assert self._popen is not None
        self._popen.send_signal(number)

    def end(self) -> None:
        """End whatever still runs, however the test went; complain where the daemon alone would have left some."""
        if self._popen is None:
            return
        if not self._has_ended():
            self.send(signal.SIGKILL)
        try:
            self.wait_exit()
        finally:
            for process in self.processes():
                process.kill()

    def _has_ended(self) -> bool:
        return self._popen is not None and self._popen.poll() is not None

    # -- what it is up to -----------------------------------------------------------------------

    @property
    def log(self) -> str:
        """What the present life has written to standard error."""
        return self._log_path.read_bytes()[self._log_start :].decode() if self._log_path.exists() else ""

    @property
    def out(self) -> str:
        return self._out_path.read_text(encoding="utf-8")

    @property
    def port(self) -> int:
        """The port, once the log tells it; 0 before."""
        found = re.search(r"state=listening host=\S+ port=(\d+)", self.log)
        return int(found[1]) if found else 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> Reply:
        return get(self.url + path)

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("/health").json()
        return found

    def processes(self) -> list[psutil.Process]:
        """Return every process of this appliance, whoever its parent is by now."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_TAG) == self._tag
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False

    def find(self, role: str) -> psutil.Process:
        """Return the one process of a role: daemon, nats-server, gateway, worker or engine."""
        (found,) = self._of_role(role)
        return found

    def one_of(self, role: str) -> psutil.Process:
        """Return any process of a role."""
        return self._of_role(role)[0]

    def _of_role(self, role: str) -> list[psutil.Process]:
        found = []
        for process in self.processes():
            try:
                if _ROLES[role] in " ".join(process.cmdline()):
                    found.append(process)
            except psutil.NoSuchProcess:
                pass
        return found

    def has_another(self, role: str, pid: int) -> bool:
        """Return whether the role is filled again, by another process than `pid`."""
        return [process.pid for process in self._of_role(role)] not in ([], [pid])

    def kill(self, role: str) -> int:
        """SIGKILL the process of a role, by its pid; return the pid."""
        process = self.find(role)
        process.kill()
        return process.pid

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another command of the appliance on the same data and configuration."""
        argv = [sys.executable, "-m", "appliance", *arguments]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)


@contextmanager
def running(appliance: Appliance) -> Iterator[Appliance]:
    """Start it, wait until it is ready, and stop it in order at the end: exit status 0 and nothing left."""
    try:
        appliance.start_ready()
        yield appliance
        if appliance.exit_status is None:
            assert appliance.stop() == 0, appliance.log
    finally:
        appliance.end()
