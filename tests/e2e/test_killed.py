"""SIGKILL under load with the real model: every request is answered, and with its own vector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import golden, store, wait
from tests.client import Client, Load, embed, talk
from tests.e2e.conftest import CPU
from tests.golden import MODEL
from tests.harness import Appliance, running


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, minilm_store: Path) -> Iterator[Appliance]:
    made = Appliance(tmp_path_factory.mktemp("killed"), CPU)
    store.install(minilm_store, made.models)
    with running(made):
        yield made


@pytest.mark.parametrize("role", ["engine", "worker", "nats-server"])
def test_killing_a_process_costs_no_request(loaded: Appliance, role: str) -> None:
    load = Load(32, golden.is_close)

    async def during(load: Load) -> None:
        await wait.until_async(lambda: load.answered >= 100, 60)
        loaded.kill(role)
        before = load.answered
        await wait.until_async(lambda: load.answered >= before + 200, 60)

    async def conversation(client: Client) -> None:
        await load.run(client, during, MODEL)

    talk(loaded.url, conversation)
    print(f"{role} killed: {load.answered} answered, outage {load.outage_s * 1e3:.0f} ms")
    assert (load.refused, load.wrong, load.broken) == ([], [], [])
    assert embed(loaded.url, "afterwards", MODEL).status == 200
