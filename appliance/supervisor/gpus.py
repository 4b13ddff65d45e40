"""Which devices there are: NVML's list, without loading CUDA."""

from __future__ import annotations

import re
from collections.abc import Sequence

from appliance.errors import ConfigError

_DEVICE = re.compile(r"cpu|gpu\d{1,2}|virtual\d{1,3}")


def count_gpus() -> tuple[int, str]:
    """Return how many GPUs NVML sees, and why there are none where there are none."""
    try:
        import pynvml
    except ImportError:
        return 0, "nvidia-ml-py is not installed"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as exc:
        return 0, f"NVML: {exc}"
    try:
        return int(pynvml.nvmlDeviceGetCount()), ""
    finally:
        pynvml.nvmlShutdown()


def resolve(devices: Sequence[str], gpus: int) -> list[str]:
    """Turn the configured devices into worker ids, one worker each. Raises ConfigError naming the wrong one."""
    found: list[str] = []
    for device in devices:
        if device == "auto":
            found += [f"gpu{i}" for i in range(gpus)] or ["cpu"]
        elif not _DEVICE.fullmatch(device):
            raise ConfigError(f'worker.devices: "{device}" is not a device. Expected auto, cpu, gpuN or virtualN.')
        elif device.startswith("gpu") and int(device[3:]) >= gpus:
            raise ConfigError(f'worker.devices: "{device}" is not there: {gpus} GPU(s) found. See `nvidia-smi`.')
        else:
            found.append(device)
    if len(set(found)) != len(found):
        raise ConfigError(f"worker.devices: a device is named twice: {', '.join(found)}.")
    return found
