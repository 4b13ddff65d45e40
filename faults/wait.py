"""Waiting for what happens elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeVar

T = TypeVar("T")

_PAUSE_S = 0.02


class TooLate(Exception):
    """What was waited for did not happen in time."""


def until(condition: Callable[[], T | Literal[False] | None], timeout_s: float, what: str) -> T:
    """Return the condition's first true value. Raises TooLate after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TooLate(f"not within {timeout_s:g} s: {what}")
        time.sleep(_PAUSE_S)


def pause(seconds: float) -> None:
    """Let time pass: for faults that are a matter of time alone."""
    time.sleep(seconds)
