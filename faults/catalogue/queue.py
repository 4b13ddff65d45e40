"""The queue itself: items that are delivered twice, although they were answered."""

from __future__ import annotations

import asyncio
import json

from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from faults.fault import Fault
from faults.scene import Scene

_LATER_S = (0.0, 0.3)
_OURS = "Copied-By"


def _copy_everything(scene: Scene) -> None:
    for _ in scene.rounds():
        copies = asyncio.run(_copy(scene, 2.0))
        scene.note(f"{copies} copies")
        scene.check(copies > 0, "nothing was copied")


async def _copy(scene: Scene, seconds: float) -> int:
    """Publish each item that passes once more, a moment later, as a broker does that forgot an ack."""
    login = json.loads((scene.appliance.data / "run" / "admin.json").read_text())
    nats, copies = Nats(), 0
    await nats.connect(login["url"], user=login["user"], password=login["password"])
    tasks: set[asyncio.Task[None]] = set()

    async def again(message: Msg) -> None:
        await asyncio.sleep(scene.chance.uniform(*_LATER_S))
        await nats.publish(message.subject, message.data, headers={_OURS: "faults"})

    async def on_item(message: Msg) -> None:
        nonlocal copies
        if _OURS not in (message.headers or {}):
            copies += 1
            tasks.add(asyncio.create_task(again(message)))

    subscription = await nats.subscribe("LIVE.>", cb=on_item)
    await asyncio.sleep(seconds)
    await subscription.unsubscribe()
    await asyncio.gather(*tasks)
    await nats.close()
    return copies


FAULTS = (
    Fault(
        "duplicate-delivery",
        "every item put into the queue twice, the copy up to 0.3 s later",
        _copy_everything,
        times=3,
    ),
)
