"""What systemd is told, over a real datagram socket."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import wait
from tests.harness import FAST_CONFIG, Appliance, write_fake


class Systemd:
    """Holds the socket that NOTIFY_SOCKET names; `heard` is every message so far."""

    def __init__(self, address: str) -> None:
        self.heard: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.setblocking(False)

    def has_heard(self, words: str) -> bool:
        while True:
            try:
                self.heard.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                return any(words in message.split("\n") for message in self.heard)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest) -> Iterator[tuple[Systemd, str]]:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are too long for a socket's address
        name = str(Path(folder) / "s")
        made = Systemd(name if request.param == "path" else "\0" + name)
        yield made, name if request.param == "path" else "@" + name
        made.close()


def test_systemd_is_told_of_start_models_life_and_end(systemd: tuple[Systemd, str], tmp_path: Path) -> None:
    heard, address = systemd
    appliance = Appliance(tmp_path, FAST_CONFIG, {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "3000000"})
    write_fake(appliance.models)
    try:
        appliance.start()
        wait.until(lambda: heard.has_heard("READY=1"), 30)
        wait.until(lambda: appliance.port, 5)
        wait.until(lambda: heard.has_heard("STATUS=Ready: fake"), 30)
        pings = len([message for message in heard.heard if message == "WATCHDOG=1"])
        wait.until(lambda: heard.has_heard("") or heard.heard.count("WATCHDOG=1") >= pings + 2, 10)
        assert not heard.has_heard("STOPPING=1")
        assert appliance.stop() == 0
        assert heard.has_heard("STOPPING=1")
        assert sum("READY=1" in message for message in heard.heard) == 1
    finally:
        appliance.end()
