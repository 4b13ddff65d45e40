"""Whose turn it is on the device: interactive work first, and a share of the time for bulk work all the same.

Start-time fair queuing (Goyal, Vin, Cheng 1996) with two flows: each class's clock advances by cost over weight, the
one that is behind goes next, and a class that was idle starts at the present: nobody saves up.
"""

from __future__ import annotations

from collections.abc import Iterable

from appliance.wire.subjects import BULK, CLASSES, INTERACTIVE


class Turns:
    """`bulk_share` is the part of the device's time that bulk work gets while both classes have work, 0 to 1."""

    def __init__(self, bulk_share: float) -> None:
        self._weight = {INTERACTIVE: 1.0 - bulk_share, BULK: bulk_share}
        self._clock = dict.fromkeys(CLASSES, 0.0)
        self._now = 0.0

    def next(self, waiting: Iterable[str]) -> str:
        """Return which of the waiting classes goes next; of two that are level, the interactive one."""
        return min(waiting, key=lambda klass: (max(self._clock[klass], self._now), CLASSES.index(klass)))

    def charge(self, klass: str, cost: float) -> None:
        """Count a batch of a class that was just started."""
        self._now = max(self._clock[klass], self._now)
        self._clock[klass] = self._now + cost / self._weight[klass]
