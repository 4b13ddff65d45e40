from __future__ import annotations

import pytest

from appliance.config import Worker
from appliance.worker import profile


@pytest.mark.parametrize("device", ["cpu", "gpu0", "virtual0"])
def test_settings_are_laid_over_the_device_s_own(device: str) -> None:
    own = profile.of_device(device, Worker())
    changed = profile.of_device(device, Worker(batch_tokens=100, batch_items=3))
    assert (changed.limits.batch_tokens, changed.limits.batch_items) == (100, 3)
    assert changed.limits.overhead_tokens == own.limits.overhead_tokens
    assert changed.streams == own.streams >= 1


def test_a_gpu_takes_far_more_at_once_than_a_cpu() -> None:
    gpu, cpu = (profile.of_device(device, Worker()).limits.batch_tokens for device in ("gpu3", "cpu"))
    assert gpu > 8 * cpu
