"""A request's body: bytes to a JSON object, with every way to get it wrong answered by a sentence."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from aiohttp import hdrs, web

from appliance.errors import BadRequest, Overloaded, TooSlow, UnsupportedMedia
from appliance.gateway.note import NOTE, Note

Fields = dict[str, Any]


class Room:
    """Bytes of request bodies that may be here at once, from their arrival to their answer."""

    def __init__(self, limit_bytes: int) -> None:
        self.taken = 0
        self._limit_bytes = limit_bytes

    def take(self, note: Note, size: int) -> None:
        """Count a body until its request ends. Raises Overloaded where there are too many already."""
        if self.taken + size > self._limit_bytes:
            raise Overloaded(f"Requests of {self.taken >> 20} MiB are being worked on. Try again in a moment.")
        self.taken += size
        note.body_bytes += size


async def read_json(request: web.Request, timeout_s: float, room: Room) -> tuple[bytes, Fields]:
    """Return the body and the JSON object in it.

    Raises UnsupportedMedia, BadRequest, TooSlow, Overloaded; aiohttp raises on a large one.

    The content type must say JSON, since a browser sends any other one across sites without asking first.
    """
    if request.headers.get(hdrs.CONTENT_TYPE) != "application/json":  # else there is nothing to parse
        _check_type(request)
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity") != "identity":
        raise UnsupportedMedia("Compressed request bodies are not accepted. Send the body without Content-Encoding.")
    try:
        body = await _read(request, timeout_s, room)
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise BadRequest(f"The body is not valid JSON in UTF-8: {exc}.") from None
    if not isinstance(fields, dict):
        raise BadRequest(f"The body must be a JSON object, not {kind_of(fields)}.")
    return body, fields


def _check_type(request: web.Request) -> None:
    kind = request.content_type
    if hdrs.CONTENT_TYPE not in request.headers or not (kind == "application/json" or kind.endswith("+json")):
        found = f'"{kind}"' if hdrs.CONTENT_TYPE in request.headers else "none"
        raise UnsupportedMedia(f"Expected the header Content-Type: application/json, found {found}.")


async def _read(request: web.Request, timeout_s: float, room: Room) -> bytes:
    """Return the body, which is nearly always there with the head; else wait for it, not for ever."""
    note: Note = request[NOTE]
    if request.content.is_eof():
        room.take(note, request.content.total_bytes)
        if request.content.total_bytes <= request.client_max_size:
            return request.content.read_nowait()  # all of it: without the loop that would wait for more
        return await request.read()
    length = request.content_length
    room.take(note, min(request.client_max_size, request.client_max_size if length is None else length))
    try:
        return await asyncio.wait_for(request.read(), timeout_s)
    except asyncio.TimeoutError:
        raise TooSlow(f"The request's body did not arrive within {timeout_s:g} s.") from None


def kind_of(value: Any) -> str:
    """Name a JSON value's type as its sender would."""
    return _KINDS.get(type(value), type(value).__name__)


_KINDS = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}
