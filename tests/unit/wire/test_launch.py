from __future__ import annotations

from appliance import config as configuration
from appliance.wire import launch
from appliance.wire.launch import BrokerLogin, Launch


def test_a_launch_order_is_one_line_and_round_trips() -> None:
    config = configuration.from_table({"worker": {"devices": ["cpu", "virtual0"]}, "data": {"dir": "a\nb"}}, "test")
    order = Launch("gpu0", config, BrokerLogin("nats://127.0.0.1:1", "worker", "secret"), "gpu0", 2, 5)
    line = launch.pack(order)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert launch.unpack(line) == order
