"""What waits in the lanes, as the server counts it: one question for all lanes of a stream."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import NamedTuple

from appliance.errors import Unavailable
from appliance.workqueue.broker import Broker


class Line(NamedTuple):
    """A lane in which something waits: how many items, and for how long the first has, as far as looks can tell."""

    pending: int
    age_s: float


class _Look(NamedTuple):
    first_s: float
    last_s: float
    arrived: int


class Arrivals:
    """How many items a lane had seen arrive, look by look: what waits first came between two of them.

    Its own time of arrival would be one more question for each lane.
    """

    def __init__(self) -> None:
        self._looks: deque[_Look] = deque()

    def age_s(self, now: float, delivered: int, pending: int) -> float:
        """Note a look; return for how long the first of the `pending` items has waited, 0.0 where there is none.

        `delivered` is how many were delivered before it, ever.
        """
        looks, arrived = self._looks, delivered + pending
        if looks and arrived < looks[-1].arrived:
            looks.clear()  # it counts from one again: a new server, or a new consumer
        if looks and arrived == looks[-1].arrived:
            looks[-1] = looks[-1]._replace(last_s=now)
        else:
            looks.append(_Look(now, now, arrived))
        while len(looks) > 1 and looks[1].arrived <= delivered:
            looks.popleft()
        if not pending:
            return 0.0
        came_s = looks[0].first_s if looks[0].arrived > delivered else (looks[0].last_s + looks[1].first_s) / 2
        return now - came_s


class Demand:
    """Looks at the lanes of a stream."""

    def __init__(self, broker: Broker, stream: str, clock: Callable[[], float]) -> None:
        self._broker = broker
        self._stream = stream
        self._clock = clock
        self._arrivals: defaultdict[str, Arrivals] = defaultdict(Arrivals)

    async def look(self) -> dict[str, Line]:
        """Return every lane with something in it, by its name. Raises Unavailable."""
        found: dict[str, Line] = {}
        offset = 0
        while True:
            answer = await self._broker.call(f"CONSUMER.LIST.{self._stream}", {"offset": offset})
            if "error" in answer:
                raise Unavailable(f"The queue has no stream {self._stream}.")
            now, consumers = self._clock(), answer["consumers"]
            for one in consumers:
                name, pending = one["name"], one["num_pending"]
                age_s = self._arrivals[name].age_s(now, one["delivered"]["consumer_seq"], pending)
                if pending:
                    found[name] = Line(pending, age_s)
            offset += len(consumers)
            if not consumers or offset >= answer["total"]:
                return found
