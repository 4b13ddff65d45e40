"""How much memory there is where models live, and how much of it is taken: a GPU's own, else the box's."""

from __future__ import annotations

from typing import Any

import psutil

_CGROUP_LIMIT = "/sys/fs/cgroup/memory.max"


def used_bytes(device: str) -> int:
    """Return what is in use on `device` (cpu, gpuN, virtualN). On a GPU all of it counts: it is its worker's alone."""
    if not device.startswith("gpu"):
        return int(psutil.Process().memory_info().rss)
    return int(_card(device).used)


def total_bytes(device: str) -> int:
    """Return what `device` has: a GPU's memory, else the box's or as much of it as this service may have."""
    if device.startswith("gpu"):
        return int(_card(device).total)
    total = int(psutil.virtual_memory().total)
    try:
        with open(_CGROUP_LIMIT, encoding="ascii") as file:
            return min(total, int(file.read()))
    except (OSError, ValueError):  # no such file, or it says "max"
        return total


def _card(device: str) -> Any:
    import pynvml  # only where there is a card

    pynvml.nvmlInit()
    try:
        return pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(int(device[3:])))
    finally:
        pynvml.nvmlShutdown()
