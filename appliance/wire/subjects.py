"""Names on the broker. One place, since gateway, worker and broker permissions must agree on them."""

from __future__ import annotations

from functools import lru_cache

LIVE = "LIVE"
"""The stream of requests whose callers wait: in memory."""

JOBS = "JOBS"
"""The stream of accepted jobs' items: on disk."""

JOBRESULTS = "JOBRESULTS"
"""The stream of accepted jobs' records and results: on disk."""

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
INTERACTIVE = "interactive"
BULK = "bulk"
CLASSES = (INTERACTIVE, BULK)
"""Whose work goes first, in this order."""

STREAMS = (LIVE, JOBS)
"""The streams of items."""

SOURCES = ((LIVE, INTERACTIVE), (LIVE, BULK), (JOBS, BULK))
"""Where the work of a model comes from: stream and class."""

QUARANTINE = "QUARANTINE"
HEARTBEATS = "hb.>"
TELL = "c.tell"
"""Where a gateway that has just started asks everybody for a heartbeat now."""
CANCELS = "c.live"
"""Where gateways tell all workers, in one message, the ids of items whose callers are gone."""


def _token(name: str) -> str:
    """Make a model id one subject token: every byte but letters, digits and `_-` becomes `=XX`.

    NATS forbids dots, wildcards and white space in a token and slashes in a consumer's name.
    """
    return "".join(chr(b) if b in _PLAIN else f"={b:02X}" for b in name.lower().encode())


@lru_cache(maxsize=1024)
def lane(model_id: str, klass: str = INTERACTIVE) -> str:
    """Return the lane's name, also its durable consumer's: `<class>-<model>`."""
    return f"{klass}-{_token(model_id)}"


def is_bulk(lane_name: str) -> bool:
    return lane_name.startswith(f"{BULK}-")


def lane_subject(lane_name: str, stream: str = LIVE) -> str:
    return f"{stream}.{lane_name}"


def lane_filter(lane_name: str, stream: str = LIVE) -> str:
    """Return what the lane's consumer takes: in JOBS a lane has a subject for each job, so that one can be purged."""
    return job_items(lane_name, "*", "*") if stream == JOBS else lane_subject(lane_name, stream)


def job_items(lane_name: str, owner: str, job_id: str) -> str:
    """Where a job's items wait."""
    return f"{JOBS}.{lane_name}.{owner}.{job_id}"


def job_record(owner: str, job_id: str) -> str:
    """Where it is written that a job was accepted; with `*` for all."""
    return f"{JOBRESULTS}.job.{owner}.{job_id}"


def job_key(owner: str, key: str) -> str:
    """Where it is written which job an Idempotency-Key stands for; `key` is its hash."""
    return f"{JOBRESULTS}.key.{owner}.{key}"


def job_result(job_id: str, number: int | str, failed: int | str) -> str:
    """Where an item's result is; the number of failed inputs is in the name, so that counting reads no result."""
    return f"{JOBRESULTS}.item.{job_id}.{number}.{failed}"


def reply_subject(gateway_id: str) -> str:
    """Where a gateway takes confirmed replies."""
    return f"r.{gateway_id}"


def heartbeat_subject(process_id: str) -> str:
    return f"hb.{process_id}"


def quarantine_subject(lane_name: str) -> str:
    return f"{QUARANTINE}.{lane_name}"


def stored_id(ack_subject: str) -> str:
    """Return what stays the same of an item over its deliveries: its number in the stream and when it was stored."""
    parts = ack_subject.split(".")
    first = ack_fields(parts)
    return f"{parts[first + 1]}.{parts[first + 3]}"


def is_durable(ack_subject: str) -> bool:
    """Return whether a delivery is of a stream on disk, whose numbers outlive the server's process."""
    parts = ack_subject.split(".")
    return parts[ack_fields(parts) - 2] == JOBS


def ack_subject(stream: str, consumer: str, sequence: int, delivery: int) -> str:
    """Return where to ack an item without having its delivery: by its number and that of any later delivery."""
    return f"$JS.ACK.{stream}.{consumer}.1.{sequence}.{delivery}.0.0"


def sequence_of(ack_subject: str) -> tuple[str, int]:
    """Return the stream of a delivery, and the item's number in it."""
    parts = ack_subject.split(".")
    first = ack_fields(parts)
    return parts[first - 2], int(parts[first + 1])


def ack_fields(parts: list[str]) -> int:
    """Return where the counts start in a split ack subject: delivered, stream seq, consumer seq, time, pending.

    v1 is `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>`; v2 has the
    domain and account before the stream.
    """
    return 4 if len(parts) == 9 else 6


def pull_subject(lane_name: str, stream: str = LIVE) -> str:
    """JetStream's API for pulling from a durable consumer."""
    return f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{lane_name}"
