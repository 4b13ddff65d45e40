"""Accepted jobs with the real model: the vectors of an interactive request, whatever was killed meanwhile."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests import golden, store, wait
from tests.client import Client, talk
from tests.e2e.conftest import CPU
from tests.golden import MODEL
from tests.harness import Appliance, running
from tests.jobs import accepted, ended, results, state

TEXTS = [f"Sentence number {n} is about rent, cats and the weather of tomorrow." for n in range(400)]


def test_a_job_s_vectors_are_those_of_a_request_though_everything_was_killed(
    tmp_path: Path, minilm_store: Path
) -> None:
    office = Appliance(tmp_path, CPU)
    store.install(minilm_store, office.models)

    async def begin(client: Client) -> str:
        job_id = await accepted(client, TEXTS, MODEL)
        for role in ("engine", "worker", "nats-server"):
            done = (await state(client, job_id))["done"]
            if done < len(TEXTS):
                office.kill(role)
                await wait.until_async(partial(has_more, client, job_id, done), 60)
        return job_id

    async def check(client: Client, job_id: str) -> None:
        assert (await ended(client, job_id))["done"] == len(TEXTS)
        found = await results(client, job_id, 1000)
        for index in (0, 31, 32, 399):
            assert golden.is_close(found[index]["embedding"], await client.vector(TEXTS[index], MODEL))

    with running(office):
        job_id = talk(office.url, begin)
        wait.until(office.is_ready, 60)
        talk(office.url, lambda client: check(client, job_id))


async def has_more(client: Client, job_id: str, done: int) -> bool:
    now = (await state(client, job_id))["done"]
    return bool(now > done or now == len(TEXTS))
