from __future__ import annotations

import asyncio
from typing import cast

from appliance.config import Config
from appliance.worker.lanes import Lanes
from appliance.workqueue.broker import Broker
from appliance.workqueue.consumer import LaneConsumer
from tests import wait
from tests.fakes import FakeBroker


def test_all_lanes_are_closed_before_anything_else_can_run() -> None:
    """An item given back while its lane is still open comes again at once, and again, as if it failed each time."""

    async def scenario() -> None:
        broker = cast(Broker, FakeBroker())
        lanes = Lanes(broker, Config(), "virtual0", lambda delivery: None)
        every = [LaneConsumer(broker, f"lane{number}", 8.0, lambda delivery: None) for number in range(5)]
        for number, consumer in enumerate(every):
            await consumer.start()
            lanes._consumers[f"model{number}"] = {("LIVE", "interactive"): consumer}
        stopping = asyncio.ensure_future(lanes.stop())
        await wait.turn(1)
        assert all(consumer._is_closed for consumer in every)
        await stopping

    asyncio.run(scenario())
