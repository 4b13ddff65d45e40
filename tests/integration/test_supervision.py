"""Keeper and Process over real children: some scenes, and a state machine that looks for the ones nobody thought of."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from appliance.supervisor.process import Process
from appliance.supervisor.restart import Backoff
from appliance.supervisor.supervisor import Keeper, Supervisor
from tests import wait

T = TypeVar("T")

CHILD = Path(__file__).with_name("tiny_child.py")
SOON_S = 20.0
SILENT_S = 0.4
NEVER_S = 3600.0


class Script:
    """Makes children that behave as the next word says; "ready" once the words are used up."""

    def __init__(self, *modes: str) -> None:
        self.modes = deque(modes)
        self.made: list[str] = []

    def __call__(self) -> Process:
        mode = self.modes.popleft() if self.modes else "ready"
        self.made.append(mode)
        return Process("tiny", [sys.executable, "-I", "-S", str(CHILD), mode], first_line=b"{}\n")

    def keeper(self) -> Keeper:
        return Keeper(self, Backoff(0.01, 0.05), SILENT_S, NEVER_S)


def living() -> list[int]:
    """Return the pids of every tiny child of ours that lives."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if str(CHILD) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.NoSuchProcess:
            pass
    return found


def run(scene: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(scene)
        assert living() == []
    finally:
        for pid in living():
            psutil.Process(pid).kill()


def is_well(keeper: Keeper) -> bool:
    return (keeper.status.state, keeper.status.reason) == ("ready", "")


def deadline(seconds: float = SOON_S) -> float:
    return time.monotonic() + seconds


def test_a_child_that_dies_is_started_again_with_its_reason_told() -> None:
    async def scene() -> None:
        script = Script()
        keeper = script.keeper()
        assert await keeper.start()
        pid = keeper.status.pid
        psutil.Process(pid).kill()
        await wait.until_async(lambda: keeper.status.state == "waiting to restart" or keeper.restarts, SOON_S)
        await wait.until_async(lambda: is_well(keeper) and keeper.status.pid != pid, SOON_S)
        assert keeper.restarts == 1
        await keeper.stop(deadline())

    run(scene())


@pytest.mark.parametrize(
    ("mode", "state", "reason"),
    [
        ("cannot", "failed", "scripted: no such thing"),
        ("dies", "waiting to restart", "exited with status 3"),
        ("silent", "waiting to restart", "not ready within 0.4 s"),
    ],
)
def test_a_first_start_that_fails_says_why(mode: str, state: str, reason: str) -> None:
    async def scene() -> None:
        keeper = Keeper(Script(mode), Backoff(60.0, 60.0), SILENT_S, NEVER_S)
        assert not await keeper.start()
        await wait.until_async(lambda: keeper.status.state == state, SOON_S)
        assert keeper.status.reason == reason
        await keeper.stop(deadline())

    run(scene())


def test_a_child_that_said_it_cannot_start_is_left_alone() -> None:
    async def scene() -> None:
        script = Script("cannot")
        supervisor = Supervisor()
        assert not await supervisor.start(script.keeper())
        assert await supervisor.start(Script().keeper())
        assert script.made == ["cannot"]
        assert supervisor.statuses()["tiny"]["restarts"] == 0
        await supervisor.stop(deadline())

    run(scene())


def test_a_program_that_does_not_exist_is_told_and_left_alone() -> None:
    async def scene() -> None:
        keeper = Keeper(
            lambda: Process("none", ["/nowhere/at/all"], first_line=b"{}\n"), Backoff(0.01, 0.01), 1, NEVER_S
        )
        assert not await keeper.start()
        assert (keeper.status.state, keeper.status.reason) == (
            "failed",
            "/nowhere/at/all cannot be executed: No such file or directory.",
        )
        await keeper.stop(deadline())

    run(scene())


def test_a_child_that_does_not_hear_is_killed_at_the_deadline() -> None:
    async def scene() -> None:
        keeper = Script("deaf").keeper()
        assert await keeper.start()
        start = time.monotonic()
        await keeper.stop(deadline(0.3))
        assert 0.3 <= time.monotonic() - start < 10

    run(scene())


def test_a_stop_in_the_middle_of_a_start_leaves_nobody() -> None:
    async def scene() -> None:
        keeper = Script("silent").keeper()
        starting = asyncio.ensure_future(keeper.start())
        await wait.until_async(lambda: living(), SOON_S)
        await keeper.stop(deadline())
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)

    run(scene())


def test_a_child_that_is_there_and_says_nothing_is_started_again() -> None:
    async def scene() -> None:
        keeper = Keeper(Script(), Backoff(0.01, 0.05), SILENT_S, 1.0)  # this child speaks once, when it is ready
        assert await keeper.start()
        pid = keeper.status.pid
        await wait.until_async(lambda: keeper.restarts == 1, SOON_S)
        assert keeper.status.pid != pid
        await keeper.stop(deadline())

    run(scene())


