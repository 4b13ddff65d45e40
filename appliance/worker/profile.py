"""What suits a device: its batch budget, how many batches run at once. Measured; the configuration overrides."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.config import Worker
from appliance.runtimes import memory
from appliance.worker.batcher import Limits


@dataclass(frozen=True)
class Profile:
    """`streams` is how many batches a device runs at once, `memory_share` the part of its memory that models get."""

    limits: Limits
    streams: int
    memory_share: float = 0.6


# On the CPU (MiniLM) a token takes 0.2 ms of a core and a batch 2 ms more; 16 and 64 tokens of overhead gave the same
# throughput with short texts, and 64 gave 4 % less with mixed ones, whose attention has the longer rows. Two batches at
# once: where gateway or broker take a core from one of them for a moment the other goes on, and nobody waits at an
# operator's barrier.
_CPU = Profile(Limits(batch_tokens=512, batch_items=64, overhead_tokens=16), streams=2)
# A GPU is far from busy below some thousand tokens.
_GPU = Profile(Limits(batch_tokens=16384, batch_items=256, overhead_tokens=1024), streams=1, memory_share=0.9)
_VIRTUAL = Profile(Limits(batch_tokens=16384, batch_items=64, overhead_tokens=1024), streams=1)


def of_device(device: str, settings: Worker) -> Profile:
    """Return the device's profile with the settings laid over it; a setting of 0 leaves the device's own."""
    base = _GPU if device.startswith("gpu") else _VIRTUAL if device.startswith("virtual") else _CPU
    limits = Limits(
        settings.batch_tokens or base.limits.batch_tokens,
        settings.batch_items or base.limits.batch_items,
        settings.overhead_tokens or base.limits.overhead_tokens,
    )
    return Profile(limits, settings.streams or base.streams, base.memory_share)


def memory_budget(device: str, settings: Worker) -> float:
    """Return the bytes that models may take on a device. A virtual device has as much as anybody declares."""
    if settings.memory_bytes:
        return settings.memory_bytes
    if device.startswith("virtual"):
        return float("inf")
    return of_device(device, settings).memory_share * memory.total_bytes(device)
