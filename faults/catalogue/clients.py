"""Clients that do not behave: hang up in hundreds, never read, send slowly or rubbish, wait for next to nothing."""

from __future__ import annotations

import json
import socket
from contextlib import suppress

from bench.texts import WORDS
from faults import wait
from faults.fault import Expect, Fault
from faults.mix import GONE, IMPATIENT, ORDINARY, Guilty, Mix
from faults.scene import Scene

_STORM = 200
_SILENT = 40
_SLOW = 150


def _request(texts: list[str]) -> bytes:
    body = json.dumps({"model": "oak", "input": texts}).encode()
    return (
        b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (
            len(body),
            body,
        )
    )


def _connect(scene: Scene) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", scene.appliance.port), timeout=10)
    made.setblocking(False)
    return made


def _send(made: socket.socket, data: bytes) -> None:
    with suppress(OSError):  # a full buffer, or a server that has had enough
        made.send(data)


def _storm(scene: Scene) -> None:
    """Hundreds at once ask and hang up before they can be answered."""
    for _ in scene.rounds():
        crowd = [_connect(scene) for _ in range(_STORM)]
        for one in crowd:
            _send(one, _request(scene.chance.choices(WORDS, k=20)))
        for one in crowd:
            one.close()


def _never_read(scene: Scene) -> None:
    """Ask for a lot on every connection, and never read a byte of it."""
    for _ in scene.rounds():
        crowd = [_connect(scene) for _ in range(_SILENT)]
        request = _request(scene.chance.choices(WORDS, k=1000))
        for _ in range(5):
            for one in crowd:
                _send(one, request)
            wait.pause(0.2)
        wait.pause(3.0)
        for one in crowd:
            one.close()


def _slow(scene: Scene) -> None:
    """Half a head, or half a body, and then a byte now and then."""
    for _ in scene.rounds():
        whole = _request(["never finished"])
        crowd = [_connect(scene) for _ in range(_SLOW)]
        for number, one in enumerate(crowd):
            _send(one, whole[:60] if number % 2 else whole[:-20])
        for _ in range(8):
            wait.pause(0.5)
            for one in crowd:
                _send(one, b"x")
        for one in crowd:
            one.close()


def _rubbish(scene: Scene) -> None:
    """Bytes that are no request."""
    for _ in scene.rounds():
        for _ in range(40):
            one = _connect(scene)
            body = scene.chance.randbytes(scene.chance.randint(1, 5000))
            head = b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            _send(one, scene.chance.choice((body, head + body, head + b'{"model": "oak", "input": [[[' + body)))
            wait.pause(0.01)
            one.close()


def _nothing(scene: Scene) -> None:
    """The load itself is the fault."""


FAULTS = (
    Fault(
        "disconnect-storm",
        f"{_STORM} clients at once ask and hang up, and every third of the load's own",
        _storm,
        mix=Mix(guilty=Guilty(GONE, every=3, hang_up_s=0.01)),
    ),
    Fault(
        "never-read",
        f"{_SILENT} clients ask for large answers and read none",
        _never_read,
        times=4,
        settings={"server.write_timeout_s": 2.0},
    ),
    Fault(
        "slow-senders",
        f"{_SLOW} clients send half a head or half a body, and a byte now and then",
        _slow,
        times=4,
        settings={"server.header_timeout_s": 2.0, "server.body_timeout_s": 2.0},
    ),
    Fault("rubbish", "bytes that are no request", _rubbish),
    Fault(
        "impatient",
        "every third request may take 10 ms",
        _nothing,
        times=1,
        mix=Mix(lanes=ORDINARY, guilty=Guilty(IMPATIENT, every=3, deadline_s=0.01)),
        expect=Expect(guilty=frozenset({"deadline_exceeded"}), may_shed=True),
    ),
)
