"""How long a request may take: what its caller says, within what the administrator allows."""

from __future__ import annotations

import math
from collections.abc import Mapping

from appliance.errors import BadRequest

_HEADERS = ("X-Request-Timeout", "X-Stainless-Read-Timeout")
"""Ours, and the one that OpenAI's clients send with the time after which they hang up. Both in seconds."""


def timeout_of(headers: Mapping[str, str], default_s: float, ceiling_s: float) -> float:
    """Return the seconds that a request may take. Raises BadRequest for a header that is no positive number."""
    for name in _HEADERS:
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not seconds > 0:
            raise BadRequest(f"{name} must be a number of seconds above 0, found {value[:40]!r}.", param=name)
        return min(seconds, ceiling_s)
    return default_s
