"""More models than a device has room for: loaded at their first use, evicted by age, never more than fits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests import wait
from tests.client import Client, Reply, embed, talk
from tests.harness import FAST_CONFIG, Appliance, write_fake

ROOM = FAST_CONFIG.replace("[supervisor]", "memory_bytes = 1000\n[supervisor]")


def worker(appliance: Appliance) -> dict[str, Any]:
    found: dict[str, Any] = appliance.get("/health").json()["workers"][0]
    return found


def states(appliance: Appliance) -> dict[str, str]:
    return {name: model["state"] for name, model in worker(appliance)["models"].items()}


def settled(appliance: Appliance, is_so: Callable[[dict[str, str]], bool]) -> dict[str, str]:
    """Return the models' states once they are as asked; heartbeats tell them up to a second late."""
    wait.until(lambda: is_so(states(appliance)), 10.0, f"other states than {states(appliance)}")
    return states(appliance)


def test_a_cold_model_is_loaded_at_its_first_use_and_the_one_used_longest_ago_makes_room(appliance: Appliance) -> None:
    appliance.config.write_text(ROOM)
    for name in ("a", "b", "c"):
        write_fake(appliance.models, name, memory_bytes=400, load_ms=50)
    appliance.start_ready()
    assert sorted(settled(appliance, lambda found: [*found.values()].count("ready") == 2).values()) == [
        "cold",
        "ready",
        "ready",
    ]
    wait.pause(1.1)  # they stay that long
    (cold,) = (name for name, state in states(appliance).items() if state == "cold")
    first, second = sorted({"a", "b", "c"} - {cold})
    for name in (first, second, cold):  # so the first is the one used longest ago
        assert len(embed(appliance.url, "text", name).vectors) == 1
    assert settled(appliance, lambda found: found[cold] == "ready") == {first: "cold", second: "ready", cold: "ready"}
    told = worker(appliance)
    assert (told["memory_bytes"], told["budget_bytes"], told["counters"]["evictions"]) == (800, 1000, 1)


def test_models_that_take_turns_in_too_little_room_are_all_answered(appliance: Appliance) -> None:
    """Each keeps the device busy, and there is room for one: a load must wait until it pays, and then come."""
    appliance.config.write_text(ROOM)
    for name in ("a", "b"):
        write_fake(appliance.models, name, memory_bytes=600, load_ms=100, a_ms=20)
    appliance.start_ready()

    async def crowd(client: Client, name: str, end: float) -> list[Reply]:
        found = []
        while time.monotonic() < end:
            found.append(await client.embed("text", name))
        return found

    async def conversation(client: Client) -> list[Reply]:
        end = time.monotonic() + 6.0
        crowds = await asyncio.gather(*(crowd(client, name, end) for name in ("a", "b") for _ in range(4)))
        return [reply for found in crowds for reply in found]

    replies = talk(appliance.url, conversation)
    assert {reply.status for reply in replies} == {200}
    assert {"a", "b"} == {reply.json()["model"] for reply in replies}
    assert len(replies) > 300, "the device spent its time on loads"
    assert 2 <= worker(appliance)["counters"]["evictions"] <= 8


def test_a_pinned_model_stays_and_is_there_from_the_start(appliance: Appliance) -> None:
    appliance.config.write_text(ROOM.replace("memory_bytes", 'pinned = ["z"]\npreload = false\nmemory_bytes'))
    for name in ("a", "b", "z"):
        write_fake(appliance.models, name, memory_bytes=450)
    appliance.start_ready()
    assert settled(appliance, lambda found: found["z"] == "ready") == {"a": "cold", "b": "cold", "z": "ready"}
    assert embed(appliance.url, "text", "a").status == 200
    wait.pause(1.1)
    assert embed(appliance.url, "text", "b").status == 200
    assert settled(appliance, lambda found: found["b"] == "ready") == {"a": "cold", "b": "ready", "z": "ready"}


def test_without_preload_everything_is_cold_and_the_appliance_ready_all_the_same(appliance: Appliance) -> None:
    appliance.config.write_text(FAST_CONFIG.replace("[supervisor]", "preload = false\n[supervisor]"))
    for name in ("a", "b"):
        write_fake(appliance.models, name, load_ms=50)
    appliance.start_ready()
    assert list(states(appliance).values()).count("cold") >= 1  # one is loaded for the probe
    assert embed(appliance.url, "text", "b").status == 200


def test_a_model_that_can_never_fit_says_so_and_harms_nobody(appliance: Appliance) -> None:
    appliance.config.write_text(ROOM.replace("memory_bytes = 1000", f"memory_bytes = {64 << 20}"))
    write_fake(appliance.models, "huge", memory_bytes=100 << 20)
    write_fake(appliance.models, "fits", memory_bytes=10 << 20)
    appliance.start_ready()
    reply = embed(appliance.url, "text", "huge")
    assert reply.status == 503
    assert "needs about 100 MiB, and models may take 64 MiB" in reply.error["message"]
    assert embed(appliance.url, "text", "fits").status == 200


@pytest.mark.parametrize("kill", ["engine", "worker"])
def test_after_a_death_what_was_in_memory_comes_back_within_the_budget(appliance: Appliance, kill: str) -> None:
    appliance.config.write_text(ROOM)
    for name in ("a", "b", "c"):
        write_fake(appliance.models, name, memory_bytes=400)
    appliance.start_ready()
    appliance.kill(kill)
    for name in ("a", "b", "c", "a"):
        assert embed(appliance.url, "text", name).status == 200
    wait.until(lambda: worker(appliance)["memory_bytes"] == 800, 10.0, "two of the three in memory")
