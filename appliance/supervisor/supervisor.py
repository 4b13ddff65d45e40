"""Keeps a set of children alive: restarts the dead with back-off, leaves alone who said that it cannot start."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from appliance import log
from appliance.errors import StartError
from appliance.supervisor.child import CANNOT_START
from appliance.supervisor.process import Process, State
from appliance.supervisor.restart import Backoff, failures_after_exit

_log = log.Logger("supervisor")

_LOOK_S = 1.0
_MISSES = 2
_CANCEL_AGAIN_S = 0.02


@dataclass
class Status:
    """What /health and `appliance status` tell about one child."""

    state: str = State.STOPPED.value
    pid: int = 0
    restarts: int = 0
    reason: str = ""


class Keeper:
    """One child, kept running. `make` builds a fresh Process for each start; the task of `run` is the only writer.

    `overlaps` says that a child and its successor may be there at once, and that SIGUSR1 tells the child of it.
    """

    def __init__(
        self,
        make: Callable[[], Process],
        backoff: Backoff,
        start_timeout_s: float,
        silent_after_s: float,
        *,
        overlaps: bool = False,
    ) -> None:
        self.name = ""
        self.restarts = 0
        self._make = make
        self._backoff = backoff
        self._start_timeout_s = start_timeout_s
        self._silent_after_s = silent_after_s
        self._overlaps = overlaps
        self._process: Process | None = None
        self._failures = 0
        self._given_up = False
        self._reason = ""
        self._waiting = False
        self._task: asyncio.Task[None] | None = None
        self._first_try = asyncio.Event()
        self._old: list[Process] = []
        """Those that were replaced and are not gone yet."""
        self._leaving: asyncio.Task[None] | None = None

    async def start(self) -> bool:
        """Start keeping it. Returns True once it is ready, False if its first start failed."""
        self._task = asyncio.create_task(self._keep())
        await self._first_try.wait()
        return self._process is not None and self._process.state is State.READY

    async def stop(self, deadline: float) -> None:
        """Stop keeping it, then drain it; kill it at `deadline` (monotonic seconds)."""
        await self._forget_task()
        if self._leaving is not None:
            self._leaving.cancel()
            await asyncio.gather(self._leaving, return_exceptions=True)
        everything = [*self._old, self._process] if self._process is not None else self._old
        await asyncio.gather(*(one.stop(deadline) for one in everything))

    async def renew(self, drain_s: float) -> bool:
        """Have a fresh process in the place of the present one; return whether that is ready.

        With `overlaps` the old one serves until the new one does, else it is drained first. What was given up, or
        waits to be started again, is started now.
        """
        await self._forget_task()
        if self._process is not None and not self._process.exited.is_set():
            self._old.append(self._process)
        self._given_up, self._waiting, self._failures, self._reason = False, False, 0, ""
        self._first_try.clear()
        deadline = time.monotonic() + drain_s
        if not self._overlaps:
            await self._let_go(signal.SIGTERM, deadline)
        is_ready = await self.start()
        if is_ready:
            self._leaving = asyncio.create_task(self._let_go(signal.SIGUSR1, deadline))
        return is_ready

    async def _let_go(self, number: signal.Signals, deadline: float) -> None:
        """End those that have been replaced, or are about to be."""
        await asyncio.gather(*(one.stop(deadline, number) for one in self._old))
        self._old = [one for one in self._old if not one.exited.is_set()]

    async def _forget_task(self) -> None:
        # More than once: before Python 3.12 a cancellation that comes with the end of what wait_for waits for, such as
        # an answer to our probe, is swallowed, and a drain would wait for this task for ever.
        while self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_CANCEL_AGAIN_S)

    @property
    def status(self) -> Status:
        process = self._process
        state = (
            State.FAILED
            if self._given_up
            else State.WAITING
            if self._waiting
            else process.state
            if process
            else State.STOPPED
        )
        return Status(state.value, process.pid if process else 0, self.restarts, self._reason)

    async def _keep(self) -> None:
        while not self._given_up:
            await self._run_once()
            self._first_try.set()
            if self._given_up:
                break
            delay_s = self._backoff.delay_s(self._failures)
            _log.warning("process", name=self.name, state="died", reason=self._reason, restart_in_s=delay_s)
            self._waiting = True
            await asyncio.sleep(delay_s)
            self._waiting = False
            self.restarts += 1
        _log.error("process", name=self.name, state="failed", reason=self._reason)

    async def _run_once(self) -> None:
        """Start it and wait for its end; count the failure."""
        process = self._process = self._make()
        self.name = process.name
        try:
            process.start()
        except StartError as exc:
            self._reason, self._given_up = exc.message, True
            return
        if await process.wait_ready(self._start_timeout_s):
            self._first_try.set()
            self._reason = ""
        elif not process.exited.is_set():
            process.reason = f"not ready within {self._start_timeout_s:g} s"
            process.kill()
        await self._until_exited(process)
        ready_for_s = time.monotonic() - process.ready_at if process.ready_at else 0.0
        self._failures = failures_after_exit(self._failures, ready_for_s)
        self._reason = process.reason
        self._given_up = process.exit_status == CANNOT_START

    async def _until_exited(self, process: Process) -> None:
        """Wait for its end, and end it where it has gone silent."""
        misses = 0
        while True:
            asked_at = time.monotonic()
            try:
                await asyncio.wait_for(process.exited.wait(), _LOOK_S)
                return
            except asyncio.TimeoutError:
                pass
            if time.monotonic() - asked_at > 2 * _LOOK_S:
                process.heard_at = time.monotonic()  # it is we who were stopped: what they said is still to be read
                continue
            if process.state is not State.READY or await process.is_alive(self._silent_after_s):
                misses = 0
                continue
            misses += 1
            if misses >= _MISSES and process.state is State.READY:
                _log.warning("process", name=process.name, pid=process.pid, state="killed", why="silent")
                process.kill()
                process.reason = "it was there and did not answer any more, so it was ended"


class Supervisor:
    """The children in their order: started first to last, stopped last to first under one deadline."""

    def __init__(self) -> None:
        self._keepers: list[Keeper] = []

    async def start(self, keeper: Keeper) -> bool:
        """Start one more child and wait for it; False if its first start failed (it may still come up later)."""
        self._keepers.append(keeper)
        return await keeper.start()

    def statuses(self) -> dict[str, dict[str, Any]]:
        return {keeper.name: vars(keeper.status) for keeper in self._keepers}

    async def stop(self, deadline: float) -> None:
        """Drain and stop all, in the reverse of their start; `deadline` is one monotonic instant for all."""
        for keeper in reversed(self._keepers):
            await keeper.stop(deadline)
