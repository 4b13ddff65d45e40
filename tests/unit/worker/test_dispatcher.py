from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import cast

from appliance.config import Config
from appliance.errors import EngineFailed, InputTooLong, Quarantined
from appliance.wire.items import WorkResult
from appliance.wire.subjects import BULK, INTERACTIVE
from appliance.worker.batcher import Batch, Limits
from appliance.worker.dispatcher import Dispatcher, Finished
from appliance.worker.engine_port import EngineDied
from appliance.worker.residency import Residency
from appliance.workqueue.consumer import Delivery
from tests import wait
from tests.fakes import FakeEngine, FakeResidency
from tests.unit.making import delivery, pieces

LIMITS = Limits(batch_tokens=64, batch_items=8, overhead_tokens=4)


class Bench:
    """A dispatcher between a fake engine and a list of answers."""

    def __init__(self, streams: int = 1) -> None:
        self.engine = FakeEngine(streams)
        self.residency = FakeResidency(self.engine)
        self.answers: dict[str, WorkResult] = {}
        self.twice: list[str] = []
        self.dropped: list[str] = []
        self.set_aside: dict[str, int] = {}
        self.given_back: list[str] = []
        self.now = 0.0
        self.dispatcher = Dispatcher(
            cast(Residency, self.residency),
            LIMITS,
            Config(),
            self._answer,
            self._drop,
            self._set_aside,
            lambda one: self.given_back.append(one.item.item_id),
            self._clock,
        )

    def _clock(self) -> float:
        return self.now

    def _drop(self, one: Delivery) -> None:
        self.dropped.append(one.item.item_id)

    def _set_aside(self, one: Delivery, reason: str, index: int) -> None:
        self.set_aside[one.item.item_id] = index

    def _answer(self, finished: list[Finished]) -> None:
        for one, result in finished:
            if one.item.item_id in self.answers:
                self.twice.append(one.item.item_id)
            self.answers[one.item.item_id] = result

    def add(
        self,
        item_id: str,
        lengths: list[int],
        model_id: str = "fake",
        expires_at: float = math.inf,
        klass: str = INTERACTIVE,
        gateway_id: str = "g",
    ) -> None:
        made = pieces(lengths, model_id, item_id, klass=klass, gateway_id=gateway_id)
        made[0].job.expires_at = expires_at
        self.dispatcher.add(made[0].job, made)

    async def finish_all(self, fails: Callable[[str], bool] = lambda item_id: False) -> None:
        """Let every batch run; one that holds an item for which `fails` is true fails as a whole."""
        while self.engine.batches:
            batch, _ = self.engine.batches[0]
            if any(fails(piece.job.delivery.item.item_id) for piece in batch.pieces):
                self.engine.fail(EngineFailed("scripted"))
            else:
                self.engine.finish()
            await wait.turn()


def run(scenario: Callable[[Bench], Awaitable[None]], streams: int = 1) -> None:
    async def whole() -> None:
        bench = Bench(streams)
        await scenario(bench)
        assert bench.engine.overfilled == []
        assert bench.twice == []

    asyncio.run(whole())


def test_each_item_gets_its_own_outputs_in_order() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(6):
            bench.add(f"i{number}", [2 + number, 9, 1])
        bench.dispatcher.pump()
        await bench.finish_all()
        assert {name: r.outputs for name, r in bench.answers.items()} == {
            f"i{n}": [f"i{n}/{index}".encode() for index in range(3)] for n in range(6)
        }
        assert bench.dispatcher.is_idle
        assert all(not holding.tokens for holding in bench.dispatcher.holding.values())

    run(scenario)


def test_what_gathers_while_the_engine_is_busy_runs_together() -> None:
    async def scenario(bench: Bench) -> None:
        bench.add("first", [4])
        bench.dispatcher.pump()
        for number in range(5):
            bench.add(f"i{number}", [4])
            bench.dispatcher.pump()
        await bench.finish_all()
        assert bench.dispatcher.counters["batches"] == 2
        assert bench.dispatcher.counters["inputs"] == 6

    run(scenario)


def test_the_engine_is_filled_before_answers_go_out() -> None:
    async def scenario(bench: Bench) -> None:
        bench.add("one", [4])
        bench.dispatcher.pump()
        bench.add("two", [4])
        bench.engine.finish()
        await wait.turn()
        assert "one" in bench.answers
        assert bench.engine.running == 1
        await bench.finish_all()

    run(scenario)


def test_a_poison_item_is_answered_with_its_error_and_its_neighbours_with_their_vectors() -> None:
    async def scenario(bench: Bench) -> None:
        bench.add("blocker", [1])
        bench.dispatcher.pump()
        for number in range(7):
            bench.add(f"i{number}", [4])
        await bench.finish_all(lambda item_id: item_id == "i3")
        assert bench.set_aside == {"i3": 0}
        assert not [name for name, r in bench.answers.items() if r.error_code]
        assert bench.dispatcher.is_idle

    run(scenario)


