"""appliance quarantine: what was set aside because it failed again and again; look, try again, or drop it."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from appliance.cli.queue import connected
from appliance.config import Config
from appliance.errors import ApplianceError
from appliance.workqueue.quarantine import Entry, Quarantine, content, describe

Action = Callable[[Quarantine, argparse.Namespace], Awaitable[int]]


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    group = commands.add_parser("quarantine", help="look at, retry or drop inputs that made a model fail")
    leaves = group.add_subparsers(dest="quarantine_command", required=True)
    leaf = leaves.add_parser("list", parents=[common], help="list what was set aside, and why")
    leaf.add_argument("--json", action="store_true", help="print a JSON array")
    leaf.set_defaults(handler=_handler(_list))
    for name, action, text in (
        ("show", _show, "print one entry with its inputs"),
        ("retry", _retry, "run one entry again; it leaves the quarantine when it succeeds"),
        ("drop", _drop, "remove one entry for good"),
    ):
        leaf = leaves.add_parser(name, parents=[common], help=text)
        leaf.add_argument("number", type=int, help="the entry's number in the list")
        leaf.set_defaults(handler=_handler(action))


def _handler(action: Action) -> Callable[[argparse.Namespace, Config], int]:
    async def handle(args: argparse.Namespace, config: Config) -> int:
        async with connected(config) as broker:
            return await action(Quarantine(broker), args)

    return lambda args, config: asyncio.run(handle(args, config))


async def _list(quarantine: Quarantine, args: argparse.Namespace) -> int:
    rows = [describe(entry) async for entry in quarantine.entries()]
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    if not rows:
        print("Nothing is in quarantine.")
        return 0
    print(f"{'NUMBER':>6}  {'AT':<20}  {'MODEL':<32}  {'INPUTS':>6}  REASON")
    for row in rows:
        print(f"{row['number']:>6}  {row['at']:<20}  {row['model']:<32}  {row['inputs']:>6}  {row['reason']}")
    return 0


async def _find(quarantine: Quarantine, number: int) -> Entry:
    entry = await quarantine.entry(number)
    if entry is None:
        raise ApplianceError(f"There is no entry {number}. `appliance quarantine list` shows those that are there.")
    return entry


async def _show(quarantine: Quarantine, args: argparse.Namespace) -> int:
    entry = await _find(quarantine, args.number)
    for key, value in describe(entry).items():
        print(f"{key:<14}{value}")
    print(content(entry))
    return 0


async def _retry(quarantine: Quarantine, args: argparse.Namespace) -> int:
    entry = await _find(quarantine, args.number)
    result = await quarantine.retry(entry)
    if result.error_code:
        print(f"Entry {args.number} failed again: {result.error_message}")
        return 1
    await quarantine.drop(args.number)
    print(f"Entry {args.number} succeeded and left the quarantine.")
    return 0


async def _drop(quarantine: Quarantine, args: argparse.Namespace) -> int:
    await _find(quarantine, args.number)
    await quarantine.drop(args.number)
    print(f"Entry {args.number} is gone.")
    return 0
