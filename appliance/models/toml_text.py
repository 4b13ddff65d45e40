"""Writes TOML; the standard library only reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any


def toml_text(top: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any] | None]) -> str:
    """Return a document of the keys `top` and one level of `tables`; what is None is left out.

    Values are strings, numbers, booleans, times or lists of those.
    """
    lines = _lines(top)
    for name, content in tables.items():
        if content is not None:
            lines += ["", f"[{name}]", *_lines(content)]
    return "\n".join(lines) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items() if value is not None]


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    """Return a TOML value; a JSON string, list or number is one too, but for DEL, which TOML wants escaped."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
