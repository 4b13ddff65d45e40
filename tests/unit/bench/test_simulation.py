from __future__ import annotations

import random

import pytest

from bench import simulate
from bench.routers import ROUTERS
from bench.routing.worlds import Policy
from bench.simulation import Simulation, World

FULL_S = 0.04 + 64 * 0.0012


def test_one_device_with_one_model_and_plenty_of_callers_runs_full_batches() -> None:
    seen = Simulation(World((1.0,), clients=300, models=1)).run(20)
    assert seen.mean_batch == 64
    assert seen.per_second == pytest.approx(64 / (FULL_S + 0.001), rel=0.02)


def test_a_lone_caller_waits_for_its_own_batch_only() -> None:
    seen = Simulation(World((1.0, 1.0), clients=1)).run(20)
    assert seen.p50_s == pytest.approx(0.0412 + 0.001, rel=0.01)


@pytest.mark.parametrize("router", [None, *ROUTERS])
def test_every_caller_has_one_request_in_the_house(router: str | None) -> None:
    """Little's law: the callers are as many as a second's requests times what each takes."""
    world = World((1.0, 1.0, 3.0), clients=100)
    seen = Simulation(world, ROUTERS[router]() if router else None).run(60)
    assert seen.per_second * (seen.mean_s + world.turn_s) == pytest.approx(100, rel=0.03)


def test_the_same_seed_gives_the_same_run() -> None:
    one, other = (Simulation(World((1.0,) * 4, clients=64), seed=3).run(5) for _ in range(2))
    assert one == other
    assert one != Simulation(World((1.0,) * 4, clients=64), seed=4).run(5)


@pytest.mark.parametrize("router", ROUTERS)
def test_a_slow_device_holds_up_those_whom_a_router_sent_there(router: str) -> None:
    world = World((1.0, 1.0, 1.0, 3.0), clients=256)
    pulled, pushed = Simulation(world).run(20), Simulation(world, ROUTERS[router]()).run(20)
    assert pulled.per_second > 1.4 * pushed.per_second
    assert pulled.p99_s < pushed.p99_s


def test_a_model_is_loaded_once_where_there_is_room_and_again_where_there_is_not() -> None:
    roomy = Simulation(World((1.0,), clients=32, models=3, room=3)).run(20)
    narrow = Simulation(World((1.0,), clients=32, models=3, room=2)).run(20)
    assert roomy.loads == 0
    assert narrow.loads > 5
    assert narrow.per_second < roomy.per_second


def test_nobody_waits_for_ever_for_a_model_that_is_elsewhere() -> None:
    seen = Simulation(World((1.0,) * 4, clients=256, room=5)).run(20)
    assert seen.p99_s < 3.0


@pytest.mark.parametrize("name", ["two choices", "least outstanding"])
def test_a_router_that_looks_sends_to_the_less_loaded(name: str) -> None:
    assert ROUTERS[name]()([5, 0], random.Random(1)) == 1


def test_round_robin_takes_turns() -> None:
    route = ROUTERS["round robin"]()
    assert [route([0, 0, 0], random.Random(1)) for _ in range(4)] == [0, 1, 2, 0]


def test_the_sustained_rate_is_one_at_which_the_slowest_hundredth_is_answered_in_time() -> None:
    policy = Policy("pull")
    rate = simulate.sustained(policy, 2, 10)
    capacity = World((1.0, 1.0)).capacity
    assert 0.3 * capacity < rate < capacity
    assert simulate.run(policy, World((1.0, 1.0), rate=rate), 10).p99_s <= 0.5
