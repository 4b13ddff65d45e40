from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from appliance import errors
from appliance.errors import BY_CODE, ApplianceError
from appliance.gateway import render


@pytest.mark.parametrize(
    ("cls", "status", "kind"),
    [
        (errors.BadRequest, 400, "invalid_request_error"),
        (errors.InputTooLong, 400, "invalid_request_error"),
        (errors.OperationNotSupported, 400, "invalid_request_error"),
        (errors.ModelNotFound, 404, "invalid_request_error"),
        (errors.BodyTooLarge, 413, "invalid_request_error"),
        (errors.UnsupportedMedia, 415, "invalid_request_error"),
        (errors.Overloaded, 429, "rate_limit_error"),
        (errors.EngineFailed, 500, "server_error"),
        (errors.NotFinite, 500, "server_error"),
        (errors.Internal, 500, "server_error"),
        (errors.ApplianceError, 500, "server_error"),
        (errors.Unavailable, 503, "overloaded_error"),
        (errors.DeadlineExceeded, 504, "server_error"),
    ],
)
def test_an_error_s_status_and_shape(cls: type[ApplianceError], status: int, kind: str) -> None:
    response = render.error_response(cls("A sentence.", param="input[1]") if cls is not errors.Overloaded else cls("x"))
    error = _error(response)
    assert (response.status, error["type"], error["code"]) == (status, kind, cls.code)
    assert set(error) == {"message", "type", "param", "code"}
    assert response.content_type == "application/json"


def _error(response: web.Response) -> dict[str, Any]:
    assert isinstance(response.body, bytes)
    found: dict[str, Any] = json.loads(response.body)["error"]
    return found


def test_every_error_has_a_status() -> None:
    for cls in BY_CODE.values():
        assert 400 <= render.status_of(cls("x")) <= 599


@pytest.mark.parametrize(
    ("error", "seconds"), [(errors.Overloaded("x", retry_after_s=7), "7"), (errors.Unavailable("x"), "1")]
)
def test_who_is_sent_away_is_told_when_to_come_back(error: ApplianceError, seconds: str) -> None:
    assert render.error_response(error).headers["Retry-After"] == seconds


@pytest.mark.parametrize(
    ("error", "status", "code", "words"),
    [
        (web.HTTPNotFound(), 404, "not_found", "nothing at this path"),
        (web.HTTPMethodNotAllowed("GET", ["POST"]), 405, "method_not_allowed", "use POST"),
        (web.HTTPRequestEntityTooLarge(10, 20), 413, "body_too_large", "1234 bytes"),
        (web.HTTPBadRequest(), 400, "invalid_request", "Bad Request"),
    ],
)
def test_the_library_s_own_refusals_come_in_our_shape(
    error: web.HTTPException, status: int, code: str, words: str
) -> None:
    response = render.http_error_response(error, 1234)
    body = _error(response)
    assert (response.status, body["code"]) == (status, code)
    assert words in body["message"]


def test_the_allowed_methods_are_told() -> None:
    response = render.http_error_response(web.HTTPMethodNotAllowed("GET", ["POST"]), 1)
    assert response.headers["Allow"] == "POST"
