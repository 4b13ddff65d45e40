"""The appliance as its users run it: a process started by its command line, spoken to over HTTP, ended by SIGTERM."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import psutil

from bench import processes
from bench.measure import MeasureError

_POLL_S = 0.02
_READY_S = 120.0
_STOP_S = 45.0


class ApplianceUnderTest:
    """One life of `appliance run` on the data folder `data`; its log is `data`/log."""

    def __init__(self, data: Path, module: str = "appliance", environment: dict[str, str] | None = None) -> None:
        self.data = data
        self._module = module
        self._environment = {**os.environ, **(environment or {})}
        self.port = 0
        self.ready_s = 0.0
        self._popen: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> ApplianceUnderTest:
        self.port = free_port()
        self._log = (self.data / "log").open("wb")
        argv = [sys.executable, "-m", self._module, "run", "--config", str(self.data / "config.toml")]
        argv += ["--data", str(self.data), "--host", "127.0.0.1", "--port", str(self.port)]
        start = time.perf_counter()
        self._popen = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, env=self._environment
        )
        try:
            self._wait_ready(start + _READY_S)
        except BaseException:
            self._stop()
            raise
        self.ready_s = time.perf_counter() - start
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    @property
    def pid(self) -> int:
        assert self._popen is not None
        return self._popen.pid

    def processes(self) -> dict[str, list[psutil.Process]]:
        return processes.by_role(self.pid)

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._asked("GET", "/health"))
        return found

    def embed(self, model: str, text: str, encoding: str = "float") -> bytes:
        """Return the body of the answer to one request."""
        return self._asked("POST", "/v1/embeddings", {"model": model, "input": text, "encoding_format": encoding})

    def _asked(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        """Return the body of a 200. Raises MeasureError for everything else."""
        try:
            status, answer = self._call(method, path, 30.0, body)
        except (OSError, http.client.HTTPException) as exc:
            raise MeasureError(f"The appliance does not answer {path}: {exc}. {self._last_words()}") from exc
        if status != 200:
            raise MeasureError(f"The appliance answered {path} with {status}: {answer[:300].decode(errors='replace')}")
        return answer

    def _call(self, method: str, path: str, timeout_s: float, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            data = json.dumps(body) if body is not None else None
            connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _wait_ready(self, deadline: float) -> None:
        assert self._popen is not None
        while True:
            try:
                if self._call("GET", "/readyz", 1.0)[0] == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass  # the port is not open yet, or nobody has taken it over from the daemon
            if self._popen.poll() is not None:
                raise MeasureError(f"The appliance ended with status {self._popen.returncode}. {self._last_words()}")
            if time.perf_counter() > deadline:
                raise MeasureError(f"The appliance was not ready after {_READY_S:g} s. {self._last_words()}")
            time.sleep(_POLL_S)

    def _last_words(self) -> str:
        return "Its last words:\n" + "\n".join((self.data / "log").read_text(errors="replace").splitlines()[-15:])

    def _stop(self) -> None:
        """SIGTERM, and see that every process is gone. Raises MeasureError where one had to be killed."""
        assert self._popen is not None
        assert self._log is not None
        is_up = self._popen.poll() is None
        members = [one for group in self.processes().values() for one in group] if is_up else []
        self._popen.send_signal(signal.SIGTERM)
        try:
            self._popen.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._log.close()
        _, left = psutil.wait_procs(members, timeout=2.0)
        for process in left:
            process.kill()
        if left or self._popen.returncode:
            status = self._popen.returncode
            raise MeasureError(f"The appliance did not stop cleanly: status {status}, {len(left)} processes left over.")


def free_port() -> int:
    """Return a loopback port that the system gives out as free."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def make_data(data: Path, model_folder: Path, config: str) -> Path:
    """Make a data folder with one model, its files linked where that works, else copied."""
    target = data / "models" / model_folder.name
    shutil.copytree(model_folder, target, copy_function=_link_or_copy)
    (data / "config.toml").write_text(config, encoding="utf-8")
    return data


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def make_fake_model(folder: Path, script: str = "") -> Path:
    """Write a model of the fake runtime; without a script (the section [fake]) it takes no time."""
    folder.mkdir(parents=True)
    (folder / "model.toml").write_text(_FAKE.format(name=folder.name) + script, encoding="utf-8")
    return folder


_FAKE = """schema = 1
name = "{name}"
operations = ["embed"]
runtime = "fake"

[limits]
max_tokens = 512
vocab_size = 30000

[embed]
dimensions = 384
pooling = "mean"
normalize = true
"""
