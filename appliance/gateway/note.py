"""What a request's handler leaves for its log line and for its end."""

from __future__ import annotations

from dataclasses import dataclass

NOTE = "note"
"""Where a request has it."""


@dataclass(slots=True)
class Note:
    """Never content."""

    request_id: str
    model: str = ""
    inputs: int = 0
    tokens: int = 0
    error: str = ""
    body_bytes: int = 0
