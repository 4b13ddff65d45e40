"""What one daemon answers while nothing goes wrong."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import struct
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests import wait
from tests.client import Client, Reply, embed, talk
from tests.harness import FAST_CONFIG, Appliance, running, write_fake
from tests.integration.oracle import vector

MARKER = "Zw9-confidential-marker"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    made = Appliance(tmp_path_factory.mktemp("serving"), FAST_CONFIG)
    write_fake(made.models, "fake", aliases=("phoney",))
    write_fake(made.models, "slow", a_ms=300)
    with running(made):
        yield made


def test_one_request_is_answered_in_openai_s_shape(served: Appliance) -> None:
    reply = embed(served.url, "hello office")
    assert reply.vectors == [pytest.approx(vector("hello office"))]
    body = reply.json()
    assert (body["object"], body["model"]) == ("list", "fake")
    assert body["usage"] == {"prompt_tokens": 4, "total_tokens": 4}


def test_each_of_64_concurrent_callers_gets_its_own_answer(served: Appliance) -> None:
    async def conversation(client: Client) -> list[list[float]]:
        return list(await asyncio.gather(*(client.vector(f"caller {n} says {'x ' * (n % 7)}") for n in range(64))))

    vectors = talk(served.url, conversation)
    for number, found in enumerate(vectors):
        assert found == pytest.approx(vector(f"caller {number} says {'x ' * (number % 7)}"))


def test_a_long_list_is_answered_in_its_order(served: Appliance) -> None:
    texts = [f"text {n} " + "w " * (n % 40) for n in range(500)]
    vectors = embed(served.url, texts).vectors
    assert len(vectors) == len(texts)
    for text, found in zip(texts, vectors, strict=True):
        assert found == pytest.approx(vector(text))


def test_calls_that_share_a_batch_each_number_their_own_inputs(served: Appliance) -> None:
    async def conversation(client: Client) -> list[Reply]:
        return list(
            await asyncio.gather(client.embed("a", "slow"), *(client.embed(["b"] * n, "slow") for n in (1, 2, 3)))
        )

    assert [len(reply.vectors) for reply in talk(served.url, conversation)] == [1, 1, 2, 3]


def test_base64_holds_the_bytes_of_the_floats(served: Appliance) -> None:
    floats = embed(served.url, "same").vectors[0]
    packed = embed(served.url, "same", encoding_format="base64").json()["data"][0]["embedding"]
    assert base64.b64decode(packed) == struct.pack("<8f", *floats)


def test_a_cut_vector_is_the_whole_one_s_beginning_renormalised(served: Appliance) -> None:
    assert embed(served.url, "same", dimensions=3).vectors == [pytest.approx(vector("same", 3))]
    assert embed(served.url, "same", dimensions=8).vectors == [pytest.approx(vector("same"))]


@pytest.mark.parametrize("name", ["fake", "FAKE", "phoney", "Phoney"])
def test_names_and_aliases_are_taken_in_any_case_and_the_answer_says_which_model(served: Appliance, name: str) -> None:
    assert embed(served.url, "x", name).json()["model"] == "fake"


@pytest.mark.parametrize("name", ["fake ", " fake", "fake:latest", "fak", "", "../fake", "fake\0", "phoney/fake"])
def test_any_other_name_is_a_404_and_never_another_model(served: Appliance, name: str) -> None:
    reply = embed(served.url, "x", name)
    assert (reply.status, reply.error["code"], reply.error["param"]) == (404, "model_not_found", "model")


@pytest.mark.parametrize("given", ["abc-123", "a" * 128, "trace:1.2_3"])
def test_a_request_id_is_taken_returned_and_logged(served: Appliance, given: str) -> None:
    reply = talk(served.url, lambda client: client.send("GET", "/v1/models", X_Request_Id=given))
    assert reply.headers["x-request-id"] == given
    wait.until(lambda: f"id={given} " in served.log, 5)


@pytest.mark.parametrize("given", ["", "a" * 129, "with space", 'quote"', "ünïcode", "a=b", "%0a"])
def test_a_request_id_that_could_forge_a_line_is_replaced(served: Appliance, given: str) -> None:
    reply = talk(served.url, lambda client: client.send("GET", "/v1/models", X_Request_Id=given))
    made = reply.headers["x-request-id"]
    assert made != given
    assert re.fullmatch(r"[0-9a-f]{16}", made)
    wait.until(lambda: f"id={made} " in served.log, 5)


def test_every_answer_has_a_request_id_of_its_own(served: Appliance) -> None:
    async def conversation(client: Client) -> list[Reply]:
        return [await client.embed("x"), await client.embed("x", "nothing"), await client.send("GET", "/nowhere")]

    ids = {reply.headers["x-request-id"] for reply in talk(served.url, conversation)}
    assert len(ids) == 3


def test_models_are_listed_and_described(served: Appliance) -> None:
    listed = served.get("/v1/models").json()
    assert [entry["id"] for entry in listed["data"]] == ["fake", "slow"]
    one = served.get("/v1/models/phoney").json()
    assert (one["id"], one["object"], one["dimensions"], one["max_tokens"]) == ("fake", "model", 8, 64)
    assert served.get("/v1/models/nothing").error["code"] == "model_not_found"


def test_health_tells_of_every_process_and_no_problem(served: Appliance) -> None:
    wait.until(lambda: served.health()["daemon"], 5)
    health = served.health()
    assert (health["status"], health["ready"], health["problems"]) == ("ok", True, [])
    processes = health["daemon"]["processes"]
    assert set(processes) == {"nats-server", "gateway0", "worker virtual0"}
    assert {process["state"] for process in processes.values()} == {"ready"}
    assert health["workers"][0]["engines"]["fake"]["pid"] == served.find("engine").pid
    assert {model["name"]: model["state"] for model in health["models"]} == {"fake": "ready", "slow": "ready"}


def test_metrics_are_in_prometheus_format_and_count(served: Appliance) -> None:
    def counted() -> dict[str, float]:
        text = served.get("/metrics").body.decode()
        families = {family.name: family for family in text_string_to_metric_families(text)}
        answered = next(
            (
                sample.value
                for sample in families["appliance_requests"].samples
                if sample.name.endswith("_total") and sample.labels == {"route": "/v1/embeddings", "status": "200"}
            ),
            0.0,
        )
        inputs = sum(sample.value for sample in families["appliance_inputs"].samples if sample.name.endswith("_total"))
        batches = sum(s.value for s in families["appliance_worker_batches"].samples)
        return {"answered": answered, "inputs": inputs, "batches": batches}

    before = counted()
    assert embed(served.url, ["a", "b", "c"]).status == 200
    after = wait.until(lambda: (now := counted())["batches"] > before["batches"] and now, 5)
    assert (after["answered"] - before["answered"], after["inputs"] - before["inputs"]) == (1, 3)


def test_no_label_of_a_metric_is_a_client_s_to_choose(served: Appliance) -> None:
    embed(served.url, "x", MARKER)
    served.get(f"/{MARKER}")
    served.get(f"/v1/models/{MARKER}")
    assert MARKER not in served.get("/metrics").body.decode()


def test_no_input_text_is_ever_logged(served: Appliance) -> None:
    async def conversation(client: Client) -> list[Reply]:
        return [
            await client.embed(MARKER),
            await client.embed([MARKER, MARKER]),
            await client.embed(f"{MARKER} " * 100),  # too long
            await client.embed({"text": MARKER}),
            await client.embed(MARKER, dimensions=MARKER),
            await client.embed(MARKER, MARKER),
            await client.post(f'{{"input": "{MARKER}'.encode()),
            await client.post(json.dumps({"input": MARKER}).encode(), Content_Type="text/plain"),
        ]

    replies = talk(served.url, conversation)
    assert [reply.status for reply in replies] == [200, 200, 400, 400, 400, 404, 400, 415]
    last = replies[-1].headers["x-request-id"]
    wait.until(lambda: f"id={last} " in served.log, 5)
    assert MARKER not in served.log


def test_a_caller_who_hangs_up_leaves_nothing_behind_and_disturbs_nobody(served: Appliance) -> None:
    async def conversation(client: Client) -> Reply:
        gone = [asyncio.ensure_future(client.embed(f"gone {n}", "slow")) for n in range(10)]
        stays = asyncio.ensure_future(client.embed("stays", "slow"))

        async def is_held() -> bool:
            health = (await client.send("GET", "/health")).json()
            return bool(health["gateway"]["held_items"] >= 11)

        await wait.until_async(is_held, 5)
        for request in gone:
            request.cancel()
        await asyncio.wait(gone)
        return await stays

    reply = talk(served.url, conversation)
    assert reply.vectors == [pytest.approx(vector("stays"))]
    wait.until(lambda: served.health()["gateway"]["held_items"] == 0, 5)
    wait.until(lambda: served.log.count("status=499") >= 10, 5)
