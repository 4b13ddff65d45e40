"""What comes in from bad clients: SCENARIOS' "Input shape and encoding", as one table. Never a 500, never a restart."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.client import Reply, embed, post, talk
from tests.golden import MODEL
from tests.harness import Appliance

LIMIT = 8 << 20


def body(**fields: Any) -> bytes:
    return json.dumps({"model": MODEL, "input": "x", **fields}).encode()


def raw(text: str, field: str = "input") -> bytes:
    """A body in which one field holds this JSON as it is."""
    rest = {"model": json.dumps(MODEL), "input": '"x"', field: text}
    return ("{" + ", ".join(f'"{name}": {value}' for name, value in rest.items()) + "}").encode()


@dataclass(frozen=True)
class Case:
    name: str
    body: bytes
    status: int
    code: str = ""
    param: str | None = None


BAD = "invalid_request"
CASES = [
    # shapes
    Case("empty list", body(input=[]), 400, BAD, "input"),
    Case("null", body(input=None), 400, BAD, "input"),
    Case("number", body(input=5), 400, BAD, "input"),
    Case("boolean", body(input=True), 400, BAD, "input"),
    Case("object", body(input={}), 400, BAD, "input"),
    Case("no input", json.dumps({"model": MODEL}).encode(), 400, BAD, "input"),
    Case("fraction in a list", body(input=[1.5]), 400, BAD, "input[0]"),
    Case("null in a list", body(input=[None]), 400, BAD, "input[0]"),
    Case("object in a list", body(input=[{"a": 1}]), 400, BAD, "input[0]"),
    Case("boolean in a list", body(input=[True]), 400, BAD, "input[0]"),
    Case("null among texts", body(input=["a", None]), 400, BAD, "input[1]"),
    Case("ids among texts", body(input=["a", [101]]), 400, BAD, "input[1]"),
    Case("text among ids", body(input=[101, "a"]), 400, BAD, "input"),
    Case("deeper list of ids", body(input=[[[101]]]), 400, BAD, "input[0]"),
    Case("negative id", body(input=[-1]), 400, BAD, "input"),
    Case("id past the vocabulary", body(input=[[101], [30522]]), 400, BAD, "input[1]"),
    Case("id past 64 bits", raw("[123456789012345678901234567890]"), 400, BAD),
    Case("more inputs than the limit", body(input=["x"] * 2049), 400, BAD, "input"),
    Case("blank text", body(input=""), 200),
    Case("blank item", body(input=[""]), 200),
    Case("empty ids", body(input=[[]]), 200),
    # the other fields
    Case("no model", json.dumps({"input": "x"}).encode(), 400, BAD, "model"),
    Case("model of another type", body(model=5), 400, BAD, "model"),
    Case("unknown model", body(model="gpt-5"), 404, "model_not_found", "model"),
    Case("model with a space after it", body(model=MODEL + " "), 404, "model_not_found", "model"),
    Case("model with a path", body(model="../../etc/passwd"), 404, "model_not_found", "model"),
    Case("very long model", body(model="m" * 100_000), 404, "model_not_found", "model"),
    Case("unknown encoding", body(encoding_format="hex"), 400, BAD, "encoding_format"),
    Case("encoding of another type", body(encoding_format=1), 400, BAD, "encoding_format"),
    Case("no encoding", body(encoding_format=None), 200),
    Case("no dimensions", body(dimensions=None), 200),
    Case("zero dimensions", body(dimensions=0), 400, BAD, "dimensions"),
    Case("negative dimensions", body(dimensions=-1), 400, BAD, "dimensions"),
    Case("more dimensions than there are", body(dimensions=385), 400, BAD, "dimensions"),
    Case("fractional dimensions", body(dimensions=64.0), 400, BAD, "dimensions"),
    Case("dimensions as text", body(dimensions="64"), 400, BAD, "dimensions"),
    Case("boolean dimensions", body(dimensions=True), 400, BAD, "dimensions"),
    Case("huge dimensions", raw("1e999", "dimensions"), 400, BAD),
    Case("truncate of another type", body(truncate="yes"), 400, BAD, "truncate"),
    Case("unknown fields", body(user="u", input_type="query", priority=5, metadata={"a": [1]}), 200),
    # bytes
    Case("nothing", b"", 400, BAD),
    Case("blanks", b"  \n", 400, BAD),
    Case("half a body", b'{"model": "x', 400, BAD),
    Case("two bodies", body() + body(), 400, BAD),
    Case("not an object", b'["x"]', 400, BAD),
    Case("text alone", b'"x"', 400, BAD),
    Case("single quotes", b"{'model': 'x'}", 400, BAD),
    Case("trailing comma", body()[:-1] + b",}", 400, BAD),
    Case("byte order mark", b"\xef\xbb\xbf" + body(), 400, BAD),
    Case("UTF-16", body().decode().encode("utf-16"), 400, BAD),
    Case("UTF-32", body().decode().encode("utf-32"), 400, BAD),
    Case("Latin-1", '{"model": "x", "input": "Ünïcode"}'.encode("latin-1"), 400, BAD),
    Case("invalid UTF-8", raw('"\x00"').replace(b"\x00", b"\xff\xfe"), 400, BAD),
    Case("overlong UTF-8", raw('"\x00"').replace(b"\x00", b"\xc0\xaf"), 400, BAD),
    Case("encoded surrogate", raw('"\x00"').replace(b"\x00", b"\xed\xa0\x80"), 400, BAD),
    Case("lone surrogate", raw('"\\ud800"'), 400, BAD),
    Case("lone low surrogate", raw('"\\udc00 x"'), 400, BAD),
    Case("swapped surrogates", raw('"\\ude00\\ud83d"'), 400, BAD),
    Case("surrogate pair", raw('"\\ud83d\\ude00"'), 200),
    Case("escaped NUL", raw('"a\\u0000b"'), 200),
    Case("raw NUL", raw('"a\x00b"'), 400, BAD),
    Case("escaped controls", body(input="".join(map(chr, range(1, 32)))), 200),
    Case("raw controls", raw('"a\x01b"'), 400, BAD),
    Case("nested 200,000 deep", raw("[" * 200_000 + "]" * 200_000), 400, BAD),
    Case("nested 200,000 deep in a field that is ignored", raw("[" * 200_000 + "]" * 200_000, "metadata"), 400, BAD),
    Case("NaN", raw("NaN"), 400, BAD),
    Case("Infinity", raw("-Infinity", "dimensions"), 400, BAD),
    Case("number of 100,000 digits", raw("9" * 100_000, "dimensions"), 400, BAD),
    Case("the same key twice", raw('"x", "input": "y"'), 200),
    # texts that have broken tokenizers
    Case("byte order mark in a text", body(input="\ufeffx"), 200),
    Case("family emoji", body(input="👨‍👩‍👧‍👦 " * 5), 200),
    Case("right-to-left marks", body(input="\u202eabc\u202c \u200f"), 200),
    Case("four-byte CJK", body(input="𠀀𠀁𠀂"), 200),
    Case("combining flood", body(input="e" + "\u0301" * 5000), 200),
    Case("zero-width flood", body(input="\u200b" * 5000), 200),
    Case("one word of 100,000 letters", body(input="x" * 100_000), 200),
    Case("noncharacters", body(input="\ufffe\uffff\U0010ffff"), 200),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_input_is_answered_with_its_status_and_place(office: Appliance, case: Case) -> None:
    reply = post(office.url, case.body)
    assert reply.status == case.status, reply.body[:500]
    if case.status == 200:
        assert all(len(vector) == 384 for vector in reply.vectors)
        return
    error = reply.error
    assert error["code"] == case.code
    assert len(reply.body) < 2000
    if case.param is not None:
        assert error["param"] == case.param


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("APPLICATION/JSON", 200),
        ("application/vnd.api+json", 200),
        ("", 415),
        ("text/plain", 415),
        ("text/json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/jsonp", 415),
        ("nonsense", 415),
    ],
)
def test_only_json_is_taken(office: Appliance, content_type: str, status: int) -> None:
    reply = post(office.url, body(), Content_Type=content_type)
    assert reply.status == status
    if status == 415:
        assert reply.error["code"] == "unsupported_media_type"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "nonsense"])
def test_a_compressed_body_is_refused(office: Appliance, encoding: str) -> None:
    reply = post(office.url, body(), Content_Encoding=encoding)
    assert (reply.status, reply.error["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v1/embeddings", "POST"),
        ("PUT", "/v1/embeddings", "POST"),
        ("DELETE", "/v1/embeddings", "POST"),
        ("PATCH", "/v1/embeddings", "POST"),
        ("POST", "/v1/models", "GET,HEAD"),
        ("DELETE", f"/v1/models/{MODEL}", "GET,HEAD"),
        ("POST", "/health", "GET,HEAD"),
        ("POST", "/metrics", "GET,HEAD"),
    ],
)
def test_a_wrong_method_is_405_with_those_allowed(office: Appliance, method: str, path: str, allow: str) -> None:
    reply = talk(office.url, lambda client: client.send(method, path, b"{}", Content_Type="application/json"))
    assert (reply.status, reply.error["code"]) == (405, "method_not_allowed")
    assert reply.headers["allow"].replace(" ", "") == allow


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/", "/v1/embedding", "/v1/embeddings/", "/..%2f..%2fetc/passwd", "/%00"]
)
def test_an_unknown_path_is_404(office: Appliance, path: str) -> None:
    reply = office.get(path)
    assert (reply.status, reply.error["code"]) == (404, "not_found")


@pytest.mark.parametrize("size", [LIMIT + 1, 9 << 20, 64 << 20])
def test_a_body_over_the_limit_is_413_and_not_a_reset(office: Appliance, size: int) -> None:
    reply = post(office.url, b" " * (size - len(body())) + body())
    assert (reply.status, reply.error["code"]) == (413, "body_too_large")
    assert str(LIMIT) in reply.error["message"]


def test_a_body_over_the_limit_that_comes_in_chunks_is_413_too(office: Appliance) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * (1 << 20)

    async def conversation(client: Any) -> Reply:
        headers = {"Content-Type": "application/json"}
        async with client._session.post(office.url + "/v1/embeddings", data=chunks(), headers=headers) as response:
            return Reply(response.status, {"content-type": response.headers["Content-Type"]}, await response.read())

    reply = talk(office.url, conversation)
    assert (reply.status, reply.error["code"]) == (413, "body_too_large")


def test_a_body_of_the_limit_is_taken(office: Appliance) -> None:
    assert post(office.url, b" " * (LIMIT - len(body())) + body()).status == 200


@pytest.mark.parametrize(
    ("header", "value"), [("X-Long", "x" * 20_000), ("Expect", "100-nonsense"), ("Transfer-Encoding", "nonsense")]
)
def test_a_header_that_cannot_be_is_refused_and_the_server_goes_on(office: Appliance, header: str, value: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", office.port, timeout=20)
    connection.request("GET", "/v1/models", headers={header: value})
    status = connection.getresponse().status
    connection.close()
    assert 400 <= status < 500 or status == 501
    assert office.get("/v1/models").status == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v1/models HTTP/1.1\r\nHost: a\r\nX-Long: " + b"x" * 20_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS, as a browser told https:// sends
        b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
def test_a_head_that_is_no_http_is_answered_in_json_too(office: Appliance, head: bytes) -> None:
    with socket.create_connection(("127.0.0.1", office.port), timeout=10) as sock:
        sock.sendall(head)
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    start, _, body = answer.partition(b"\r\n\r\n")
    assert start.startswith(b"HTTP/1.")
    assert b" 400 " in start
    assert json.loads(body)["error"]["code"] == "invalid_request"
    assert b"xxx" not in body


def test_after_all_of_it_nothing_has_restarted_and_everything_is_well(office: Appliance) -> None:
    assert embed(office.url, "x", MODEL).status == 200
    health = office.health()
    assert (health["status"], health["problems"]) == ("ok", [])
    assert {process["restarts"] for process in health["daemon"]["processes"].values()} == {0}
    assert health["workers"][0]["counters"]["engine_restarts"] == 0
    assert health["gateway"]["held_items"] == 0
    assert "Traceback" not in office.log
