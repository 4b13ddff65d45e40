"""Accepted jobs on a real nats-server, part by part: what is on disk when, and who mends what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from appliance.config import Config, Data, Jobs, Queue
from appliance.errors import IdempotencyMismatch, Overloaded
from appliance.supervisor.leases import Leases
from appliance.supervisor.nats_server import NatsServer
from appliance.supervisor.process import Process
from appliance.wire import items, jobs, subjects
from appliance.wire.items import WorkResult, failure
from appliance.wire.jobs import JobRecord
from appliance.workqueue import disk, replies
from appliance.workqueue.acceptance import Acceptance
from appliance.workqueue.broker import Broker
from appliance.workqueue.consumer import Delivery, LaneConsumer, settle
from appliance.workqueue.jobs import JobStore
from appliance.workqueue.sweep import Sweep
from tests import wait
from tests.fakes import FakeClock

QUEUE = Queue(ack_wait_s=1.0, max_memory_bytes=16 << 20)
SOON_S = 20.0
TEXTS: list[str | list[int]] = [f"text {n}" for n in range(10)]
RECORD = JobRecord("job_1", "me", "m", "h", "embed", (), False, [*range(10)], 10, time.time(), "print")
LANE = "bulk-m"


class Bench:
    """A server with the jobs' streams, and what gateway and worker have of them."""

    def __init__(self, folder: Path, settings: Jobs) -> None:
        self.settings = settings
        self.folder = folder
        self.server = NatsServer.plan(QUEUE, folder / "queue", folder, settings)
        self.process = self.server.process()
        self.brokers: list[Broker] = []
        self.deliveries: list[Delivery] = []
        self.leases = Leases.create()
        self.clock = FakeClock()
        self.lanes = {LANE}
        self._consumer: LaneConsumer | None = None

    async def start(self) -> None:
        await start(self.process)
        self.daemon = await self.broker("daemon", "daemon")
        await disk.keep_streams(self.daemon, self.settings)
        self.gateway = await self.broker("gateway", "g")
        self.store = JobStore(self.gateway)
        self.acceptance = Acceptance(
            self.gateway, self.store, Config(data=Data(str(self.folder)), queue=QUEUE, jobs=self.settings)
        )
        self.sweep = Sweep(self.gateway, self.store, lambda: self.lanes, self.clock)

    async def broker(self, role: str, name: str) -> Broker:
        made = Broker(self.server.login(role), name, self.leases if role == "worker" else None)
        await made.start()
        self.brokers.append(made)
        return made

    async def start_worker(self, credit: int = 100, ack_wait_s: float = QUEUE.ack_wait_s) -> Broker:
        worker = await self.broker("worker", "w")
        self._consumer = LaneConsumer(worker, LANE, ack_wait_s, self.deliveries.append, subjects.JOBS)
        await self._consumer.start()
        self._consumer.want(credit)
        return worker

    async def accept(self, record: JobRecord = RECORD, key: str = "") -> JobRecord:
        return await self.acceptance.accept(record, TEXTS, key, 16)

    async def write_half(self, record: JobRecord = RECORD) -> None:
        """Leave what a crash in the middle of an acceptance leaves."""
        for item in jobs.work_items(record, TEXTS)[:5]:
            await disk.put_once(self.gateway, record.subject, items.pack_item(item), item.item_id)

    async def restart(self) -> None:
        epochs = [one.epoch for one in self.brokers]
        self.process.kill()
        await self.process.exited.wait()
        self.process = self.server.process()
        await start(self.process)
        # Connected is not yet restored: that another server is there is noted a moment later.
        await wait.until_async(
            lambda: all(one.epoch > epoch for one, epoch in zip(self.brokers, epochs, strict=True)), SOON_S
        )

    async def got(self, count: int) -> list[Delivery]:
        await wait.until_async(lambda: len(self.deliveries) >= count, SOON_S)
        return self.deliveries

    async def left(self) -> int:
        return (await disk.size(self.daemon, subjects.JOBS))[0]

    async def close(self) -> None:
        if self._consumer is not None:
            await self._consumer.stop()
        for broker in self.brokers:
            await broker.stop()
        await self.process.stop(time.monotonic() + 5)
        self.leases.close()


async def start(process: Process) -> None:
    process.start()
    assert await process.wait_ready(SOON_S)


@asynccontextmanager
async def bench(folder: Path, settings: Jobs) -> AsyncIterator[Bench]:
    (folder / "queue").mkdir()
    made = Bench(folder, settings)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


