from __future__ import annotations

import pytest

from appliance.errors import ConfigError
from appliance.supervisor import gpus


@pytest.mark.parametrize(
    ("devices", "count", "workers"),
    [
        (["auto"], 0, ["cpu"]),
        (["auto"], 2, ["gpu0", "gpu1"]),
        (["cpu"], 2, ["cpu"]),
        (["auto", "cpu"], 1, ["gpu0", "cpu"]),
        (["gpu1"], 2, ["gpu1"]),
        (["virtual0", "virtual1"], 0, ["virtual0", "virtual1"]),
    ],
)
def test_devices_become_workers(devices: list[str], count: int, workers: list[str]) -> None:
    assert gpus.resolve(devices, count) == workers


@pytest.mark.parametrize(
    ("devices", "count", "words"),
    [
        (["gpu"], 1, '"gpu" is not a device'),
        (["GPU0"], 1, '"GPU0" is not a device'),
        (["gpu-1"], 1, '"gpu-1" is not a device'),
        (["cuda:0"], 1, '"cuda:0" is not a device'),
        (["cpu "], 1, '"cpu " is not a device'),
        ([""], 1, '"" is not a device'),
        (["gpu1"], 1, '"gpu1" is not there: 1 GPU'),
        (["gpu0"], 0, '"gpu0" is not there: 0 GPU'),
        (["auto", "gpu0"], 1, "named twice"),
        (["auto", "cpu"], 0, "named twice"),
        (["virtual0", "virtual0"], 0, "named twice"),
    ],
)
def test_a_wrong_device_is_named(devices: list[str], count: int, words: str) -> None:
    with pytest.raises(ConfigError, match=r"worker\.devices") as caught:
        gpus.resolve(devices, count)
    assert words in caught.value.message
