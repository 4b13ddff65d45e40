"""The operation interface and the table of operations: add one by adding a file and a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from appliance.runtimes.base import Ints, Session

Options = tuple[tuple[str, Any], ...]


@dataclass
class Outcome:
    """One output per input, in order. `errors` names the inputs that failed: index to (code, message)."""

    outputs: list[bytes]
    errors: dict[int, tuple[str, str]] = field(default_factory=dict)


class Operation(Protocol):
    """Bound to one model's settings; runs batches of one key."""

    def run(self, session: Session, lengths: Sequence[int], flat_ids: Ints, options: Options) -> Outcome:
        """Run one batch: `flat_ids` holds all inputs one after the other, `lengths` their token counts."""
        ...


_OPERATIONS = {"embed": "appliance.operations.embed:Embed"}


def create(name: str, settings: dict[str, Any]) -> Operation:
    """Import and make the operation `name` with its model's settings. Raises KeyError for an unknown one."""
    module, attribute = _OPERATIONS[name].split(":")
    operation: Operation = getattr(import_module(module), attribute)(**settings)
    return operation
