"""Several workers beside each other: each takes one batch at a time, from where it is worth the most."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from typing import Any

import pytest

from tests import wait
from tests.client import Client, Reply, embed, post, talk
from tests.harness import FAST_CONFIG, Appliance, write_fake

TWO = FAST_CONFIG.replace('["virtual0"]', '["virtual0", "virtual1"]')
NAMES = tuple("abcdef")


def workers(appliance: Appliance) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = appliance.health()["workers"]
    return sorted(found, key=lambda worker: str(worker["device"]))


def counted(appliance: Appliance, what: str) -> list[float]:
    return [worker["counters"][what] for worker in workers(appliance)]


def all_ready(appliance: Appliance, names: tuple[str, ...] = NAMES) -> bool:
    found = [[worker["models"][name]["state"] for name in names] for worker in workers(appliance)]
    return len(found) == 2 and all(state == "ready" for states in found for state in states)


async def crowd(client: Client, names: tuple[str, ...], clients: int, seconds: float) -> list[Reply]:
    """Closed loops; client k asks for the k-th model, no two for the same text."""
    end = time.monotonic() + seconds

    async def loop(number: int) -> list[Reply]:
        found: list[Reply] = []
        while time.monotonic() < end:
            found.append(await client.embed(f"client {number}, {len(found)}", names[number % len(names)]))
        return found

    return [reply for found in await asyncio.gather(*map(loop, range(clients))) for reply in found]


def test_many_models_under_load_make_few_large_batches_on_both_devices(appliance: Appliance) -> None:
    """Six models, 96 callers, 16 of a model: were they split as they come, a batch would hold 8 at most."""
    appliance.config.write_text(TWO)
    for name in NAMES:
        write_fake(appliance.models, name, a_ms=60)
    appliance.start_ready()
    wait.until(lambda: all_ready(appliance), 10.0, "every model in memory on both devices")
    replies = talk(appliance.url, lambda client: crowd(client, NAMES, 96, 4.0))
    assert Counter(reply.status for reply in replies) == {200: len(replies)}
    wait.pause(1.1)  # for the last heartbeat
    inputs, batches = counted(appliance, "inputs"), counted(appliance, "batches")
    assert min(inputs) > 0.35 * sum(inputs), "one device did most of it"
    assert sum(inputs) / sum(batches) > 9


def test_one_caller_is_served_at_once_though_nobody_holds_back_work(appliance: Appliance) -> None:
    appliance.config.write_text(TWO)
    for name in NAMES:
        write_fake(appliance.models, name)
    appliance.start_ready()
    wait.until(lambda: all_ready(appliance), 10.0, "every model in memory on both devices")

    async def conversation(client: Client) -> list[float]:
        took = []
        for number in range(60):
            start = time.monotonic()
            assert (await client.embed(f"text {number}", NAMES[number % len(NAMES)])).status == 200
            took.append(time.monotonic() - start)
        return took

    took = sorted(talk(appliance.url, conversation))
    assert took[30] < 0.05, took


def test_a_job_s_items_are_taken_too(appliance: Appliance) -> None:
    appliance.config.write_text(TWO)
    for name in NAMES:
        write_fake(appliance.models, name)
    appliance.start_ready()
    body = {"operation": "embed", "model": "b", "input": [f"text {number}" for number in range(200)]}
    reply = post(appliance.url, json.dumps(body).encode(), "/v1/jobs")
    assert reply.status == 202

    def is_done() -> bool:
        found: str = appliance.get(f"/v1/jobs/{reply.json()['id']}").json()["state"]
        return found == "done"

    wait.until(is_done, 10.0, "the job's end")


def test_a_model_that_nobody_holds_is_loaded_by_one_worker_and_stays_there(appliance: Appliance) -> None:
    """Room for one model each. Both see that a third is asked for; the second one of them finds it held."""
    appliance.config.write_text(TWO.replace("[supervisor]", "memory_bytes = 1000\npreload = false\n[supervisor]"))
    for name in ("a", "b", "c"):
        write_fake(appliance.models, name, memory_bytes=600, load_ms=300)
    appliance.start_ready()
    for name in ("a", "b"):
        assert embed(appliance.url, "text", name).status == 200
    wait.pause(1.1)  # for heartbeats
    held = Counter(
        name for one in workers(appliance) for name, model in one["models"].items() if model["state"] == "ready"
    )
    assert held["a"] == held["b"] == 1, held
    for _ in range(5):
        assert embed(appliance.url, "text", "c").status == 200
    wait.pause(1.1)
    held = Counter(
        name for one in workers(appliance) for name, model in one["models"].items() if model["state"] == "ready"
    )
    assert held["c"] == 1, held
    assert held["a"] + held["b"] == 1, held


@pytest.mark.parametrize("role", ["worker", "nats-server"])
def test_a_death_under_load_loses_nothing(appliance: Appliance, role: str) -> None:
    appliance.config.write_text(TWO)
    for name in NAMES:
        write_fake(appliance.models, name, a_ms=20)
    appliance.start_ready()
    wait.until(lambda: all_ready(appliance), 10.0, "every model in memory on both devices")

    async def conversation(client: Client) -> list[Reply]:
        crowding = asyncio.ensure_future(crowd(client, NAMES, 48, 4.0))
        await wait.until_async(lambda: client.holds(40), 5.0, "a busy appliance")
        appliance.one_of(role).kill()
        return await crowding

    replies = talk(appliance.url, conversation)
    assert Counter(reply.status for reply in replies) == {200: len(replies)}
