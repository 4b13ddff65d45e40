"""Reads one TOML table strictly: every key is known and of its type, or the error names file and key."""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path
from typing import Any

from appliance.errors import CorruptModel


class Table:
    """A TOML table from which each expected key is taken once; `close` refuses what is left."""

    def __init__(self, raw: dict[str, Any], path: Path, prefix: str = "") -> None:
        self._left = dict(raw)
        self._path = path
        self._prefix = prefix

    def text(self, key: str, default: str | None = None) -> str:
        return str(self._take(key, str, default))

    def integer(self, key: str, default: int | None = None) -> int:
        return int(self._take(key, int, default))

    def number(self, key: str, default: float | None = None) -> float:
        value = float(self._take(key, (int, float), default))
        if not math.isfinite(value):
            raise self.error(key, f"is {value}; a finite number is expected")
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        return bool(self._take(key, bool, default))

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        value = self._take(key, (list, tuple), default)
        if not all(isinstance(entry, str) for entry in value):
            raise self.error(key, "a list of strings is expected")
        return tuple(value)

    def instant(self, key: str) -> datetime | None:
        """Return a date and time with its offset, or None where the key is absent."""
        if key not in self._left:
            return None
        value: datetime = self._take(key, datetime, None)
        if value.tzinfo is None:
            raise self.error(key, "a time with its offset is expected, such as 2026-12-01T12:00:00Z")
        return value

    def choice(self, key: str, known: tuple[str, ...], default: str | None = None) -> str:
        value = self.text(key, default)
        if value not in known:
            raise self.error(key, f"is {value!r}; one of {', '.join(known)} is expected")
        return value

    def table(self, key: str) -> Table | None:
        """Return the table under `key`, or None where it is absent."""
        if key not in self._left:
            return None
        return Table(self._take(key, dict, None), self._path, f"{self._prefix}{key}.")

    def text_items(self) -> dict[str, str]:
        """Take every key of a table whose values are all strings."""
        return {key: self.text(key) for key in list(self._left)}

    def close(self) -> None:
        if self._left:
            raise self.error(next(iter(self._left)), "unknown key")

    def error(self, key: str, why: str) -> CorruptModel:
        return CorruptModel(f"{self._path}: {self._prefix}{key}: {why}", param=f"{self._prefix}{key}")

    def _take(self, key: str, kinds: type | tuple[type, ...], default: Any) -> Any:
        if key not in self._left:
            if default is None:
                raise self.error(key, "missing")
            return default
        value = self._left.pop(key)
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        # bool is an int to Python, not to a person who writes a configuration
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise self.error(key, f"is {type(value).__name__}; {expected} is expected")
        return value
