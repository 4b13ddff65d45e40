"""The worker process of one device: consumers in, dispatcher and engines between, replies out."""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import time
from dataclasses import replace

from appliance import log
from appliance.errors import Internal, ModelNotFound, ModelReplaced, Quarantined, Unavailable
from appliance.supervisor.child import Control, run_child, stop_event
from appliance.supervisor.leases import Leases
from appliance.wire import heartbeat, subjects
from appliance.wire.heartbeat import ModelState, WorkerBeat
from appliance.wire.items import WorkItem, failure, unpack_cancels
from appliance.wire.launch import Launch
from appliance.worker import profile as profiles
from appliance.worker.dispatcher import Dispatcher, Finished
from appliance.worker.intake import Intake
from appliance.worker.job import Job, Piece
from appliance.worker.lanes import Lanes
from appliance.worker.neighbours import Neighbours
from appliance.worker.residency import Residency
from appliance.worker.steady import Steady
from appliance.worker.taking import Taker
from appliance.workqueue import quarantine, replies
from appliance.workqueue.broker import Broker
from appliance.workqueue.consumer import Delivery, settle
from appliance.workqueue.recent import Recent

_log = log.Logger("worker")

QUARANTINE_AT = 6
"""The delivery at which an item is not run any more. A backstop: who is guilty of a death is found out otherwise."""
JOBS_QUARANTINE_AT = 20
"""The same for accepted jobs, whose count survives the broker: restarts and failing devices in between are no guilt."""
_TRIES_FOR_CONTENT = 2
"""A worker may see a new model a moment later than the gateway that accepted a job for it."""
_GIVE_BACK = b'-NAK {"delay": 5000000000}'
"""Given back in 5 s: by then the model can perhaps be loaded."""


