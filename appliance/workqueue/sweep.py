"""Jobs after a mishap: what was never accepted is taken away, and what was accepted comes to an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from appliance import log
from appliance.errors import ApplianceError, Internal, ModelNotFound
from appliance.wire import jobs
from appliance.wire.items import failure
from appliance.wire.jobs import JobRecord
from appliance.workqueue.broker import Broker
from appliance.workqueue.jobs import JobStore, Place
from appliance.workqueue.results import put_result

_log = log.Logger("jobs")

_EVERY_S = 5.0
_GIVE_UP_AFTER_S = 120.0
"""Items that have waited this long for their job's acceptance: whoever was writing it down is gone."""


class Sweep:
    """One in each gateway; any of them may do any part of it, again and again.

    `lanes` returns those of the models that are installed.
    """

    def __init__(
        self, broker: Broker, store: JobStore, lanes: Callable[[], Collection[str]], clock: Callable[[], float]
    ) -> None:
        self._broker = broker
        self._store = store
        self._lanes = lanes
        self._clock = clock
        self.waiting_items = 0
        """Of all accepted jobs together, as of the last look."""
        self._missing: set[str] = set()
        self._missing_before: set[str] = set()
        self._unaccepted: dict[Place, float] = {}
        self._over: set[Place] = set()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self.once()
            except ApplianceError as exc:
                _log.warning("sweep", state="put off", reason=exc.message)
            except Exception as exc:
                _log.error("sweep", exc)
            await asyncio.sleep(_EVERY_S)

    async def once(self) -> None:
        """Look at everything once. Raises Unavailable."""
        waiting = await self._store.waiting()
        self.waiting_items = sum(count for _, count in waiting.values())
        known = set(await self._store.places())  # after the items: a job's record is the last of it to be written
        # A model may be away for a moment while it is replaced; one that is missing twice was removed.
        self._missing_before, self._missing = self._missing, {lane for lane, _ in waiting.values()} - {*self._lanes()}
        await self._give_up({place: lane for place, (lane, _) in waiting.items() if place not in known})
        self._over &= known
        for place in known:
            if place in waiting or place not in self._over:
                await self._look_after(place, place in waiting)

    async def _give_up(self, unaccepted: dict[Place, str]) -> None:
        """Take away what waits without a record: of a job half accepted at a crash, or one that expired."""
        now = self._clock()
        self._unaccepted = {place: self._unaccepted.get(place, now) for place in unaccepted}
        for place, since in self._unaccepted.items():
            if now - since > _GIVE_UP_AFTER_S and await self._store.give_up(*place, unaccepted[place]):
                _log.warning("job", job=place[1], state="given up: it was never accepted, or it expired")

    async def _look_after(self, place: Place, is_waiting: bool) -> None:
        is_known, record = await self._store.has_record(*place)
        if not is_known:
            return
        if record is None or record.is_cancelled:
            if record is not None and is_waiting:
                await self._store.take_off(record)
            elif is_waiting:
                await self._store.give_up(*place)
            self._over.add(place)
        elif record.lane in self._missing & self._missing_before:
            await self._end(record, ModelNotFound(f"The model {record.model_id} was removed before this was run."))
        elif not is_waiting and not await self._store.waiting(record.lane, *place):
            # Every item is stored before it is taken off the queue, so what has no result by now was lost.
            await self._end(record, Internal("This part of the job was lost. The log has it under the job's id."))

    async def _end(self, record: JobRecord, error: ApplianceError) -> None:
        """Answer what has no result with an error, and take it off the queue."""
        answered = await self._store.failed_in(record)
        missing = [number for number in range(len(record.starts)) if number not in answered]
        self._over.add((record.owner, record.job_id))
        if not missing:
            return
        _log.warning("job", job=record.job_id, state="ended", items=len(missing), reason=error.message)
        for number in missing:
            name, (start, end) = jobs.item_id(record.job_id, number), record.bounds()[number]
            await put_result(self._broker, name, failure(name, error), end - start)
        await self._store.take_off(record)
