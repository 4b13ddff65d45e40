"""A job's acceptance: its items are on disk first, then its record. Without the record there is no job.

So a crash in between leaves items that nobody was told of; the sweep takes them away. Whoever asks again with the same
Idempotency-Key completes them instead.
"""

from __future__ import annotations

import asyncio
import shutil
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from appliance import log
from appliance.config import Config
from appliance.errors import ApplianceError, BodyTooLarge, IdempotencyMismatch, Overloaded, Unavailable
from appliance.metrics import LANES
from appliance.wire import items, jobs, subjects
from appliance.wire.jobs import JobRecord
from appliance.workqueue import disk
from appliance.workqueue.broker import Broker
from appliance.workqueue.jobs import JobStore
from appliance.workqueue.publisher import MAX_PAYLOAD_BYTES

_log = log.Logger("jobs")

_BESIDE_OUTPUT_BYTES = 64
"""What a result holds of an input beside its output."""
_AT_ONCE = 256
"""Items on their way to the disk; it takes one after the other anyway."""
_RETRY_AFTER_S = 30


class Acceptance:
    """Takes jobs, all or nothing."""

    def __init__(self, broker: Broker, store: JobStore, config: Config) -> None:
        self._broker = broker
        self._store = store
        self._settings = config.jobs
        self._item_inputs = config.queue.item_inputs
        self._folder: Path = config.queue_dir
        self._coming: Counter[str] = Counter()  # items by lane, of jobs that are being accepted
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[JobRecord]] = set()

    async def accept(self, record: JobRecord, inputs: list[str | list[int]], key: str, output_bytes: int) -> JobRecord:
        """Return the job's record once all of it is on disk: with a `key` seen before, that of the first submission.

        `output_bytes` is the most that an output of any model here takes. Raises Overloaded where there is no room,
        IdempotencyMismatch, BodyTooLarge, Unavailable; nothing is accepted then. It runs to its end even when its
        caller hangs up.
        """
        task = asyncio.ensure_future(self._accept(record, inputs, key, output_bytes))
        self._tasks.add(task)
        task.add_done_callback(self._on_end)
        return await asyncio.shield(task)

    def _on_end(self, task: asyncio.Task[JobRecord]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # seen: who waited for it got it

    async def _accept(self, record: JobRecord, inputs: list[str | list[int]], key: str, output_bytes: int) -> JobRecord:
        number, promised = await self._promised(record.owner, key) if key else (0, None)
        if promised is not None:
            _check_same(promised, record)
            is_known, accepted = await self._store.has_record(promised.owner, promised.job_id)
            if accepted is not None:
                return accepted
            if not is_known:
                record, key = promised, ""  # half done when something broke: the same id again, and the same cut
        payloads = [items.pack_item(item) for item in jobs.work_items(record, inputs)]
        if max(map(len, payloads)) > MAX_PAYLOAD_BYTES - 1024:
            raise BodyTooLarge(f"One input is too large; the limit is {MAX_PAYLOAD_BYTES - 1024} bytes.")
        async with self._room(record.lane, len(payloads), output_bytes):
            if key:
                await self._promise(record, key, number)
            return await self._write(record, payloads)

    async def _promised(self, owner: str, key: str) -> tuple[int, JobRecord | None]:
        """Return which job a key stands for, and the number of the message that says so (0 for none)."""
        subject = f"STREAM.MSG.GET.{subjects.JOBRESULTS}"
        answer = await disk.call(self._broker, subject, {"last_by_subj": subjects.job_key(owner, key)})
        if "error" in answer:
            return 0, None
        return answer["message"]["seq"], jobs.unpack_record(b64decode(answer["message"]["data"]))

    async def _promise(self, record: JobRecord, key: str, number: int) -> None:
        """Let a key stand for a job, unless it came to stand for another since it was looked up."""
        subject, data = subjects.job_key(record.owner, key), jobs.pack_record(record)
        if not await disk.put_new(self._broker, subject, data, after=number):
            raise Unavailable("This Idempotency-Key came twice at the same moment. Send it again.")

    @asynccontextmanager
    async def _room(self, lane: str, count: int, output_bytes: int) -> AsyncIterator[None]:
        """Reserve room for items, and for their results: what is accepted must never be stopped by a full disk."""
        self._coming[lane] += count
        try:
            await self._check_room(lane, output_bytes)
            yield
        finally:
            self._coming[lane] -= count

    async def _check_room(self, lane: str, output_bytes: int) -> None:
        in_lane, (unanswered, _), (_, stored_bytes) = await asyncio.gather(
            self._store.waiting(lane),
            disk.size(self._broker, subjects.JOBS),
            disk.size(self._broker, subjects.JOBRESULTS),
        )
        if sum(count for _, count in in_lane.values()) + self._coming[lane] > self._settings.max_items:
            raise Overloaded("Too many jobs wait for this model. Try again later.", retry_after_s=_RETRY_AFTER_S)
        item_bytes = self._item_inputs * (output_bytes + _BESIDE_OUTPUT_BYTES)
        if stored_bytes + (unanswered + self._coming.total()) * item_bytes > self._settings.max_results_bytes:
            raise Overloaded(
                "There is no room for more results. Delete jobs that are done, or raise jobs.max_results_bytes.",
                retry_after_s=_RETRY_AFTER_S,
            )
        if shutil.disk_usage(self._folder).free < self._settings.min_free_disk_bytes:
            raise Unavailable("The disk is nearly full: jobs are not taken until there is room again.")

    async def _write(self, record: JobRecord, payloads: list[bytes]) -> JobRecord:
        try:
            written = [asyncio.ensure_future(self._put(record, n, payload)) for n, payload in enumerate(payloads)]
            try:
                await asyncio.gather(*written)
            finally:
                for one in written:
                    one.cancel()
                await asyncio.gather(*written, return_exceptions=True)
            place = subjects.job_record(record.owner, record.job_id)
            if await disk.put_new(self._broker, place, jobs.pack_record(record)):
                LANES.count("admitted", record.model_id, subjects.BULK, len(payloads))
                return record
            accepted = await self._store.record(record.owner, record.job_id)  # by an earlier try, or one beside this
            if accepted is None:
                raise Unavailable("It took too long to write the job down. Send it again.")
            return accepted
        except ApplianceError as exc:
            if await self._gave_up(record):
                raise
            _log.warning("job", job=record.job_id, state="accepted by another submission", reason=exc.message)
            return record

    async def _put(self, record: JobRecord, number: int, payload: bytes) -> None:
        async with self._turn:
            await disk.put_once(self._broker, record.subject, payload, jobs.item_id(record.job_id, number))

    async def _gave_up(self, record: JobRecord) -> bool:
        """Take back what was written; where that fails, the sweep does it later."""
        try:
            return await self._store.give_up(record.owner, record.job_id, record.lane)
        except ApplianceError as exc:
            _log.warning("job", job=record.job_id, state="not taken back yet", reason=exc.message)
            return True


def _check_same(promised: JobRecord, record: JobRecord) -> None:
    if promised.fingerprint != record.fingerprint:
        raise IdempotencyMismatch("This Idempotency-Key came with another body before. Use a new key for a new job.")
