"""An input on which the model fails: only it is refused; what shared its batch is answered, and rightly."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests import wait
from tests.client import Client, Reply, embed, talk
from tests.harness import FAST_CONFIG, Appliance, running, write_fake
from tests.integration.oracle import vector

CONFIG = FAST_CONFIG + "[engine]\nbatch_timeout_s = 1.0\n"
ANSWERS = {
    "error": (422, "quarantined"),
    "crash": (422, "quarantined"),
    "hang": (422, "quarantined"),
    "nan": (500, "not_finite"),
}
NEIGHBOURS = 8


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    made = Appliance(tmp_path_factory.mktemp("poison"), CONFIG)
    for mode in ANSWERS:
        write_fake(made.models, mode, a_ms=100, fail_marker="arsenic", fail_mode=mode)
    with running(made):
        yield made


async def together(client: Client, model: str, poison: str = "some arsenic") -> tuple[Reply, list[Reply]]:
    """Send the poison among neighbours while the engine is busy, so that they share a batch."""
    busy = asyncio.ensure_future(client.embed("keeps the engine busy", model))
    await asyncio.wait([busy], timeout=0.03)
    asked = [client.embed(f"neighbour {n}", model) for n in range(NEIGHBOURS)]
    asked.insert(3, client.embed(poison, model))
    replies = list(await asyncio.gather(*asked))
    await busy
    return replies.pop(3), replies


@pytest.mark.parametrize("mode", ANSWERS)
def test_a_poison_input_harms_only_itself(poisoned: Appliance, mode: str) -> None:
    poison, neighbours = talk(poisoned.url, lambda client: together(client, mode))
    assert (poison.status, poison.error["code"], poison.error["param"]) == (*ANSWERS[mode], "input")
    assert [reply.vectors[0] for reply in neighbours] == [
        pytest.approx(vector(f"neighbour {n}")) for n in range(NEIGHBOURS)
    ]
    assert embed(poisoned.url, "afterwards", mode).vectors == [pytest.approx(vector("afterwards"))]


@pytest.mark.parametrize("mode", ANSWERS)
def test_a_poison_input_in_a_list_is_named(poisoned: Appliance, mode: str) -> None:
    reply = embed(poisoned.url, ["fine", "also fine", "arsenic again", "fine"], mode)
    assert (reply.status, reply.error["code"], reply.error["param"]) == (*ANSWERS[mode], "input[2]")
    assert "arsenic" not in reply.error["message"]


def test_an_engine_that_crashed_is_told_with_its_signal(poisoned: Appliance) -> None:
    wait.until(lambda: "killed by SIGSEGV" in poisoned.log, 5)


def test_an_engine_that_hung_is_told_with_the_time(poisoned: Appliance) -> None:
    wait.until(lambda: 'why="a batch ran over 1 s"' in poisoned.log, 5)


def test_two_poison_inputs_at_once_harm_only_themselves(poisoned: Appliance) -> None:
    async def conversation(client: Client) -> tuple[list[Reply], list[Reply]]:
        one, other = await asyncio.gather(together(client, "crash"), together(client, "crash", "arsenic too"))
        return [one[0], other[0]], one[1] + other[1]

    guilty, innocent = talk(poisoned.url, conversation)
    assert [reply.status for reply in guilty] == [422, 422]
    assert [reply.status for reply in innocent] == [200] * (2 * NEIGHBOURS)


def test_a_batch_that_runs_beside_a_poison_one_is_not_blamed(appliance: Appliance) -> None:
    """A CPU runs two batches at once in one engine: what crashes takes the other with it, each time."""
    appliance.config.write_text('[worker]\ndevices = ["cpu"]\n[supervisor]\nrestart_min_s = 0.05\n')
    write_fake(appliance.models, "crash", a_ms=100, fail_marker="arsenic", fail_mode="crash")

    async def conversation(client: Client) -> tuple[Reply, list[Reply]]:
        # Other options make another key, so these never share a batch with the poison, only its engine.
        innocent = [client.embed(f"beside {n}", "crash", dimensions=1 + n) for n in range(4)]
        poison, *others = await asyncio.gather(client.embed("arsenic", "crash"), *innocent)
        return poison, list(others)

    with running(appliance):
        poison, innocent = talk(appliance.url, conversation)
        assert poison.status == 422
        assert [reply.status for reply in innocent] == [200] * 4
