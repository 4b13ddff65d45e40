"""SIGKILL under load, one process after the other: no request is lost, and nobody gets another's answer."""

from __future__ import annotations

import signal
from collections.abc import Iterator

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

    async def during(load: Load) -> None:
        for _ in range(times):
            before = load.answered
            await wait.until_async(lambda: load.answered >= before + 200, 30)
            pid = appliance.kill(role)
            before = load.answered
            await wait.until_async(lambda: [p.pid for p in appliance._of_role(role)] not in ([], [pid]), 30)
            await wait.until_async(lambda: load.answered >= before + 400, 30)

    async def conversation(client: Client) -> None:
        await load.run(client, during)

    talk(appliance.url, conversation)
    print(
        f"{role} killed {times}x: {load.answered} answered, outage {load.outage_s * 1e3:.0f} ms, {len(load.broken)} reset"
    )
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
    wait.until(lambda: loaded.health()["status"] == "ok", 15, str(loaded.health()["problems"]))
    health = loaded.health()
    restarts = {name: process["restarts"] for name, process in health["daemon"]["processes"].items()}
    assert restarts["worker virtual0"] == 1
    assert restarts["gateway0"] == 1
    assert restarts["nats-server"] == 4
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
