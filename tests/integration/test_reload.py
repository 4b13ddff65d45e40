"""SIGHUP: the whole new configuration is in force, or the whole old one, and nobody is turned away meanwhile."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests import wait
from tests.client import Client, Reply, talk
from tests.harness import FAST_CONFIG, Appliance, running, write_fake


def reload(appliance: Appliance, config: str, outcome: str) -> None:
    """Reload, and wait until the daemon says what came of it."""
    before = appliance.log.count(f"state={outcome}")
    appliance.config.write_text(config)
    appliance.send(signal.SIGHUP)
    wait.until(lambda: appliance.log.count(f"state={outcome}") > before, 20, appliance.log)


def test_a_good_configuration_takes_force_under_load_and_nobody_notices(appliance: Appliance) -> None:
    write_fake(appliance.models)
    with running(appliance):

        async def conversation(client: Client) -> list[Reply]:
            stop = asyncio.Event()

            async def load(number: int) -> list[Reply]:
                replies: list[Reply] = []
                while not stop.is_set():
                    replies.append(await client.embed(f"text {number} {len(replies)}"))
                return replies

            callers = [asyncio.ensure_future(load(number)) for number in range(8)]
            config = FAST_CONFIG + "[server]\nmax_inputs = 3\n"
            await asyncio.get_running_loop().run_in_executor(None, reload, appliance, config, "reloaded")
            stop.set()
            return [reply for replies in await asyncio.gather(*callers) for reply in replies]

        replies = talk(appliance.url, conversation)
        assert {reply.status for reply in replies} == {200}

        async def four(client: Client) -> Reply:
            return await client.embed(["a"] * 4)

        refused = talk(appliance.url, four)
        assert (refused.status, "limit is 3" in refused.error["message"]) == (400, True)
        wait.until(lambda: appliance.health()["problems"] == [], 5)
        assert {p["restarts"] for p in appliance.health()["daemon"]["processes"].values()} == {0}


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("[server]\nmax_inputs = 'many'\n", "server.max_inputs"),
        ("[server\n", "not valid TOML"),
        ("[queue]\nmax_memory_bytes = 99999999\n[server]\nmax_inputs = 3\n", "queue.max_memory_bytes can only change"),
    ],
)
def test_a_broken_one_changes_nothing_and_is_told_until_it_is_mended(
    appliance: Appliance, broken: str, why: str
) -> None:
    write_fake(appliance.models)
    with running(appliance):
        pids = {process.pid for process in appliance.processes()}
        reload(appliance, FAST_CONFIG + broken, '"not reloaded"')
        wait.until(lambda: any(why in problem for problem in appliance.health()["problems"]), 5, appliance.log)
        assert {process.pid for process in appliance.processes()} == pids
        reload(appliance, FAST_CONFIG, "reloaded")
        wait.until(lambda: not appliance.health()["problems"], 5, appliance.log)


def test_the_limit_of_the_queue_changes_in_the_stream_that_is_there(appliance: Appliance) -> None:
    write_fake(appliance.models)
    with running(appliance):
        reload(appliance, FAST_CONFIG + "[queue]\nmax_items = 100\n", "reloaded")
        wait.until(appliance.is_ready, 20)
        assert "not restored" not in appliance.log
        assert "stream" not in appliance.log
