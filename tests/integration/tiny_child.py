"""A child process of few words for the supervisor's tests: its first argument says how it behaves."""

from __future__ import annotations

import json
import signal
import socket
import sys


def main() -> int:
    mode = sys.argv[1]
    control = socket.socket(fileno=int(sys.argv[sys.argv.index("--control-fd") + 1]))
    signal.signal(signal.SIGTERM, signal.SIG_IGN if mode == "deaf" else lambda *_: sys.exit(0))
    control.recv(65536)
    if mode == "dies":
        return 3
    if mode == "cannot":
        control.sendall(json.dumps({"state": "failed", "reason": "scripted: no such thing"}).encode() + b"\n")
        return 78
    if mode != "silent":
        control.sendall(json.dumps({"state": "ready"}).encode() + b"\n")
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
