"""Waiting for what happens elsewhere: the only file of the suite with a sleep."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar, cast

T = TypeVar("T")

_PAUSE_S = 0.01


def until(condition: Callable[[], T | Literal[False] | None], timeout_s: float, what: str = "") -> T:
    """Return the condition's first true value; fail after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what or condition}")
        time.sleep(_PAUSE_S)


async def until_async(condition: Callable[[], object], timeout_s: float, what: str = "") -> None:
    """`until` for a test that has a loop to keep turning; what the condition returns may be awaitable."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if isinstance(value, Awaitable):
            value = await cast(Awaitable[object], value)
        if value:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what or condition}")
        await asyncio.sleep(_PAUSE_S)


def pause(seconds: float) -> None:
    """For what must not happen."""
    time.sleep(seconds)


async def turn(times: int = 5) -> None:
    """Let tasks that are ready to run do so, a few steps each."""
    for _ in range(times):
        await asyncio.sleep(0)
