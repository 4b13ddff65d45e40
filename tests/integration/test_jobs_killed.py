"""SIGKILL while accepted jobs run: each input has exactly one result in the end, whatever was killed."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from appliance.supervisor.nats_server import ADMIN_LOGIN
from appliance.wire.launch import BrokerLogin
from appliance.workqueue.broker import Broker
from appliance.workqueue.jobs import JobStore, Place
from tests import wait
from tests.client import Client, connected, talk
from tests.harness import FAST_CONFIG, Appliance, running, write_fake
from tests.integration.oracle import vector
from tests.jobs import accepted, ended, results, state

CONFIG = FAST_CONFIG.replace("[worker]", "[worker]\nbatch_items = 8") + "[queue]\nitem_inputs = 2\nack_wait_s = 2.0\n"
TEXTS = [f"text {n}" for n in range(200)]


@pytest.fixture
def working(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    made = Appliance(tmp_path_factory.mktemp("jobs"), CONFIG)
    write_fake(made.models, a_ms=60)
    with running(made):
        yield made


async def check(client: Client, job_id: str) -> None:
    """Each input has the one result that is its own."""
    over = await ended(client, job_id)
    assert (over["state"], over["done"], over["failed"]) == ("done", 200, 0)
    found = await results(client, job_id)
    assert [entry["embedding"] for entry in found] == [pytest.approx(vector(text)) for text in TEXTS]


def waiting(appliance: Appliance) -> dict[Place, tuple[str, int]]:
    """Return what the stream JOBS holds, leased items included."""

    async def look() -> dict[Place, tuple[str, int]]:
        broker = Broker(BrokerLogin(**json.loads((appliance.data / "run" / ADMIN_LOGIN).read_text())), "test")
        await broker.start()
        try:
            return await JobStore(broker).waiting()
        finally:
            await broker.stop()

    return asyncio.run(look())


async def has_begun(client: Client, job_id: str, least: int = 1) -> bool:
    return bool((await state(client, job_id))["done"] >= least)


@pytest.mark.parametrize("role", ["nats-server", "worker", "engine", "gateway"])
def test_an_accepted_job_survives_the_death_of(working: Appliance, role: str) -> None:
    async def conversation(client: Client) -> str:
        job_id = await accepted(client, TEXTS)
        await wait.until_async(lambda: has_begun(client, job_id), 20)
        return job_id

    job_id = talk(working.url, conversation)
    pid = working.kill(role)
    wait.until(lambda: working.has_another(role, pid), 20)
    wait.until(working.is_ready, 30)
    talk(working.url, lambda client: check(client, job_id))
    wait.until(lambda: not waiting(working), 15)


def test_accepted_jobs_survive_the_broker_s_death_again_and_again(working: Appliance) -> None:
    async def conversation(client: Client) -> list[str]:
        jobs = [await accepted(client, TEXTS) for _ in range(3)]
        for job_id in jobs:
            await wait.until_async(partial(has_begun, client, job_id, 20), 20)
            assert (await state(client, job_id))["state"] == "running"
            pid = working.kill("nats-server")
            wait.until(partial(working.has_another, "nats-server", pid), 20)
            await wait.until_async(lambda: is_ready(client), 30)
        for job_id in jobs:
            await check(client, job_id)
        return jobs

    talk(working.url, conversation)
    wait.until(lambda: not waiting(working), 15)


async def is_ready(client: Client) -> bool:
    return (await client.send("GET", "/readyz")).status == 200


def test_accepted_jobs_and_their_results_survive_the_whole_daemon_s_death(appliance: Appliance) -> None:
    appliance.config.write_text(CONFIG)
    write_fake(appliance.models, a_ms=60)

    async def begin(client: Client) -> tuple[str, str]:
        over = await accepted(client, TEXTS)
        await ended(client, over)
        job_id = await accepted(client, TEXTS, key="k")
        await wait.until_async(lambda: has_begun(client, job_id, 30), 20)
        return over, job_id

    appliance.start_ready()
    over, job_id = talk(appliance.url, begin)
    appliance.send(signal.SIGKILL)
    appliance.wait_exit()
    with running(appliance):

        async def go_on(client: Client) -> None:
            assert await accepted(client, TEXTS, key="k") == job_id
            await check(client, job_id)
            await check(client, over)

        talk(appliance.url, go_on)


def test_a_gateway_s_death_while_it_accepts_leaves_a_whole_job_or_none(working: Appliance) -> None:
    """The same key afterwards gives one job, be it the first one completed."""

    async def broken(url: str) -> None:
        async with connected(url) as client:
            await accepted(client, TEXTS, key="k")

    async def conversation() -> None:
        asking = asyncio.ensure_future(broken(working.url))
        await asyncio.wait([asking], timeout=0.03)
        working.kill("gateway")
        await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(conversation())
    wait.until(working.is_ready, 30)

    async def again(client: Client) -> None:
        job_id = await accepted(client, TEXTS, key="k")
        await check(client, job_id)
        listed = (await client.send("GET", "/v1/jobs")).json()["data"]
        assert [job["id"] for job in listed] == [job_id]

    talk(working.url, again)
