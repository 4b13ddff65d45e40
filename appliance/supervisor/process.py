"""One child process, from the parent's side. It says when it is ready; who restarts it is the supervisor's choice."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Any

from appliance import log
from appliance.errors import StartError

_log = log.Logger("process")
_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl  # looked up before any fork: the child must not take locks


class State(Enum):
    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    WAITING = "waiting to restart"
    STOPPING = "stopping"


def _die_with_parent() -> None:
    """In the child, between fork and exec: the kernel kills it when the parent goes, even by SIGKILL."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """Starts `argv` in a session of its own, so that Ctrl-C reaches the daemon alone.

    With `first_line` the child gets a control socket (argv gains `--control-fd N`): the line goes in, reports
    come out. Without it, `probe` tells when the child is up. One writer of `state`: this object's methods.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        first_line: bytes | None = None,
        probe: Callable[[], Awaitable[bool]] | None = None,
        pass_fds: Sequence[int] = (),
        on_report: Callable[[dict[str, Any]], None] | None = None,
        on_exited: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.state = State.STOPPED
        self.reason = ""
        self.pid = 0
        self.ready_at = 0.0
        self.heard_at = 0.0
        """When it last said anything on its control socket; it does so every ALIVE_S."""
        self.exit_status: int | None = None
        self.exited = asyncio.Event()
        self._argv = list(argv)
        self._first_line = first_line
        self._probe = probe
        self._pass_fds = list(pass_fds)
        self._on_report = on_report
        self._on_exited = on_exited
        self._ready = asyncio.Event()
        self._popen: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._pidfd = -1
        self._buffer = b""

    def start(self) -> None:
        """Fork and exec; returns at once. Raises StartError when the program cannot be executed."""
        argv, fds = self._argv, self._pass_fds
        theirs: socket.socket | None = None
        if self._first_line is not None:
            self._control, theirs = socket.socketpair()
            argv, fds = [*argv, "--control-fd", str(theirs.fileno())], [*fds, theirs.fileno()]
        self.state, self.reason = State.STARTING, ""
        try:
            self._popen = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                pass_fds=fds,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        except OSError as exc:
            if self._control is not None:
                self._control.close()
                self._control = None
            self.state, self.reason = State.FAILED, f"{argv[0]} cannot be executed: {exc.strerror}."
            raise StartError(self.reason) from exc
        finally:
            if theirs is not None:
                theirs.close()
        self.pid = self._popen.pid
        self._watch()
        _log.info("process", name=self.name, pid=self.pid, state="started")

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._pidfd = os.pidfd_open(self.pid)
        loop.add_reader(self._pidfd, self._on_exit)
        if self._control is not None and self._first_line is not None:
            self._control.sendall(self._first_line)
            self._control.setblocking(False)
            loop.add_reader(self._control.fileno(), self._on_control)

    def _on_control(self) -> None:
        assert self._control is not None
        try:
            data = self._control.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            return
        self.heard_at = time.monotonic()
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            if line:  # an empty one only says that its loop turns
                self._take_report(json.loads(line))

    def _take_report(self, report: dict[str, Any]) -> None:
        if report["state"] == "ready" and self.state is State.STARTING:
            self._mark_ready()
        elif report["state"] == "failed":
            self.reason = report.get("reason", "")
        if self._on_report is not None:
            self._on_report(report)

    def _mark_ready(self) -> None:
        self.state = State.READY
        self.ready_at = self.heard_at = time.monotonic()
        self._ready.set()
        _log.info("process", name=self.name, pid=self.pid, state="ready")

    def _on_exit(self) -> None:
        assert self._popen is not None
        status = self._popen.poll()
        if status is None:
            return
        if self._control is not None:
            self._on_control()  # the last words, if they are still in the socket
        self.exit_status = status
        self._close()
        if self.state is not State.STOPPING:
            self.reason = self.reason or exit_reason(status)
        self.state = State.STOPPED
        self.exited.set()
        if self._on_exited is not None:
            self._on_exited()

    def _close(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if self._control is not None:
            loop.remove_reader(self._control.fileno())
            self._control.close()
            self._control = None

    async def wait_ready(self, timeout_s: float) -> bool:
        """Return True once it is ready, False if it exits or `timeout_s` passes first."""
        waits = [asyncio.ensure_future(self.exited.wait()), asyncio.ensure_future(self._until_ready())]
        try:
            await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return self.state is State.READY

    async def _until_ready(self) -> None:
        if self._probe is None:
            await self._ready.wait()
            return
        while not await self._probe():
            await asyncio.sleep(0.02)
        if not self.exited.is_set():
            self._mark_ready()

    async def is_alive(self, silent_after_s: float) -> bool:
        """Return False where it is there and does nothing: stopped, or stuck in a call that does not return."""
        if self._first_line is not None:
            return time.monotonic() - self.heard_at < silent_after_s
        return self._probe is None or await self._probe()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.pid and not self.exited.is_set():
            self.state = State.STOPPING
            os.kill(self.pid, number)  # not reaped yet, so the pid is still its own

    async def stop(self, deadline: float, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it by a signal to end; kill at `deadline` (monotonic seconds). Returns when it is gone."""
        if not self.pid or self.exited.is_set():
            return
        self._signal(number)
        try:
            await asyncio.wait_for(self.exited.wait(), max(0.0, deadline - time.monotonic()))
        except asyncio.TimeoutError:
            _log.warning("process", name=self.name, pid=self.pid, state="killed", why="not drained in time")
            self.kill()
            await self.exited.wait()


def exit_reason(status: int) -> str:
    """Say in words how a process ended."""
    if status < 0:
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"
    return f"exited with status {status}"
