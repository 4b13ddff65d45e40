"""Retry-After that comes true: who was refused has a place at the time that it was told, if it comes back then.

Places are given out a little slower than the lane works, one after the other, so that those who come back find room
even while newcomers are still turned away.
"""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable

_KEPT = 50_000
_PACE = 0.9
"""Part of the lane's capacity that is promised; the rest is for being wrong."""
_LONGEST_S = 600
_GRACE_S = 30.0
"""How long after its time a promise still holds."""


class Promises:
    """Callers are known by a fingerprint: who asked and for what."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due: OrderedDict[int, float] = OrderedDict()
        self._next_place: defaultdict[str, float] = defaultdict(float)

    def __len__(self) -> int:
        return len(self._due)

    def give(self, lane: str, fingerprint: int, wait_s: float, work_s: float) -> int:
        """Promise a place no sooner than in `wait_s`, for work of `work_s`; return in how many whole seconds.

        Who was promised one already, and came too early, keeps it.
        """
        now = self._clock()
        due = self._due.get(fingerprint)
        if due is None or due < now:
            due = max(self._next_place[lane], now + wait_s)
            if due - now > _LONGEST_S or not self._has_room(now):
                return _LONGEST_S
            self._next_place[lane] = due + work_s / _PACE
            due = self._due[fingerprint] = now + max(1, math.ceil(due - now))
            self._due.move_to_end(fingerprint)
        return max(1, math.ceil(due - now))

    def redeem(self, fingerprint: int) -> bool:
        """Return whether this one was promised a place for about now. Each promise holds once."""
        due = self._due.get(fingerprint)
        now = self._clock()
        if due is None or now < due - 0.1:  # a client's timer may be a little fast
            return False
        del self._due[fingerprint]
        return now < due + _GRACE_S

    def _has_room(self, now: float) -> bool:
        while self._due and next(iter(self._due.values())) + _GRACE_S < now:
            self._due.popitem(last=False)
        return len(self._due) < _KEPT
