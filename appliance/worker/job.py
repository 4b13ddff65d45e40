"""A delivery being worked on, and the pieces (single inputs) that batches are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from appliance.errors import ApplianceError
from appliance.wire.items import Options, WorkResult, failure
from appliance.wire.subjects import INTERACTIVE
from appliance.workqueue.consumer import Delivery


class Key(NamedTuple):
    """What may share a batch. Classes do not: bulk work in it would make a person wait for all of it."""

    model_id: str
    operation: str
    lora: str
    options: Options
    klass: str = INTERACTIVE


@dataclass(slots=True, eq=False)
class Piece:
    """One input, tokenised. `attempts` counts the batches that failed with it."""

    job: Job
    index: int
    ids: list[int]
    arrived: float
    attempts: int = 0

    @property
    def length(self) -> int:
        return len(self.ids)


@dataclass(slots=True, eq=False)
class Job:
    """A delivery, its outputs as they come in, and how many are missing."""

    delivery: Delivery
    key: Key
    content_hash: str
    tokens: list[int]
    truncated: list[int]
    expires_at: float
    """The instant (monotonic) after which nobody waits for it."""
    outputs: list[bytes] = field(default_factory=list)
    missing: int = 0
    is_over: bool = False
    errors: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Where each input stands for itself: code and message of those that failed."""
    piece_cost: float = 0.0
    """An input's part of the item's cost, from its gateway; of its true tokens where that told none."""

    def __post_init__(self) -> None:
        self.piece_cost = (self.delivery.item.cost or sum(self.tokens)) / max(1, len(self.outputs))

    def take(self, index: int, output: bytes) -> WorkResult | None:
        """Store one output; return the result once it is whole."""
        self.outputs[index] = output
        self.missing -= 1
        return None if self.missing or self.is_over else self._whole()

    def fail(self, index: int, error: ApplianceError) -> WorkResult | None:
        """End it with an error about one input; return the result the first time.

        An accepted job goes on without that input, and its result tells of it once it is whole.
        """
        if self.is_over:
            return None
        if index < 0 or not self.stands_for_itself:
            self.is_over = True
            return failure(self.delivery.item.item_id, error, index)
        if index in self.errors or self.outputs[index]:
            return None
        self.errors[index] = error.code, error.message
        self.missing -= 1
        return None if self.missing else self._whole()

    @property
    def stands_for_itself(self) -> bool:
        """Whether each input has an answer of its own, be it an error."""
        return self.delivery.item.is_job

    def _whole(self) -> WorkResult:
        self.is_over = True
        errors = tuple((index, code, message) for index, (code, message) in sorted(self.errors.items()))
        return WorkResult(
            self.delivery.item.item_id, self.content_hash, self.outputs, self.tokens, self.truncated, errors=errors
        )
