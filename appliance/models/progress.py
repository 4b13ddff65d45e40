"""How a long command tells a person where it is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called at every step; `done` of `total` count bytes or items, `total` is None where it is not known."""

    def __call__(self, step: str, done: int, total: int | None) -> None: ...
