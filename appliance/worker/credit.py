"""How many more items a worker asks for: what it can start next, no more, so that another may take the rest."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.worker.batcher import Limits


@dataclass(frozen=True)
class CreditFacts:
    """What is held, and what recent items were like (moving averages)."""

    held_pieces: int
    held_tokens: int
    mean_item_pieces: float
    mean_item_tokens: float


def credit(facts: CreditFacts, limits: Limits, batches_ahead: int) -> int:
    """Return the number of items to ask for: room for the running batch and `batches_ahead` more, less what is held."""
    batches = 1 + batches_ahead
    pieces = batches * limits.batch_items - facts.held_pieces
    tokens = batches * limits.batch_tokens - facts.held_tokens
    room = min(pieces / max(1.0, facts.mean_item_pieces), tokens / max(1.0, facts.mean_item_tokens))
    # An idle worker asks for one at least: the averages may be of items far larger than what comes.
    return max(0 if facts.held_pieces else 1, int(room))