class Worker:
    """Binds the parts; the state is theirs."""

    def __init__(self, launch: Launch, control: Control) -> None:
        config = launch.config
        self._launch = launch
        self._config = config
        self._control = control
        self._leases = Leases(launch.leases_fd)
        self._broker = Broker(launch.broker, launch.process_id, self._leases)
        self._condemned = frozenset(launch.condemned)
        profile = profiles.of_device(launch.device, config.worker)
        self._limits = profile.limits
        budget = profiles.memory_budget(launch.device, config.worker)
        self._residency = Residency(launch.device, profile.streams, config, self._on_models, budget)
        self._dispatcher = Dispatcher(
            self._residency,
            self._limits,
            config,
            self._answer,
            self._drop,
            self._set_aside,
            self._give_back,
            time.monotonic,
        )
        self._intake = Intake(self._on_ready, self._dispatcher.refuse, self._dispatcher.answer_whole, time.monotonic)
        self._lanes = Lanes(self._broker, config, launch.device, self._on_delivery)
        self._supply = self._supplied()
        self._cancelled = Recent(10_000)
        self._held: dict[str, list[Delivery]] = {}
        self._work = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._state = "starting"

    def _supplied(self) -> Steady | Taker:
        """Return how work is asked for: where others could take it, too, one batch at a time."""
        if self._launch.workers == 1:
            ahead = self._config.worker.batches_ahead
            return Steady(self._lanes, self._dispatcher, self._residency, self._limits, ahead)
        return Taker(
            self._broker,
            self._lanes,
            self._dispatcher,
            self._residency,
            self._intake,
            Neighbours(self._launch.process_id, time.monotonic),
            time.monotonic,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`, then drain: finish what is held, give the rest back."""
        await self._broker.start()
        self._broker.listen(subjects.CANCELS, self._on_cancels)
        self._broker.listen(subjects.TELL, lambda *_: self._tell())
        self._residency.start()
        await self._rescan()
        self._state = "ready"
        self._control.report("ready", models={})
        background = [
            asyncio.create_task(t)
            for t in (self._pump(), self._supply.run(), self._renew(), self._beat(), self._watch_catalog())
        ]
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([stopping, *background], return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():  # one of them ended by an error: a fresh process is better than half a one
            stopping.cancel()
            raise Internal(f"A part of the worker ended: {_first_error(background)}")
        await self._drain()
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await self._residency.stop()
        await self._broker.stop()

    # -- the path of an item ------------------------------------------------------------------

    def _on_delivery(self, delivery: Delivery) -> None:
        item = delivery.item
        served = self._lanes.served(item.model_id)
        if self._state == "draining":
            settle(self._broker, [delivery], b"-NAK")
        elif served is None:
            error = ModelNotFound(f"The model {item.model_id} is not here any more.")
            self._answer([(delivery, failure(item.item_id, error))])
        elif item.content_hash not in ("", served.model.content_hash):
            if delivery.delivered <= _TRIES_FOR_CONTENT:
                self._give_back(delivery)
                return
            replaced = ModelReplaced(f"The model {item.model_id} was replaced since the job was accepted.")
            self._answer([(delivery, failure(item.item_id, replaced))])
        elif delivery.waited_s * 1e3 > item.remaining_ms or item.item_id in self._cancelled:
            self._dispatcher.counters["expired"] += 1
            self._dispatcher.lanes["dropped", item.model_id, item.klass] += 1
            self._drop(delivery)
        elif self._condemned and subjects.stored_id(delivery.ack_subject) in self._condemned:
            self._set_aside(delivery, "two workers died while they turned it into tokens", -1)
        elif delivery.delivered >= (JOBS_QUARANTINE_AT if item.is_job else QUARANTINE_AT):
            self._set_aside(delivery, f"delivered {delivery.delivered} times and never finished", -1)
        elif item.item_id in self._held:
            # It came again while we hold it: the broker lost its memory, or our lease. Run once, ack both.
            self._held[item.item_id].append(delivery)
        else:
            self._held[item.item_id] = [delivery]
            self._leases.mark(delivery.ack_subject, True)
            self._intake.accept(delivery, served)

    def _on_ready(self, job: Job, pieces: list[Piece]) -> None:
        self._leases.mark(job.delivery.ack_subject, False)
        if job.delivery.item.item_id in self._cancelled:  # while it was tokenised in a thread
            self._drop(job.delivery)
            return
        self._dispatcher.add(job, pieces)
        self._work.set()

    def _answer(self, finished: list[Finished]) -> None:
        answered = [(self._held.pop(d.item.item_id, [d]), result) for d, result in finished]
        for deliveries, result in answered:
            item = deliveries[0].item
            if item.is_job:  # what callers wait for, their gateways count
                what = "failed" if result.error_code else "answered"
                self._dispatcher.lanes[what, item.model_id, item.klass] += 1
        self._spawn(replies.send(self._broker, answered))
        self._work.set()

    def _set_aside(self, delivery: Delivery, reason: str, failed_input: int) -> None:
        self._spawn(self._quarantine(delivery, reason, failed_input))

    async def _quarantine(self, delivery: Delivery, reason: str, failed_input: int) -> None:
        """Keep a guilty item for the administrator, then tell its caller; told even where it cannot be kept."""
        item = delivery.item
        _log.warning("item", item_id=item.item_id, model=item.model_id, state="quarantined", reason=reason)
        try:
            await quarantine.put(self._broker, *_guilty(item, failed_input), reason)
        except Unavailable as exc:
            _log.error("item", item_id=item.item_id, state="not kept", reason=exc.message)
        error = Quarantined(f"This input made the model fail again and again; it was set aside as {item.item_id}.")
        if item.is_job and failed_input >= 0:
            self._dispatcher.fail_input(item.item_id, failed_input, error)
        else:
            self._answer([(delivery, failure(item.item_id, error, failed_input))])

    def _give_back(self, delivery: Delivery) -> None:
        settle(self._broker, self._held.pop(delivery.item.item_id, [delivery]), _GIVE_BACK)
        self._work.set()

    def _drop(self, delivery: Delivery) -> None:
        """Nobody waits for this item any more: take it off the queue, unanswered."""
        settle(self._broker, self._held.pop(delivery.item.item_id, [delivery]), b"+ACK")
        self._work.set()

    def _on_cancels(self, subject: str, reply: str, data: bytes, headers: bytes) -> None:
        item_ids = unpack_cancels(data)
        self._cancelled.add(item_ids)
        self._dispatcher.cancel(item_ids)

    async def _pump(self) -> None:
        """Whenever something came or went: fill the engines, then adjust the credit."""
        while True:
            await self._work.wait()
            self._work.clear()
            self._dispatcher.pump()
            self._supply.adjust()

    async def _renew(self) -> None:
        """Keep the leases of what is held: a third of the time to redelivery, so that one lost renewal is no loss."""
        while True:
            await asyncio.sleep(self._config.queue.ack_wait_s / 3)
            settle(self._broker, [d for held in self._held.values() for d in held], b"+WPI")

    # -- models -------------------------------------------------------------------------------

    async def _watch_catalog(self) -> None:
        while True:
            await asyncio.sleep(heartbeat.INTERVAL_S)
            if self._lanes.is_stale():
                try:
                    await self._rescan()
                except Unavailable as exc:
                    _log.warning("models", state="not taken up", error=exc.message)

    async def _rescan(self) -> None:
        self._residency.serve(await self._lanes.rescan())
        self._work.set()

    def _models(self) -> dict[str, ModelState]:
        states = {**self._residency.states(), **self._lanes.broken}
        return {name: self._paced(name, state) for name, state in states.items()}

    def _paced(self, name: str, state: ModelState) -> ModelState:
        pace = self._dispatcher.paces[name]
        batches = 1 + self._config.worker.batches_ahead
        return replace(
            state,
            seconds_per_cost=pace.seconds_per_cost(self._limits) * pace.caution,
            appetite=batches * pace.full_cost(self._limits),
        )

    def _on_models(self) -> None:
        """A model became ready or failed: tell the daemon, and look again at what waits."""
        self._control.report("models", models={name: state.state for name, state in self._models().items()})
        self._tell()
        self._work.set()

    # -- life ---------------------------------------------------------------------------------

    async def _beat(self) -> None:
        while True:
            self._tell()
            await asyncio.sleep(heartbeat.INTERVAL_S)

    def _tell(self) -> None:
        try:
            self._broker.post(subjects.heartbeat_subject(self._launch.process_id), heartbeat.pack(self._now()))
        except Unavailable:
            pass  # the broker is being restarted; the next beat says it

    def _now(self) -> WorkerBeat:
        engines = {
            runtime: {"pid": engine.pid, "running": engine.running, "state": "died" if engine.died.done() else "up"}
            for runtime, engine in self._residency.engines.by_runtime.items()
        }
        why = self._residency.out_of_service()
        return WorkerBeat(
            worker_id=self._launch.process_id,
            device=self._launch.device,
            pid=os.getpid(),
            state="out of service" if why else self._state,
            reason=why,
            models=self._models(),
            engines=engines,
            held_items=len(self._held),
            is_warm=self._residency.is_warm,
            memory_bytes=self._residency.used_bytes,
            budget_bytes=self._residency.budget_bytes if math.isfinite(self._residency.budget_bytes) else 0.0,
            counters={
                **self._dispatcher.counters,
                "engine_restarts": float(self._residency.engines.restarts),
                "evictions": float(self._residency.evictions),
            },
            lanes=[(*lane, count) for lane, count in self._dispatcher.lanes.items()],
        )

    async def _drain(self) -> None:
        """Take nothing new, keep the leases until the work is done; the parent's deadline ends what takes too long."""
        self._state = "draining"
        _log.info("worker", worker=self._launch.process_id, state="draining", held=len(self._held))
        await self._lanes.stop()
        while self._held or self._tasks:
            await asyncio.wait(
                [asyncio.ensure_future(asyncio.sleep(0.02)), *self._tasks], return_when=asyncio.FIRST_COMPLETED
            )

    def _spawn(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._on_task)

    def _on_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task", error)


def _guilty(item: WorkItem, failed_input: int) -> tuple[WorkItem, int]:
    """Return what goes into quarantine: of an accepted job the guilty input alone, since the others were answered."""
    if not item.is_job or failed_input < 0:
        return item, failed_input
    return item._replace(inputs=[item.inputs[failed_input]]), 0


def _first_error(tasks: list[asyncio.Task[None]]) -> str:
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            _log.error("worker", error)
            return f"{type(error).__name__}: {error}"
    return "without an error"


def main() -> int:
    parser = argparse.ArgumentParser(prog="appliance.worker")
    parser.add_argument("--control-fd", type=int, required=True)
    control = Control(parser.parse_args().control_fd)
    launch = control.receive_launch()

    async def serve() -> None:
        await Worker(launch, control).run(stop_event(control))

    return run_child(control, serve())


if __name__ == "__main__":
    raise SystemExit(main())
