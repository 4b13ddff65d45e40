"""Which inputs run together next: pure functions of what waits.

A batch costs its fixed overhead plus its padded tokens (longest x count). The batch chosen is the one with the
most real tokens per cost that holds the oldest input, so padding is bought only where it pays and nobody starves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from appliance.worker.job import Key, Piece

MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class Limits:
    """A device's batch budget. `overhead_tokens` is what a batch costs before its first token, in tokens."""

    batch_tokens: int
    batch_items: int
    overhead_tokens: int


@dataclass(frozen=True)
class Batch:
    """Pieces of one key that run in one forward pass."""

    key: Key
    pieces: list[Piece]

    @property
    def padded_tokens(self) -> int:
        return max(piece.length for piece in self.pieces) * len(self.pieces)

    @property
    def real_tokens(self) -> int:
        return sum(piece.length for piece in self.pieces)

    @property
    def cost(self) -> float:
        """What gateways count for it, in estimated tokens."""
        return sum([piece.job.piece_cost for piece in self.pieces])


def next_batch(waiting: Mapping[Key, Sequence[Piece]], limits: Limits) -> Batch | None:
    """Return what to run next: from the key whose oldest piece waits longest; None where nothing waits.

    Each sequence is in order of arrival. A single input over the budget runs alone.
    """
    heads = [(pieces[0].arrived, key) for key, pieces in waiting.items() if pieces]
    if not heads:
        return None
    key = min(heads, key=lambda head: head[0])[1]
    return Batch(key, _best_window(waiting[key], limits))


def _best_window(pieces: Sequence[Piece], limits: Limits) -> list[Piece]:
    """Of the pieces sorted by length, return the window around the oldest with the most real tokens per cost."""
    if len(pieces) == 1:
        return [pieces[0]]
    order = sorted(range(len(pieces)), key=lambda i: len(pieces[i].ids))
    lengths = [len(pieces[i].ids) for i in order]
    oldest = order.index(0)
    best, best_score = (oldest, oldest), 0.0
    for last in range(oldest, len(order)):
        longest = lengths[last]
        count = min(limits.batch_items, max(1, limits.batch_tokens // longest))
        first = max(0, last - count + 1)
        if first > oldest:
            break
        score = _grow(lengths, oldest, last, first, limits.overhead_tokens)
        if score[0] > best_score:
            best_score, best = score[0], (score[1], last)
    return [pieces[i] for i in order[best[0] : best[1] + 1]]


def _grow(lengths: Sequence[int], oldest: int, last: int, lowest: int, overhead: int) -> tuple[float, int]:
    """Extend the window [oldest, last] down to `lowest` as long as the score rises; return (score, first).

    Going down, each shorter piece adds less at the same cost, so the score has a single peak.
    """
    longest, real = lengths[last], sum(lengths[oldest : last + 1])
    first = oldest
    score = real / (overhead + longest * (last - first + 1))
    while first > lowest:
        grown = (real + lengths[first - 1]) / (overhead + longest * (last - first + 2))
        if grown < score:
            break
        first, real, score = first - 1, real + lengths[first - 1], grown
    return score, first


def is_full(batch: Batch, limits: Limits) -> bool:
    """Return whether waiting longer could not make this batch better by much."""
    count, padded = len(batch.pieces), batch.padded_tokens
    return count >= limits.batch_items or padded + padded // count > limits.batch_tokens


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
    return [Batch(batch.key, batch.pieces[i : i + size]) for i in cuts], []
