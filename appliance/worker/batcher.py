"""Which inputs run together next: pure functions of what waits.

A batch costs its fixed overhead, its tokens, and its padding (longest x count, less the tokens) at what that costs
with the model: as much as tokens in a graph as it is published, little in one whose rows are there for attention only.
The batch chosen is the one with the most tokens per cost that holds the oldest input, so padding is bought only where
it pays and nobody starves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from appliance.worker.job import Key, Piece

MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class Limits:
    """A device's batch budget. `overhead_tokens` is what a batch costs before its first token, in tokens.

    `padding_cost` is what the model needs for a token of padding, in real ones. Both count against `batch_tokens`.
    """

    batch_tokens: int
    batch_items: int
    overhead_tokens: int
    padding_cost: float = 1.0


@dataclass(frozen=True)
class Batch:
    """Pieces of one key that run in one forward pass."""

    key: Key
    pieces: list[Piece]
    padding_cost: float = 1.0

    @property
    def padded_tokens(self) -> int:
        return max(piece.length for piece in self.pieces) * len(self.pieces)

    @property
    def real_tokens(self) -> int:
        return sum(piece.length for piece in self.pieces)

    @property
    def size(self) -> float:
        """What the device has to do for it, in real tokens."""
        return _size(self.real_tokens, self.padded_tokens, self.padding_cost)

    @property
    def cost(self) -> float:
        """What gateways count for it, in estimated tokens."""
        return sum([piece.job.piece_cost for piece in self.pieces])


def _size(real: int, padded: int, padding_cost: float) -> float:
    return real + padding_cost * (padded - real)


def oldest(waiting: Mapping[Key, Sequence[Piece]]) -> Key | None:
    """Return the key whose oldest piece waits longest; None where nothing waits."""
    heads = [(pieces[0].arrived, key) for key, pieces in waiting.items() if pieces]
    return min(heads, key=lambda head: head[0])[1] if heads else None


def form(key: Key, pieces: Sequence[Piece], limits: Limits) -> Batch:
    """Return what of a key's `pieces`, in order of arrival, runs next. A single input over the budget runs alone."""
    return Batch(key, _best_window(pieces, limits), limits.padding_cost)


def _best_window(pieces: Sequence[Piece], limits: Limits) -> list[Piece]:
    """Of the pieces sorted by length, return the window around the oldest with the most real tokens per cost."""
    if len(pieces) == 1:
        return [pieces[0]]
    order = sorted(range(len(pieces)), key=lambda i: len(pieces[i].ids))
    lengths = [len(pieces[i].ids) for i in order]
    oldest = order.index(0)
    best, best_score, real = (oldest, oldest), 0.0, 0
    for last in range(oldest, len(order)):
        real += lengths[last]
        count = last - oldest + 1
        size = _size(real, lengths[last] * count, limits.padding_cost)
        if count > 1 and (count > limits.batch_items or size > limits.batch_tokens):
            break
        score, first = _grow(lengths, oldest, last, real, limits)
        if score > best_score:
            best_score, best = score, (first, last)
    return [pieces[i] for i in order[best[0] : best[1] + 1]]


def _grow(lengths: Sequence[int], first: int, last: int, real: int, limits: Limits) -> tuple[float, int]:
    """Extend the window [first, last] of `real` tokens downwards while the score rises; return (score, first).

    Going down, each shorter piece adds less at the same padded cost, so the score has a single peak.
    """
    longest, count = lengths[last], last - first + 1
    score = real / (limits.overhead_tokens + _size(real, longest * count, limits.padding_cost))
    while first > 0 and count < limits.batch_items:
        more = real + lengths[first - 1]
        size = _size(more, longest * (count + 1), limits.padding_cost)
        grown = more / (limits.overhead_tokens + size)
        if size > limits.batch_tokens or grown < score:
            break
        first, count, real, score = first - 1, count + 1, more, grown
    return score, first


def without(pieces: Iterable[Piece], batch: Batch) -> list[Piece]:
    """Return `pieces` less those of the batch, in order."""
    taken = set(map(id, batch.pieces))
    return [piece for piece in pieces if id(piece) not in taken]


def after_failure(batch: Batch) -> tuple[list[Batch], list[Piece]]:
    """Return the batches to run again, and the pieces to give up, after `batch` failed as a whole.

    First by halves, then each alone; what fails alone, or for the third time, is guilty. So a poison input
    costs its neighbours two more runs at most.
    """
    for piece in batch.pieces:
        piece.attempts += 1
    if len(batch.pieces) == 1:
        piece = batch.pieces[0]
        return ([], [piece]) if piece.attempts >= MAX_ATTEMPTS else ([batch], [])
    attempts = max(piece.attempts for piece in batch.pieces)
    size = (len(batch.pieces) + 1) // 2 if attempts < MAX_ATTEMPTS - 1 else 1
    cuts = range(0, len(batch.pieces), size)
    return [replace(batch, pieces=batch.pieces[i : i + size]) for i in cuts], []
