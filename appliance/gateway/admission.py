"""At the door: a request is let in if its answer can be there in time, else it is told when to come back.

Everything is in seconds of work: what waits (workqueue/windows.py), at the pace that the workers measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from appliance.config import Config
from appliance.errors import Overloaded
from appliance.gateway.fleet import Fleet
from appliance.gateway.promises import Promises
from appliance.gateway.share import Share
from appliance.models.catalog import Model
from appliance.wire import subjects
from appliance.wire.subjects import BULK, INTERACTIVE
from appliance.workqueue.windows import Window, Windows

_FOR_NEWCOMERS = 0.7
"""Part of the longest wait that newcomers may fill; the rest is for those who come back when they were told to."""
_FOR_THE_PROMISED = 1.5
"""As far beyond the longest wait, but not beyond their own, go those who come when told: the time told was a guess."""
_OF_CONNECTIONS = 0.9
"""Part of the connections that may wait for answers: on the others people are told to come back."""
_WINDOW = 1.5
"""Window over what the workers hold at most: so that there is always something for them to take next."""


class Admission:
    """Lets in and refuses. A lane whose pace is not known yet lets everybody in, up to the hard limits."""

    def __init__(
        self, windows: Windows, fleet: Fleet, config: Config, in_flight: Callable[[], int], clock: Callable[[], float]
    ) -> None:
        self._in_flight = in_flight
        self._most_in_flight = config.server.max_connections * _OF_CONNECTIONS
        self._windows = windows
        self._fleet = fleet
        self._longest_wait_s = config.queue.longest_wait_s
        self._bulk_share = config.worker.bulk_share
        self._gateways = config.server.gateways
        self._promises = Promises(clock)
        self._clock = clock
        self._shares: dict[str, Share] = {}

    def follow(self, models: Iterable[Model]) -> None:
        """Take the workers' latest figures; other gateways are taken to be as busy as this one."""
        for model in models:
            pace = self._fleet.pace(model.name)
            for klass in subjects.CLASSES:
                limit, seconds = pace.appetite * _WINDOW / self._gateways, pace.seconds_per_cost * self._gateways
                lane = subjects.lane(model.name, klass)
                self._windows.set(lane, limit, seconds)
                self._share(lane).follow()

    def admit(self, lane: str, klass: str, key: str, cost: int, timeout_s: float, body: bytes) -> None:
        """Return where the answer can be there within `timeout_s`. Raises Overloaded with an honest Retry-After."""
        window = self._windows.lanes[lane]
        if not window.outstanding:
            return
        part = self._share(lane).part
        work_s = cost * window.seconds_per_cost / part
        wait_s = self._wait_s(window, klass, key, cost, part)
        longest_s = timeout_s if klass == BULK else min(timeout_s, self._longest_wait_s)
        # Whatever is fuller: the time, or the connections on which callers wait.
        full_of_callers = self._in_flight() / self._most_in_flight
        full = max((wait_s + work_s) / longest_s, full_of_callers)
        if full <= _FOR_NEWCOMERS:
            return
        fingerprint = hash((key, lane, body))
        in_time = wait_s + work_s <= min(timeout_s, _FOR_THE_PROMISED * longest_s)
        if self._promises.redeem(fingerprint) and in_time and full_of_callers <= 1:
            return
        after_s = self._promises.give(lane, fingerprint, wait_s * (full - _FOR_NEWCOMERS) / full, work_s)
        raise Overloaded(
            f"About {wait_s:.0f} s of work wait for this model, too much to answer in time. Try again in {after_s} s.",
            retry_after_s=after_s,
        )

    def _share(self, lane: str) -> Share:
        share = self._shares.get(lane)
        if share is None:
            share = self._shares[lane] = Share(self._windows.lanes[lane], self._clock)
        return share

    def _wait_s(self, window: Window, klass: str, key: str, cost: int, part: float) -> float:
        """Return for how long a key's next request would wait: its own work, and its share of what others brought.

        What others bring is known from what waits now, or from the `part` of the devices that they leave to the lane.
        """
        keys = len(window.waiting_of) + (key not in window.waiting_of)
        waiting = min(window.waiting, (window.waiting_of.get(key, 0) + cost) * keys)
        own_s = (window.outstanding + waiting) * window.seconds_per_cost
        total_s, has_bulk = own_s, False
        for lane, other in self._windows.lanes.items():
            if other is window or not other.outstanding:
                continue
            is_bulk = subjects.is_bulk(lane)
            has_bulk = has_bulk or is_bulk
            if klass == BULK and not is_bulk:
                total_s += other.backlog_s
            elif is_bulk == (klass == BULK):  # lanes of a class take turns by age
                total_s += min(other.backlog_s, other.outstanding_s + own_s)
        if klass == INTERACTIVE and has_bulk:
            total_s /= 1 - self._bulk_share
        return max(total_s, own_s / part)
