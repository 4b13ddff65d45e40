"""How much of each lane's work is in the queue at once. What is over waits here, and keys take turns by cost.

So a newcomer has only the window before it, whatever another key has handed in. The order is start-time fair queuing
(Goyal, Vin, Cheng 1996): an item's start is the later of the lane's present and the end of its key's last item, the end
is cost later, and the least start goes next. The present is the start of what was answered last, so a key that filled
the window before another came has that counted.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator

from appliance.workqueue.held import Held

_FEW_KEYS = 1000
_UNKNOWN_LIMIT = 20_000.0
"""Tokens in the queue while no worker has told yet how much it takes."""


class Window:
    """One lane. Costs are in estimated tokens; `outstanding` is in the queue, `waiting` is not yet, `done` has been."""

    def __init__(self) -> None:
        self.limit = _UNKNOWN_LIMIT
        self.seconds_per_cost = 0.0
        """What the lane's devices together need for a unit of cost, as last heard; 0.0 for unknown."""
        self.outstanding = 0
        self.done = 0
        self.waiting = 0
        self.waiting_of: defaultdict[str, int] = defaultdict(int)
        self._queue: list[tuple[float, int, Held]] = []
        self._ends: dict[str, float] = {}
        self._ends_left = 0
        self._now = 0.0
        self._count = 0
        self._gone = 0

    @property
    def backlog_s(self) -> float:
        return (self.outstanding + self.waiting) * self.seconds_per_cost

    @property
    def outstanding_s(self) -> float:
        return self.outstanding * self.seconds_per_cost

    def enter(self, held: Held) -> bool:
        """Return True where there is room now; else it waits for its turn."""
        cost = held.item.cost
        start = held.start = max(self._now, self._ends.get(held.key, 0.0))
        self._ends[held.key] = start + cost
        if not self._queue and (not self.outstanding or self.outstanding + cost <= self.limit):
            held.is_in_window = True
            self.outstanding += cost
            return True
        self._count += 1
        heapq.heappush(self._queue, (held.start, self._count, held))
        self.waiting += held.cost
        self.waiting_of[held.key] += held.cost
        return False

    def leave(self, held: Held) -> None:
        """Forget one that is answered, or that nobody waits for."""
        if held.is_in_window:
            held.is_in_window = False
            self.outstanding -= held.item.cost
            self.done += held.item.cost
            if held.start > self._now:
                self._now = held.start
            if not self.outstanding or len(self._ends) > _FEW_KEYS:
                self._forget_ends()
        else:
            self._no_longer_waits(held)
            self._gone += 1
            if self._gone * 2 > len(self._queue):
                self._tidy()

    def next(self) -> Iterator[Held]:
        """Yield those whose turn it is, as far as there is room."""
        while self._queue:
            held = self._queue[0][2]
            if held.answer.done():
                heapq.heappop(self._queue)
                self._gone -= 1
                continue
            if not self._has_room(held):
                return
            heapq.heappop(self._queue)
            self._no_longer_waits(held)
            self._let_in(held)
            yield held

    def _has_room(self, held: Held) -> bool:
        return not self.outstanding or self.outstanding + held.cost <= self.limit

    def _let_in(self, held: Held) -> None:
        held.is_in_window = True
        self.outstanding += held.cost

    def _no_longer_waits(self, held: Held) -> None:
        self.waiting -= held.cost
        self.waiting_of[held.key] -= held.cost
        if not self.waiting_of[held.key]:
            del self.waiting_of[held.key]

    def _forget_ends(self) -> None:
        """Drop what makes no difference any more: who is served up to the present has nothing counted against it."""
        if not self.outstanding and not self._queue:
            self._ends.clear()
            self._now = 0.0
        elif len(self._ends) > 2 * self._ends_left + _FEW_KEYS:
            self._ends = {key: end for key, end in self._ends.items() if end > self._now}
            self._ends_left = len(self._ends)

    def _tidy(self) -> None:
        """Drop what nobody waits for: a crowd that hung up must not be kept until its turn."""
        self._queue = [entry for entry in self._queue if not entry[2].answer.done()]
        heapq.heapify(self._queue)
        self._gone = 0


class Windows:
    """The windows of all lanes. `send` is called with each item whose turn has come."""

    def __init__(self, send: Callable[[Held], None]) -> None:
        self.lanes: defaultdict[str, Window] = defaultdict(Window)
        self._send = send

    def enter(self, held: Held) -> None:
        if self.lanes[held.lane].enter(held):
            self._send(held)

    def leave(self, held: Held) -> None:
        window = self.lanes[held.lane]
        window.leave(held)
        if window.waiting:
            self._refill(window)

    def set(self, lane: str, limit: float, seconds_per_cost: float) -> None:
        """Take what the workers tell; a limit of 0.0 means that none has told yet."""
        window = self.lanes[lane]
        window.limit, window.seconds_per_cost = limit or _UNKNOWN_LIMIT, seconds_per_cost
        self._refill(window)

    def _refill(self, window: Window) -> None:
        for held in window.next():
            self._send(held)
