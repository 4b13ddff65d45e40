"""How many more items a worker asks for: what it can start next, no more, so that another may take the rest."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.worker.batcher import Limits

_FOLLOW = 0.05


@dataclass
class Holding:
    """What a worker holds of one class, and what recent items were like (moving averages)."""

    pieces: int = 0
    tokens: int = 0
    mean_item_pieces: float = 1.0
    mean_item_tokens: float = 16.0

    def take(self, pieces: int, tokens: int) -> None:
        """Count one more item."""
        self.pieces += pieces
        self.tokens += tokens
        self.mean_item_pieces += _FOLLOW * (pieces - self.mean_item_pieces)
        self.mean_item_tokens += _FOLLOW * (tokens - self.mean_item_tokens)


def credit(holding: Holding, limits: Limits, batches_ahead: int) -> int:
    """Return the number of items to ask for: room for the running batch and `batches_ahead` more, less what is held."""
    batches = 1 + batches_ahead
    pieces = batches * limits.batch_items - holding.pieces
    tokens = batches * limits.batch_tokens - holding.tokens
    room = min(pieces / max(1.0, holding.mean_item_pieces), tokens / max(1.0, holding.mean_item_tokens))
    # An idle worker asks for one at least: the averages may be of items far larger than what comes.
    return max(0 if holding.pieces else 1, int(room))
