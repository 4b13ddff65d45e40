"""A request's body: bytes to a JSON object, with every way to get it wrong answered by a sentence."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from aiohttp import hdrs, web

from appliance.errors import BadRequest, TooSlow, UnsupportedMedia

Fields = dict[str, Any]


async def read_json(request: web.Request, timeout_s: float) -> Fields:
    """Return the JSON object in the body. Raises UnsupportedMedia, BadRequest, TooSlow; aiohttp raises on a large one.

    The content type must say JSON, since a browser sends any other one across sites without asking first.
    """
    if request.headers.get(hdrs.CONTENT_TYPE) != "application/json":  # else there is nothing to parse
        _check_type(request)
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity") != "identity":
        raise UnsupportedMedia("Compressed request bodies are not accepted. Send the body without Content-Encoding.")
    try:
        fields = orjson.loads(await _read(request, timeout_s))
    except orjson.JSONDecodeError as exc:
        raise BadRequest(f"The body is not valid JSON in UTF-8: {exc}.") from None
    if not isinstance(fields, dict):
        raise BadRequest(f"The body must be a JSON object, not {kind_of(fields)}.")
    return fields


def _check_type(request: web.Request) -> None:
    kind = request.content_type
    if hdrs.CONTENT_TYPE not in request.headers or not (kind == "application/json" or kind.endswith("+json")):
        found = f'"{kind}"' if hdrs.CONTENT_TYPE in request.headers else "none"
        raise UnsupportedMedia(f"Expected the header Content-Type: application/json, found {found}.")


async def _read(request: web.Request, timeout_s: float) -> bytes:
    """Return the body, which is nearly always there with the head; else wait for it, not for ever."""
    if request.content.is_eof():
        if request.content.total_bytes <= request.client_max_size:
            return request.content.read_nowait()  # all of it: without the loop that would wait for more
        return await request.read()
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
