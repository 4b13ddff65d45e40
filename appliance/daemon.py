"""The daemon: nats-server, gateways and workers, started top to bottom, drained bottom to top, kept alive between."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import resource
import signal
import socket
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from appliance import __version__, log
from appliance.config import Config, fixed_changes
from appliance.errors import ApplianceError, ConfigError, StartError, Unavailable
from appliance.supervisor import gpus
from appliance.supervisor.leases import Leases
from appliance.supervisor.nats_server import NatsServer
from appliance.supervisor.notify import Notifier
from appliance.supervisor.process import Process
from appliance.supervisor.reload import Reload
from appliance.supervisor.restart import Backoff
from appliance.supervisor.supervisor import Keeper, Supervisor
from appliance.wire import heartbeat, launch, subjects
from appliance.wire.heartbeat import DaemonBeat
from appliance.wire.launch import Launch
from appliance.workqueue import disk, orphans
from appliance.workqueue.broker import Broker

_log = log.Logger("daemon")

_DEATHS_UNTIL_CONDEMNED = 2
_MEND_S = 2.0

_GIVE_BACK = b'-NAK {"delay": 100000000}'
"""Given back in 100 ms, not now: the server may not have noticed yet that the dead worker's connection is gone, and
would hand the items to its waiting pull, where they would stay until the leases run out."""


class Daemon:
    """Supervises; loads no model library.

    `reread` reads the configuration anew for a reload; `on_ready` is called once, when the first model can answer.
    """

    def __init__(
        self, config: Config, reread: Callable[[], Config], notifier: Notifier, on_ready: Callable[[str], None]
    ) -> None:
        self._config = config
        self._reload = Reload(reread, self._apply)
        self._notifier = notifier
        self._on_ready = on_ready
        self._supervisor = Supervisor()
        self._backoff = Backoff(config.supervisor.restart_min_s, config.supervisor.restart_max_s)
        self._listener: socket.socket | None = None
        self._models: dict[str, dict[str, str]] = {}
        self._announced = False
        self._broker: Broker | None = None
        self._suspects: Counter[str] = Counter()
        self._disk_problem = ""
        self._leases: dict[str, Leases] = {}
        self._searches: set[asyncio.Task[None]] = set()  # the loop itself would forget them
        self._renewable: list[Keeper] = []
        self._started_at = time.monotonic()

    async def run(self) -> None:
        """Run until SIGTERM or Ctrl-C. Raises ConfigError where the configuration's places cannot be used."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload.request)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # inherited by gateways, whose clients need them
        devices = self._devices()
        with locked(self._config.run_dir / "lock"):
            self._listener = listen(self._config.server.host, self._config.server.port)
            try:
                await self._serve(devices, stop)
            finally:
                self._notifier.stopping()
                self._listener.close()
                await self._supervisor.stop(time.monotonic() + self._config.supervisor.drain_timeout_s)
                _log.info("daemon", state="stopped")

    def _devices(self) -> list[str]:
        prepare(self._config)
        count, why = gpus.count_gpus()
        devices = gpus.resolve(self._config.worker.devices, count)
        _log.info("daemon", version=__version__, devices=",".join(devices), **({} if count else {"no_gpu": why}))
        return devices

    async def _serve(self, devices: list[str], stop: asyncio.Event) -> None:
        nats = NatsServer.plan(self._config.queue, self._config.queue_dir, self._config.run_dir, self._config.jobs)
        if not await self._supervisor.start(self._keeper(nats.process)):
            raise StartError(f"nats-server did not start; its own words are in {nats.log_path}.")
        broker = self._broker = Broker(nats.login("daemon"), "daemon")
        await broker.start()
        await broker.ensure_live(self._config.queue, self._config.server.longest_timeout_s)
        await self._make_streams(broker)
        # Workers before gateways, so that gateways stop first: what they still hold needs workers to be answered.
        keepers = [self._keeper(partial(self._worker, device, len(devices), nats)) for device in devices]
        keepers += [
            self._keeper(partial(self._gateway, n, nats), overlaps=True) for n in range(self._config.server.gateways)
        ]
        await asyncio.gather(*map(self._supervisor.start, keepers))
        host, port = self.address
        self._notifier.ready(f"Listening on {host}:{port}")
        _log.info("daemon", state="listening", host=host, port=port)
        background = [asyncio.create_task(t) for t in (self._beat(broker), self._reload.run(), self._mend(broker))]
        self._renewable = keepers
        await stop.wait()
        _log.info("daemon", state="draining")
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        self._broker = None
        await broker.stop()

    async def _make_streams(self, broker: Broker) -> None:
        """Make the streams on disk. Without them no jobs are taken and nothing is set aside, but all else works."""
        try:
            await broker.ensure_quarantine()
            await disk.keep_streams(broker, self._config.jobs)
        except Unavailable as exc:
            self._disk_problem = (
                f"The queue's files cannot be written: {exc.message} Jobs are refused until there is room on the disk."
            )
            _log.error("daemon", state="no streams on disk", reason=exc.message)
        else:
            self._disk_problem = ""

    async def _mend(self, broker: Broker) -> None:
        while True:
            await asyncio.sleep(_MEND_S)
            if self._disk_problem:
                await self._make_streams(broker)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port as bound (port 0 means: any, so ask here)."""
        assert self._listener is not None
        name = self._listener.getsockname()
        return str(name[0]), int(name[1])

    def _keeper(self, make: Callable[[], Process], overlaps: bool = False) -> Keeper:
        settings = self._config.supervisor
        return Keeper(make, self._backoff, settings.start_timeout_s, settings.silent_after_s, overlaps=overlaps)

    async def _apply(self, new: Config) -> None:
        """Have every gateway and worker run with a new configuration, or all of them with the old one.

        One after the other: while a process is renewed, what is asked of it waits in the listener or in the queue.
        Raises ConfigError where something of it needs a restart, or a process does not start with it.
        """
        fixed = fixed_changes(self._config, new)
        if fixed:
            raise ConfigError(f"{', '.join(fixed)} can only change with a restart. Nothing was changed.")
        old = self._config
        if new == old:
            return
        self._notifier.reloading()
        try:
            await self._renew(new)
        except ConfigError:
            await self._renew(old)
            raise
        finally:
            self._notifier.ready("Listening on {}:{}".format(*self.address))

    async def _renew(self, config: Config) -> None:
        self._config = config
        if self._broker is not None:
            await self._broker.ensure_live(config.queue, config.server.longest_timeout_s)
        for keeper in self._renewable:
            if not await keeper.renew(config.supervisor.drain_timeout_s):
                raise ConfigError(
                    f"{keeper.name} did not start with it: {keeper.status.reason or 'no reason given'}. "
                    "The configuration before it is in force again."
                )

    def _gateway(self, number: int, nats: NatsServer) -> Process:
        assert self._listener is not None
        fd = self._listener.fileno()
        order = Launch(f"gateway{number}", self._config, nats.login("gateway"), listener_fd=fd)
        return Process(order.process_id, _argv("gateway"), first_line=launch.pack(order), pass_fds=[fd])

    def _worker(self, device: str, workers: int, nats: NatsServer) -> Process:
        leases = self._leases[device] = Leases.create()
        order = Launch(
            device,
            self._config,
            nats.login("worker"),
            device=device,
            workers=workers,
            leases_fd=leases.fd,
            condemned=self._condemned(),
        )
        return Process(
            f"worker {device}",
            _argv("worker"),
            first_line=launch.pack(order),
            pass_fds=[leases.fd],
            on_report=lambda report: self._take_report(device, report),
            on_exited=lambda: self._after_worker(device, leases),
        )

    def _after_worker(self, device: str, leases: Leases) -> None:
        """A worker is gone: what it had leased goes back to the queue now, not when the leases run out."""
        held = leases.held()
        leases.close()
        self._suspects.update(subjects.stored_id(subject) for subject, is_touched in held.items() if is_touched)
        self._models.pop(device, None)
        self._leases.pop(device, None)
        if self._broker is None:
            return
        if held:
            _log.info("daemon", worker=device, given_back=len(held))
        for ack_subject in held:
            self._broker.post(ack_subject, _GIVE_BACK)
        search = asyncio.create_task(self._give_back_unread(self._broker, set(held)))
        self._searches.add(search)
        search.add_done_callback(self._searches.discard)

    async def _give_back_unread(self, broker: Broker, given_back: set[str]) -> None:
        """Look for what the dead worker had been sent and never read, once the server knows that it is gone."""
        for pause_s in (0.15, 0.5):
            await asyncio.sleep(pause_s)
            held = given_back.union(*(leases.held() for leases in self._leases.values()))
            numbers: defaultdict[str, set[int]] = defaultdict(set)
            for stream, number in map(subjects.sequence_of, held):
                numbers[stream].add(number)
            try:
                found = [await orphans.give_back(broker, stream, numbers[stream]) for stream in subjects.STREAMS]
            except Unavailable as exc:
                _log.warning("daemon", state="unread items not looked for", reason=exc.message)
                return
            if any(found):
                _log.info("daemon", unread_given_back=sum(found))

    def _condemned(self) -> tuple[str, ...]:
        return tuple(item for item, deaths in self._suspects.items() if deaths >= _DEATHS_UNTIL_CONDEMNED)

    def _take_report(self, device: str, report: dict[str, Any]) -> None:
        """A worker says what its models are up to; the first one ready makes the appliance useful."""
        self._models[device] = report.get("models", self._models.get(device, {}))
        ready = sorted({name for models in self._models.values() for name, state in models.items() if state == "ready"})
        self._notifier.status(f"Ready: {', '.join(ready)}" if ready else "Loading models")
        if ready and not self._announced:
            self._announced = True
            self._on_ready(ready[0])

    async def _beat(self, broker: Broker) -> None:
        """Tell systemd's watchdog that this loop turns, and everybody what the processes are up to."""
        broker.listen(subjects.TELL, lambda *_: self._tell(broker))
        while True:
            self._tell(broker)
            self._notifier.ping()
            await asyncio.sleep(heartbeat.INTERVAL_S)

    def _tell(self, broker: Broker) -> None:
        up_s = time.monotonic() - self._started_at
        problems = [problem for problem in (self._reload.sentence, self._disk_problem) if problem]
        beat = DaemonBeat(__version__, os.getpid(), up_s, self._supervisor.statuses(), problems)
        try:
            broker.post(subjects.heartbeat_subject("daemon"), heartbeat.pack(beat))
        except ApplianceError:
            pass  # the broker is being restarted, by us


