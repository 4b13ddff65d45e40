from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.workqueue.held import Held
from appliance.workqueue.windows import Windows
from tests.unit.making import item

LANE = "interactive-m"


class Bench:
    """Windows whose items are answered by hand; `sent` is what has been let into the queue, in order."""

    def __init__(self, limit: float) -> None:
        self.sent: list[Held] = []
        self.windows = Windows(self.sent.append)
        self.windows.set(LANE, limit, 0.001)

    def enter(self, key: str, cost: int) -> Held:
        work = item("x", cost=cost)
        held = Held(work, LANE, key, 0.0, asyncio.get_running_loop().create_future())
        self.windows.enter(held)
        return held

    def answer(self, held: Held) -> None:
        held.answer.set_result(None)  # type: ignore[arg-type]  # only that it is done counts
        self.windows.leave(held)


def run(limit: float, scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario(Bench(limit))

    asyncio.run(whole())


def test_a_newcomer_has_only_the_window_before_it() -> None:
    async def scenario(bench: Bench) -> None:
        for _ in range(1000):
            bench.enter("import", 10)
        assert len(bench.sent) == 10
        bench.enter("person", 10)
        bench.answer(bench.sent[0])
        bench.answer(bench.sent[1])
        assert "person" in {held.key for held in bench.sent[10:]}

    run(100, scenario)


def test_keys_take_turns_by_cost_not_by_number() -> None:
    async def scenario(bench: Bench) -> None:
        for _ in range(400):
            bench.enter("small", 10)
        for _ in range(40):
            bench.enter("large", 100)
        done = 0
        while done < 200:
            bench.answer(bench.sent[done])
            done += 1
        spent = Counter[str]()
        for held in bench.sent[20:200]:
            spent[held.key] += held.cost
        assert 0.8 < spent["small"] / spent["large"] < 1.25

    run(100, scenario)


def test_who_filled_the_window_first_has_that_counted() -> None:
    async def scenario(bench: Bench) -> None:
        for _ in range(100):
            bench.enter("early", 10)
        for _ in range(100):
            bench.enter("late", 10)
        for done in range(60):
            bench.answer(bench.sent[done])
        keys = Counter(held.key for held in bench.sent)
        assert keys["early"] == keys["late"] == 35

    run(100, scenario)


def test_what_is_over_is_forgotten() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(1000):
            bench.answer(bench.enter(f"key {number}", 10))
        assert not bench.windows.lanes[LANE]._ends

    run(100, scenario)


def test_an_item_over_the_whole_window_goes_alone() -> None:
    async def scenario(bench: Bench) -> None:
        first, second = bench.enter("a", 1000), bench.enter("a", 1000)
        assert bench.sent == [first]
        bench.answer(first)
        assert bench.sent == [first, second]

    run(100, scenario)


def test_a_crowd_that_hung_up_is_not_kept_until_its_turn() -> None:
    async def scenario(bench: Bench) -> None:
        held = [bench.enter("crowd", 10) for _ in range(1000)]
        for one in held[1:]:
            one.answer.cancel()
            bench.windows.leave(one)
        window = bench.windows.lanes[LANE]
        assert window.waiting == 0
        assert len(window._queue) <= 1
        assert not window.waiting_of

    run(10, scenario)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50), st.sampled_from("eeeahx")), max_size=80),
    st.integers(1, 100),
)
def test_nothing_is_lost_sent_twice_or_counted_wrong(steps: list[tuple[str, int, str]], limit: int) -> None:
    async def scenario(bench: Bench) -> None:
        entered: list[Held] = []
        open_ones: list[Held] = []
        for key, cost, step in steps:
            if step == "e" or not open_ones:
                entered.append(bench.enter(key, cost))
                open_ones.append(entered[-1])
            elif step == "a":
                running = [one for one in open_ones if one.is_in_window]
                open_ones.remove(running[0])
                bench.answer(running[0])
            else:  # its caller hangs up, at once or after its time was over
                one = open_ones.pop(cost % len(open_ones))
                one.answer.cancel()
                if step == "x":
                    bench.windows.set(LANE, limit, 0.001)
                bench.windows.leave(one)
        window = bench.windows.lanes[LANE]
        assert window.outstanding == sum(one.cost for one in open_ones if one.is_in_window)
        assert window.waiting == sum(one.cost for one in open_ones if not one.is_in_window)
        while open_ones:
            one = next(one for one in open_ones if one.is_in_window)  # somebody always has a turn
            open_ones.remove(one)
            bench.answer(one)
        assert window.outstanding == window.waiting == 0
        assert len(set(map(id, bench.sent))) == len(bench.sent)

    run(limit, scenario)