def test_an_input_that_the_engine_names_fails_its_own_item_only() -> None:
    async def scenario(bench: Bench) -> None:
        bench.add("blocker", [1])
        bench.dispatcher.pump()
        bench.add("bad", [4, 4])
        bench.add("good", [4])
        bench.engine.finish()
        await wait.turn()
        batch = bench.engine.batches[0][0]
        position = next(i for i, p in enumerate(batch.pieces) if p.job.delivery.item.item_id == "bad" and p.index == 1)
        bench.engine.finish({position: ("not_finite", "NaN")})
        await wait.turn()
        assert (bench.answers["bad"].error_code, bench.answers["bad"].failed_input) == ("not_finite", 1)
        assert not bench.answers["good"].error_code
        assert bench.dispatcher.is_idle

    run(scenario)


def test_streams_are_kept_full_and_no_more() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(5):
            bench.add(f"i{number}", [60])
        bench.dispatcher.pump()
        assert bench.engine.running == 2
        await bench.finish_all()
        assert len(bench.answers) == 5

    run(scenario, streams=2)


def test_what_waits_for_a_model_that_cannot_be_loaded_is_told_so() -> None:
    async def scenario(bench: Bench) -> None:
        bench.residency.failed["broken"] = "no weights"
        bench.add("one", [4, 4], "broken")
        bench.add("two", [4])
        bench.dispatcher.pump()
        assert bench.answers["one"].error_code == "unavailable"
        assert "no weights" in bench.answers["one"].error_message
        await bench.finish_all()
        assert not bench.answers["two"].error_code
        assert bench.dispatcher.is_idle

    run(scenario)


def test_a_refused_delivery_is_answered_with_the_input_s_number() -> None:
    async def scenario(bench: Bench) -> None:
        bench.dispatcher.refuse(delivery(), 2, InputTooLong("Long."))
        (result,) = bench.answers.values()
        assert (result.error_code, result.failed_input) == ("input_too_long", 2)

    run(scenario)


def test_what_expires_while_it_waits_is_dropped_and_never_run() -> None:
    async def scenario(bench: Bench) -> None:
        bench.add("running", [4])
        bench.dispatcher.pump()
        bench.add("late", [4, 4], expires_at=1.0)
        bench.add("in time", [4], expires_at=9.0)
        bench.now = 2.0
        await bench.finish_all()
        assert bench.dropped == ["late"]
        assert sorted(bench.answers) == ["in time", "running"]
        assert bench.dispatcher.is_idle
        assert all(not holding.tokens for holding in bench.dispatcher.holding.values())

    run(scenario)


def test_what_a_caller_left_is_dropped_at_once_and_its_neighbours_stay() -> None:
    async def scenario(bench: Bench) -> None:
        bench.add("running", [4])
        bench.dispatcher.pump()
        bench.add("left", [4, 4])
        bench.add("stays", [4])
        bench.dispatcher.cancel(["left", "never heard of"])
        assert bench.dropped == ["left"]
        await bench.finish_all()
        assert sorted(bench.answers) == ["running", "stays"]
        assert bench.dispatcher.is_idle

    run(scenario)


def test_an_engine_that_fails_is_not_saved_by_another_that_works() -> None:
    async def scenario(bench: Bench) -> None:
        well = bench.residency.others["well"] = FakeEngine()
        for number in range(2):
            bench.add(f"ill{number}", [4])
            bench.add(f"well{number}", [4], model_id="well")
        bench.dispatcher.pump()
        for _ in range(2):
            bench.engine.fail(EngineFailed("scripted"))
            await wait.turn()
            if well.batches:
                well.finish()
                await wait.turn()
        assert len(bench.engine.killed) == 1
        assert well.killed == []

    run(scenario)


def test_a_success_that_was_on_its_way_before_the_failure_does_not_speak_for_the_engine() -> None:
    async def scenario(bench: Bench) -> None:
        bench.add("ill", [4], model_id="a")
        bench.add("lucky", [4], model_id="b")
        bench.dispatcher.pump()
        bench.now = 1.0
        bench.engine.fail(EngineFailed("sticky"))
        await wait.turn()
        bench.engine.finish()  # sent before the device broke
        await wait.turn()
        bench.engine.fail(EngineFailed("sticky"))
        await wait.turn()
        assert len(bench.engine.killed) == 1  # so the third try is on a fresh engine
        await bench.finish_all()
        assert bench.set_aside == {}

    run(scenario, streams=2)


