"""Structured lines on standard error: a state change with ids as fields, never a payload, a prompt or a key."""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import re
import sys
import time
from functools import lru_cache
from typing import Any

_TOGETHER_S = 0.02
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Logger:
    """`log.info("engine", state="ready", load_s=3.2)` writes `... INFO worker engine state=ready load_s=3.2`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"appliance.{name}")

    def debug(self, event: str, **fields: Any) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, exc: BaseException | None = None, **fields: Any) -> None:
        self._write(logging.ERROR, event, fields, exc)

    def _write(self, level: int, event: str, fields: dict[str, Any], exc: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": fields}, exc_info=exc)


_PLAIN = re.compile(r"[!#-<>-~]+")  # printable ASCII but space, quote and equals sign


def _value(value: Any) -> str:
    """Quote what would break a key=value line; control characters cannot forge a new line."""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


@lru_cache(maxsize=2)
def _second(instant: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(instant))


class _Handler(logging.Handler):
    """Writes the lines of one moment together: a request's line costs no system call of its own.

    A line from WARNING up is out at once, with all before it; so is the last one before the process ends.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        atexit.register(self._write_out)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.append(self.format(record))
            loop = None if record.levelno >= logging.WARNING else asyncio._get_running_loop()
            if loop is None:
                self._write_out()
            elif self._timer is None:
                self._timer = loop.call_later(_TOGETHER_S, self._write_out)
        except Exception:
            self.handleError(record)

    def _write_out(self) -> None:
        lines, self._lines = self._lines, []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if lines:
            sys.stderr.write("\n".join(lines) + "\n")
            sys.stderr.flush()


class _Formatter(logging.Formatter):
    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        stamp = f"{_second(int(record.created))}.{int(record.msecs):03d}Z"
        name = record.name.removeprefix("appliance.")
        fields = getattr(record, "fields", {})
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        if self._as_json:
            line = {
                "time": stamp,
                "level": record.levelname.lower(),
                "part": name,
                "event": record.getMessage(),
                **fields,
            }
            return json.dumps({**line, "traceback": trace} if trace else line, default=str)
        pairs = "".join(f" {key}={_value(value)}" for key, value in fields.items())
        line_text = f"{stamp} {record.levelname} {name} {record.getMessage()}{pairs}"
        return f"{line_text}\n{trace}" if trace else line_text


def setup(level: str, as_json: bool) -> None:
    """Send every logger of this process, libraries' included, to standard error in our shape."""
    handler = _Handler()
    handler.setFormatter(_Formatter(as_json))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("appliance").setLevel(_LEVELS[level])
    # What logging would look up for each line and nobody reads: saves a third of a line's time.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
