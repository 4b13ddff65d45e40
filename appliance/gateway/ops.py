"""Operations: /healthz (the process lives), /readyz (a request would be answered), /health (all of it), /metrics."""

from __future__ import annotations

from typing import NamedTuple

from aiohttp import web

from appliance import __version__, metrics
from appliance.gateway.fleet import Fleet
from appliance.gateway.noted import Noting
from appliance.gateway.probing import Prober
from appliance.gateway.render import NOT_READY, json_response
from appliance.workqueue.broker import Broker
from appliance.workqueue.publisher import Publisher
from appliance.workqueue.sweep import Sweep


class Parts(NamedTuple):
    """What there is to tell about."""

    fleet: Fleet
    prober: Prober
    broker: Broker
    publisher: Publisher
    noting: Noting
    sweep: Sweep


class Ops:
    """The handlers; none of them touches a device."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/healthz", self.healthz),
            web.get("/readyz", self.readyz),
            web.get("/health", self.health),
            web.get("/metrics", self.metrics),
        ]

    async def healthz(self, request: web.Request) -> web.Response:
        return json_response({"status": "ok"})

    async def readyz(self, request: web.Request) -> web.Response:
        why = self._not_ready()
        if why:
            return json_response({"status": "not ready", "reason": why}, NOT_READY, {"Retry-After": "1"})
        return json_response({"status": "ready"})

    def _not_ready(self) -> str:
        if self._parts.noting.is_draining:
            return "Shutting down."
        if not self._parts.broker.is_connected:
            return "The queue is not connected."
        return self._parts.fleet.not_ready() or self._parts.prober.not_proven()

    async def health(self, request: web.Request) -> web.Response:
        """Always 200: the answer is the body. `status` is ok, degraded or unavailable."""
        not_ready, problems = self._not_ready(), self._parts.fleet.problems()
        if not self._parts.broker.is_connected:
            problems.insert(
                0, "The gateway has lost the queue; it reconnects by itself as soon as nats-server is back."
            )
        return json_response(
            {
                "status": "unavailable" if not_ready else "degraded" if problems else "ok",
                "version": __version__,
                "ready": not not_ready,
                "reason": not_ready,
                "problems": problems,
                "gateway": {
                    "held_items": self._parts.publisher.held,
                    "in_flight": self._parts.noting.in_flight,
                    "republished": self._parts.publisher.republished,
                    "duplicates": self._parts.publisher.duplicates,
                    "queue_connected": self._parts.broker.is_connected,
                },
                "jobs": {"waiting_items": self._parts.sweep.waiting_items},
                **self._parts.fleet.report(),
            }
        )

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=metrics.exposition(), headers={"Content-Type": metrics.CONTENT_TYPE})