def test_a_stop_that_meets_an_answer_to_a_probe_is_not_lost() -> None:
    """What asyncio.wait_for did before Python 3.12: it returned the answer, and its cancellation was forgotten."""

    async def scene() -> None:
        probes: list[str] = []

        async def probe() -> bool:
            probes.append("asked")
            if len(probes) == 2:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    probes.append("swallowed")
            return True

        argv = [sys.executable, "-c", "import signal; signal.pause()"]
        keeper = Keeper(lambda: Process("probed", argv, probe=probe), Backoff(60.0, 60.0), SOON_S, NEVER_S)
        assert await keeper.start()
        await wait.until_async(lambda: len(probes) > 1, SOON_S)
        stopping = asyncio.ensure_future(keeper.stop(deadline()))
        await wait.until_async(stopping.done, SOON_S)
        assert probes[2] == "swallowed"

    run(scene())


def test_renewing_drains_the_old_one_and_counts_no_failure() -> None:
    async def scene() -> None:
        script = Script()
        keeper = script.keeper()
        assert await keeper.start()
        pid = keeper.status.pid
        assert await keeper.renew(SOON_S)
        assert is_well(keeper)
        assert keeper.status.pid != pid
        assert keeper.restarts == 0
        script.modes.append("cannot")
        assert not await keeper.renew(SOON_S)
        assert keeper.status.reason == "scripted: no such thing"
        assert await keeper.renew(SOON_S)  # what was given up is tried again
        assert is_well(keeper)
        await keeper.stop(deadline())

    run(scene())


def test_children_stop_in_the_reverse_of_their_start() -> None:
    async def scene() -> None:
        stopped: list[str] = []

        class Recorded(Keeper):
            async def stop(self, deadline: float) -> None:
                stopped.append(label[self])
                await super().stop(deadline)

        label: dict[Keeper, str] = {}
        supervisor = Supervisor()
        for name in ("first", "second", "third"):
            keeper = Recorded(Script(), Backoff(0.01, 0.05), 10, NEVER_S)
            label[keeper] = name
            assert await supervisor.start(keeper)
        await supervisor.stop(deadline())
        assert stopped == ["third", "second", "first"]

    run(scene())


class KeeperMachine(RuleBasedStateMachine):
    """Any order of deaths, bad starts and stops: one child at most, and a status that tells the truth."""

    @initialize(modes=st.lists(st.sampled_from(["dies", "silent", "cannot"]), max_size=1))
    def start(self, modes: list[str]) -> None:
        self.loop = asyncio.new_event_loop()
        self.script = Script(*modes)
        self.keeper = self.script.keeper()
        self.stopped = False
        self.is_given_up = "cannot" in modes
        assert self._do(self.keeper.start()) == (not modes)
        self._settle()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, SOON_S))

    def _settle(self) -> None:
        """Wait until it has done all that it does by itself."""

        def is_settled() -> bool:
            has_ended = self.keeper.status.state == "failed" if self.is_given_up else is_well(self.keeper)
            return has_ended and not self.script.modes

        self._do(wait.until_async(is_settled, SOON_S))

    @precondition(lambda self: not self.stopped and not self.is_given_up)
    @rule(modes=st.lists(st.sampled_from(["dies", "silent", "cannot"]), max_size=2))
    def the_child_is_killed(self, modes: list[str]) -> None:
        if "cannot" in modes:
            modes = modes[: modes.index("cannot") + 1]
            self.is_given_up = True
        self.script.modes.extend(modes)
        pid, restarts = self.keeper.status.pid, self.keeper.restarts
        psutil.Process(pid).kill()
        expected = restarts + len(modes) + (not self.is_given_up)
        self._do(wait.until_async(lambda: self.keeper.restarts == expected, SOON_S))
        self._settle()
        assert self.is_given_up or self.keeper.status.pid != pid

    @rule()
    def it_is_stopped(self) -> None:
        self._do(self.keeper.stop(deadline()))
        self.stopped = True

    @invariant()
    def one_child_lives_exactly_when_the_status_says_so(self) -> None:
        if not hasattr(self, "keeper"):
            return
        status = self.keeper.status
        if self.stopped or self.is_given_up:
            assert living() == []
        else:
            assert (status.state, status.reason) == ("ready", "")
            assert living() == [status.pid]

    @invariant()
    def every_start_after_the_first_is_counted(self) -> None:
        if hasattr(self, "keeper"):
            assert self.keeper.restarts == len(self.script.made) - 1

    def teardown(self) -> None:
        if hasattr(self, "keeper"):
            self._do(self.keeper.stop(deadline()))
            self.loop.close()
            assert living() == []


KeeperMachine.TestCase.settings = settings(
    max_examples=10, stateful_step_count=6, deadline=None, suppress_health_check=list(HealthCheck)
)
test_a_keeper_in_any_order_of_events = KeeperMachine.TestCase
