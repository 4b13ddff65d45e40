"""Rows of what the appliance costs by being there: idle-memory, start, size."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from bench import processes
from bench.appliance_under_test import ApplianceUnderTest
from bench.options import Options
from bench.row import Bar, Pair, Row
from bench.series import Say

MIB = 1 << 20
_SETTLE_S = 2.0


def standing_rows(options: Options, data: Path, say: Say) -> list[Row]:
    """Start the appliance again and again: how long until it is ready, and what it then holds without any load."""
    start = Row(
        "start", "from `appliance run` until /readyz says 200, model imported before", "", "s", Bar(3.0, False, "s")
    )
    memory = Row(
        "idle-memory",
        "daemon, gateway, nats-server and worker, model loaded, no load",
        "",
        "MiB",
        Bar(220.0, False, "MiB"),
    )
    memory.details = {"rss_mib": [], "pss_mib": []}
    with ApplianceUnderTest(data):  # the first start makes the folders and warms the disk's cache
        pass
    for repeat in range(options.repeats):
        with ApplianceUnderTest(data) as appliance:
            start.pairs.append(Pair(None, appliance.ready_s, appliance.ready_s))
            time.sleep(_SETTLE_S)
            held = memory_mib(appliance, memory)
        memory.pairs.append(Pair(None, held, held))
        say(f"start {repeat + 1}: ready after {appliance.ready_s:.2f} s; idle {held:.0f} MiB without the engine")
    for kind in ("rss_mib", "pss_mib"):
        seen = memory.details[kind]
        memory.details[f"median_{kind}"] = {
            role: statistics.median(one.get(role, 0.0) for one in seen) for role in seen[0]
        }
    return [row for row in (memory, start) if row.name in options.rows]


def memory_mib(appliance: ApplianceUnderTest, row: Row) -> float:
    """Note each role's memory in the row; return the sum of the resident memory of all but the engines."""
    rss, pss = processes.memory_bytes(appliance.processes())
    row.details["rss_mib"].append({role: size / MIB for role, size in rss.items()})
    row.details["pss_mib"].append({role: size / MIB for role, size in pss.items()})
    return sum(size for role, size in rss.items() if role != "engine") / MIB


def size_row(venv: Path, say: Say) -> Row:
    """What the installed virtual environment takes on the disk."""
    row = Row("size", "the virtual environment with everything needed to run", "", "MiB", Bar(350.0, False, "MiB"))
    if venv.is_dir():
        size = disk_bytes(venv) / MIB
        row.pairs.append(Pair(None, size, size))
        say(f"size: {size:.0f} MiB")
    else:
        say("size: there is no such virtual environment; name it with --venv")
    return row


def disk_bytes(folder: Path) -> int:
    """Return what `du` would say: the blocks of every file, each file once however many names it has."""
    seen: dict[tuple[int, int], int] = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files, "."):
            found = os.lstat(os.path.join(parent, name))
            seen[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(seen.values())
