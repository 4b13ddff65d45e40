"""How the command line reaches the queue of a running appliance.

With the login that the daemon keeps in its run folder (0600), so it needs the daemon's own rights to the data folder,
and no more.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from appliance.config import Config
from appliance.errors import StartError
from appliance.supervisor.nats_server import ADMIN_LOGIN
from appliance.wire.launch import BrokerLogin
from appliance.workqueue.broker import Broker


@asynccontextmanager
async def connected(config: Config) -> AsyncIterator[Broker]:
    """Give a connection with the daemon's rights. Raises StartError where there is no appliance, or not ours."""
    path = config.run_dir / ADMIN_LOGIN
    try:
        login = BrokerLogin(**json.loads(path.read_text()))
    except OSError as exc:
        raise StartError(
            f"{path} cannot be read: {exc.strerror}. Is the appliance running, and is this its user?"
        ) from exc
    broker = Broker(login, f"cli-{os.getpid()}")
    try:
        await asyncio.wait_for(broker.start(), 5.0)
    except (asyncio.TimeoutError, OSError) as exc:
        raise StartError(
            "The appliance's queue does not answer. Is the appliance running? See `appliance status`."
        ) from exc
    try:
        yield broker
    finally:
        await broker.stop()
