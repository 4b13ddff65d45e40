"""The worker's heart: what waits, what runs, what is answered. Batches are chosen by worker/batcher.py."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import replace

from appliance import log
from appliance.config import Config
from appliance.errors import ApplianceError, EngineFailed, Internal, ModelNotFound, Unavailable
from appliance.wire.frames import BatchDone
from appliance.wire.items import WorkResult, failure
from appliance.wire.subjects import CLASSES
from appliance.worker import batcher
from appliance.worker.batcher import Batch, Limits
from appliance.worker.credit import Holding
from appliance.worker.engine_port import EngineDied, EnginePort
from appliance.worker.job import Job, Key, Piece
from appliance.worker.outlook import Outlook
from appliance.worker.pace import Pace
from appliance.worker.residency import Residency
from appliance.worker.resident import Resident, State
from appliance.worker.turns import Turns
from appliance.worker.waiting import Waiting
from appliance.workqueue.consumer import Delivery

_log = log.Logger("dispatcher")

_FAILURES_UNTIL_RESTART = 2

Finished = tuple[Delivery, WorkResult]


class Dispatcher:
    """Single-threaded: every method runs on the loop, so no state has two writers.

    `answer` takes the finished results of a batch; it sends them and acks. `drop` takes what nobody waits for any more;
    `set_aside` what is guilty: it goes into quarantine with the reason and the input's number, and its caller is told;
    `give_back` what is to be delivered again, later.
    """

    def __init__(
        self,
        residency: Residency,
        limits: Limits,
        config: Config,
        answer: Callable[[list[Finished]], None],
        drop: Callable[[Delivery], None],
        set_aside: Callable[[Delivery, str, int], None],
        give_back: Callable[[Delivery], None],
        clock: Callable[[], float],
    ) -> None:
        self.lanes: Counter[tuple[str, str, str]] = Counter()
        """What was re-run, set aside and dropped, by what, model and class."""
        self.holding = {klass: Holding() for klass in CLASSES}
        self.paces: defaultdict[str, Pace] = defaultdict(Pace)
        self.counters = dict.fromkeys(
            (
                "batches",
                "inputs",
                "real_tokens",
                "padded_tokens",
                "run_s",
                "failed_batches",
                "answered",
                "errors",
                "expired",
                "cancelled",
                "rerun",
                "quarantined",
            ),
            0.0,
        )
        self._residency = residency
        self._limits = limits
        self._engine_settings = config.engine
        self.turns = Turns(config.worker.bulk_share)
        self._busy_until = 0.0
        self._answer = answer
        self._drop = drop
        self._set_aside = set_aside
        self._give_back = give_back
        self._clock = clock
        self._jobs: dict[str, Job] = {}
        self._waiting = Waiting()
        self._again: deque[Batch] = deque()
        self.outlook = Outlook(self._waiting, self._again, residency, self.paces, self.holding, limits, clock)

    @property
    def is_idle(self) -> bool:
        return not any(holding.pieces for holding in self.holding.values())

    def add(self, job: Job, pieces: list[Piece]) -> None:
        """Let a job's pieces wait for a batch."""
        self.holding[job.key.klass].take(len(pieces), sum(piece.length for piece in pieces))
        self._jobs[job.delivery.item.item_id] = job
        self._waiting.add(job.key, pieces)

    def refuse(self, delivery: Delivery, index: int, error: ApplianceError) -> None:
        """Answer a delivery with an error about its input `index` (-1: the whole)."""
        self.counters["errors"] += 1
        self._answer([(delivery, failure(delivery.item.item_id, error, index))])

    def answer_whole(self, job: Job, result: WorkResult) -> None:
        """Answer a job that needs no batch (any more)."""
        self.counters["answered"] += 1
        self._answer([self._closed(job, result)])

    def fail_input(self, item_id: str, index: int, error: ApplianceError) -> None:
        """Take one input of an accepted job as failed; the job goes on without it."""
        job = self._jobs.get(item_id)
        if job is not None and (result := job.fail(index, error)) is not None:
            self.answer_whole(job, result)

    def pump(self) -> None:
        """Give every engine with room its next batch."""
        self._drop_unservable()
        self._ask_for_cold()
        self._run_again()
        while (batch := self._choose()) is not None:
            self._waiting.take(batch)
            # Looked at here only: what waits is not worth a search, what is about to run is worth a look.
            if not self._drop_unwanted(batch):
                self._run(self._engine(batch.key), batch)

    def _run_again(self) -> None:
        """Run the parts of failed batches, one at a time."""
        for batch in list(self._again):
            engine = self._free_engine(batch.key)
            if engine is None or engine.running:
                continue
            self._again.remove(batch)
            wanted = [piece for piece in batch.pieces if not piece.job.is_over]
            self._release([piece for piece in batch.pieces if piece.job.is_over])
            if wanted:
                engine.is_exclusive = True
                self._run(engine, replace(batch, pieces=wanted))

    def _choose(self) -> Batch | None:
        """Return the next batch among the keys whose engine has room for one."""
        # New work waits for the parts of failed batches: those need an engine alone, and it would never be free.
        awaited = {self._residency.engine_for(part.key.model_id) for part in self._again}
        free = {
            key: pieces
            for key, pieces in self._waiting.lines.items()
            if (engine := self._free_engine(key)) is not None and engine not in awaited
        }
        if not free:
            return None
        klass = self.turns.next({key.klass for key in free})
        key = batcher.oldest({key: pieces for key, pieces in free.items() if key.klass == klass})
        return batcher.form(key, free[key], self._limits_of(key)) if key is not None else None

    def _limits_of(self, key: Key) -> Limits:
        return replace(self._limits, padding_cost=self._residency.padding_cost(key.model_id))

    def cancel(self, item_ids: list[str]) -> None:
        """Drop what is held of these items, whose callers are gone; what runs, runs to its end for nobody."""
        for item_id in item_ids:
            job = self._jobs.get(item_id)
            if job is not None and not job.is_over:
                self.counters["cancelled"] += 1
                self._give_up(job)
        self._drop_over()

    def _drop_unwanted(self, batch: Batch) -> bool:
        """Return whether pieces of a chosen batch were found to be late; those are dropped, the rest waits again."""
        now = self._clock()
        late = [piece for piece in batch.pieces if piece.job.expires_at < now and not piece.job.is_over]
        for piece in late:
            if not piece.job.is_over:
                self.counters["expired"] += 1
                self._give_up(piece.job)
        if late:
            self._waiting.put_back(batch)
            self._drop_over()
        return bool(late)

    def _give_up(self, job: Job) -> None:
        job.is_over = True
        self._jobs.pop(job.delivery.item.item_id, None)
        self.lanes["dropped", job.key.model_id, job.key.klass] += 1
        self._drop(job.delivery)

    def _drop_over(self) -> None:
        """Take the pieces of jobs that are over out of what waits."""
        for over in self._waiting.pop_over():
            self._release(over)

    def _engine(self, key: Key) -> EnginePort:
        engine = self._residency.engine_for(key.model_id)
        assert engine is not None
        return engine

    def _free_engine(self, key: Key) -> EnginePort | None:
        engine = self._residency.engine_for(key.model_id)
        return engine if engine is not None and engine.has_room else None

    def _run(self, engine: EnginePort, batch: Batch) -> None:
        self.turns.charge(batch.key.klass, self._limits.overhead_tokens + batch.size)
        settings, started = self._engine_settings, self._clock()
        limit_s = self.paces[batch.key.model_id].limit_s(
            batch, settings.hung_least_s, settings.hung_factor, settings.batch_timeout_s
        )
        # With work behind it, it would be in the next one's way: measured, 3 to 6 % of a busy CPU's throughput.
        alone = not engine.running and not self._waiting
        resident = self._residency.began(batch.key.model_id)
        self.outlook.began(engine, batch, started)
        answer = engine.run(batch, limit_s, alone)
        answer.add_done_callback(lambda answer: self._on_batch_guarded(engine, batch, resident, started, answer))

    def _on_batch_guarded(
        self, engine: EnginePort, batch: Batch, resident: Resident, started: float, answer: asyncio.Future[BatchDone]
    ) -> None:
        """Whatever goes wrong here, the callers of the batch get an answer."""
        self._residency.ended(resident)
        self.outlook.ended(batch)
        try:
            self._on_batch(engine, batch, started, answer)
        except Exception as exc:
            _log.error("batch", exc, model=batch.key.model_id, inputs=len(batch.pieces))
            for piece in batch.pieces:
                result = piece.job.fail(piece.index, Internal("Something went wrong here; the worker's log has it."))
                if result is not None:
                    self._answer([self._closed(piece.job, result)])

    def _on_batch(self, engine: EnginePort, batch: Batch, started: float, answer: asyncio.Future[BatchDone]) -> None:
        """Take a batch's outcome: feed the engine first, then answer."""
        error = answer.exception()
        now = self._clock()
        wall_s, self._busy_until = now - max(started, self._busy_until), now
        if error is not None:
            if isinstance(error, EngineDied) and engine.ended_for:
                self._again.append(batch)
            else:
                self._suspect(engine, error)
                self._on_failed(batch, error)
            self.pump()
            return
        if started >= engine.failed_at:
            engine.failures_in_a_row = 0
        self._release(batch.pieces)
        self.pump()
        self.paces[batch.key.model_id].took(batch, wall_s, now - started)
        self._finish(batch, answer.result())

    def _finish(self, batch: Batch, done: BatchDone) -> None:
        self._residency.proven(batch.key.model_id)
        self._count(batch, done)
        answered: list[Finished] = []
        for position, (piece, output) in enumerate(zip(batch.pieces, done.outputs, strict=True)):
            wrong = done.errors.get(position)
            if wrong is None:
                result = piece.job.take(piece.index, output)
            else:
                result = piece.job.fail(piece.index, _error(*wrong))
            if result is not None:
                answered.append(self._closed(piece.job, result))
        if done.errors:
            self._drop_over()  # what else a failed item asked for is not worth running
        self.counters["answered"] += len(answered)
        if answered:
            self._answer(answered)

    def _count(self, batch: Batch, done: BatchDone) -> None:
        counters = self.counters
        counters["batches"] += 1
        counters["inputs"] += len(batch.pieces)
        counters["real_tokens"] += batch.real_tokens
        counters["padded_tokens"] += batch.padded_tokens
        counters["run_s"] += done.run_s

    def _on_failed(self, batch: Batch, error: BaseException) -> None:
        """Run a failed batch again by parts; answer for the pieces found guilty."""
        self.counters["failed_batches"] += 1
        again, guilty = batcher.after_failure(batch)
        self._again.extend(again)
        rerun = sum(len(one.pieces) for one in again)
        self.counters["rerun"] += rerun
        self.lanes["rerun", batch.key.model_id, batch.key.klass] += rerun
        for piece in guilty:
            if not piece.job.is_over:
                self.counters["quarantined"] += 1
                self.lanes["quarantined", batch.key.model_id, batch.key.klass] += 1
                if not piece.job.stands_for_itself:
                    piece.job.is_over = True
                    self._jobs.pop(piece.job.delivery.item.item_id, None)
                self._set_aside(piece.job.delivery, str(error), piece.index)
        self._release(guilty)
        self._drop_over()

    def _suspect(self, engine: EnginePort, error: BaseException) -> None:
        """Two failures in a row from an engine that lives may be the device's fault and stick to its process: end it.

        The next one is checked against golden answers before anything runs on it, so what fails there is guilty itself.
        """
        if isinstance(error, EngineDied):
            return
        engine.failures_in_a_row += 1
        engine.failed_at = self._clock()
        if engine.failures_in_a_row >= _FAILURES_UNTIL_RESTART:
            engine.end(f"{_FAILURES_UNTIL_RESTART} batches in a row failed: {error}")

    def _drop_unservable(self) -> None:
        """Answer what waits for a model that failed to load: nobody should wait for a deadline to hear it."""
        for key in [key for key in self._waiting.lines if self._residency.state_of(key.model_id) is State.FAILED]:
            resident = self._residency.residents.get(key.model_id)
            error: ApplianceError = ModelNotFound(f"The model {key.model_id} was removed.")
            if resident is not None:
                error = Unavailable(f"The model {key.model_id} cannot be used: {resident.reason}")
            pieces = self._waiting.pop(key)
            for piece in pieces:
                if resident is not None and piece.job.stands_for_itself:
                    self._put_back(piece.job)
                    continue
                result = piece.job.fail(-1, error)
                if result is not None:
                    self._answer([self._closed(piece.job, result)])
            self._release(pieces)

    def _ask_for_cold(self) -> None:
        for key, pieces in self._waiting.lines.items():
            if self._residency.state_of(key.model_id) is State.COLD:
                self._residency.use(key.model_id, pieces[0].arrived)

    def _put_back(self, job: Job) -> None:
        """Let an accepted job wait until its model can be loaded, here or elsewhere: no failing device ends it."""
        if not job.is_over:
            job.is_over = True
            self._jobs.pop(job.delivery.item.item_id, None)
            self._give_back(job.delivery)

    def _closed(self, job: Job, result: WorkResult) -> Finished:
        self._jobs.pop(job.delivery.item.item_id, None)
        return job.delivery, result

    def _release(self, pieces: list[Piece]) -> None:
        if pieces:  # all of one key
            holding = self.holding[pieces[0].job.key.klass]
            holding.pieces -= len(pieces)
            holding.tokens -= sum([len(piece.ids) for piece in pieces])


def _error(code: str, message: str) -> ApplianceError:
    error = EngineFailed(message)
    error.code = code
    return error
