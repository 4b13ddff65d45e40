"""A worker that drains gives back what it cannot start, and takes none of it again."""

from __future__ import annotations

import asyncio
import signal

from tests import wait
from tests.client import Client, Reply, talk
from tests.harness import Appliance, running, write_fake


def test_what_waits_while_the_worker_is_renewed_is_not_delivered_in_circles(appliance: Appliance) -> None:
    write_fake(appliance.models, a_ms=400)
    with running(appliance):
        worker = appliance.find("worker")

        async def conversation(client: Client) -> list[Reply]:
            first = asyncio.ensure_future(client.embed("first"))
            await wait.until_async(lambda: client.holds(1), 10)
            worker.send_signal(signal.SIGTERM)
            await wait.until_async(lambda: "worker=virtual0 state=draining" in appliance.log, 10)
            others = [asyncio.ensure_future(client.embed(f"text {number}")) for number in range(30)]
            return [await first, *await asyncio.gather(*others)]

        replies = talk(appliance.url, conversation)
        assert {reply.status for reply in replies} == {200}
        assert appliance.has_another("worker", worker.pid)
