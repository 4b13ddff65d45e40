"""SIGSTOP: a process that is there and does nothing is found out, ended and replaced; what it held is answered."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests import wait
from tests.client import Client, Reply, talk
from tests.harness import FAST_CONFIG, Appliance, running, write_fake


@pytest.mark.parametrize("role", ["worker", "nats-server"])
def test_what_a_stopped_process_held_is_answered(appliance: Appliance, role: str) -> None:
    appliance.config.write_text(FAST_CONFIG + "silent_after_s = 1.0\n")
    write_fake(appliance.models, a_ms=5)
    with running(appliance):

        async def conversation(client: Client) -> tuple[list[Reply], float]:
            await client.embed("before")
            process = appliance.find(role)
            process.suspend()
            start = time.monotonic()
            replies = await asyncio.gather(*(client.embed(f"text {number}") for number in range(20)))
            assert appliance.has_another(role, process.pid)
            return list(replies), time.monotonic() - start

        replies, took_s = talk(appliance.url, conversation)
        assert {reply.status for reply in replies} == {200}
        assert took_s < 10


def test_a_stopped_gateway_is_replaced(appliance: Appliance) -> None:
    appliance.config.write_text(FAST_CONFIG + "silent_after_s = 1.0\n")
    write_fake(appliance.models)
    with running(appliance):
        process = appliance.find("gateway")
        process.suspend()
        wait.until(lambda: appliance.has_another("gateway", process.pid), 10, appliance.log)
        wait.until(appliance.is_ready, 10)


def test_a_daemon_that_was_stopped_itself_ends_nobody(appliance: Appliance) -> None:
    appliance.config.write_text(FAST_CONFIG + "silent_after_s = 1.0\n")
    write_fake(appliance.models)
    with running(appliance):
        pids = {process.pid for process in appliance.processes()}
        daemon = appliance.find("daemon")
        daemon.suspend()
        wait.pause(3.0)
        daemon.resume()
        wait.pause(3.0)
        assert {process.pid for process in appliance.processes()} == pids
