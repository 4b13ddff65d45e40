"""Writes that are confirmed once they are on disk, and the two streams that they go to."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from typing import Any

from appliance.config import Jobs
from appliance.errors import Overloaded, Unavailable
from appliance.wire import subjects
from appliance.workqueue.broker import Broker

_TRIES = 5
_CONFIRM_S = 5.0
_ANSWER_S = 2.0
_PAUSE_S = 0.05
_CODE = re.compile(rb'"err_code":\s*(\d+)')
_THERE_ALREADY = (10071, 10164)
"""JetStream error codes for a last sequence that is not the expected one."""
_FULL = (10077, 10023, 10047, 10122)
"""JetStream error codes: a limit of the stream, resources, storage, bytes exceeded."""


async def keep_streams(broker: Broker, jobs: Jobs) -> None:
    """Make both streams, and again where a later life of the server has lost them. Raises Unavailable."""
    broker.on_restored(partial(ensure_streams, broker, jobs))
    await ensure_streams(broker, jobs)


async def ensure_streams(broker: Broker, jobs: Jobs) -> None:
    """Make both streams, or give those that are there the limits of the configuration. Raises Unavailable.

    Nothing in JOBS ever expires: no clock that jumps may take accepted work away.
    """
    await _ensure(broker, subjects.JOBS, retention="workqueue", max_bytes=jobs.max_bytes)
    await _ensure(
        broker,
        subjects.JOBRESULTS,
        retention="limits",
        max_bytes=jobs.max_results_bytes,
        max_age=int(jobs.results_kept_s * 1e9),
        max_msgs_per_subject=1,
        allow_direct=True,
    )


async def _ensure(broker: Broker, name: str, **settings: object) -> None:
    config = {
        "name": name,
        "subjects": [f"{name}.>"],
        "storage": "file",
        "discard": "new",
        "num_replicas": 1,
        **settings,
    }
    answer = await broker.call(f"STREAM.CREATE.{name}", config)
    if "error" in answer:  # there with other limits
        answer = await broker.call(f"STREAM.UPDATE.{name}", config)
    if "error" in answer:
        raise Unavailable(f"The queue refused the stream {name}: {answer['error'].get('description')}.")


async def put(broker: Broker, subject: str, data: bytes, headers: bytes = b"") -> bool:
    """Write a message; False where the headers' expectation does not hold. Raises Unavailable, Overloaded (no room).

    It is sent again while no confirmation comes, so False may also mean that an earlier try was written after all.
    """
    for _ in range(_TRIES):
        try:
            answer = await broker.request(subject, data, _CONFIRM_S, headers)
        except asyncio.TimeoutError:
            continue
        if answer is None:
            break
        code = _CODE.search(answer)
        if code is None:
            return True
        if int(code[1]) in _THERE_ALREADY:
            return False
        if int(code[1]) in _FULL:
            raise Overloaded("There is no room for more jobs at the moment.", retry_after_s=30)
        raise Unavailable(f"The queue did not take it: {json.loads(answer)['error'].get('description')}.")
    raise Unavailable("The queue does not confirm that it is on disk.")


async def put_new(broker: Broker, subject: str, data: bytes, pattern: str = "", after: int = 0) -> bool:
    """Write a message where none of that subject (or `pattern`) is, or the last is number `after`; False otherwise."""
    lines = [f"Nats-Expected-Last-Subject-Sequence: {after}"]
    if pattern:
        lines.append(f"Nats-Expected-Last-Subject-Sequence-Subject: {pattern}")
    return await put(broker, subject, data, _headers(*lines))


async def put_once(broker: Broker, subject: str, data: bytes, message_id: str) -> None:
    """Write a message that a repetition under the same id does not double."""
    await put(broker, subject, data, _headers(f"Nats-Msg-Id: {message_id}"))


def _headers(*lines: str) -> bytes:
    return "\r\n".join(("NATS/1.0", *lines, "", "")).encode()


async def read(broker: Broker, subject: str) -> bytes | None:
    """Return the message of a subject in JOBRESULTS, or None. Raises Unavailable."""
    for _ in range(_TRIES):
        try:
            data = await broker.request(f"$JS.API.DIRECT.GET.{subjects.JOBRESULTS}.{subject}", b"", _ANSWER_S)
        except asyncio.TimeoutError:
            continue
        if data is not None:
            return data or None
        break
    raise Unavailable("The queue does not answer.")


async def call(broker: Broker, subject: str, query: dict[str, object]) -> dict[str, Any]:
    """As Broker.call, of what may be asked twice: again where the broker died over it. Raises Unavailable."""
    for _ in range(_TRIES - 1):
        try:
            return await broker.call(subject, query)
        except Unavailable:
            await asyncio.sleep(_PAUSE_S)
    return await broker.call(subject, query)


async def count(broker: Broker, stream: str, pattern: str) -> dict[str, int]:
    """Return how many messages each subject has that matches."""
    found: dict[str, int] = {}
    while True:
        query: dict[str, object] = {"subjects_filter": pattern, "offset": len(found)}
        answer = await call(broker, f"STREAM.INFO.{stream}", query)
        _check(answer)
        page = answer["state"].get("subjects") or {}
        found |= page
        if not page or len(found) >= answer.get("total", 0):
            return found


async def size(broker: Broker, stream: str) -> tuple[int, int]:
    """Return a stream's number of messages and of bytes."""
    answer = await call(broker, f"STREAM.INFO.{stream}", {})
    _check(answer)
    return answer["state"]["messages"], answer["state"]["bytes"]


async def purge(broker: Broker, stream: str, pattern: str) -> None:
    """Remove all messages of the subjects that match."""
    _check(await call(broker, f"STREAM.PURGE.{stream}", {"filter": pattern}))


def _check(answer: dict[str, object]) -> None:
    if "error" in answer:
        raise Unavailable(f"The queue refused: {answer['error']}.")
