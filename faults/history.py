"""The append-only file that load and faults write to: a line before and after everything that happens to a request.

Several processes write, each line with one write to a file opened for appending; all on the machine's monotonic clock.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

Line = dict[str, Any]

SEND, END, EXTRA, DOWN, UP, NOTE = "send", "end", "extra", "down", "up", "note"
"""A request is sent; its attempt ended; bytes that nobody asked for; whoever holds the connections goes, is back; a
word about the fault, for people."""


class History:
    """The writer's end."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, kind: str, **fields: Any) -> None:
        os.write(self._fd, orjson.dumps({"t": time.monotonic(), "e": kind, **fields}, option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        os.close(self._fd)


def read(path: Path) -> Iterator[Line]:
    """Yield every line, oldest first."""
    with path.open("rb") as file:
        for line in file:
            yield orjson.loads(line)


class Progress:
    """How far the load is, read off the file as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._finished = 0
        self._good: Counter[str] = Counter()
        self._model_of: dict[int, str] = {}

    @property
    def finished(self) -> int:
        """How many requests have come to their end, whichever."""
        self._follow()
        return self._finished

    @property
    def good(self) -> int:
        """How many ended with a right answer."""
        return self.good_of().total()

    def good_of(self) -> Counter[str]:
        """How many of each model's ended with a right answer."""
        self._follow()
        return Counter(self._good)

    def _follow(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._finished += b'"is_last":true' in line
            if b'"why":"good"' in line:
                self._good[self._model_of.get(orjson.loads(line)["op"], "")] += 1
            elif b'"model":' in line:
                sent = orjson.loads(line)
                self._model_of[sent["op"]] = sent["model"]
