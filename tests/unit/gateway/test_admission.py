from __future__ import annotations

import asyncio
from typing import cast

import pytest

from appliance.config import Config
from appliance.errors import Overloaded
from appliance.gateway.admission import Admission
from appliance.gateway.fleet import Fleet, Pace
from appliance.gateway.promises import Promises
from appliance.gateway.share import Share
from appliance.wire import subjects
from appliance.wire.subjects import BULK, INTERACTIVE
from appliance.workqueue.held import Held
from appliance.workqueue.windows import Windows
from tests.fakes import FakeClock
from tests.unit.making import item, model

LANE = subjects.lane("m")
BULK_LANE = subjects.lane("m", BULK)


class FakeFleet:
    """A device that does 100 tokens a second and takes 100 at once."""

    def pace(self, name: str) -> Pace:
        return Pace(0.01, 100.0)


class Door:
    """An admission and the windows behind it. `ask` is what a gateway does with a request."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self._worked = 0.0
        self.in_flight = 0
        self.sent: list[Held] = []
        self.windows = Windows(self.sent.append)
        self.admission = Admission(self.windows, cast(Fleet, FakeFleet()), Config(), lambda: self.in_flight, self.clock)
        self.admission.follow([model("m")])

    def ask(self, key: str, body: str, cost: int = 50, timeout_s: float = 60.0, klass: str = INTERACTIVE) -> None:
        lane = subjects.lane("m", klass)
        self.admission.admit(lane, klass, key, cost, timeout_s, body.encode())
        held = Held(item(body, cost=cost), lane, key, 0.0, asyncio.get_running_loop().create_future())
        self.windows.enter(held)

    def let_in(self, key: str, count: int, klass: str = INTERACTIVE) -> int:
        """Ask so often; return how often it was let in."""
        admitted = 0
        for number in range(count):
            try:
                self.ask(key, f"t{number}", klass=klass)
                admitted += 1
            except Overloaded:
                pass
        return admitted

    def work(self, cost: float, part: float = 1.0) -> None:
        """Let the device answer so much of the interactive lane in `part` of its time, and the time pass."""
        self.clock.now += cost * 0.01 / part
        self._worked += cost
        while self.sent and self._worked >= self.sent[0].cost:
            held = self.sent.pop(0)
            held.answer.set_result(None)  # type: ignore[arg-type]
            self._worked -= held.cost
            self.windows.leave(held)


def test_whoever_can_be_answered_in_time_is_let_in_and_nobody_else() -> None:
    async def scenario() -> None:
        door = Door()
        for number in range(14):  # 50 tokens are half a second: seven seconds of work, the newcomers' part of ten
            door.ask("a", f"t{number}")
        with pytest.raises(Overloaded) as caught:
            door.ask("a", "one too many")
        assert caught.value.retry_after_s >= 1

    asyncio.run(scenario())


def test_a_short_time_is_refused_earlier() -> None:
    async def scenario() -> None:
        door = Door()
        for number in range(6):
            door.ask("a", f"t{number}")
        with pytest.raises(Overloaded):
            door.ask("a", "in a hurry", timeout_s=2.0)
        door.ask("a", "not in a hurry")

    asyncio.run(scenario())


def test_one_key_s_backlog_does_not_shut_the_door_for_another() -> None:
    async def scenario() -> None:
        door = Door()
        assert door.let_in("greedy", 100) < 20
        door.ask("person", "hello")

    asyncio.run(scenario())


def test_bulk_work_waits_as_long_as_it_may_and_is_not_in_a_person_s_way() -> None:
    async def scenario() -> None:
        door = Door()
        assert 80 <= door.let_in("import", 200, BULK) <= 90  # 42 s of work, the newcomers' part of a minute
        door.ask("import", "hello")

    asyncio.run(scenario())


def test_when_most_connections_wait_newcomers_are_told_to_come_back() -> None:
    async def scenario() -> None:
        door = Door()
        door.ask("a", "first")
        door.in_flight = int(1024 * 0.9 * 0.7) + 1
        with pytest.raises(Overloaded) as caught:
            door.ask("b", "second")
        door.clock.now += caught.value.retry_after_s
        door.ask("b", "second")
        door.in_flight = 1000
        with pytest.raises(Overloaded):
            door.ask("c", "third")

    asyncio.run(scenario())


def test_a_promise_is_kept_though_the_device_is_a_little_slower_than_was_told_but_not_much_slower() -> None:
    async def scenario() -> None:
        door = Door()
        door.let_in("a", 14)  # seven seconds of work, as it seemed
        told = []
        for text in ("one", "two"):
            with pytest.raises(Overloaded) as caught:
                door.ask("a", text)
            told.append(caught.value.retry_after_s)
        door.clock.now += max(told)
        door.windows.set(LANE, 100.0, 0.015)
        with pytest.raises(Overloaded):
            door.ask("a", "a newcomer")
        door.ask("a", "one")
        door.windows.set(LANE, 100.0, 0.025)
        with pytest.raises(Overloaded):
            door.ask("a", "two")

    asyncio.run(scenario())


def test_nobody_is_refused_while_no_pace_is_known() -> None:
    async def scenario() -> None:
        door = Door()
        door.windows.set(LANE, 0.0, 0.0)
        for number in range(1000):
            door.ask("a", f"t{number}")

    asyncio.run(scenario())


def test_who_comes_back_when_told_to_is_let_in_nine_times_of_ten() -> None:
    async def scenario() -> None:
        door = Door()
        back: list[tuple[float, str]] = []
        returned = admitted = 0
        for number in range(3000):  # 20 requests a second for 2 that can be answered: ten times too many
            now = door.clock.now
            for due, body in [one for one in back if one[0] <= now]:
                back.remove((due, body))
                returned += 1
                try:
                    door.ask("a", body)
                    admitted += 1
                except Overloaded:
                    pass
            try:
                door.ask("a", f"n{number}")
            except Overloaded as exc:
                if exc.retry_after_s < 600:
                    back.append((now + exc.retry_after_s, f"n{number}"))
            door.work(5)
        assert returned > 50
        assert admitted / returned >= 0.9

    asyncio.run(scenario())


@pytest.mark.parametrize("part", [1.0, 0.6])
def test_who_comes_back_is_let_in_though_other_lanes_take_their_part_of_the_device(part: float) -> None:
    async def scenario() -> None:
        door = Door()
        back: list[tuple[float, str]] = [(0.0, f"c{number}") for number in range(100)]
        asked_before: set[str] = set()
        again = returned = 0
        for number in range(4000):  # a hundred callers; each asks anew a second after its answer, or when it is told to
            now = door.clock.now
            for due, body in [one for one in back if one[0] <= now]:
                back.remove((due, body))
                returned += body in asked_before
                try:
                    door.ask("a", body, cost=20)
                    asked_before.discard(body)
                    back.append((now + 8.0, f"{body.split('.')[0]}.{number}"))
                except Overloaded as exc:
                    again += body in asked_before
                    asked_before.add(body)
                    back.append((now + exc.retry_after_s, body))
            door.work(5 * part, part)
            if number % 20 == 0:
                door.admission.follow([model("m")])
        assert returned > 300
        assert again / returned < 0.05

    asyncio.run(scenario())


def test_a_lane_whose_pace_was_not_known_is_not_taken_for_a_slow_one() -> None:
    async def scenario() -> None:
        door = Door()
        door.windows.set(LANE, 100.0, 0.0)
        share = Share(door.windows.lanes[LANE], door.clock)
        for number in range(10):
            door.ask("a", f"t{number}")
        for _ in range(10):
            door.clock.now += 1
            share.follow()
        assert share.part == 1.0

    asyncio.run(scenario())


def test_a_share_is_learnt_while_there_is_work_and_forgotten_while_there_is_none() -> None:
    async def scenario() -> None:
        door = Door()
        share = Share(door.windows.lanes[LANE], door.clock)
        for number in range(14):
            door.ask("a", f"t{number}")
        for _ in range(8):
            door.work(25, 0.25)  # a second, of which the lane gets a quarter
            share.follow()
        assert share.part < 0.5
        while door.sent:
            door.work(50)
        for _ in range(20):
            door.clock.now += 1
            share.follow()
        assert share.part > 0.95

    asyncio.run(scenario())


def test_a_promise_holds_once_and_for_its_time_only() -> None:
    clock = FakeClock()
    promises = Promises(clock)
    after_s = promises.give(LANE, 1, 3.2, 0.5)
    assert after_s == 4
    assert not promises.redeem(1)  # too early
    clock.now += 1
    assert promises.give(LANE, 1, 9.0, 0.5) == 3  # asked again too early: the place stays
    clock.now += 3
    assert promises.redeem(1)
    assert not promises.redeem(1)
    promises.give(LANE, 2, 1.0, 0.5)
    clock.now += 100
    assert not promises.redeem(2)


def test_places_are_given_out_one_after_the_other() -> None:
    promises = Promises(FakeClock())
    told = [promises.give(LANE, number, 2.0, 0.45) for number in range(10)]
    assert told == [2, 3, 3, 4, 4, 5, 5, 6, 6, 7]


def test_promises_are_bounded() -> None:
    clock = FakeClock()
    promises = Promises(clock)
    for number in range(60_000):
        promises.give(LANE, number, 0.0, 0.001)
    assert len(promises) <= 50_000
    clock.now += 1000
    promises.give(LANE, -1, 0.0, 0.001)
    assert len(promises) == 1
