"""What is written about an accepted job, and its codec (msgpack, positional, versioned)."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import msgpack

from appliance.wire import subjects
from appliance.wire.items import Options, WorkItem, cost_of

VERSION = 1

NO_DEADLINE_MS = 100 * 365 * 86_400_000
"""A job's items wait for as long as it takes."""


class JobRecord(NamedTuple):
    """A job as accepted. Item n holds the inputs from `starts[n]` up to the next start, or to `total`.

    `owner` is the token of the caller's key; `content_hash` the model's at that time; `created_at` in Unix seconds;
    `fingerprint` tells whether another submission asks for the same.
    """

    job_id: str
    owner: str
    model_id: str
    content_hash: str
    operation: str
    options: Options
    truncate: bool
    starts: list[int]
    total: int
    created_at: float
    fingerprint: str
    is_cancelled: bool = False

    @property
    def lane(self) -> str:
        return subjects.lane(self.model_id, subjects.BULK)

    @property
    def subject(self) -> str:
        """Where its items wait."""
        return subjects.job_items(self.lane, self.owner, self.job_id)

    def bounds(self) -> list[tuple[int, int]]:
        """Return each item's first input and the one after its last."""
        return list(pairwise([*self.starts, self.total]))


def work_items(record: JobRecord, inputs: list[str | list[int]]) -> list[WorkItem]:
    """Return a job's items, in order."""
    return [
        WorkItem(
            item_id=item_id(record.job_id, number),
            gateway_id="",
            model_id=record.model_id,
            operation=record.operation,
            options=record.options,
            lora="",
            inputs=inputs[start:end],
            truncate=record.truncate,
            remaining_ms=NO_DEADLINE_MS,
            cost=sum(map(cost_of, inputs[start:end])),
            klass=subjects.BULK,
            content_hash=record.content_hash,
        )
        for number, (start, end) in enumerate(record.bounds())
    ]


def item_id(job_id: str, number: int) -> str:
    return f"job.{job_id}.{number}"


def item_place(name: str) -> tuple[str, int]:
    """Return the job's id and the item's number in it."""
    _, job_id, number = name.split(".")
    return job_id, int(number)


def pack_record(record: JobRecord) -> bytes:
    packed: bytes = msgpack.packb((VERSION, *record))
    return packed


def unpack_record(data: bytes) -> JobRecord | None:
    """Return the record; None for a job that was given up before it was accepted."""
    fields = msgpack.unpackb(data, use_list=True)
    if len(fields) == 1:
        return None
    fields[6] = tuple((key, value) for key, value in fields[6])
    return JobRecord(*fields[1 : 1 + len(JobRecord._fields)])


GIVEN_UP: bytes = msgpack.packb((VERSION,))
"""In the place of a record: whoever accepts the job later finds that it is too late."""
