from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from appliance.wire import subjects
from appliance.worker.job import Key
from appliance.worker.lanes import Source
from appliance.worker.outlook import Hunger
from appliance.worker.resident import State
from appliance.worker.taking import Taker
from appliance.worker.turns import Turns
from tests.fakes import FakeClock

FULL = 8


class Lane:
    """A lane with so many items in it, and what was asked of it."""

    def __init__(self, lane: str) -> None:
        self.lane = lane
        self.there = 0
        self.delivered = 0
        self.taken: list[int] = []
        self.rings = False

    def __hash__(self) -> int:
        return hash(self.lane)

    async def take(self, count: int) -> int:
        self.taken.append(count)
        came = min(count, self.there)
        self.there -= came
        self.delivered += came
        return came

    def want(self, count: int) -> None:
        self.rings = count > 0

    def withdraw(self) -> None:
        self.rings = False


@dataclass
class World:
    """A taker whose engine and models are as the test says."""

    free_in_s: float = 0.0
    waits_here: str = ""
    states: dict[str, State] = field(default_factory=dict)
    held_elsewhere: set[str] = field(default_factory=set)
    richer: int = 0
    used: list[str] = field(default_factory=list)
    looks: int = 0

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.engine = object()
        self.lanes = {
            (model, stream, klass): Lane(subjects.lane(model, klass))
            for model in ("a", "b", "c")
            for stream, klass in subjects.SOURCES
        }
        outlook = SimpleNamespace(hungry=self.hungry, full_items=lambda model, klass: FULL)
        self.taker = Taker(
            cast(Any, self),
            cast(Any, self),
            cast(Any, SimpleNamespace(outlook=outlook, turns=Turns(0.1))),
            cast(Any, self),
            cast(Any, SimpleNamespace(is_busy=False)),
            cast(Any, SimpleNamespace(hold=self.held_elsewhere.__contains__, with_more_room=lambda free: self.richer)),
            self.clock,
        )

    # What the taker asks of broker, lanes and residency.

    async def call(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        self.looks += 1
        stream = subject.rpartition(".")[2]
        consumers = [
            {"name": one.lane, "num_pending": one.there, "delivered": {"consumer_seq": one.delivered}}
            for (_, its_stream, _), one in self.lanes.items()
            if its_stream == stream
        ]
        return {"total": len(consumers), "consumers": consumers}

    def sources(self) -> list[Source]:
        return [Source(*names, cast(Any, lane)) for names, lane in self.lanes.items()]

    def hungry(self) -> dict[Any, Hunger]:
        key = Key(self.waits_here, "embed", "", (), "interactive") if self.waits_here else None
        return {self.engine: Hunger(self.free_in_s, key)}

    def state_of(self, model_id: str) -> State:
        return self.states.get(model_id, State.READY)

    def engine_for(self, model_id: str) -> object | None:
        return self.engine if self.state_of(model_id) is State.READY else None

    def use(self, model_id: str, since: float) -> None:
        self.used.append(model_id)

    def spare(self, model_id: str) -> None:
        if model_id in self.used:
            self.used.remove(model_id)

    def load_s(self, model_id: str) -> float:
        return 2.0

    @property
    def free_bytes(self) -> float:
        return 0.0

    # What the test does.

    def lane(self, model: str, klass: str = "interactive", stream: str = "LIVE") -> Lane:
        return self.lanes[model, stream, klass]

    def step(self, after_s: float = 0.0) -> float:
        self.clock.now += after_s
        return asyncio.run(self.taker._step())

    def taken(self) -> dict[str, list[int]]:
        return {one.lane: one.taken for one in self.lanes.values() if one.taken}


def test_a_free_engine_gets_one_batch_from_the_longest_line() -> None:
    world = World()
    world.lane("a").there, world.lane("b").there = 3, 6
    world.step()
    assert world.taken() == {"interactive-b": [FULL]}


def test_a_short_line_that_is_old_goes_before_a_long_one_that_is_new() -> None:
    world = World(free_in_s=10.0)
    world.lane("a").there = 2
    world.step()
    world.step(after_s=1.0)
    world.lane("b").there = FULL
    world.free_in_s = 0.0
    world.step(after_s=0.1)
    assert world.taken() == {"interactive-a": [FULL]}


def test_what_is_more_than_a_batch_does_not_make_a_line_worth_more() -> None:
    world = World(free_in_s=10.0)
    world.lane("a").there = FULL
    world.step()
    world.lane("b").there = 50 * FULL
    world.free_in_s = 0.0
    world.step(after_s=0.3)
    assert world.taken() == {"interactive-a": [FULL]}


def test_an_engine_that_is_busy_for_long_gets_nothing_and_costs_no_look() -> None:
    world = World(free_in_s=10.0)
    world.step()
    world.lane("a").there, before = 5, world.looks
    assert world.step(after_s=0.01) > 0.05
    assert (world.taken(), world.looks) == ({}, before)


def test_just_before_it_is_free_it_gets_its_next_batch() -> None:
    world = World(free_in_s=0.002)
    world.lane("a").there = 5
    world.step()
    assert world.taken() == {"interactive-a": [FULL]}


def test_where_some_wait_here_already_only_more_of_the_same_is_of_use() -> None:
    world = World(free_in_s=0.002, waits_here="a")
    world.lane("b").there = FULL
    world.step()
    assert world.taken() == {}
    world.lane("a").there = 2
    world.step(after_s=0.01)
    assert world.taken() == {"interactive-a": [FULL]}


def test_interactive_work_goes_first_and_accepted_jobs_are_taken_when_there_is_nothing_else() -> None:
    world = World()
    world.lane("a", "bulk", "JOBS").there, world.lane("b").there = 50, 1
    world.step()
    assert world.taken() == {"interactive-b": [FULL]}
    world.step(after_s=0.3)
    assert world.taken() == {"interactive-b": [FULL], "bulk-a": [FULL]}


def test_while_there_is_nothing_every_lane_of_callers_who_wait_rings_until_there_is() -> None:
    world = World()
    world.step()
    ringing = {names for names, lane in world.lanes.items() if lane.rings}
    assert ringing == {names for names in world.lanes if names[1] == "LIVE"}
    world.free_in_s = 0.1
    world.taker.adjust()
    assert not any(lane.rings for lane in world.lanes.values())


def test_a_model_that_is_not_in_memory_does_not_ring() -> None:
    world = World(states={"a": State.COLD})
    world.step()
    assert {names[0] for names, lane in world.lanes.items() if lane.rings} == {"b", "c"}


def test_a_model_that_nobody_holds_is_loaded_once_somebody_asks_for_it() -> None:
    world = World(states={"a": State.COLD})
    world.step()
    assert world.used == []
    world.lane("a").there = 1
    world.step(after_s=0.3)
    assert (world.used, world.taken()) == (["a"], {})


def test_those_with_more_room_come_first() -> None:
    world = World(states={"a": State.COLD}, richer=2)
    world.lane("a").there = 1
    world.step()
    world.step(after_s=0.3)
    assert world.used == []
    world.step(after_s=0.4)
    assert world.used == ["a"]


def test_what_another_holds_is_loaded_only_where_its_work_waits_for_longer_than_two_loads() -> None:
    world = World(states={"a": State.COLD}, held_elsewhere={"a"})
    world.lane("a").there = 1
    world.step()
    world.step(after_s=3.0)
    assert world.used == []
    world.step(after_s=1.5)
    assert world.used == ["a"]


def test_what_nobody_waits_for_any_more_is_not_loaded() -> None:
    world = World(states={"a": State.COLD})
    world.lane("a").there = 1
    world.step()
    assert world.used == ["a"]
    world.lane("a").there, world.lane("a").delivered = 0, 1
    world.step(after_s=0.3)
    assert world.used == []


def test_callers_of_a_model_that_failed_here_are_told_unless_another_has_it() -> None:
    world = World(states={"a": State.FAILED}, held_elsewhere={"a"})
    world.lane("a").there = 1
    world.step()
    assert world.taken() == {}
    world.held_elsewhere.clear()
    world.step(after_s=0.3)
    assert set(world.taken()) == {"interactive-a"}
