"""Accepted jobs: POST, GET and DELETE under /v1/jobs. An id that was answered stands for work that is on disk."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web

from appliance.config import Config
from appliance.errors import BadRequest, JobNotFound, OperationNotSupported
from appliance.gateway.asking import Question, cut
from appliance.gateway.body import Fields, Room, kind_of, read_json
from appliance.gateway.note import NOTE, Note
from appliance.gateway.openai import as_floats
from appliance.gateway.render import ACCEPTED, json_response
from appliance.gateway.terms import Terms, hashed, terms_of
from appliance.models.catalog import Catalog
from appliance.wire.items import WorkResult
from appliance.wire.jobs import JobRecord
from appliance.workqueue.acceptance import Acceptance
from appliance.workqueue.broker import Broker
from appliance.workqueue.jobs import JobStore, Progress

ANONYMOUS = "anonymous"
"""Who owns what comes without a key."""
MOST_LISTED = 100
MOST_RESULTS = 1000
_ID = re.compile(r"job_[0-9a-f]{44}")


class Jobs:
    """The handlers. `question` reads what is asked of a model off a body, as the interactive interface does."""

    def __init__(
        self,
        question: Callable[[Fields, Terms], tuple[Question, Any]],
        catalog: Catalog,
        broker: Broker,
        room: Room,
        config: Config,
    ) -> None:
        self._question = question
        self._catalog = catalog
        self._room = room
        self._config = config
        self._store = JobStore(broker)
        self._acceptance = Acceptance(broker, self._store, config)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/jobs", self.submit),
            web.get("/v1/jobs", self.list),
            web.get("/v1/jobs/{job_id}", self.show),
            web.get("/v1/jobs/{job_id}/results", self.results),
            web.delete("/v1/jobs/{job_id}", self.cancel),
        ]

    async def submit(self, request: web.Request) -> web.Response:
        """Accept a job: once this is answered, no crash and no power cut loses it."""
        server, queue = self._config.server, self._config.queue
        body, fields = await read_json(request, server.body_timeout_s, self._room)
        _check_operation(fields.get("operation"))
        terms = terms_of(request, body, server)
        question, _ = self._question(fields, terms)
        starts = [chunk.start for chunk in cut(question.inputs, queue.item_tokens, queue.item_inputs)]
        asked = _record(question, starts, _owner(request), body)
        key = hashlib.sha256(terms.once.encode()).hexdigest()[:32] if terms.once else ""
        record = await self._acceptance.accept(asked, question.inputs, key, self._largest_output_bytes())
        note: Note = request[NOTE]
        note.model, note.inputs = record.model_id, record.total
        is_new = record is asked  # an Idempotency-Key may stand for an earlier one
        progress = Progress("queued", record.total, 0, 0) if is_new else await self._store.progress(record)
        answer = described(record, progress, self._config.jobs.results_kept_s)
        return json_response(answer, ACCEPTED, {"Location": f"/v1/jobs/{record.job_id}"})

    def _largest_output_bytes(self) -> int:
        return max((4 * model.embed.dimensions for model in self._catalog.models if model.embed), default=0)

    async def list(self, request: web.Request) -> web.Response:
        """The caller's newest jobs."""
        limit = _number(request, "limit", 20, 1, MOST_LISTED)
        records = await self._store.newest(_owner(request), limit)
        return json_response({"object": "list", "data": [await self._described(record) for record in records]})

    async def show(self, request: web.Request) -> web.Response:
        return json_response(await self._described(await self._record(request)))

    async def cancel(self, request: web.Request) -> web.Response:
        """Cancel what has not run, and forget the results."""
        return json_response(await self._described(await self._store.cancel(await self._record(request))))

    async def results(self, request: web.Request) -> web.Response:
        """Some of a job's results, in the order of its inputs: each done, failed, or waiting."""
        record = await self._record(request)
        offset = _number(request, "offset", 0, 0, 10**9)
        total = 0 if record.is_cancelled else record.total  # what was cancelled is forgotten
        end = min(total, offset + _number(request, "limit", 100, 1, MOST_RESULTS))
        numbers = range(0)
        if offset < end:
            numbers = range(bisect_right(record.starts, offset) - 1, bisect_right(record.starts, end - 1))
        found = await self._store.results(record, numbers)
        bounds = record.bounds()
        data = [
            entry for n in numbers for entry in _entries(*bounds[n], found.get(n)) if offset <= entry["index"] < end
        ]
        progress = await self._described(record)
        answer = {"object": "list", "state": progress["state"], "total": record.total, "offset": offset, "data": data}
        return json_response({**answer, "next_offset": end if end < total else None})

    async def _record(self, request: web.Request) -> JobRecord:
        """Return the job asked for. Raises JobNotFound, for another key's just the same."""
        job_id = request.match_info["job_id"]
        record = await self._store.record(_owner(request), job_id) if _ID.fullmatch(job_id) else None
        if record is None:
            raise JobNotFound("There is no job of this id. It may have expired.", param="job_id")
        return record

    async def _described(self, record: JobRecord) -> dict[str, Any]:
        return described(record, await self._store.progress(record), self._config.jobs.results_kept_s)


def described(record: JobRecord, progress: Progress, kept_s: float) -> dict[str, Any]:
    """Return what is told of a job."""
    return {
        "id": record.job_id,
        "object": "job",
        "operation": record.operation,
        "model": record.model_id,
        "state": progress.state,
        "total": progress.total,
        "done": progress.done,
        "failed": progress.failed,
        "created_at": int(record.created_at),
        "expires_at": int(record.created_at + kept_s),
    }


def _record(question: Question, starts: list[int], owner: str, body: bytes) -> JobRecord:
    now = time.time()
    return JobRecord(
        job_id=f"job_{int(now * 1e3):012x}{secrets.token_hex(16)}",
        owner=owner,
        model_id=question.model.name,
        content_hash=question.model.content_hash,
        operation=question.operation,
        options=question.options,
        truncate=question.truncate,
        starts=starts,
        total=len(question.inputs),
        created_at=now,
        fingerprint=hashlib.sha256(body).hexdigest(),
    )


def _owner(request: web.Request) -> str:
    """Return the token of the caller's key; where it called from is no key."""
    authorization = request.headers.get("Authorization")
    return hashed(authorization) if authorization is not None else ANONYMOUS


def _check_operation(name: Any) -> None:
    if not isinstance(name, str):
        raise BadRequest(f"operation must be a string, not {kind_of(name)}.", param="operation")
    if name != "embed":
        raise OperationNotSupported(f"{name[:40]!r} cannot be a job's operation; embed can.", param="operation")


def _number(request: web.Request, name: str, default: int, low: int, high: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and low <= int(text) <= high):
        raise BadRequest(f"{name} must be a whole number from {low} to {high}.", param=name)
    return int(text)


def _entries(start: int, end: int, result: WorkResult | None) -> Iterator[dict[str, Any]]:
    """Yield what is known of each input of an item."""
    if result is None:
        yield from ({"index": index, "state": "waiting"} for index in range(start, end))
        return
    whole = (result.error_code, result.error_message)
    errors = {index: (code, message) for index, code, message in result.errors}
    for index in range(start, end):
        code, message = whole if result.error_code else errors.get(index - start, ("", ""))
        if code:
            yield {"index": index, "state": "failed", "error": {"code": code, "message": message}}
        else:
            entry = {"index": index, "state": "done", "embedding": as_floats(result.outputs[index - start])}
            yield {**entry, "truncated": True} if index - start in result.truncated else entry
