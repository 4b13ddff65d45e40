"""An item whose caller waits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from appliance.wire.items import WorkItem, WorkResult


@dataclass(slots=True, eq=False)
class Held:
    """All that is needed to send an item, and to send it again. `key` is whose it is, for fairness."""

    item: WorkItem
    lane: str
    key: str
    expires_at: float
    answer: asyncio.Future[WorkResult]
    payload: bytes = b""
    """The packed item once it was sent, so that a second time sends the same; empty while it waits for its turn."""
    is_in_window: bool = False
    start: float = 0.0
    """Its place in its lane's order, in units of cost."""
    sent_at: float = 0.0
    number: int = 0
    sequence: int = 0
    """The broker's number for it once it is confirmed, 0 before: to delete it by, should its caller go."""

    @property
    def item_id(self) -> str:
        return self.item.item_id

    @property
    def cost(self) -> int:
        return self.item.cost
