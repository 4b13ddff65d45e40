"""appliance jobs: everybody's accepted jobs; list them, look at one, or cancel it."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from appliance.cli.queue import connected
from appliance.config import Config
from appliance.errors import JobNotFound
from appliance.wire.jobs import JobRecord
from appliance.workqueue.jobs import JobStore

Action = Callable[[JobStore, argparse.Namespace], Awaitable[int]]


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    group = commands.add_parser("jobs", help="look at or cancel accepted jobs")
    leaves = group.add_subparsers(dest="jobs_command", required=True)
    leaf = leaves.add_parser("list", parents=[common], help="list the newest jobs and how far they are")
    leaf.add_argument("--json", action="store_true", help="print a JSON array")
    leaf.add_argument("--limit", type=int, default=100, metavar="N", help="how many (default: 100)")
    leaf.set_defaults(handler=_handler(_list))
    for name, action, text in (
        ("show", _show, "print one job"),
        ("cancel", _cancel, "cancel what has not run of a job, and forget its results"),
    ):
        leaf = leaves.add_parser(name, parents=[common], help=text)
        leaf.add_argument("job_id", metavar="ID", help="the job's id in the list")
        leaf.set_defaults(handler=_handler(action))


def _handler(action: Action) -> Callable[[argparse.Namespace, Config], int]:
    async def handle(args: argparse.Namespace, config: Config) -> int:
        async with connected(config) as broker:
            return await action(JobStore(broker), args)

    return lambda args, config: asyncio.run(handle(args, config))


async def _row(store: JobStore, record: JobRecord) -> dict[str, Any]:
    progress = await store.progress(record)
    return {
        "id": record.job_id,
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created_at)),
        "owner": record.owner,
        "model": record.model_id,
        "operation": record.operation,
        **vars(progress),
    }


async def _list(store: JobStore, args: argparse.Namespace) -> int:
    rows = [await _row(store, record) for record in await store.newest("*", args.limit)]
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    if not rows:
        print("There are no jobs.")
        return 0
    print(f"{'ID':<48}  {'CREATED':<20}  {'STATE':<9}  {'TOTAL':>6}  {'DONE':>6}  {'FAILED':>6}  MODEL")
    for row in rows:
        print(
            f"{row['id']:<48}  {row['created_at']:<20}  {row['state']:<9}  {row['total']:>6}  {row['done']:>6}  "
            f"{row['failed']:>6}  {row['model']}"
        )
    return 0


async def _find(store: JobStore, job_id: str) -> JobRecord:
    for owner, _ in await store.places(job_id=job_id) if job_id.replace("_", "").isalnum() else []:
        record = await store.record(owner, job_id)
        if record is not None:
            return record
    raise JobNotFound(f"There is no job {job_id}. `appliance jobs list` shows those that are there.")


async def _show(store: JobStore, args: argparse.Namespace) -> int:
    for key, value in (await _row(store, await _find(store, args.job_id))).items():
        print(f"{key:<12}{value}")
    return 0


async def _cancel(store: JobStore, args: argparse.Namespace) -> int:
    await store.cancel(await _find(store, args.job_id))
    print(f"Job {args.job_id} is cancelled.")
    return 0
