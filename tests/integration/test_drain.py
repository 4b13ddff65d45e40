"""SIGTERM under load: what is held is finished, what is new is sent away, and the end comes by its deadline."""

from __future__ import annotations

import asyncio
import signal
import time

import aiohttp
import pytest

from tests import wait
from tests.client import Client, Reply, talk
from tests.harness import FAST_CONFIG, Appliance, write_fake
from tests.integration.oracle import vector

HELD = 20


def test_held_requests_are_finished_and_new_ones_sent_away(appliance: Appliance) -> None:
    write_fake(appliance.models, a_ms=700)
    appliance.start_ready()

    async def conversation(client: Client) -> tuple[list[Reply], list[Reply | BaseException]]:
        held = [asyncio.ensure_future(client.embed(f"held {n}")) for n in range(HELD)]
        await wait.until_async(lambda: client.holds(HELD), 10)
        appliance.send(signal.SIGTERM)
        await wait.until_async(lambda: "gateway" in appliance.log and "state=draining in_flight" in appliance.log, 10)
        new = await asyncio.gather(*(client.embed("new") for _ in range(5)), return_exceptions=True)
        return list(await asyncio.gather(*held)), list(new)

    held, new = talk(appliance.url, conversation)
    assert appliance.wait_exit() == 0
    assert [reply.vectors[0] for reply in held] == [pytest.approx(vector(f"held {n}")) for n in range(HELD)]
    for one in new:
        if isinstance(one, Reply):
            assert (one.status, one.error["code"]) == (503, "unavailable")
            assert int(one.headers["retry-after"]) >= 1
        else:
            assert isinstance(one, aiohttp.ClientConnectorError)
    assert any(isinstance(one, Reply) for one in new)


def test_what_hangs_does_not_hold_up_the_end(appliance: Appliance) -> None:
    appliance.config.write_text(FAST_CONFIG + "drain_timeout_s = 1.0\n")
    write_fake(appliance.models, fail_marker="arsenic", fail_mode="hang")
    appliance.start_ready()

    async def conversation(client: Client) -> float:
        hanging = asyncio.ensure_future(client.embed("arsenic"))
        await wait.until_async(lambda: client.holds(1), 10)
        start = time.monotonic()
        appliance.send(signal.SIGTERM)
        await asyncio.wait([hanging])
        assert isinstance(hanging.exception(), aiohttp.ClientError)
        return start

    start = talk(appliance.url, conversation)
    assert appliance.wait_exit() == 0
    assert time.monotonic() - start < 10
    assert "not drained in time" in appliance.log


def test_a_second_signal_while_it_drains_changes_nothing(appliance: Appliance) -> None:
    write_fake(appliance.models, a_ms=500)
    appliance.start_ready()

    async def conversation(client: Client) -> Reply:
        held = asyncio.ensure_future(client.embed("held"))
        await wait.until_async(lambda: client.holds(1), 10)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            appliance.send(number)
        return await held

    assert talk(appliance.url, conversation).status == 200
    assert appliance.wait_exit() == 0


def test_the_command_drains_and_tells_when_it_is_over(appliance: Appliance) -> None:
    write_fake(appliance.models, a_ms=300)
    appliance.start_ready()

    async def conversation(client: Client) -> tuple[Reply, int, str]:
        held = asyncio.ensure_future(client.embed("held"))
        await wait.until_async(lambda: client.holds(1), 10)
        done = await asyncio.get_running_loop().run_in_executor(
            None, appliance.command, "drain", "--config", str(appliance.config), "--data", str(appliance.data)
        )
        return await held, done.returncode, done.stdout

    held, status, text = talk(appliance.url, conversation)
    assert (held.status, status) == (200, 0)
    assert text.startswith("Drained and stopped after")
    assert appliance.wait_exit() == 0
    again = appliance.command("drain", "--json", "--data", str(appliance.data))
    assert (again.returncode, '"not running"' in again.stdout) == (3, True)
