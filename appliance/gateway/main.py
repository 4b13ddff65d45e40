"""The gateway process: takes over the daemon's listening socket and serves until told to drain."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import socket
import time
from typing import Any, cast

from aiohttp import web
from aiohttp.typedefs import Handler

from appliance import log, metrics
from appliance.errors import ModelNotFound
from appliance.gateway.acceptor import Acceptor, most_connections
from appliance.gateway.admission import Admission
from appliance.gateway.asking import Asker
from appliance.gateway.body import Room
from appliance.gateway.connections import Connections
from appliance.gateway.fleet import Fleet
from appliance.gateway.jobs import Jobs
from appliance.gateway.joining import Joining
from appliance.gateway.noted import Noting
from appliance.gateway.openai import OpenAI
from appliance.gateway.ops import Ops, Parts
from appliance.gateway.probing import Prober
from appliance.models.catalog import Catalog
from appliance.supervisor.child import Control, run_child, stop_event
from appliance.wire import heartbeat, subjects
from appliance.wire.launch import Launch
from appliance.workqueue.broker import Broker
from appliance.workqueue.jobs import JobStore
from appliance.workqueue.publisher import Publisher
from appliance.workqueue.sweep import Sweep

_log = log.Logger("gateway")

_LINGER_S = 5.0
"""How long a gateway that has a successor waits for its idle connections to be used once more, or closed."""


class Gateway:
    """Binds the parts of one gateway process."""

    def __init__(self, launch: Launch, control: Control) -> None:
        config = launch.config
        # A fresh id for each life: replies to a gateway that died must find nobody.
        self._gateway_id = f"{launch.process_id}-{secrets.token_hex(4)}"
        self._launch = launch
        self._control = control
        self._broker = Broker(launch.broker, self._gateway_id)
        self._publisher = Publisher(self._broker, config, self._gateway_id, time.monotonic)
        self._catalog = Catalog(config.models_dir)
        self._fleet = Fleet(self._catalog)
        self._room = Room(config.server.max_waiting_bytes)
        self._noting = Noting(self._room, config.server.max_body_bytes, config.log.requests)
        self._admission = Admission(
            self._publisher.windows, self._fleet, config, lambda: self._noting.in_flight, time.monotonic
        )
        metrics.LANES.elsewhere = self._fleet.lanes
        metrics.REGISTRY.register(
            metrics.WorkerCollector(lambda: [(b.worker_id, b.counters, b.held_items) for b, _ in self._fleet.workers()])
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`; then refuse what is new, finish what is held, and end.

        SIGUSR1 says that a successor is there: then nothing is refused, and it ends when its callers are gone.
        """
        self._catalog.scan()
        await self._broker.start()
        await self._publisher.start()
        self._broker.listen(subjects.HEARTBEATS, self._on_beat)
        self._broker.post(subjects.TELL, b"")
        runner = await self._listen()
        self._control.report("ready")
        watches = (self._watch_catalog(), self._connections.sweep(), self._prober.run(), self._sweep.run())
        background = [asyncio.create_task(t) for t in watches]
        retire = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, retire.set)
        await asyncio.wait(
            [asyncio.ensure_future(stop.wait()), retiring := asyncio.ensure_future(retire.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        if retiring.done():
            await self._retire(stop)
        self._noting.is_draining = True
        _log.info("gateway", gateway=self._gateway_id, state="draining", in_flight=self._noting.in_flight)
        while self._noting.in_flight or self._publisher.held:
            await asyncio.sleep(0.02)
        await self._acceptor.close()
        await self._connections.hear_out()
        for task in background:
            task.cancel()
        await runner.cleanup()
        await self._publisher.stop()
        await self._broker.stop()

    async def _retire(self, stop: asyncio.Event) -> None:
        """Answer each connection once more and close it; those that are idle may stay for a moment."""
        _log.info("gateway", gateway=self._gateway_id, state="retiring", in_flight=self._noting.in_flight)
        await self._acceptor.close()
        self._noting.is_retiring = True
        end = time.monotonic() + _LINGER_S
        while self._connections.count and time.monotonic() < end and not stop.is_set():
            await asyncio.sleep(0.02)

    async def _listen(self) -> web.AppRunner:
        server = self._launch.config.server
        asker = Asker(self._publisher, self._admission, self._launch.config.queue, self._gateway_id)
        app = web.Application(middlewares=[self._noting.middleware()], client_max_size=server.max_body_bytes)
        openai = OpenAI(self._catalog, self._fleet, Joining(asker), self._room, server)
        app.add_routes(openai.routes())
        app.add_routes(Jobs(openai.question, self._catalog, self._broker, self._room, self._launch.config).routes())
        self._prober = Prober(asker, self._fleet, self._catalog)
        self._sweep = Sweep(self._broker, JobStore(self._broker), self._bulk_lanes, time.monotonic)
        parts = Parts(self._fleet, self._prober, self._broker, self._publisher, self._noting, self._sweep)
        app.add_routes(Ops(parts).routes())
        # A handler is cancelled when its client hangs up: work whose caller is gone is not run.
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,
            auto_decompress=False,  # gateway/body.py refuses compressed bodies; nothing may unpack one before
            keepalive_timeout=server.keepalive_timeout_s,
        )
        await runner.setup()
        assert runner.server is not None
        general = cast(Handler, runner.server.request_handler)
        runner.server.request_handler = cast(Any, self._noting.shortcut(openai.posted(), general))
        served, open_at_once = most_connections(server.max_connections)
        self._connections = Connections(runner.server, server, served, time.monotonic)
        listener = socket.socket(fileno=self._launch.listener_fd)
        self._acceptor = Acceptor(listener, self._connections, open_at_once)
        self._acceptor.start()
        return runner

    def _on_beat(self, subject: str, reply: str, data: bytes, headers: bytes) -> None:
        self._fleet.on_beat(data)
        self._admission.follow(self._catalog.models)

    def _bulk_lanes(self) -> set[str]:
        return {subjects.lane(model.name, subjects.BULK) for model in self._catalog.models}

    async def _watch_catalog(self) -> None:
        while True:
            await asyncio.sleep(heartbeat.INTERVAL_S)
            if self._catalog.is_stale():
                before = {model.name for model in self._catalog.models}
                self._catalog.scan()
                for name in before - {model.name for model in self._catalog.models}:
                    self._publisher.fail_model(name, ModelNotFound(f"The model {name} was removed."))
            for name, error in self._fleet.unusable():
                self._publisher.fail_model(name, error)


def main() -> int:
    parser = argparse.ArgumentParser(prog="appliance.gateway")
    parser.add_argument("--control-fd", type=int, required=True)
    control = Control(parser.parse_args().control_fd)
    launch = control.receive_launch()

    async def serve() -> None:
        await Gateway(launch, control).run(stop_event(control))

    return run_child(control, serve())


if __name__ == "__main__":
    raise SystemExit(main())
