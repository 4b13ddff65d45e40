"""Who goes first, who is refused, and what is run once: the whole way, with callers of several kinds at once."""

from __future__ import annotations

import asyncio
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import wait
from tests.client import Client, Reply, talk
from tests.harness import FAST_CONFIG, Appliance, running, write_fake
from tests.integration.oracle import vector

SMALL_BATCHES = FAST_CONFIG.replace("[supervisor]", "batch_items = 8\n[supervisor]")


def metric(appliance: Appliance, name: str, **labels: str) -> float:
    text = appliance.get("/metrics").body.decode()
    wanted = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    found = re.search(rf"^{name}\{{{wanted}\}} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_a_person_waits_for_one_batch_of_an_import_not_for_the_import(appliance: Appliance) -> None:
    appliance.config.write_text(SMALL_BATCHES)
    write_fake(appliance.models, a_ms=100)
    with running(appliance):

        async def conversation(client: Client) -> list[float]:
            await asyncio.gather(*(client.embed(f"warm {n}") for n in range(8)))
            bulk = {"X-Work-Class": "bulk", "Authorization": "Bearer import"}
            texts = [f"text {number}" for number in range(32)]
            imports = [
                asyncio.ensure_future(client.embed([*texts, str(n)], headers=bulk)) for n in range(16)
            ]  # 66 batches, nearly seven seconds
            await wait.until_async(lambda: client.holds(16), 10)
            times = []
            for number in range(10):
                start = time.monotonic()
                reply = await client.embed(f"person {number}")
                times.append(time.monotonic() - start)
                assert reply.vectors[0] == pytest.approx(vector(f"person {number}"))
            assert not all(one.done() for one in imports)
            assert {one.status for one in await asyncio.gather(*imports)} == {200}
            return times

        times = sorted(talk(appliance.url, conversation))
        assert times[-2] < 0.1 + 1.5 * 0.1 + 0.25  # its own batch, one of the import, and a busy machine


def test_two_keys_share_a_lane_evenly_however_many_callers_each_has(appliance: Appliance) -> None:
    appliance.config.write_text(SMALL_BATCHES)
    write_fake(appliance.models, a_ms=30)
    with running(appliance):

        async def one(client: Client, key: str, callers: int, requests: int) -> float:
            left = list(range(requests))

            async def caller() -> None:
                while left:
                    number = left.pop()
                    headers = {"Authorization": f"Bearer {key}", "X-Work-Class": "bulk"}
                    assert (await client.embed(f"{key} {number} text", headers=headers)).status == 200

            await asyncio.gather(*(caller() for _ in range(callers)))
            return time.monotonic()

        async def conversation(client: Client) -> list[float]:
            await asyncio.gather(*(client.embed(f"warm {n}") for n in range(100)))
            start = time.monotonic()
            ends = await asyncio.gather(one(client, "many", 100, 600), one(client, "some", 50, 600))
            return [end - start for end in ends]

        many, some = talk(appliance.url, conversation)
        assert abs(many - some) / max(many, some) < 0.25


def test_too_much_is_refused_at_once_and_whoever_comes_back_in_time_is_let_in(appliance: Appliance) -> None:
    appliance.config.write_text(SMALL_BATCHES + "[queue]\nlongest_wait_s = 2.0\n")
    write_fake(appliance.models, a_ms=100)
    with running(appliance):

        async def conversation(client: Client) -> tuple[list[Reply], list[Reply], list[float]]:
            for number in range(6):
                await asyncio.gather(*(client.embed(f"warm {number} {n}") for n in range(16)))
            await asyncio.get_running_loop().run_in_executor(None, wait.pause, 1.2)  # a heartbeat tells the pace
            refusals: list[float] = []

            async def ask(number: int) -> Reply:
                start = time.monotonic()
                reply = await client.embed(f"text {number}")
                if reply.status == 429:
                    refusals.append(time.monotonic() - start)
                return reply

            sleepers = ThreadPoolExecutor(400)
            first = await asyncio.gather(*(ask(number) for number in range(400)))  # five seconds of work at once
            refused = [number for number, reply in enumerate(first) if reply.status == 429]

            async def again(number: int) -> Reply:
                seconds = float(first[number].headers["retry-after"])
                await asyncio.get_running_loop().run_in_executor(sleepers, wait.pause, seconds)
                return await client.embed(f"text {number}")

            return list(first), list(await asyncio.gather(*map(again, refused))), refusals

        first, second, refusals = talk(appliance.url, conversation)
        assert {reply.status for reply in first} == {200, 429}
        assert {reply.error["code"] for reply in first if reply.status == 429} == {"overloaded"}
        assert len(second) > 50
        assert sum(reply.status == 200 for reply in second) >= 0.9 * len(second)
        assert sorted(refusals)[len(refusals) // 2] < 1.0
        assert metric(appliance, "appliance_lane_shed_total", model="fake", **{"class": "interactive"}) >= 50


def test_the_same_request_at_once_runs_once(appliance: Appliance) -> None:
    write_fake(appliance.models, a_ms=300)
    with running(appliance):
        before = metric(appliance, "appliance_lane_admitted_total", model="fake", **{"class": "interactive"})

        async def conversation(client: Client) -> list[Reply]:
            return list(await asyncio.gather(*(client.embed("the same") for _ in range(20))))

        replies = talk(appliance.url, conversation)
        assert {tuple(reply.vectors[0]) for reply in replies} == {tuple(replies[0].vectors[0])}
        after = metric(appliance, "appliance_lane_admitted_total", model="fake", **{"class": "interactive"})
        assert after - before == 1


def test_an_idempotency_key_s_run_outlives_its_caller(appliance: Appliance) -> None:
    write_fake(appliance.models, a_ms=500)
    with running(appliance):
        once = {"Idempotency-Key": "k-1"}
        before = metric(appliance, "appliance_lane_admitted_total", model="fake", **{"class": "interactive"})

        async def conversation(client: Client) -> tuple[Reply, Reply]:
            first = asyncio.ensure_future(client.embed("hello", headers=once))
            await wait.until_async(lambda: client.holds(1), 10)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            return await client.embed("hello", headers=once), await client.embed("other", headers=once)

        again, other = talk(appliance.url, conversation)
        assert again.vectors[0] == pytest.approx(vector("hello"))
        assert (other.status, other.error["code"]) == (422, "idempotency_mismatch")
        after = metric(appliance, "appliance_lane_admitted_total", model="fake", **{"class": "interactive"})
        assert after - before == 1


@pytest.mark.parametrize(
    ("header", "value"), [("X-Work-Class", "urgent"), ("Idempotency-Key", "a b"), ("Idempotency-Key", "x" * 256)]
)
def test_a_header_that_means_nothing_is_refused_by_its_name(appliance: Appliance, header: str, value: str) -> None:
    write_fake(appliance.models)
    with running(appliance):

        async def conversation(client: Client) -> Reply:
            return await client.embed("hello", headers={header: value})

        reply = talk(appliance.url, conversation)
        assert (reply.status, reply.error["param"]) == (400, header)


def test_ready_means_that_an_input_came_through(appliance: Appliance) -> None:
    write_fake(appliance.models, fail_marker="anybody", fail_mode="error")  # a word of the probe
    appliance.start()
    wait.until(lambda: appliance.port, 30)
    wait.until(lambda: "probe" in str(appliance.get("/readyz").json()).lower(), 20, appliance.log)
    assert appliance.get("/readyz").status == 503
    assert appliance.stop() == 0
