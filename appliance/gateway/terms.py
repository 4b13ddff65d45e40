"""A caller's terms: whose request it is, how urgent, how long it may take. All of it from headers."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from aiohttp import web

from appliance.config import Server
from appliance.errors import BadRequest
from appliance.wire.subjects import CLASSES, INTERACTIVE

_TIMEOUT_HEADERS = ("X-Request-Timeout", "X-Stainless-Read-Timeout")
"""Ours, and the one that OpenAI's clients send with the time after which they hang up. Both in seconds."""
_CLASS_HEADER = "X-Work-Class"
_ONCE_HEADER = "Idempotency-Key"
_ONCE = re.compile(r"[!-~]{1,255}")


class Terms(NamedTuple):
    """`key` is whose share the request counts against; `body` what was asked, byte by byte; `once` may be empty."""

    key: str
    klass: str
    timeout_s: float
    body: bytes
    once: str = ""
    """The Idempotency-Key: the same one from the same key joins the first request's run."""


def terms_of(request: web.Request, body: bytes, server: Server) -> Terms:
    """Read them off a request. Raises BadRequest, naming the header."""
    headers = request.headers
    klass = headers.get(_CLASS_HEADER, INTERACTIVE)
    if klass not in CLASSES:
        raise BadRequest(f"{_CLASS_HEADER} must be {' or '.join(CLASSES)}, found {klass[:40]!r}.", param=_CLASS_HEADER)
    once = headers.get(_ONCE_HEADER, "")
    if once and not _ONCE.fullmatch(once):
        raise BadRequest(f"{_ONCE_HEADER} must be 1 to 255 printable ASCII characters.", param=_ONCE_HEADER)
    authorization = headers.get("Authorization")
    key = hashed(authorization) if authorization is not None else request.remote or ""
    return Terms(key, klass, timeout_of(headers, server.request_timeout_s, server.longest_timeout_s), body, once)


@lru_cache(maxsize=4096)
def hashed(authorization: str) -> str:
    """A key is known by its hash, so that none is in any table, log or crash."""
    return hashlib.sha256(authorization.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def timeout_of(headers: Mapping[str, str], default_s: float, ceiling_s: float) -> float:
    """Return the seconds that a request may take. Raises BadRequest for a header that is no positive number."""
    for name in _TIMEOUT_HEADERS:
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
