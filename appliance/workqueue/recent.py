"""Ids of lately cancelled items: one may be cancelled before it is delivered here."""

from __future__ import annotations

from collections.abc import Iterable


class Recent:
    """A set that forgets its oldest members beyond `size`."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._ids: dict[str, None] = {}  # in the order of adding

    def add(self, item_ids: Iterable[str]) -> None:
        self._ids.update(dict.fromkeys(item_ids))
        while len(self._ids) > self._size:
            del self._ids[next(iter(self._ids))]

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._ids
