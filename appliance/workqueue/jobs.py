"""Accepted jobs as they lie on disk: records, results, and what is still to do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from appliance.wire import items, jobs, subjects
from appliance.wire.items import WorkResult
from appliance.wire.jobs import JobRecord
from appliance.workqueue import disk
from appliance.workqueue.broker import Broker

Place = tuple[str, str]
"""Whose job, and its id."""

_CANCELS_AT_ONCE = 500


@dataclass(frozen=True)
class Progress:
    """How far a job is, in inputs. `state` is queued, running, done, failed (nothing succeeded) or cancelled."""

    state: str
    total: int
    done: int
    failed: int


def progress_of(record: JobRecord, failed_in: dict[int, int]) -> Progress:
    """Return a job's progress; `failed_in` has the number of failed inputs of each item that has its result."""
    bounds = record.bounds()
    answered = sum(bounds[number][1] - bounds[number][0] for number in failed_in)
    failed = sum(failed_in.values())
    if record.is_cancelled:
        state = "cancelled"
    elif answered < record.total:
        state = "running" if answered else "queued"
    else:
        state = "failed" if failed == record.total else "done"
    return Progress(state, record.total, answered - failed, failed)


class JobStore:
    """Reads and ends jobs. Every method raises Unavailable when the broker does not answer."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def has_record(self, owner: str, job_id: str) -> tuple[bool, JobRecord | None]:
        """Return whether anything is written of a job, and its record; None for one given up before it was accepted."""
        data = await disk.read(self._broker, subjects.job_record(owner, job_id))
        return data is not None, jobs.unpack_record(data) if data is not None else None

    async def record(self, owner: str, job_id: str) -> JobRecord | None:
        """Return an accepted job's record, or None."""
        return (await self.has_record(owner, job_id))[1]

    async def places(self, owner: str = "*", job_id: str = "*") -> list[Place]:
        """Return where records are, newest first: ids begin with the time."""
        found = await disk.count(self._broker, subjects.JOBRESULTS, subjects.job_record(owner, job_id))
        return sorted(((name.split(".")[2], name.split(".")[3]) for name in found), key=lambda p: p[1], reverse=True)

    async def newest(self, owner: str, limit: int) -> list[JobRecord]:
        """Return the newest accepted jobs, of one owner or (`*`) of all."""
        found: list[JobRecord] = []
        for place in await self.places(owner):
            if len(found) == limit:
                break
            record = await self.record(*place)
            if record is not None:
                found.append(record)
        return found

    async def progress(self, record: JobRecord) -> Progress:
        return progress_of(record, await self.failed_in(record))

    async def failed_in(self, record: JobRecord) -> dict[int, int]:
        """Return the number of failed inputs of each item that has its result."""
        pattern = subjects.job_result(record.job_id, "*", "*")
        places = (name.split(".") for name in await disk.count(self._broker, subjects.JOBRESULTS, pattern))
        return {int(place[3]): int(place[4]) for place in places}

    async def results(self, record: JobRecord, numbers: Iterable[int]) -> dict[int, WorkResult]:
        """Return the results, as far as they are there, of some of a job's items."""
        failed_in = await self.failed_in(record)
        wanted = [number for number in numbers if number in failed_in]
        names = [subjects.job_result(record.job_id, number, failed_in[number]) for number in wanted]
        found = await asyncio.gather(*(disk.read(self._broker, name) for name in names))
        pairs = zip(wanted, found, strict=True)
        return {number: items.unpack_results(data)[0] for number, data in pairs if data is not None}

    async def waiting(self, lane: str = "*", owner: str = "*", job_id: str = "*") -> dict[Place, tuple[str, int]]:
        """Return each job's lane and its number of items that wait or run."""
        found = await disk.count(self._broker, subjects.JOBS, subjects.job_items(lane, owner, job_id))
        return {(name.split(".")[2], name.split(".")[3]): (name.split(".")[1], n) for name, n in found.items()}

    async def cancel(self, record: JobRecord) -> JobRecord:
        """Take what waits off the queue, stop what is held, and forget the results."""
        ended = record._replace(is_cancelled=True)
        await disk.put(self._broker, subjects.job_record(record.owner, record.job_id), jobs.pack_record(ended))
        await self.take_off(record)
        await disk.purge(self._broker, subjects.JOBRESULTS, subjects.job_result(record.job_id, "*", "*"))
        return ended

    async def take_off(self, record: JobRecord) -> None:
        """Remove a job's items from the queue, and tell the workers, who may hold some."""
        await disk.purge(self._broker, subjects.JOBS, record.subject)
        names = [jobs.item_id(record.job_id, number) for number in range(len(record.starts))]
        for start in range(0, len(names), _CANCELS_AT_ONCE):
            self._broker.post(subjects.CANCELS, items.pack_cancels(names[start : start + _CANCELS_AT_ONCE]))

    async def give_up(self, owner: str, job_id: str, lane: str = "*") -> bool:
        """End a job that was never accepted; False where it was after all, meanwhile."""
        subject = subjects.job_record(owner, job_id)
        await disk.put_new(self._broker, subject, jobs.GIVEN_UP)
        if await self.record(owner, job_id) is not None:
            return False
        await disk.purge(self._broker, subjects.JOBS, subjects.job_items(lane, owner, job_id))
        await disk.purge(self._broker, subjects.JOBRESULTS, subjects.job_result(job_id, "*", "*"))
        return True
