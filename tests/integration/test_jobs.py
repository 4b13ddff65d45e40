"""Accepted jobs on a daemon: what they answer, whose they are, and how they end."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests import wait
from tests.client import Client, Reply, talk
from tests.harness import FAST_CONFIG, Appliance, running, write_fake
from tests.integration.oracle import vector
from tests.jobs import accepted, ended, results, state, submit

CONFIG = FAST_CONFIG + "[engine]\nbatch_timeout_s = 1.0\n[queue]\nitem_inputs = 8\n"
TEXTS = [f"text {n}" for n in range(50)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    made = Appliance(tmp_path_factory.mktemp("jobs"), CONFIG)
    write_fake(made.models, fail_marker="arsenic", fail_mode="crash")
    write_fake(made.models, "slow", a_ms=300)
    with running(made):
        yield made


def test_a_job_is_run_and_its_results_are_those_of_an_interactive_request(served: Appliance) -> None:
    async def conversation(client: Client) -> None:
        reply = await submit(client, TEXTS)
        job = reply.json()
        assert (reply.status, reply.headers["location"]) == (202, f"/v1/jobs/{job['id']}")
        assert (job["object"], job["operation"], job["model"], job["total"]) == ("job", "embed", "fake", 50)
        over = await ended(client, job["id"])
        assert (over["state"], over["done"], over["failed"]) == ("done", 50, 0)
        assert over["expires_at"] - over["created_at"] == 7 * 86400
        found = await results(client, job["id"], 7)
        assert [entry["embedding"] for entry in found] == [pytest.approx(vector(text)) for text in TEXTS]

    talk(served.url, conversation)


def test_each_input_of_a_job_stands_for_itself(served: Appliance) -> None:
    texts = [*TEXTS]
    texts[3], texts[20], texts[21] = "word " * 100, "some arsenic here", "arsenic too"

    async def conversation(client: Client) -> None:
        job_id = await accepted(client, texts)
        over = await ended(client, job_id)
        assert (over["state"], over["done"], over["failed"]) == ("done", 47, 3)
        found = await results(client, job_id)
        failed = {entry["index"]: entry["error"]["code"] for entry in found if entry["state"] == "failed"}
        assert failed == {3: "input_too_long", 20: "quarantined", 21: "quarantined"}
        good = [entry for entry in found if entry["state"] == "done"]
        assert [entry["embedding"] for entry in good] == [pytest.approx(vector(texts[e["index"]])) for e in good]

    talk(served.url, conversation)


def test_options_hold_for_a_job_and_what_is_cut_is_told(served: Appliance) -> None:
    async def conversation(client: Client) -> None:
        job_id = await accepted(client, ["a", "word " * 100], truncate=True, dimensions=3)
        assert (await ended(client, job_id))["done"] == 2
        one, other = await results(client, job_id)
        assert one["embedding"] == pytest.approx(vector("a", 3))
        assert (len(other["embedding"]), "truncated" in one, other["truncated"]) == (3, False, True)

    talk(served.url, conversation)


def test_a_job_with_nothing_but_failures_failed(served: Appliance) -> None:
    async def conversation(client: Client) -> None:
        over = await ended(client, await accepted(client, ["word " * 100, "word " * 99]))
        assert (over["state"], over["done"], over["failed"]) == ("failed", 0, 2)

    talk(served.url, conversation)


def test_the_same_idempotency_key_gives_the_same_job(served: Appliance) -> None:
    async def conversation(client: Client) -> None:
        one = await accepted(client, TEXTS, key="k-1")
        assert await accepted(client, TEXTS, key="k-1") == one
        assert await accepted(client, TEXTS, key="k-2") != one
        assert await accepted(client, TEXTS) != one
        reply = await submit(client, TEXTS[:3], key="k-1")
        assert (reply.status, reply.error["code"]) == (422, "idempotency_mismatch")

    talk(served.url, conversation)


def test_a_job_is_its_own_key_s_alone(served: Appliance) -> None:
    async def conversation(client: Client) -> None:
        body = b'{"operation": "embed", "model": "fake", "input": "mine"}'
        mine = (await client.post(body, "/v1/jobs", Authorization="Bearer one")).json()["id"]
        anonymous = await accepted(client, ["anybody's"])
        for job_id, headers in (
            (mine, {}),
            (mine, {"Authorization": "Bearer other"}),
            (anonymous, {"Authorization": "Bearer one"}),
        ):
            for method, path in (("GET", ""), ("GET", "/results"), ("DELETE", "")):
                reply = await client.send(method, f"/v1/jobs/{job_id}{path}", None, **headers)
                assert (reply.status, reply.error["code"]) == (404, "job_not_found")
        listed = (await client.send("GET", "/v1/jobs", Authorization="Bearer one")).json()["data"]
        assert [job["id"] for job in listed] == [mine]

    talk(served.url, conversation)


def test_jobs_are_listed_newest_first(served: Appliance) -> None:
    async def conversation(client: Client) -> None:
        headers = {"Authorization": "Bearer lister"}
        body = b'{"operation": "embed", "model": "fake", "input": "x"}'
        ids = [(await client.post(body, "/v1/jobs", **headers)).json()["id"] for _ in range(5)]
        listed = (await client.send("GET", "/v1/jobs?limit=3", None, **headers)).json()["data"]
        assert [job["id"] for job in listed] == ids[:1:-1]

    talk(served.url, conversation)


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({"model": "fake", "input": "x"}, 400, "invalid_request", "operation"),
        ({"operation": "ocr", "model": "fake", "input": "x"}, 400, "operation_not_supported", "operation"),
        ({"operation": "embed", "model": "nobody", "input": "x"}, 404, "model_not_found", "model"),
        ({"operation": "embed", "model": "fake", "input": []}, 400, "invalid_request", "input"),
        ({"operation": "embed", "model": "fake", "input": ["a", 1]}, 400, "invalid_request", "input[1]"),
        ({"operation": "embed", "model": "fake", "input": "x", "dimensions": 99}, 400, "invalid_request", "dimensions"),
    ],
)
def test_what_cannot_be_a_job_is_refused(
    served: Appliance, body: dict[str, Any], status: int, code: str, param: str
) -> None:
    async def conversation(client: Client) -> Reply:
        return await client.post(json.dumps(body).encode(), "/v1/jobs")

    reply = talk(served.url, conversation)
    assert (reply.status, reply.error["code"], reply.error["param"]) == (status, code, param)


@pytest.mark.parametrize("query", ["?limit=0", "?limit=1001", "?limit=x", "?offset=-1", "?offset=", "?offset=²"])
def test_a_page_that_cannot_be_is_refused(served: Appliance, query: str) -> None:
    async def conversation(client: Client) -> Reply:
        return await client.send("GET", f"/v1/jobs/{await accepted(client, ['x'])}/results{query}")

    assert talk(served.url, conversation).error["param"] in ("limit", "offset")


def test_a_cancelled_job_is_not_run_any_more_and_its_results_are_gone(served: Appliance) -> None:
    async def conversation(client: Client) -> None:
        job_id = await accepted(client, [f"t{n}" for n in range(1500)], "slow")
        await wait.until_async(lambda: running_(client, job_id), 20)
        reply = await client.send("DELETE", f"/v1/jobs/{job_id}")
        assert (reply.status, reply.json()["state"]) == (200, "cancelled")
        assert (await state(client, job_id))["state"] == "cancelled"
        assert await results(client, job_id, 1000) == []
        start = await inputs_run(client)
        await accepted(client, ["after"], "slow")
        # What was in the engine runs to its end; the bulk of the job does not.
        await wait.until_async(lambda: is_idle(client), 20)
        assert await inputs_run(client) - start < 500

    talk(served.url, conversation)


async def running_(client: Client, job_id: str) -> bool:
    return bool((await state(client, job_id))["done"])


async def inputs_run(client: Client) -> float:
    health = (await client.send("GET", "/health")).json()
    return float(health["workers"][0]["counters"]["inputs"])


async def is_idle(client: Client) -> bool:
    health = (await client.send("GET", "/health")).json()
    return bool(health["workers"][0]["held_items"] == 0)


def test_a_person_is_answered_while_a_job_runs(served: Appliance) -> None:
    async def conversation(client: Client) -> None:
        job_id = await accepted(client, [f"t{n}" for n in range(600)], "slow")
        await wait.until_async(lambda: running_(client, job_id), 20)
        assert (await client.embed("me first", "slow")).vectors == [pytest.approx(vector("me first"))]
        assert (await state(client, job_id))["state"] == "running"
        await client.send("DELETE", f"/v1/jobs/{job_id}")

    talk(served.url, conversation)


def test_a_removed_model_s_job_ends_in_errors_that_say_so(served: Appliance) -> None:
    folder = write_fake(served.models, "leaving", a_ms=300)
    wait.until(lambda: ("leaving", "ready") in [(m["name"], m["state"]) for m in served.health()["models"]], 20)

    async def conversation(client: Client) -> None:
        job_id = await accepted(client, [f"t{n}" for n in range(1000)], "leaving")
        await wait.until_async(lambda: running_(client, job_id), 20)
        folder.rename(folder.with_name(".staging-leaving"))
        over = await ended(client, job_id, 40)
        assert over["done"] + over["failed"] == 1000
        assert over["failed"]
        found = await results(client, job_id, 1000)
        assert {entry["error"]["code"] for entry in found if entry["state"] == "failed"} == {"model_not_found"}
        shutil.rmtree(folder.with_name(".staging-leaving"))

    talk(served.url, conversation)


def test_a_job_that_does_not_fit_is_refused_whole(appliance: Appliance) -> None:
    appliance.config.write_text(FAST_CONFIG + "[queue]\nitem_inputs = 8\n[jobs]\nmax_items = 10\n")
    write_fake(appliance.models, a_ms=400)

    async def conversation(client: Client) -> None:
        job_id = await accepted(client, TEXTS)
        reply = await submit(client, TEXTS * 2, key="k")
        assert (reply.status, reply.error["code"]) == (429, "overloaded")
        assert int(reply.headers["retry-after"]) > 0
        assert len((await client.send("GET", "/v1/jobs")).json()["data"]) == 1
        assert (await ended(client, job_id))["done"] == 50

        async def fits() -> bool:  # a result is there a moment before its item leaves the lane
            return (await submit(client, TEXTS, key="k2")).status == 202

        await wait.until_async(fits, 10)
        again = await accepted(client, TEXTS, key="k2")
        assert (await ended(client, again))["done"] == 50

    with running(appliance):
        talk(appliance.url, conversation)


def test_a_job_for_which_the_disk_s_share_is_too_small_leaves_nothing_behind(appliance: Appliance) -> None:
    appliance.config.write_text(FAST_CONFIG + "[queue]\nitem_inputs = 8\n[jobs]\nmax_bytes = 1048576\n")
    write_fake(appliance.models, max_tokens=100_000)
    large = ["long text " * 2000] * 100

    async def conversation(client: Client) -> None:
        reply = await submit(client, large, key="k")
        assert (reply.status, reply.error["code"]) == (429, "overloaded")
        assert (await client.send("GET", "/v1/jobs")).json()["data"] == []
        job_id = await accepted(client, TEXTS, key="k2")
        assert (await ended(client, job_id))["done"] == 50
        reply = await submit(client, large, key="k")  # the key stands for nothing yet
        assert reply.status == 429

    with running(appliance):
        talk(appliance.url, conversation)


def test_a_job_expires_with_its_results(appliance: Appliance) -> None:
    appliance.config.write_text(FAST_CONFIG + "[jobs]\nresults_kept_s = 2.0\n")
    write_fake(appliance.models)

    async def conversation(client: Client) -> None:
        job_id = await accepted(client, TEXTS)

        async def is_gone() -> bool:
            return (await client.send("GET", f"/v1/jobs/{job_id}")).status == 404

        await wait.until_async(is_gone, 15)
        assert (await client.send("GET", "/v1/jobs")).json()["data"] == []

    with running(appliance):
        talk(appliance.url, conversation)


def test_the_command_line_lists_everybody_s_jobs_and_cancels_one(served: Appliance) -> None:
    where = ("--data", str(served.data))

    async def begin(client: Client) -> str:
        body = json.dumps({"operation": "embed", "model": "slow", "input": [f"t{n}" for n in range(500)]}).encode()
        reply = await client.post(body, "/v1/jobs", Authorization="Bearer somebody")
        job_id: str = reply.json()["id"]
        return job_id

    job_id = talk(served.url, begin)
    listed = served.command("jobs", "list", *where)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert job_id in listed.stdout
    (row,) = [row for row in json.loads(served.command("jobs", "list", "--json", *where).stdout) if row["id"] == job_id]
    assert (row["model"], row["total"]) == ("slow", 500)
    assert row["state"] in ("queued", "running")
    cancelled = served.command("jobs", "cancel", job_id, *where)
    assert (cancelled.returncode, cancelled.stdout) == (0, f"Job {job_id} is cancelled.\n")
    assert "cancelled" in served.command("jobs", "show", job_id, *where).stdout
    for wrong in ("job_no", "a.b", "*", ">"):
        refused = served.command("jobs", "cancel", wrong, *where)
        assert refused.returncode == 1
        assert "There is no job" in refused.stderr


def test_items_of_jobs_are_counted_from_acceptance_to_the_disk(served: Appliance) -> None:
    def counted(what: str) -> float:
        text = served.get("/metrics").body.decode()
        found = re.search(rf'^appliance_lane_{what}_total{{class="bulk",model="fake"}} (\S+)$', text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    async def conversation(client: Client) -> None:
        await ended(client, await accepted(client, TEXTS))

    wait.until(lambda: counted("admitted") == counted("answered") + counted("failed"), 10)
    before = counted("admitted"), counted("answered")
    talk(served.url, conversation)
    assert counted("admitted") == before[0] + 7  # fifty texts are seven items of up to eight
    wait.until(lambda: counted("answered") == before[1] + 7, 5)  # a worker tells it with its next heartbeat
