"""The appliance's processes by role, and what each has used: processor time and memory, as the kernel counts them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress

import psutil

ROLES = ("daemon", "gateway", "nats-server", "worker", "engine")

Times = dict[str, float]


def by_role(daemon_pid: int) -> dict[str, list[psutil.Process]]:
    """Return the daemon and everything below it, sorted into roles by what they were started with."""
    found: dict[str, list[psutil.Process]] = defaultdict(list)
    daemon = psutil.Process(daemon_pid)
    found["daemon"].append(daemon)
    for child in daemon.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            found[_role(child.cmdline())].append(child)
    return dict(found)


def _role(argv: list[str]) -> str:
    for role in ("gateway", "worker", "engine"):
        if f"appliance.{role}.main" in argv or f"bench.routing.{role}" in argv:
            return role
    return "nats-server" if argv and os.path.basename(argv[0]) == "nats-server" else "other"


def cpu_s(processes: Mapping[str, Iterable[psutil.Process]]) -> Times:
    """Return the processor seconds that each role has used so far."""
    used: Times = {}
    for role, members in processes.items():
        used[role] = 0.0
        for member in members:
            with suppress(psutil.NoSuchProcess):
                times = member.cpu_times()
                used[role] += times.user + times.system
    return used


def memory_bytes(processes: Mapping[str, Iterable[psutil.Process]]) -> tuple[dict[str, int], dict[str, int]]:
    """Return resident (RSS) and proportional (PSS: shared pages divided among their users) bytes of each role."""
    rss: dict[str, int] = {}
    pss: dict[str, int] = {}
    for role, members in processes.items():
        full = [member.memory_full_info() for member in members]
        rss[role] = sum(one.rss for one in full)
        pss[role] = sum(one.pss for one in full)
    return rss, pss


def machine_busy_s() -> tuple[float, float]:
    """Return (busy, all) seconds of the cores that we may use.

    Interrupts count as busy: most kernels charge them to the process they interrupt as well, so leaving them out here
    would hide as much of what others use behind our own network traffic.
    """
    cores = [times for core, times in enumerate(psutil.cpu_times(percpu=True)) if core in os.sched_getaffinity(0)]
    everything = sum(sum(t) - t.guest - t.guest_nice for t in cores)
    return everything - sum(t.idle + t.iowait for t in cores), everything