def _argv(part: str) -> list[str]:
    return [sys.executable, "-m", f"appliance.{part}.main"]


def prepare(config: Config) -> None:
    """Make the data folders, private to us. Raises ConfigError where that cannot be done."""
    for folder in (config.data_dir, config.models_dir, config.queue_dir, config.run_dir):
        try:
            folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as exc:
            raise ConfigError(
                f"The data folder {folder} cannot be made: {exc.strerror}. Change data.dir, or its permissions."
            ) from exc
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"The data folder {folder} is not writable. Change data.dir, or its owner.")


class locked:  # noqa: N801 - reads as a phrase: with locked(path)
    """Hold a file lock; the kernel drops it with the process, so a crash leaves nothing stale behind."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def __enter__(self) -> None:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._fd, 32).decode(errors="replace").strip()
            os.close(self._fd)
            raise ConfigError(
                f"Another daemon (pid {holder or 'unknown'}) uses {self._path.parent.parent}. "
                "Stop it, or give this one its own --data."
            ) from None
        os.ftruncate(self._fd, 0)
        os.write(self._fd, f"{os.getpid()}\n".encode())

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def listen(host: str, port: int) -> socket.socket:
    """Bind the HTTP port. The daemon holds it, so that a gateway's restart refuses nobody. Raises ConfigError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except (OSError, OverflowError) as exc:
        sock.close()
        raise ConfigError(_bind_problem(host, port, exc)) from exc
    sock.listen(1024)
    return sock


def _bind_problem(host: str, port: int, exc: Exception) -> str:
    number = getattr(exc, "errno", None)
    if number == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is in use by another program. "
            "Stop that one (ss -ltnp names it), or choose another --port."
        )
    if number == errno.EACCES:
        return f"Port {port} needs more rights than this user has. Choose a --port above 1023."
    if number == errno.EADDRNOTAVAIL or isinstance(exc, socket.gaierror):
        return f"{host} is not an address of this machine. Change server.host."
    return f"Cannot listen on {host}:{port}: {exc}."
