"""What a parent hands its child over the control socket: configuration and credentials, never on argv or disk."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from appliance import config as configuration
from appliance.config import Config


@dataclass(frozen=True)
class BrokerLogin:
    """Where and as whom a process connects to the broker."""

    url: str
    user: str
    password: str


@dataclass(frozen=True)
class Launch:
    """The first line that a child reads. `device` and `leases_fd` are for workers, `listener_fd` for gateways."""

    process_id: str
    config: Config
    broker: BrokerLogin
    device: str = ""
    workers: int = 1
    """How many there are beside each other."""
    listener_fd: int = -1
    leases_fd: int = -1
    condemned: tuple[str, ...] = ()
    """Items (by subjects.stored_id) that ended two workers: not to be touched again."""


def pack(launch: Launch) -> bytes:
    """One JSON line."""
    fields: dict[str, Any] = {
        **vars(launch),
        "config": configuration.to_table(launch.config),
        "broker": vars(launch.broker),
    }
    return json.dumps(fields).encode() + b"\n"


def unpack(line: bytes) -> Launch:
    fields = json.loads(line)
    fields["config"] = configuration.from_table(fields["config"], "launch")
    fields["broker"] = BrokerLogin(**fields["broker"])
    fields["condemned"] = tuple(fields["condemned"])
    return Launch(**fields)
