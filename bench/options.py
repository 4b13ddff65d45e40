"""What a run of the benchmark is to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROWS = ("short", "mixed", "one-client", "fake", "idle-memory", "start", "size")


@dataclass(frozen=True)
class Options:
    """`seconds` is the length of one measured window; `config` is the text of the appliance's configuration."""

    rows: tuple[str, ...]
    seconds: float
    warmup_s: float
    repeats: int
    store: Path
    model: str
    venv: Path
    out: Path
    config: str
