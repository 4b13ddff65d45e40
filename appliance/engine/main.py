"""The engine's loop: frames in, forward passes, frames out. No event loop, no queue, no HTTP.

`streams` threads take frames from one socket in turn, so that a device that can run several batches at once
does, and the next batch waits in the socket's buffer, not in a round trip.
"""

from __future__ import annotations

import argparse
import signal
import socket
import threading
import time
from pathlib import Path

import numpy as np

from appliance import log
from appliance.engine.sessions import Sessions
from appliance.errors import ApplianceError
from appliance.runtimes import base as runtimes
from appliance.supervisor import scheduling
from appliance.wire import frames
from appliance.wire.frames import (
    BatchDone,
    BatchFailed,
    Frame,
    LoadModel,
    ModelLoaded,
    ModelUnloaded,
    RunBatch,
    StartEngine,
    UnloadModel,
)

_log = log.Logger("engine")


class Engine:
    """Answers frames from one socket until its other end closes."""

    def __init__(self, sock: socket.socket, sessions: Sessions) -> None:
        self._socket = sock
        self._sessions = sessions
        self._reading = threading.Lock()
        self._writing = threading.Lock()

    def serve(self, streams: int) -> None:
        """Block until the worker closes the socket."""
        others = [threading.Thread(target=self._serve_one, daemon=True) for _ in range(streams - 1)]
        for thread in others:
            thread.start()
        self._serve_one()

    def _serve_one(self) -> None:
        while True:
            try:
                with self._reading:
                    frame = frames.receive(self._socket)
                if frame is None:
                    return
                answer = frames.pack(self._answer(frame))
                with self._writing:
                    self._socket.sendall(answer)
            except OSError:
                return  # the worker is gone, and nobody waits for the rest

    def _answer(self, frame: Frame) -> Frame:
        if isinstance(frame, LoadModel):
            return self._load(frame)
        if isinstance(frame, RunBatch):
            return self._run(frame)
        if isinstance(frame, UnloadModel):
            self._sessions.unload(frame.model_id)
            return ModelUnloaded(frame.model_id)
        raise TypeError(f"the worker sent {type(frame).__name__}")

    def _load(self, frame: LoadModel) -> ModelLoaded:
        try:
            loaded = self._sessions.load(Path(frame.folder))
        except ApplianceError as exc:
            return ModelLoaded(frame.model_id, 0.0, 0, exc.message)
        except Exception as exc:
            _log.error("load", exc, model=frame.model_id)
            return ModelLoaded(frame.model_id, 0.0, 0, f"{type(exc).__name__}: {exc}")
        return ModelLoaded(frame.model_id, loaded.load_s, loaded.memory_bytes, "", loaded.session.padding_cost)

    def _run(self, frame: RunBatch) -> BatchDone | BatchFailed:
        start = time.perf_counter()
        try:
            ids = np.frombuffer(frame.ids, dtype="<i4")
            outcome = self._sessions.run(frame, ids)
        except Exception as exc:
            _log.error("batch", exc, model=frame.model_id, inputs=len(frame.lengths))
            return BatchFailed(
                frame.batch_id, "engine_failed", f"The model failed on this batch: {type(exc).__name__}."
            )
        return BatchDone(frame.batch_id, time.perf_counter() - start, outcome.outputs, outcome.errors)


def main() -> None:
    parser = argparse.ArgumentParser(prog="appliance.engine")
    parser.add_argument("--frames-fd", type=int, required=True)
    sock = socket.socket(fileno=parser.parse_args().frames_fd)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # it ends when the worker closes the socket, not before
    start = frames.receive(sock)
    if not isinstance(start, StartEngine):
        return
    log.setup(start.log_level, start.log_json)
    scheduling.compute()
    sessions = Sessions(runtimes.create(start.runtime), start.device, start.threads, start.threads_alone)
    sock.sendall(frames.pack(start))  # the echo says that the runtime's libraries are loaded
    Engine(sock, sessions).serve(start.streams + 1)  # the worker keeps `streams` busy; a load makes none of them wait


if __name__ == "__main__":
    main()
