"""What part of its devices a lane gets: other lanes' work runs there, too, and a pace that was told is a guess."""

from __future__ import annotations

import math
from collections.abc import Callable

from appliance.workqueue.windows import Window

_LEAST_S = 0.9
"""Over less than that, single batches would show."""
_FOLLOW_S = 4.0
"""In that time a change counts for two thirds."""
_LEAST = 0.05


class Share:
    """`part` is learnt while a lane never runs short of work, and goes back to 1.0 while it does."""

    def __init__(self, window: Window, clock: Callable[[], float]) -> None:
        self._window = window
        self._clock = clock
        self.part = 1.0
        self._look()

    def follow(self) -> None:
        """Compare what was answered since the last look with what the devices could do; called about each second."""
        elapsed_s = self._clock() - self._at
        if elapsed_s < _LEAST_S:
            return
        part = 1.0
        if self._was_full and self._window.waiting and self._window.seconds_per_cost:
            done_s = (self._window.done - self._done) * self._window.seconds_per_cost
            part = min(1.0, max(_LEAST, done_s / elapsed_s))
        self.part += (part - self.part) * (1 - math.exp(-elapsed_s / _FOLLOW_S))
        self._look()

    def _look(self) -> None:
        self._at = self._clock()
        self._done = self._window.done
        self._was_full = self._window.waiting > 0
