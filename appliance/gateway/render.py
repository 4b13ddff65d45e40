"""Errors as HTTP: the only place that knows status codes."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import web

from appliance import errors
from appliance.errors import ApplianceError

_STATUS: dict[type[ApplianceError], int] = {
    errors.BadRequest: 400,
    errors.UnsupportedMedia: 415,
    errors.BodyTooLarge: 413,
    errors.ModelNotFound: 404,
    errors.JobNotFound: 404,
    errors.TooManyConnections: 503,
    errors.Overloaded: 429,
    errors.TooSlow: 408,
    errors.Unavailable: 503,
    errors.DeadlineExceeded: 504,
    errors.Quarantined: 422,
    errors.IdempotencyMismatch: 422,
    errors.EngineFailed: 500,
    ApplianceError: 500,
}

ACCEPTED = 202
INTERNAL = 500
NOT_READY = 503
CLIENT_GONE = 499
"""In the log and the metrics only: whoever hung up receives nothing."""

_JSON = {"Content-Type": "application/json"}
_TYPES = {400: "invalid_request_error", 404: "invalid_request_error", 429: "rate_limit_error", 503: "overloaded_error"}


def status_of(error: ApplianceError) -> int:
    """Return the status of the error's class or of its nearest parent that has one."""
    for cls in type(error).__mro__:
        if cls in _STATUS:
            return _STATUS[cls]
    return 500


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, headers={**_JSON, **headers} if headers else _JSON)


def error_response(error: ApplianceError) -> web.Response:
    """The OpenAI shape: {"error": {message, type, param, code}}; `code` is stable."""
    status = status_of(error)
    headers = {}
    if isinstance(error, errors.Overloaded):
        headers["Retry-After"] = str(error.retry_after_s)
    elif isinstance(error, errors.Unavailable):
        headers["Retry-After"] = "1"
    return _error(status, error.message, error.code, error.param, headers)


def raw_error(error: ApplianceError) -> bytes:
    """Return an error as a whole HTTP/1.1 response, for a connection that aiohttp never sees."""
    response = error_response(error)
    body = bytes(response.body)  # type: ignore[arg-type]
    head = f"HTTP/1.1 {response.status} {response.reason}\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def http_error_response(error: web.HTTPException, max_body_bytes: int) -> web.Response:
    """aiohttp's own refusals (404, 405, 413, ...) in our shape, its Allow header kept."""
    headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    message = error.reason
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        message = f"The request body is over the limit of {max_body_bytes} bytes. Send fewer inputs a request."
    elif isinstance(error, web.HTTPNotFound):
        message = "There is nothing at this path."
    elif isinstance(error, web.HTTPMethodNotAllowed):
        message = f"{error.method} is not allowed here; use {headers.get('Allow', 'another method')}."
    return _error(error.status, message, _HTTP_CODES.get(error.status, "invalid_request"), None, headers)


_HTTP_CODES = {404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}


def _error(status: int, message: str, code: str, param: str | None, headers: dict[str, str]) -> web.Response:
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return json_response({"error": {"message": message, "type": kind, "param": param, "code": code}}, status, headers)
