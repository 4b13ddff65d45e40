from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance import log


@contextlib.contextmanager
def captured(*, as_json: bool, level: str = "info") -> Iterator[io.StringIO]:
    """Give what is written to standard error under `setup`; leave logging as it was, for setup is for a process."""
    root, ours, http = logging.getLogger(), logging.getLogger("appliance"), logging.getLogger("aiohttp.server")
    before = list(root.handlers), root.level, ours.level, http.level, logging._srcfile
    flags = logging.logThreads, logging.logProcesses, logging.logMultiprocessing
    with contextlib.redirect_stderr(io.StringIO()) as stream:
        log.setup(level, as_json)
        try:
            yield stream
        finally:
            root.handlers[:], root.level, our_level, http_level, logging._srcfile = before
            ours.setLevel(our_level)
            http.setLevel(http_level)
            logging.logThreads, logging.logProcesses, logging.logMultiprocessing = flags


def test_a_line_is_an_event_with_its_fields() -> None:
    with captured(as_json=False) as stream:
        log.Logger("worker").info("engine", state="ready", load_s=3.23456789, pid=7)
    stamp, rest = stream.getvalue().split(" ", 1)
    assert rest == "INFO worker engine state=ready load_s=3.235 pid=7\n"
    assert len(stamp) == len("2026-12-01T12:00:00.000Z")


@given(st.text())
def test_no_value_can_forge_a_line_or_a_field(value: str) -> None:
    with captured(as_json=False) as stream:
        log.Logger("worker").info("event", one=value, two="end")
    text = stream.getvalue()
    assert text.endswith(" two=end\n")
    assert len(text.splitlines()) == 1
    written = text.partition(" one=")[2].removesuffix(" two=end\n")
    assert (json.loads(written) if written.startswith('"') else written) == value


@given(st.text(), st.text())
def test_json_is_one_object_a_line(event: str, value: str) -> None:
    with captured(as_json=True) as stream:
        log.Logger("worker").info(event, one=value, two=2)
    lines = stream.getvalue().split("\n")
    assert lines[1:] == [""]
    fields = json.loads(lines[0])
    assert (fields["event"], fields["one"], fields["two"], fields["level"]) == (event, value, 2, "info")


def test_a_percent_sign_is_only_a_percent_sign() -> None:
    with captured(as_json=False) as stream:
        log.Logger("worker").info("100%", share="%s %d")
    assert stream.getvalue().endswith('INFO worker 100% share="%s %d"\n')


def test_an_error_carries_its_traceback() -> None:
    with captured(as_json=True) as stream:
        try:
            raise ValueError("reason")
        except ValueError as exc:
            log.Logger("gateway").error("request", exc, id="abc")
    fields = json.loads(stream.getvalue())
    assert fields["id"] == "abc"
    assert "ValueError: reason" in fields["traceback"]


@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_what_is_less_severe_is_left_out(level: str, written: list[str]) -> None:
    with captured(as_json=True, level=level) as stream:
        logger = log.Logger("worker")
        for name in ("debug", "info", "warning", "error"):
            getattr(logger, name)("event")
    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == written


def test_a_library_s_warning_comes_in_our_shape() -> None:
    with captured(as_json=False) as stream:
        logging.getLogger("nats.aio.client").warning("odd %s", "thing")
        logging.getLogger("nats.aio.client").info("chatter")
    assert stream.getvalue().endswith('WARNING nats.aio.client "odd thing"\n')
    assert len(stream.getvalue().splitlines()) == 1


def test_a_client_s_malformed_header_is_not_quoted() -> None:
    with captured(as_json=False) as stream:
        logging.getLogger("aiohttp.server").error(
            "Error handling request", exc_info=ValueError("b'Authorization: key'")
        )
    assert stream.getvalue() == ""
