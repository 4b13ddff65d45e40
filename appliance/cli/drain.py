"""appliance drain: what SIGTERM does, and a word on how far it is."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from appliance.cli.run import REACHED_AT
from appliance.cli.status import NOT_RUNNING
from appliance.config import Config

_LOOK_S = 0.2
_MARGIN_S = 10.0


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("drain", parents=[common], help="finish what is held, refuse what is new, then stop")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    parser.set_defaults(handler=handle)


def handle(args: argparse.Namespace, config: Config) -> int:
    """Return 0 once the daemon is gone, 1 where it is still there after its time to drain, 3 where none runs."""
    lock = config.run_dir / "lock"
    pid = holder(lock)
    if pid is None:
        return _tell(args, "not running", f"No appliance runs on {config.data_dir}.", NOT_RUNNING)
    start = time.monotonic()
    os.kill(pid, signal.SIGTERM)
    while holder(lock) == pid:
        waited_s = time.monotonic() - start
        if waited_s > config.supervisor.drain_timeout_s + _MARGIN_S:
            return _tell(args, "draining", f"Process {pid} is still there after {waited_s:.0f} s; see its log.", 1)
        if sys.stderr.isatty():
            print(f"\rDraining, {waited_s:.0f} s{_held(config)} ", end="", file=sys.stderr, flush=True)
        time.sleep(_LOOK_S)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return _tell(args, "stopped", f"Drained and stopped after {time.monotonic() - start:.1f} s.", 0)


def holder(lock: Path) -> int | None:
    """Return the process that holds the daemon's lock, or None. A file that a crash left behind is held by nobody."""
    try:
        with lock.open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return int(file.read().strip() or 0) or None
    except (OSError, ValueError):
        pass
    return None


def _held(config: Config) -> str:
    """Return how many requests are still on their way, where a gateway still tells."""
    host = REACHED_AT.get(config.server.host, config.server.host)
    try:
        with urllib.request.urlopen(f"http://{host}:{config.server.port}/health", timeout=0.2) as response:
            return f", {json.load(response)['gateway']['in_flight'] - 1} requests on their way"
    except (OSError, ValueError, KeyError):
        return ""


def _tell(args: argparse.Namespace, state: str, text: str, status: int) -> int:
    print(json.dumps({"state": state, "detail": text}) if args.json else text)
    return status
