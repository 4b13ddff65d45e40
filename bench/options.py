"""What a run of the benchmark is to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROWS = ("short", "mixed", "one-client", "fake", "fake-raw", "idle-memory", "start", "size")


@dataclass(frozen=True)
class Options:
    """`seconds` is the length of a measured window; `config` the appliance's configuration as text, None: defaults."""

    rows: tuple[str, ...]
    seconds: float
    warmup_s: float
    repeats: int
    store: Path
    model: str
    venv: Path
    out: Path
    config: str | None

    def config_on(self, device: str) -> str:
        """Return the configuration; the default one names the device, since the limits are those of the CPU."""
        return f'[worker]\ndevices = ["{device}"]\n' if self.config is None else self.config
