"""How the only worker of a box asks for work: what it can start next, of every lane, before it needs it."""

from __future__ import annotations

import asyncio

from appliance.worker.batcher import Limits
from appliance.worker.credit import credit
from appliance.worker.dispatcher import Dispatcher
from appliance.worker.lanes import Lanes
from appliance.worker.residency import Residency


class Steady:
    """Keeps pulls waiting. What it holds too much of, nobody else could have started sooner."""

    def __init__(
        self, lanes: Lanes, dispatcher: Dispatcher, residency: Residency, limits: Limits, batches_ahead: int
    ) -> None:
        self._lanes = lanes
        self._dispatcher = dispatcher
        self._residency = residency
        self._limits = limits
        self._batches_ahead = batches_ahead

    def adjust(self) -> None:
        """Set the credit of every lane; for models that failed no accepted jobs are asked for."""
        failed = self._residency.failed()
        for klass, holding in self._dispatcher.holding.items():
            self._lanes.want(klass, credit(holding, self._limits, self._batches_ahead), failed)

    async def run(self) -> None:
        """Do nothing beside, for as long as the worker lives."""
        await asyncio.Event().wait()
