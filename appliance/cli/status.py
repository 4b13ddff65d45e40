"""appliance status: what /health says, for people; the daemon answers, nothing is guessed."""

from __future__ import annotations

import argparse
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

from appliance.cli.run import REACHED_AT
from appliance.config import Config

_TIMEOUT_S = 5.0
NOT_RUNNING = 3
"""The exit status of `systemctl status` for a service that does not run."""


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("status", parents=[common], help="show what the appliance is doing")
    parser.add_argument("--host", help="address of the appliance")
    parser.add_argument("--port", type=int, help="port of the appliance")
    parser.add_argument("--json", action="store_true", help="print /health as it is")
    parser.set_defaults(handler=handle)


def handle(args: argparse.Namespace, config: Config) -> int:
    """Return 0 when it is ready, 1 when it is up but not ready, 3 when it does not answer."""
    url = f"http://{REACHED_AT.get(config.server.host, config.server.host)}:{config.server.port}/health"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as response:
            health = json.load(response)
    except (urllib.error.URLError, OSError, ValueError) as exc:
        reason = getattr(exc, "reason", exc)
        if args.json:
            print(json.dumps({"status": "not running", "reason": str(reason), "url": url}))
        else:
            print(f"No appliance answers at {url}: {reason}. Start it with `appliance run`, or name its --port.")
        return NOT_RUNNING
    print(json.dumps(health, indent=2) if args.json else "\n".join(lines(health)))
    return 0 if health["ready"] else 1


def lines(health: dict[str, Any]) -> Iterator[str]:
    """Yield the report, a line each."""
    yield f"appliance {health['version']}: {health['status']}{_because(health['reason'])}"
    yield from (f"  ! {problem}" for problem in health["problems"])
    daemon = health["daemon"]
    if daemon:
        yield f"\n{'PROCESS':<16}{'STATE':<20}{'PID':>8}{'RESTARTS':>10}  REASON"
        for name, process in daemon["processes"].items():
            yield f"{name:<16}{process['state']:<20}{process['pid']:>8}{process['restarts']:>10}  {process['reason']}"
    yield f"\n{'WORKER':<16}{'STATE':<20}{'HELD':>8}{'BATCHES':>10}{'INPUTS':>10}  ENGINES"
    for worker in health["workers"]:
        engines = ", ".join(f"{name} ({engine['state']})" for name, engine in worker["engines"].items())
        state = worker["state"] if worker["is_fresh"] else "silent"
        counters = worker["counters"]
        yield (
            f"{worker['worker_id']:<16}{state:<20}{worker['held_items']:>8}"
            f"{counters['batches']:>10.0f}{counters['inputs']:>10.0f}  {engines}"
        )
    yield f"\n{'MODEL':<40}{'STATE':<12}OPERATIONS"
    for model in health["models"]:
        yield f"{model['name']:<40}{model['state']:<12}{', '.join(model['operations'])}"


def _because(reason: str) -> str:
    return f" - {reason}" if reason else ""
