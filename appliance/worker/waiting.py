"""The pieces that wait for a batch, by key, each line in order of arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from appliance.worker import batcher
from appliance.worker.batcher import Batch
from appliance.worker.job import Key, Piece


class Waiting:
    """No key without pieces."""

    def __init__(self) -> None:
        self._lines: dict[Key, list[Piece]] = {}

    @property
    def lines(self) -> Mapping[Key, Sequence[Piece]]:
        return self._lines

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, key: Key, pieces: Sequence[Piece]) -> None:
        self._lines.setdefault(key, []).extend(pieces)

    def put_back(self, batch: Batch) -> None:
        """Let a batch's pieces wait again, before the others."""
        self._keep(batch.key, [*batch.pieces, *self._lines.get(batch.key, [])])

    def take(self, batch: Batch) -> None:
        """Take out what is in a batch."""
        self._keep(batch.key, batcher.without(self._lines[batch.key], batch))

    def pop(self, key: Key) -> list[Piece]:
        """Take out all of a key."""
        return self._lines.pop(key)

    def pop_over(self) -> list[list[Piece]]:
        """Take out the pieces of jobs that are over; return them, a list for each key."""
        every = []
        for key, pieces in list(self._lines.items()):
            over = [piece for piece in pieces if piece.job.is_over]
            if over:
                every.append(over)
                self._keep(key, [piece for piece in pieces if not piece.job.is_over])
        return every

    def _keep(self, key: Key, pieces: list[Piece]) -> None:
        if pieces:
            self._lines[key] = pieces
        else:
            self._lines.pop(key, None)
