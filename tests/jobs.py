"""Accepted jobs, as a client sees them."""

from __future__ import annotations

import json
from typing import Any

from tests import wait
from tests.client import Client, Reply

Entries = list[dict[str, Any]]


async def submit(client: Client, texts: list[str], model: str = "fake", key: str = "", **fields: Any) -> Reply:
    """Send a job; `key` is its Idempotency-Key."""
    body = json.dumps({"operation": "embed", "model": model, "input": texts, **fields}).encode()
    return await client.post(body, "/v1/jobs", **({"Idempotency_Key": key} if key else {}))


async def accepted(client: Client, texts: list[str], model: str = "fake", key: str = "", **fields: Any) -> str:
    """Send a job that must be accepted; return its id."""
    reply = await submit(client, texts, model, key, **fields)
    assert reply.status == 202, reply.body
    job_id: str = reply.json()["id"]
    return job_id


async def state(client: Client, job_id: str) -> dict[str, Any]:
    reply = await client.send("GET", f"/v1/jobs/{job_id}")
    assert reply.status == 200, reply.body
    found: dict[str, Any] = reply.json()
    return found


async def ended(client: Client, job_id: str, timeout_s: float = 60.0) -> dict[str, Any]:
    """Wait until a job has ended; return how."""
    last: dict[str, Any] = {}

    async def is_over() -> bool:
        last.clear()
        last.update(await state(client, job_id))
        return last["state"] in ("done", "failed", "cancelled")

    await wait.until_async(is_over, timeout_s, f"the end of {job_id}")
    return last


async def results(client: Client, job_id: str, page: int = 70) -> Entries:
    """Return all results, read page by page, their order checked."""
    found: Entries = []
    offset: int | None = 0
    while offset is not None:
        reply = await client.send("GET", f"/v1/jobs/{job_id}/results?offset={offset}&limit={page}")
        assert reply.status == 200, reply.body
        answer = reply.json()
        found += answer["data"]
        offset = answer["next_offset"]
    assert [entry["index"] for entry in found] == list(range(len(found)))
    return found
