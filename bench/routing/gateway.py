"""A gateway that picks a worker for each item and pushes it there. All else is the product's."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from appliance.gateway import main as product
from appliance.workqueue.held import Held
from appliance.workqueue.publisher import Publisher
from appliance.workqueue.windows import Windows
from bench.routers import ROUTERS
from bench.routing import push


class _Left(Windows):
    """Tells of every item that was sent and is over."""

    def __init__(self, send: Callable[[Held], None], on_left: Callable[[Held], None]) -> None:
        super().__init__(send)
        self._on_left = on_left

    def leave(self, held: Held) -> None:
        if held.payload:
            self._on_left(held)
        super().leave(held)


class RoutedPublisher(Publisher):
    """Knows exactly what is outstanding at each worker, being the only gateway; or how it was a while ago."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        told = push.routing()
        self._route = ROUTERS[told.router]()
        self._stale_s = told.stale_s
        self._subjects = [push.subject(worker_id) for worker_id in told.workers]
        self._outstanding = [0] * len(told.workers)
        self._known = list(self._outstanding) if told.stale_s else self._outstanding
        self._dice = random.Random(1)
        self.windows = _Left(self._send_first, self._left)

    async def start(self) -> None:
        await super().start()
        if self._stale_s:
            self._telling = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        while True:
            self._known[:] = self._outstanding
            await asyncio.sleep(self._stale_s)

    def _send(self, held: Held) -> None:
        held.number = self._route(self._known, self._dice)  # the worker's; nothing is confirmed, so no other is needed
        self._outstanding[held.number] += 1
        self._broker.post(self._subjects[held.number], held.payload)

    def _left(self, held: Held) -> None:
        self._outstanding[held.number] -= 1


if __name__ == "__main__":
    product.Publisher = RoutedPublisher  # type: ignore[attr-defined,assignment]
    raise SystemExit(product.main())
