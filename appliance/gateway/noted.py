"""Around every handler: a request id, one log line at the end, metrics, and errors turned into answers."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from random import getrandbits

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from appliance import log, metrics
from appliance.errors import ApplianceError, Internal, Unavailable
from appliance.gateway.body import Room
from appliance.gateway.note import NOTE, Note
from appliance.gateway.render import CLIENT_GONE, error_response, http_error_response

_log = log.Logger("gateway")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_QUIET = {"/healthz", "/readyz", "/metrics"}


class Noting:
    """The one middleware. While `is_draining`, new requests are refused; while `is_retiring`, they are the last."""

    def __init__(self, room: Room, max_body_bytes: int, write_lines: bool) -> None:
        self.is_draining = False
        self.is_retiring = False
        self.in_flight = 0
        self._room = room
        self._max_body_bytes = max_body_bytes
        self._write_lines = write_lines

    def middleware(self) -> Middleware:
        """Return what web.Application takes."""

        @web.middleware
        async def around(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._around(request, handler, _route(request))

        return around

    def shortcut(self, posted: Mapping[str, Handler], general: Handler) -> Handler:
        """Return a handler for every request: those POSTed to these paths pass the application by.

        Its router, middlewares and signals are a tenth of a small request's time here, and do nothing for it.
        """

        async def handle(request: web.Request) -> web.StreamResponse:
            handler = posted.get(request.raw_path)
            if handler is None or request.method != "POST":
                return await general(request)
            return await self._around(request, handler, request.raw_path)

        return handle

    async def _around(self, request: web.Request, handler: Handler, route: str) -> web.StreamResponse:
        start = time.perf_counter()
        given = request.headers.get("X-Request-Id")
        known = given if given is not None and _REQUEST_ID.fullmatch(given) else f"{getrandbits(64):016x}"
        request[NOTE] = note = Note(known)
        self.in_flight += 1
        try:
            if self.is_draining and route.startswith("/v1/"):
                raise Unavailable("The appliance is shutting down.")
            response = await handler(request)
        except asyncio.CancelledError:
            self._write(request.method, route, note, CLIENT_GONE, start)
            raise
        except Exception as exc:
            response = self._refusal(exc, note)
        finally:
            self.in_flight -= 1
            self._room.taken -= note.body_bytes
        response.headers["X-Request-Id"] = note.request_id
        if self.is_draining or self.is_retiring:
            response.force_close()  # a client that keeps its connection would meet a reset at its next request
        self._write(request.method, route, note, response.status, start)
        return response

    def _refusal(self, exc: Exception, note: Note) -> web.StreamResponse:
        """Return the answer that an exception stands for."""
        if isinstance(exc, ApplianceError):
            note.error = exc.code
            return error_response(exc)
        if isinstance(exc, web.HTTPException):
            note.error = f"http_{exc.status}"
            return http_error_response(exc, self._max_body_bytes)
        note.error = "internal"
        _log.error("request", exc, id=note.request_id)
        return error_response(Internal("Something went wrong here. The log has it under this request's id."))

    def _write(self, method: str, route: str, note: Note, status: int, start: float) -> None:
        """One line and the metrics. The route's pattern, not the path: a label must not be a client's to choose."""
        duration_s = time.perf_counter() - start
        metrics.REQUESTS.done(route, status, duration_s, note.model, note.inputs, note.tokens)
        if not self._write_lines or route in _QUIET:
            return
        # Every value is ours or was matched against a pattern: nothing to quote.
        text = f" id={note.request_id} method={method} route={route} status={status} ms={duration_s * 1e3:.1f}"
        if note.model:
            text += f" model={note.model} inputs={note.inputs} tokens={note.tokens}"
        if note.error:
            text += f" error={note.error}"
        _log.plain("request", text, lambda: _fields(method, note, route, status, duration_s))


def _route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "none"


def _fields(method: str, note: Note, route: str, status: int, duration_s: float) -> dict[str, object]:
    """Return what the line says as a mapping, for lines in JSON."""
    fields: dict[str, object] = {"id": note.request_id, "method": method, "route": route, "status": status}
    fields["ms"] = round(duration_s * 1e3, 1)
    if note.model:
        fields |= {"model": note.model, "inputs": note.inputs, "tokens": note.tokens}
    return {**fields, "error": note.error} if note.error else fields
