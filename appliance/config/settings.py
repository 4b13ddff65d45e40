"""Every setting, declared once: type, default, unit, bounds, meaning. Frozen.

Units are in the names (`_s`, `_ms`, `_bytes`). config.toml is the same list for people; a test keeps the two equal.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 1024 * 1024


def _setting(
    default: Any,
    doc: str,
    *,
    low: float | None = None,
    high: float | None = None,
    one_of: tuple[str, ...] = (),
    is_fixed: bool = False,
) -> Any:
    """Declare one setting; lists are given as tuples so that the whole stays frozen, `low` is their least length.

    `is_fixed`: a reload (SIGHUP) cannot change it, only a restart.
    """
    meta = {"doc": doc, "low": low, "high": high, "one_of": one_of, "is_fixed": is_fixed}
    return field(default=default, metadata=meta)


@dataclass(frozen=True)
class Server:
    host: str = _setting(
        "127.0.0.1", "Address to listen on. Anything but loopback is reachable by your network.", is_fixed=True
    )
    port: int = _setting(8080, "TCP port to listen on.", low=0, high=65535, is_fixed=True)
    gateways: int = _setting(
        1,
        "Gateway processes that share the port. One carries 3,000 to 5,000 small requests a second.",
        low=1,
        high=64,
        is_fixed=True,
    )
    request_timeout_s: float = _setting(
        60.0, "A request without an answer after this long ends with 504, unless it names a time.", low=0.1, high=3600
    )
    longest_timeout_s: float = _setting(
        600.0, "Longest time that a request may ask for, with X-Request-Timeout.", low=0.1, high=86400
    )
    keepalive_timeout_s: float = _setting(
        75.0, "An idle client connection is closed after this long.", low=1, high=3600
    )
    header_timeout_s: float = _setting(
        10.0, "A new connection without a whole request head after this long is closed.", low=0.1, high=600
    )
    body_timeout_s: float = _setting(
        60.0, "A request whose body is not there after this long ends with 408.", low=0.1, high=3600
    )
    write_timeout_s: float = _setting(
        30.0, "A connection that takes nothing of its answer for this long is closed.", low=0.1, high=3600
    )
    max_connections: int = _setting(1024, "Open connections of one gateway; the next gets 503.", low=1, high=65536)
    max_connections_per_address: int = _setting(
        256, "Open connections from one address; loopback is exempt.", low=1, high=65536
    )
    max_body_bytes: int = _setting(
        8 * MIB, "Largest request body; above it the answer is 413.", low=1024, high=1024 * MIB
    )
    max_waiting_bytes: int = _setting(
        256 * MIB,
        "Request bodies that one gateway holds at once; the next request gets 429.",
        low=MIB,
        high=64 * 1024 * MIB,
    )
    max_inputs: int = _setting(2048, "Most inputs in one request.", low=1, high=100_000)


@dataclass(frozen=True)
class Data:
    dir: str = _setting(
        "./data", "Models, queue and run-time files. Relative to the folder that the daemon starts in.", is_fixed=True
    )


@dataclass(frozen=True)
class Queue:
    max_items: int = _setting(
        4096, "Items that wait in one lane (one model, one class); the next is refused with 429.", low=1, high=1_000_000
    )
    max_memory_bytes: int = _setting(
        1024 * MIB, "Memory for all waiting items together.", low=16 * MIB, high=1024 * 1024 * MIB, is_fixed=True
    )
    item_tokens: int = _setting(
        2048, "An input list is cut into items of about this many tokens.", low=16, high=1_000_000
    )
    item_inputs: int = _setting(32, "Most inputs in one item.", low=1, high=1024)
    longest_wait_s: float = _setting(
        10.0,
        "Interactive requests that would wait longer than this, or than their time allows, are refused with 429.",
        low=0.1,
        high=3600,
    )
    ack_wait_s: float = _setting(
        5.0, "A held item whose worker stops renewing it goes back to the queue after this long.", low=1, high=300
    )
    publish_timeout_s: float = _setting(
        1.0, "An item that the broker does not confirm within this long is sent again.", low=0.05, high=60
    )


@dataclass(frozen=True)
class Jobs:
    max_items: int = _setting(50_000, "Items of accepted jobs in one lane; a job over it gets 429.", low=1, high=10**6)
    max_bytes: int = _setting(
        2048 * MIB, "Disk for what waits; a job over it gets 429.", low=MIB, high=2**40, is_fixed=True
    )
    max_results_bytes: int = _setting(
        8192 * MIB, "Disk for results; a job whose results might not fit gets 429.", low=MIB, high=2**40, is_fixed=True
    )
    results_kept_s: float = _setting(
        604800.0, "A job is forgotten this long after its acceptance, results too.", low=1, high=10**8, is_fixed=True
    )
    min_free_disk_bytes: int = _setting(1024 * MIB, "With less free disk than this, jobs get 503.", low=0, high=2**40)


@dataclass(frozen=True)
class Worker:
    devices: tuple[str, ...] = _setting(
        ("auto",),
        'One worker per device, at least 1: "auto" (every GPU, or the CPU where there is none), "cpu", '
        '"gpu0", "virtual0" (serves fake models only).',
        low=1,
        is_fixed=True,
    )
    batch_tokens: int = _setting(
        0, "Tokens in a batch, padding counted at what it costs the model. 0: as suits the device.", low=0, high=10**7
    )
    batch_items: int = _setting(0, "Most inputs in one batch. 0: as suits the device.", low=0, high=4096)
    bulk_share: float = _setting(
        0.1,
        "Part of a device's time that bulk work gets while interactive work waits, too; without, all of it.",
        low=0.01,
        high=0.9,
    )
    overhead_tokens: int = _setting(
        0,
        "A batch's fixed cost, in tokens: the larger, the more padding pays. 0: as suits the device.",
        low=0,
        high=1_000_000,
    )
    streams: int = _setting(0, "Batches that a device runs at once. 0: as suits the device.", low=0, high=64)
    batches_ahead: int = _setting(
        2, "Batches' worth of items to hold beyond the running ones, tokenised and ready.", low=1, high=64
    )
    memory_bytes: int = _setting(
        0,
        "Memory of a device that models may take. 0: as suits it, nine tenths of a GPU's or six tenths of the box's.",
        low=0,
        high=2**50,
    )
    pinned: tuple[str, ...] = _setting((), "Models that are loaded at start and never make room for others.")
    preload: bool = _setting(
        True, "At start, load other models, too, as long as there is room; else each at its first use."
    )


@dataclass(frozen=True)
class Engine:
    threads: int = _setting(
        0, "CPU threads for models, shared by the batches that run at once. 0: one per core.", low=0, high=1024
    )
    load_timeout_s: float = _setting(
        300.0, "A model that is not loaded after this long counts as failed.", low=1, high=3600
    )
    batch_timeout_s: float = _setting(
        120.0,
        "A batch that runs longer than this counts as hung; its engine is restarted. See hung_factor.",
        low=1,
        high=3600,
    )
    hung_factor: float = _setting(
        20.0,
        "A batch that runs this many times longer than the model's earlier ones of its size counts as hung, too.",
        low=2,
        high=1000,
    )
    hung_least_s: float = _setting(5.0, "No batch counts as hung before it ran this long.", low=0.1, high=3600)


@dataclass(frozen=True)
class Supervisor:
    restart_min_s: float = _setting(
        0.1,
        "Wait before a dead process is started again, doubled at each failure in a row.",
        low=0.01,
        high=60,
        is_fixed=True,
    )
    restart_max_s: float = _setting(30.0, "Longest such wait.", low=0.1, high=3600, is_fixed=True)
    start_timeout_s: float = _setting(
        60.0, "A process that is not up after this long counts as failed.", low=1, high=3600, is_fixed=True
    )
    silent_after_s: float = _setting(
        4.0,
        "A process that is there and says nothing for this long is ended and started again.",
        low=1,
        high=600,
        is_fixed=True,
    )
    drain_timeout_s: float = _setting(30.0, "After SIGTERM or Ctrl-C, time to finish what is held.", low=0.1, high=3600)


@dataclass(frozen=True)
class Log:
    level: str = _setting("info", "Least severe line that is written.", one_of=("debug", "info", "warning", "error"))
    format: str = _setting("text", "text (key=value) or json, one object a line.", one_of=("text", "json"))
    requests: bool = _setting(True, "Write one line at the end of each request (never its content).")


@dataclass(frozen=True)
class Config:
    """The whole configuration; every part has its defaults."""

    server: Server = field(default_factory=Server)
    data: Data = field(default_factory=Data)
    queue: Queue = field(default_factory=Queue)
    jobs: Jobs = field(default_factory=Jobs)
    worker: Worker = field(default_factory=Worker)
    engine: Engine = field(default_factory=Engine)
    supervisor: Supervisor = field(default_factory=Supervisor)
    log: Log = field(default_factory=Log)

    @property
    def data_dir(self) -> Path:
        return Path(self.data.dir)

    @property
    def models_dir(self) -> Path:
        return self.data_dir / "models"

    @property
    def run_dir(self) -> Path:
        return self.data_dir / "run"

    @property
    def queue_dir(self) -> Path:
        return self.data_dir / "queue"


def fixed_changes(old: Config, new: Config) -> list[str]:
    """Return the settings that differ and that only a restart can change."""
    return [
        f"{section.name}.{setting.name}"
        for section in dataclasses.fields(Config)
        for setting in dataclasses.fields(getattr(old, section.name))
        if setting.metadata["is_fixed"]
        and getattr(getattr(old, section.name), setting.name) != getattr(getattr(new, section.name), setting.name)
    ]
