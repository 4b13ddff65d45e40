"""The child's end of the control socket: its launch order in, its states out, and death with its parent."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from appliance import log
from appliance.errors import ApplianceError, ConfigError, StartError
from appliance.wire import launch as wire_launch
from appliance.wire.launch import Launch

CANNOT_START = 78
"""Exit status of a child that said why it cannot start: starting it again would not help."""


ALIVE_S = 0.5


class Control:
    """Reports to the parent, one JSON line each. A parent that is gone makes `orphaned` fire."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)

    def receive_launch(self) -> Launch:
        """Block until the launch order is there; set up logging as it says."""
        data = bytearray()
        while not data.endswith(b"\n"):
            part = self._socket.recv(65536)
            if not part:
                raise StartError("The parent process ended before it said what to run.")
            data += part
        launch = wire_launch.unpack(bytes(data))
        log.setup(launch.config.log.level, launch.config.log.format == "json")
        return launch

    def report(self, state: str, **fields: Any) -> None:
        """Tell the parent a state; never blocks for long, since a line is far smaller than the socket's buffer."""
        try:
            self._socket.sendall(json.dumps({"state": state, **fields}).encode() + b"\n")
        except OSError:
            pass  # The parent is gone; `orphaned` tells those who care.

    def say_alive(self) -> None:
        """Tell the parent that the loop turns, now and every ALIVE_S."""
        try:
            self._socket.send(b"\n")
        except OSError:
            pass  # gone, or stopped itself for so long that the socket is full of this
        asyncio.get_running_loop().call_later(ALIVE_S, self.say_alive)

    def watch(self, orphaned: Callable[[], None]) -> None:
        """Call `orphaned` once when the parent's end closes. Needs a running loop."""
        loop = asyncio.get_running_loop()
        self._socket.setblocking(False)

        def readable() -> None:
            try:
                data = self._socket.recv(4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                loop.remove_reader(self._socket.fileno())
                orphaned()

        loop.add_reader(self._socket.fileno(), readable)


def run_child(control: Control, serve: Coroutine[Any, Any, None]) -> int:
    """Run a child's main coroutine; return its exit status, after telling the parent why where it failed."""
    # What the imports made lives as long as the process: the collector need not look at it again and again. And our
    # messages hold no cycles, so it may look rarely: with its defaults it took more of a busy worker than all the rest.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    try:
        uvloop.run(serve)
    except (ConfigError, StartError) as exc:
        control.report("failed", reason=exc.message)
        return CANNOT_START
    except ApplianceError as exc:
        control.report("failed", reason=exc.message)
        return 1
    return 0


def stop_event(control: Control) -> asyncio.Event:
    """Return an event that SIGTERM, or the parent's death, sets. Ctrl-C is the parent's business."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, event.set)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control.watch(event.set)
    control.say_alive()
    return event
