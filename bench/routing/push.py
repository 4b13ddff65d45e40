"""What a router needs of the broker, and how the processes of one run are told which router it is."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

ENVIRONMENT = "BENCH_ROUTING"


@dataclass(frozen=True)
class Routing:
    """Which of bench/routers.py, over which workers; `stale_s` is how old its knowledge may get (0.0: fresh)."""

    router: str
    workers: list[str]
    stale_s: float = 0.0

    def environment(self) -> dict[str, str]:
        return {ENVIRONMENT: json.dumps(asdict(self))}


def routing() -> Routing:
    """Return what this process was told."""
    return Routing(**json.loads(os.environ[ENVIRONMENT]))


def subject(worker_id: str) -> str:
    """Where a worker is pushed at: plain messages, which is the least that a router can cost."""
    return f"push.{worker_id}"
