"""A worker that takes all that is pushed at it, and makes batches of that. All else is the product's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from appliance.wire.items import unpack_item
from appliance.worker import main as product
from appliance.worker.main import Worker
from appliance.workqueue.broker import Broker
from appliance.workqueue.consumer import Delivery
from bench.routing import push

_NO_LEASE = -1
"""An epoch that never is: nothing pushed is acked."""


class _Pushed:
    def __init__(self, broker: Broker, worker_id: str, on_delivery: Callable[[Delivery], None]) -> None:
        self._broker = broker
        self._subject = push.subject(worker_id)
        self._on_delivery = on_delivery

    def adjust(self) -> None:
        """What comes, comes."""

    async def run(self) -> None:
        self._broker.listen(self._subject, self._on_message)
        await asyncio.Event().wait()

    def _on_message(self, subject: str, reply: str, data: bytes, headers: bytes) -> None:
        self._on_delivery(Delivery(unpack_item(data), "", _NO_LEASE, 1, 0.0))


class PushedWorker(Worker):
    def _supplied(self) -> _Pushed:  # type: ignore[override]
        return _Pushed(self._broker, self._launch.process_id, self._on_delivery)


if __name__ == "__main__":
    product.Worker = PushedWorker  # type: ignore[misc]
    raise SystemExit(product.main())
