"""appliance quarantine: what was set aside because it failed again and again; look, try again, or drop it.

Talks to the broker of the running appliance with the login that the daemon keeps in its run folder (0600), so it needs
the daemon's own rights to the data folder, and no more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

from appliance.config import Config
from appliance.errors import ApplianceError, StartError
from appliance.supervisor.nats_server import ADMIN_LOGIN
from appliance.wire.launch import BrokerLogin
from appliance.workqueue.broker import Broker
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
    def handle(args: argparse.Namespace, config: Config) -> int:
        return asyncio.run(_with_quarantine(action, args, config))

    return handle


async def _with_quarantine(action: Action, args: argparse.Namespace, config: Config) -> int:
    path = config.run_dir / ADMIN_LOGIN
    try:
        login = BrokerLogin(**json.loads(path.read_text()))
    except OSError as exc:
        raise StartError(
            f"{path} cannot be read: {exc.strerror}. Is the appliance running, and is this its user?"
        ) from exc
    broker = Broker(login, f"cli-{os.getpid()}")
    try:
        await asyncio.wait_for(broker.start(), 5.0)
    except (asyncio.TimeoutError, OSError) as exc:
        raise StartError(
            "The appliance's queue does not answer. Is the appliance running? See `appliance status`."
        ) from exc
    try:
        return await action(Quarantine(broker), args)
    finally:
        await broker.stop()


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
