"""Reloading the configuration: all of it or nothing, and what went wrong is told until it is mended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from appliance import log
from appliance.config import Config
from appliance.errors import ApplianceError

_log = log.Logger("reload")


class Reload:
    """`read` reads the file anew; `apply` puts it into force. Both raise our errors, and then nothing has changed."""

    def __init__(self, read: Callable[[], Config], apply: Callable[[Config], Awaitable[None]]) -> None:
        self.problem = ""
        self._read = read
        self._apply = apply
        self._requested = asyncio.Event()

    @property
    def sentence(self) -> str:
        """For /health; empty where the last reload worked."""
        return f"The configuration was not reloaded: {self.problem}" if self.problem else ""

    def request(self) -> None:
        """For a signal handler. Requests that come while one is under way become one more."""
        self._requested.set()

    async def run(self) -> None:
        """Serve requests until cancelled."""
        while True:
            await self._requested.wait()
            self._requested.clear()
            try:
                await self._apply(self._read())
            except ApplianceError as exc:
                self.problem = exc.message
                _log.error("configuration", state="not reloaded", reason=exc.message)
                continue
            self.problem = ""
            _log.info("configuration", state="reloaded")
