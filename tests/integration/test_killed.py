"""SIGKILL under load, one process after the other: no request is lost, and nobody gets another's answer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial

import pytest

from tests import wait
from tests.client import Client, Load, embed, talk
from tests.harness import FAST_CONFIG, Appliance, running, write_fake

CLIENTS = 50


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    made = Appliance(tmp_path_factory.mktemp("killed"), FAST_CONFIG)
    write_fake(made.models, "fake", a_ms=5)
    with running(made):
        yield made


def under_load(appliance: Appliance, role: str, times: int = 1) -> Load:
    """Kill a role's process in the middle of a closed loop, and wait until the loop goes round again."""
    load = Load(CLIENTS)

    async def more(count: int) -> None:
        wanted = load.answered + count
        await wait.until_async(lambda: load.answered >= wanted, 30)

    async def during(load: Load) -> None:
        for _ in range(times):
            await more(200)
            pid = appliance.kill(role)
            await wait.until_async(partial(appliance.has_another, role, pid), 30)
            await more(400)

    async def conversation(client: Client) -> None:
        await load.run(client, during)

    talk(appliance.url, conversation)
    told = f"{load.answered} answered, outage {load.outage_s * 1e3:.0f} ms, {len(load.broken)} reset"
    print(f"{role} killed {times}x: {told}")
    return load


@pytest.mark.parametrize("role", ["engine", "worker", "nats-server"])
def test_killing_a_process_costs_no_request(loaded: Appliance, role: str) -> None:
    load = under_load(loaded, role)
    assert (load.refused, load.wrong, load.broken) == ([], [], [])
    assert load.outage_s < 20
    assert embed(loaded.url, "afterwards").status == 200


def test_killing_the_gateway_costs_its_own_callers_a_reset_at_most(loaded: Appliance) -> None:
    load = under_load(loaded, "gateway")
    assert (load.refused, load.wrong) == ([], [])
    assert len(load.broken) <= CLIENTS
    assert load.outage_s < 20
    assert embed(loaded.url, "afterwards").status == 200


def test_killing_the_broker_again_and_again_costs_no_request(loaded: Appliance) -> None:
    load = under_load(loaded, "nats-server", times=3)
    assert (load.refused, load.wrong, load.broken) == ([], [], [])


def test_what_was_killed_is_told_and_nothing_stays_held(loaded: Appliance) -> None:
    loaded.wait_ready()

    def restarts() -> dict[str, int]:
        return {name: process["restarts"] for name, process in loaded.health()["daemon"]["processes"].items()}

    # The daemon tells once a second.
    wait.until(lambda: restarts() == {"nats-server": 4, "worker virtual0": 1, "gateway0": 1}, 15, str(restarts()))
    wait.until(lambda: loaded.health()["status"] == "ok", 15, str(loaded.health()["problems"]))
    wait.until(lambda: loaded.health()["gateway"]["held_items"] == 0, 5)
    wait.until(lambda: loaded.health()["workers"][0]["held_items"] == 0, 15)
    assert "killed by SIGKILL" in loaded.log


def test_an_engine_s_death_is_told_with_its_signal(loaded: Appliance) -> None:
    pid = loaded.kill("engine")
    line = wait.until(
        lambda: next((entry for entry in loaded.log.splitlines() if f"pid={pid} state=died" in entry), ""), 10
    )
    assert "SIGKILL" in line
    wait.until(loaded.is_ready, 10)


def test_when_the_daemon_is_killed_its_whole_tree_goes_and_a_new_one_starts(appliance: Appliance) -> None:
    write_fake(appliance.models)
    appliance.start_ready()
    assert len(appliance.processes()) == 5
    appliance.send(signal.SIGKILL)
    assert appliance.wait_exit() == -signal.SIGKILL
    appliance.start_ready()
    assert embed(appliance.url, "again").status == 200
    assert appliance.stop() == 0
