"""Structured lines on standard error: a state change with ids as fields, never a payload, a prompt or a key.

Our own lines are formatted here and written together, since one is written for each request: logging's records and
locks would cost more than all the rest of the line. What libraries log comes through logging into the same lines.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

_TOGETHER_S = 0.02
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_PLAIN = re.compile(r"[!#-<>-~]+")  # printable ASCII but space, quote and equals sign


class Logger:
    """`log.info("engine", state="ready", load_s=3.2)` writes `... INFO worker engine state=ready load_s=3.2`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def plain(self, event: str, text: str, fields: Callable[[], Mapping[str, Any]]) -> None:
        """Write an INFO line whose ` key=value` text the caller has made, of values that need no quoting.

        For the one line of every request. `fields` is asked for the same as a mapping where lines are JSON.
        """
        if _sink.as_json:
            _sink.write(logging.INFO, self._name, event, fields())
        else:
            _sink.add(logging.INFO, f" INFO {self._name} {event}{text}")

    def debug(self, event: str, **fields: Any) -> None:
        _sink.write(logging.DEBUG, self._name, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        _sink.write(logging.INFO, self._name, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        _sink.write(logging.WARNING, self._name, event, fields)

    def error(self, event: str, exc: BaseException | None = None, **fields: Any) -> None:
        trace = "".join(traceback.format_exception(exc)).rstrip() if exc is not None else ""
        _sink.write(logging.ERROR, self._name, event, fields, trace)


class _Sink:
    """Writes the lines of one moment together: a request's line costs no system call of its own.

    A line from WARNING up is out at once, with all before it; so is the last one before the process ends.
    """

    def __init__(self) -> None:
        self.level = logging.WARNING
        self.as_json = False
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def write(self, level: int, name: str, event: str, fields: Mapping[str, Any], trace: str = "") -> None:
        if level < self.level:
            return
        form = _as_json if self.as_json else _as_text
        self._put(level, form(time.time(), logging.getLevelName(level), name, event, fields, trace))

    def add(self, level: int, rest: str) -> None:
        """Write a line of which only the time is missing."""
        if level >= self.level:
            self._put(level, _stamp(time.time()) + rest)

    def _put(self, level: int, line: str) -> None:
        self._lines.append(line)
        loop = None if level >= logging.WARNING else asyncio._get_running_loop()
        if loop is None:
            self.flush()
        elif self._timer is None:
            self._timer = loop.call_later(_TOGETHER_S, self.flush)

    def flush(self) -> None:
        lines, self._lines = self._lines, []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if lines:
            sys.stderr.write("\n".join(lines) + "\n")
            sys.stderr.flush()


_sink = _Sink()
atexit.register(_sink.flush)


def _as_text(instant: float, level: str, name: str, event: str, fields: Mapping[str, Any], trace: str) -> str:
    pairs = "".join([f" {key}={_value(value)}" for key, value in fields.items()])
    return f"{_stamp(instant)} {level} {name} {_value(event)}{pairs}" + (f"\n{trace}" if trace else "")


def _as_json(instant: float, level: str, name: str, event: str, fields: Mapping[str, Any], trace: str) -> str:
    line = {"time": _stamp(instant), "level": level.lower(), "part": name, "event": event, **fields}
    return json.dumps({**line, "traceback": trace} if trace else line, default=str)


def _value(value: Any) -> str:
    """Quote what would break a key=value line; control characters cannot forge a new line."""
    if type(value) is int:
        return str(value)
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def _stamp(instant: float) -> str:
    return f"{_second(int(instant))}.{int(instant % 1 * 1000):03d}Z"


@lru_cache(maxsize=2)
def _second(instant: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(instant))


class _Handler(logging.Handler):
    """What libraries log, in our lines."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            info = record.exc_info
            trace = "".join(traceback.format_exception(*info)).rstrip() if info else ""
            _sink.write(record.levelno, record.name, record.getMessage(), {}, trace)
        except Exception:
            self.handleError(record)


def setup(level: str, as_json: bool) -> None:
    """Send every line of this process, libraries' included, to standard error in our shape."""
    _sink.level, _sink.as_json = _LEVELS[level], as_json
    root = logging.getLogger()
    root.handlers[:] = [_Handler()]
    root.setLevel(logging.WARNING)
    # A client's malformed HTTP, quoted with a traceback: its header may hold a key. What our handlers raise, they log.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
