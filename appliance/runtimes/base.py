"""The runtime interface and the table of runtimes: add one by adding a file and a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class SessionSpec:
    """What to load. `device` is cpu, gpuN or virtualN; `settings` are the runtime's own (the fake's script).

    `threads` are for a pass beside others, `threads_alone` for one that has the device to itself.
    """

    folder: Path
    device: str
    threads: int
    threads_alone: int
    settings: dict[str, Any] = field(default_factory=dict)


class Session(Protocol):
    """One loaded model."""

    @property
    def padding_cost(self) -> float:
        """Return what a token of padding costs in a pass, in real tokens: 1 where the whole graph computes it."""
        ...

    @property
    def alone(self) -> Session:
        """Return the same model for a pass that has the device to itself."""
        ...

    def run(self, lengths: Sequence[int], flat_ids: Ints) -> dict[str, Floats]:
        """Run one forward pass.

        `flat_ids` holds all inputs one after the other, `lengths` their token counts. Returns `last_hidden_state`
        [tokens, hidden] in the same order or `pooled` [batch, hidden], under that name. Raises RuntimeError when the
        pass fails.
        """
        ...


class Runtime(Protocol):
    """A way to execute models in this process."""

    def load(self, spec: SessionSpec) -> Session:
        """Load a model. Raises RuntimeError with the runtime's own words."""
        ...


_RUNTIMES = {
    "onnx": "appliance.runtimes.onnx:OnnxRuntime",
    "fake": "appliance.runtimes.fake:FakeRuntime",
}
"""Dotted names, imported when used: an engine loads only its own runtime's libraries."""


def create(name: str) -> Runtime:
    """Import and make the runtime called `name`. Raises KeyError for one that is not in the table."""
    module, attribute = _RUNTIMES[name].split(":")
    runtime: Runtime = getattr(import_module(module), attribute)()
    return runtime