def run(folder: Path, scene: Callable[[Bench], Awaitable[None]], settings: Jobs | None = None) -> None:
    async def whole() -> None:
        async with bench(folder, settings or Jobs(min_free_disk_bytes=0)) as made:
            await scene(made)

    asyncio.run(whole())


def result(delivery: Delivery, output: bytes = b"vector") -> WorkResult:
    return WorkResult(delivery.item.item_id, "h", [output], [1], [])


# -- acceptance -----------------------------------------------------------------------------------


def test_what_was_accepted_is_there_after_the_broker_s_death(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        await made.accept()
        await made.restart()
        assert await made.store.record("me", "job_1") == RECORD
        await made.start_worker()
        assert [one.item for one in await made.got(10)] == jobs.work_items(RECORD, TEXTS)

    run(tmp_path, scene)


def test_a_job_for_which_there_is_no_room_is_taken_back_whole(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        await made.accept(RECORD._replace(job_id="job_0"))
        with pytest.raises(Overloaded):
            await made.accept(RECORD._replace(job_id="job_2"))
        assert await made.left() == 10
        assert [record.job_id for record in await made.store.newest("*", 9)] == ["job_0"]

    run(tmp_path, scene, Jobs(max_items=15, min_free_disk_bytes=0))


def test_a_stream_that_fills_up_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        large: list[str | list[int]] = ["x" * 300_000] * 10
        with pytest.raises(Overloaded):
            await made.acceptance.accept(RECORD, large, "", 16)
        assert await made.left() == 0
        assert await made.store.newest("*", 9) == []

    run(tmp_path, scene, Jobs(max_bytes=1 << 20, min_free_disk_bytes=0))


def test_jobs_whose_results_might_not_fit_are_refused(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        with pytest.raises(Overloaded, match="results"):
            await made.acceptance.accept(RECORD, TEXTS, "", 4096)
        assert await made.left() == 0

    run(tmp_path, scene, Jobs(max_results_bytes=1 << 20, min_free_disk_bytes=0))


def test_a_job_half_accepted_is_completed_by_its_key_under_the_same_id(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        await disk.put_new(made.gateway, subjects.job_key("me", "k"), jobs.pack_record(RECORD))
        await made.write_half()
        again = await made.accept(RECORD._replace(job_id="job_2", starts=[0, 5]), "k")
        assert again == RECORD
        assert await made.left() == 10
        with pytest.raises(IdempotencyMismatch):
            await made.accept(RECORD._replace(fingerprint="another"), "k")

    run(tmp_path, scene)


def test_a_key_whose_job_was_given_up_stands_for_the_next_one(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        await disk.put_new(made.gateway, subjects.job_key("me", "k"), jobs.pack_record(RECORD))
        assert await made.store.give_up("me", "job_1")
        later = RECORD._replace(job_id="job_2")
        assert await made.accept(later, "k") == later
        assert await made.accept(RECORD._replace(job_id="job_3"), "k") == later

    run(tmp_path, scene)


def test_submissions_with_the_same_key_at_once_are_one_job(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        records = [RECORD._replace(job_id=f"job_{n}") for n in range(5)]
        outcomes = await asyncio.gather(*(made.accept(one, "k") for one in records), return_exceptions=True)
        accepted = {outcome.job_id for outcome in outcomes if isinstance(outcome, JobRecord)}
        assert len(accepted) == 1
        assert [record.job_id for record in await made.store.newest("me", 9)] == [*accepted]
        assert await made.left() == 10

    run(tmp_path, scene)


def test_the_broker_s_death_in_the_middle_of_an_acceptance_costs_time_only(tmp_path: Path) -> None:
    many: list[str | list[int]] = [f"text {n}" for n in range(2000)]
    record = RECORD._replace(starts=[*range(2000)], total=2000)

    async def scene(made: Bench) -> None:
        accepting = asyncio.ensure_future(made.acceptance.accept(record, many, "", 16))
        await wait.until_async(made.left, SOON_S)
        await made.restart()
        assert await asyncio.wait_for(accepting, SOON_S) == record
        assert len(await made.store.waiting()) == 1
        assert await made.left() == 2000

    run(tmp_path, scene)


# -- results --------------------------------------------------------------------------------------


def test_the_first_result_of_an_item_stays(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        await made.accept()
        worker = await made.start_worker()
        first = (await made.got(10))[0]
        await replies.send(worker, [([first], result(first, b"one"))])
        await replies.send(worker, [([first], result(first, b"other"))])
        await replies.send(worker, [([first], failure(first.item.item_id, Overloaded("Late.")))])
        assert (await made.store.results(RECORD, [0]))[0].outputs == [b"one"]
        assert await made.store.failed_in(RECORD) == {0: 0}
        await wait.until_async(lambda: left_is(made, 9), SOON_S)

    run(tmp_path, scene)


async def left_is(made: Bench, count: int) -> bool:
    return await made.left() == count


def test_an_ack_from_before_the_broker_s_death_counts_and_the_item_is_not_answered_twice(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        await made.accept()
        worker = await made.start_worker()
        before = [*await made.got(10)]
        await made.restart()
        assert worker.epoch == 1
        assert set(made.leases.held()) >= {one.ack_subject for one in before}
        await replies.send(worker, [([one], result(one)) for one in before])
        await wait.until_async(lambda: left_is(made, 0), SOON_S)
        # What comes again was delivered before the ack; it finds its result and goes.
        for one in made.deliveries[10:]:
            await replies.send(worker, [([one], result(one, b"again"))])
        found = await made.store.results(RECORD, range(10))
        assert {one.outputs[0] for one in found.values()} == {b"vector"}
        assert len(found) == 10

    run(tmp_path, scene)


def test_what_a_dead_worker_had_leased_over_the_broker_s_death_is_given_back(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        await made.accept()
        worker = await made.start_worker(ack_wait_s=10 * SOON_S)  # else they come back by themselves, some twice
        await made.got(10)
        await made.restart()
        for ack_subject in made.leases.held():
            made.daemon.post(ack_subject, b"-NAK")
        again = (await made.got(20))[10:20]
        assert sorted({one.item.item_id for one in again}) == sorted(f"job.job_1.{n}" for n in range(10))
        settle(worker, made.deliveries, b"-NAK")

    run(tmp_path, scene)


def test_cancelling_removes_what_waits_and_every_result(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        await made.accept()
        other = await made.accept(RECORD._replace(job_id="job_2"))
        worker = await made.start_worker(credit=1)
        first = (await made.got(1))[0]
        await replies.send(worker, [([first], result(first))])
        assert (await made.store.cancel(RECORD)).is_cancelled
        assert await made.store.failed_in(RECORD) == {}
        assert set(await made.store.waiting()) == {("me", "job_2")}
        assert (await made.store.progress(other)).state == "queued"

    run(tmp_path, scene)


# -- the sweep ------------------------------------------------------------------------------------


def test_what_was_never_accepted_is_taken_away_after_a_while(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        await made.write_half()
        await made.accept(RECORD._replace(job_id="job_2"))
        await made.sweep.once()
        made.clock.now += 100
        await made.sweep.once()
        assert await made.left() == 15
        made.clock.now += 100
        await made.sweep.once()
        assert set(await made.store.waiting()) == {("me", "job_2")}
        assert await made.store.has_record("me", "job_1") == (True, None)

    run(tmp_path, scene)


def test_items_that_were_lost_end_in_errors_and_a_job_that_runs_is_left_alone(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        await made.accept()
        worker = await made.start_worker()
        one = (await made.got(10))[0]
        await replies.send(worker, [([one], result(one))])
        await made.sweep.once()
        assert (await made.store.progress(RECORD)).state == "running"
        await disk.purge(made.daemon, subjects.JOBS, RECORD.subject)
        await made.sweep.once()
        progress = await made.store.progress(RECORD)
        assert (progress.state, progress.done, progress.failed) == ("done", 1, 9)
        assert (await made.store.results(RECORD, [9]))[9].error_code == "internal"

    run(tmp_path, scene)


def test_a_model_that_is_missing_twice_ends_its_jobs(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        await made.accept()
        made.lanes = set()
        await made.sweep.once()
        assert (await made.store.progress(RECORD)).state == "queued"
        await made.sweep.once()
        assert (await made.store.progress(RECORD)).state == "failed"
        assert (await made.store.results(RECORD, [0]))[0].error_code == "model_not_found"
        assert await made.left() == 0

    run(tmp_path, scene)


def test_items_published_while_their_job_was_cancelled_are_taken_away(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        await made.accept()
        await made.store.cancel(RECORD)
        await made.write_half()
        await made.sweep.once()
        assert await made.left() == 0

    run(tmp_path, scene)


def test_new_limits_are_taken_up_by_streams_that_are_there(tmp_path: Path) -> None:
    async def scene(made: Bench) -> None:
        await disk.ensure_streams(made.daemon, Jobs(max_bytes=5 << 20, results_kept_s=60))
        config = (await made.daemon.call("STREAM.INFO.JOBS", {}))["config"]
        assert (config["max_bytes"], config["max_age"]) == (5 << 20, 0)
        assert (await made.daemon.call("STREAM.INFO.JOBRESULTS", {}))["config"]["max_age"] == 60 * 10**9

    run(tmp_path, scene)