def test_what_is_in_an_engine_that_is_ended_for_others_is_not_blamed() -> None:
    async def scenario(bench: Bench) -> None:
        bench.add("one", [4], model_id="a")
        bench.add("other", [4], model_id="b")
        bench.dispatcher.pump()
        bench.engine.fail(EngineFailed("first"))
        bench.engine.fail(EngineFailed("second"))  # known in the same moment, and one is sent again between the two
        await wait.turn()
        assert len(bench.engine.killed) == 1
        (sent_again, _) = bench.engine.batches[0]
        assert [piece.attempts for piece in sent_again.pieces] == [1]
        bench.engine.fail(EngineDied("ended"))
        await wait.turn()
        assert [piece.attempts for piece in sent_again.pieces] == [1]
        bench.engine.ended_for = ""  # a fresh one in its place
        await bench.finish_all()
        assert set(bench.answers) == {"one", "other"}
        assert bench.set_aside == {}

    run(scenario, streams=2)


def test_two_failures_in_a_row_end_an_engine_that_lives() -> None:
    async def scenario(bench: Bench) -> None:
        bench.add("one", [4])
        bench.dispatcher.pump()
        bench.engine.fail(EngineFailed("sticky"))
        await wait.turn()
        assert bench.engine.killed == []
        bench.engine.fail(EngineFailed("sticky"))
        await wait.turn()
        assert len(bench.engine.killed) == 1
        await bench.finish_all()
        assert bench.answers["one"].error_code == ""
        assert bench.set_aside == {}

    run(scenario)


def test_the_parts_of_a_failed_batch_run_without_company() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(4):
            bench.add(f"i{number}", [4])
        bench.dispatcher.pump()
        bench.add("new", [4])
        bench.engine.fail(EngineFailed("scripted"))
        await wait.turn()
        while bench.engine.batches:
            running = [name for batch, _ in bench.engine.batches for name in names(batch)]
            assert len(bench.engine.batches) == 1 or "new" not in running
            bench.engine.finish()
            await wait.turn()
        assert sorted(bench.answers) == ["i0", "i1", "i2", "i3", "new"]

    run(scenario, streams=2)


def names(batch: Batch) -> list[str]:
    return [piece.job.delivery.item.item_id for piece in batch.pieces]


def test_a_person_overtakes_bulk_work_and_shares_no_batch_with_it() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(20):
            bench.add(f"bulk{number}", [8], klass=BULK)
        bench.dispatcher.pump()
        bench.add("person", [8])
        bench.engine.finish()
        await wait.turn()
        running, _ = bench.engine.batches[0]
        assert [piece.job.delivery.item.item_id for piece in running.pieces] == ["person"]
        await bench.finish_all()
        assert len(bench.answers) == 21
        assert bench.dispatcher.is_idle

    run(scenario)


def test_bulk_work_gets_its_share_beside_a_crowd() -> None:
    async def scenario(bench: Bench) -> None:
        for number in range(200):
            bench.add(f"person{number}", [8])
            bench.add(f"bulk{number}", [8], klass=BULK)
        bench.dispatcher.pump()
        classes = []
        for _ in range(20):
            batch, _ = bench.engine.batches[0]
            classes.append(batch.key.klass)
            bench.engine.finish()
            await wait.turn()
        assert classes.count(BULK) == 2  # a tenth, as the default says

    run(scenario)


def test_a_poison_input_of_an_accepted_job_is_set_aside_and_the_rest_answered() -> None:
    async def scenario(bench: Bench) -> None:
        bench.add("job", [4, 5, 6], gateway_id="")
        bench.dispatcher.pump()
        while bench.engine.batches:
            batch, _ = bench.engine.batches[0]
            if any(piece.index == 1 for piece in batch.pieces):
                bench.engine.fail(EngineFailed("scripted"))
            else:
                bench.engine.finish()
            await wait.turn()
        assert bench.set_aside == {"job": 1}
        assert bench.answers == {}
        bench.dispatcher.fail_input("job", 1, Quarantined("Set aside."))
        result = bench.answers["job"]
        assert result.outputs == [b"job/0", b"", b"job/2"]
        assert list(result.errors) == [(1, "quarantined", "Set aside.")]
        assert not result.error_code
        assert bench.dispatcher.is_idle

    run(scenario)


def test_an_accepted_job_waits_for_a_model_that_cannot_be_loaded_at_the_moment() -> None:
    async def scenario(bench: Bench) -> None:
        bench.residency.failed["broken"] = "no weights"
        bench.add("job", [4, 4], "broken", gateway_id="")
        bench.dispatcher.pump()
        assert bench.given_back == ["job"]
        assert bench.answers == {}
        assert bench.dispatcher.is_idle

    run(scenario)


def test_a_batch_has_the_device_to_itself_only_where_nothing_runs_and_nothing_waits() -> None:
    async def scenario() -> None:
        bench = Bench(streams=2)
        bench.add("first", [8])
        bench.dispatcher.pump()
        bench.add("second", [8])
        bench.dispatcher.pump()
        assert bench.engine.alone == [True, False]
        await bench.finish_all()
        for number in range(3):
            bench.add(f"long {number}", [64])
        bench.dispatcher.pump()
        assert bench.engine.alone[2:] == [False, False]
        await bench.finish_all()
        assert len(bench.answers) == 5

    asyncio.run(scenario())
