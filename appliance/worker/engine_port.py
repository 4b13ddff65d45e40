"""One engine process as its worker sees it: frames out, answers in as futures, every death noticed at once."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from array import array
from pathlib import Path
from typing import Any, cast

from appliance import log
from appliance.config import Config
from appliance.errors import EngineFailed, StartError
from appliance.supervisor.process import Process
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
from appliance.worker.batcher import Batch

_log = log.Logger("engine")

_DYING_S = 1.0
"""A process that closed its socket is ending; killed sooner, it could not tell what of."""


class EngineDied(EngineFailed):
    """The engine process ended while it held this batch; `message` says how."""


class EnginePort(asyncio.Protocol):
    """Lives as long as its process. `running` is how many batches are in it; the caller keeps it at `streams`.

    `is_exclusive` says that what runs must have no company: an engine's death must have one suspect, not two.
    `died_at_work` says that it ended with a batch in it: that one is to blame, and may run three times at most.
    """

    def __init__(self, runtime: str, device: str, streams: int, config: Config) -> None:
        self.runtime = runtime
        self.streams = streams
        self.running = 0
        self.is_exclusive = False
        self.pid = 0
        self.died_at_work = False
        self.failures_in_a_row = 0
        self.failed_at = 0.0
        """When the last of those was known: only what was sent after it and succeeds speaks for the engine."""
        self.ended_for = ""
        """Why it was ended for what others in it had done; empty where what runs in it may be to blame."""
        self.is_ending = False
        """Killed, and not gone yet: nothing more must be sent to it, and then be blamed for its end."""
        self.died: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._config = config
        self._device = device
        self._process: Process | None = None
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loads: dict[str, asyncio.Future[ModelLoaded]] = {}
        self._unloads: dict[str, asyncio.Future[None]] = {}
        self._batches: dict[int, asyncio.Future[BatchDone]] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._last_id = 0

    @property
    def has_room(self) -> bool:
        """Whether one more batch may be sent."""
        return self.running < self.streams and not self.is_exclusive and not self.is_ending

    async def start(self) -> None:
        """Start the process; returns once its libraries are loaded. Raises EngineDied."""
        ours, theirs = socket.socketpair()
        argv = [sys.executable, "-m", "appliance.engine.main", "--frames-fd", str(theirs.fileno())]
        process = self._process = Process(f"engine {self.runtime}", argv, pass_fds=[theirs.fileno()])
        try:
            process.start()
        except StartError:
            ours.close()
            raise
        finally:
            theirs.close()
        self.pid = process.pid
        await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)
        settings = self._config.log
        self._write(
            StartEngine(
                self.runtime,
                self._device,
                *self._threads(),
                self.streams,
                settings.level,
                settings.format == "json",
            )
        )
        await asyncio.wait_for(self._started, self._config.supervisor.start_timeout_s)

    def _threads(self) -> tuple[int, int]:
        """Return the threads for a batch beside others (together they fill the cores), and for one alone."""
        cores = self._config.engine.threads or len(os.sched_getaffinity(0))
        return max(1, cores // self.streams), cores

    async def load(self, model_id: str, folder: Path) -> ModelLoaded:
        """Load a model. Raises EngineDied when the process ends or takes too long over it."""
        answer = self._loads[model_id] = asyncio.get_running_loop().create_future()
        self._write(LoadModel(model_id, str(folder.resolve())))
        try:
            return await asyncio.wait_for(answer, self._config.engine.load_timeout_s)
        except asyncio.TimeoutError:
            self.kill(f"loading {model_id} took over {self._config.engine.load_timeout_s:g} s")
            raise EngineDied(f"Loading took over {self._config.engine.load_timeout_s:g} s.") from None

    async def unload(self, model_id: str) -> None:
        """Have a model's memory freed; nothing of it may run. Raises EngineDied, which frees it, too."""
        answer = self._unloads[model_id] = asyncio.get_running_loop().create_future()
        self._write(UnloadModel(model_id))
        await answer

    def run(self, batch: Batch, limit_s: float, alone: bool) -> asyncio.Future[BatchDone]:
        """Send a batch. An engine that takes over `limit_s` for it hangs, and is ended.

        `alone` gives it the whole device: see RunBatch.

        The future raises EngineDied, or EngineFailed when the pass failed and the engine lives.
        """
        self._last_id += 1
        key, flat = batch.key, array("i")
        for piece in batch.pieces:
            flat.extend(piece.ids)
        loop = asyncio.get_running_loop()
        answer = self._batches[self._last_id] = loop.create_future()
        self.running += 1
        lengths = [len(piece.ids) for piece in batch.pieces]
        self._write(
            RunBatch(self._last_id, key.model_id, key.operation, key.options, key.lora, lengths, flat.tobytes(), alone)
        )
        self._limit(self._last_id, limit_s)
        return answer

    def _limit(self, batch_id: int, limit_s: float) -> None:
        self._timers[batch_id] = asyncio.get_running_loop().call_later(limit_s, self._overdue, batch_id, limit_s)

    def _overdue(self, batch_id: int, limit_s: float) -> None:
        """A batch is not back in time: its engine hangs, unless it is at a load, which has a time of its own."""
        if self._loads:
            self._limit(batch_id, limit_s)
            return
        self.kill(f"a batch ran over {limit_s:g} s")

    def end(self, why: str) -> None:
        """As `kill`, for failures that are known already: what is in it now is not to blame."""
        self.ended_for = why
        self.kill(why)

    def kill(self, why: str) -> None:
        """End the process; everything in it fails as EngineDied."""
        if self._process is not None and not self._process.exited.is_set() and not self.is_ending:
            _log.warning("engine", runtime=self.runtime, pid=self.pid, state="killed", why=why)
            self._process.reason = why
            self.is_ending = True
            self._process.kill()

    async def stop(self) -> None:
        """Close the socket, at which the engine ends by itself; kill it if it does not."""
        if self._process is None:
            return
        if self._transport is not None:
            self._transport.close()
        try:
            await asyncio.wait_for(self._process.exited.wait(), 1.0)
        except asyncio.TimeoutError:
            self._process.kill()
            await self._process.exited.wait()

    def _write(self, frame: Frame) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():  # else the process is ending, and its burial fails what asks for an answer
            self._transport.write(frames.pack(frame))

    # -- asyncio.Protocol -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its bases

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= frames.HEADER_BYTES:
            begin = start + frames.HEADER_BYTES
            end = begin + frames.length(buffer[start:begin])
            if len(buffer) < end:
                break
            self._take(frames.unpack(bytes(buffer[begin:end])))
            start = end
        del buffer[:start]

    def connection_lost(self, exc: Exception | None) -> None:
        asyncio.ensure_future(self._bury())  # noqa: RUF006 - ends with the process, which the port outlives

    async def _bury(self) -> None:
        """Wait for the process's end, for its reason, then fail everything that was in it."""
        assert self._process is not None
        try:
            await asyncio.wait_for(self._process.exited.wait(), _DYING_S)
        except asyncio.TimeoutError:
            self._process.kill()
            await self._process.exited.wait()
        reason = self._process.reason or "closed its socket"
        error = EngineDied(f"The engine process ended: {reason}.")
        for timer in self._timers.values():
            timer.cancel()
        futures: list[asyncio.Future[Any]] = [self._started, *self._loads.values(), *self._unloads.values()]
        futures += self._batches.values()
        for future in futures:
            if not future.done():
                future.set_exception(error)
                future.exception()  # seen: whoever awaits it still gets it, nobody is a case of its own
        self.died_at_work = bool(self._batches)
        self._loads.clear()
        self._unloads.clear()
        self._batches.clear()
        self.running = 0
        if not self.died.done():
            self.died.set_result(reason)

    def _take(self, frame: Frame) -> None:
        if isinstance(frame, BatchDone):
            self._finish(frame.batch_id).set_result(frame)
        elif isinstance(frame, BatchFailed):
            self._finish(frame.batch_id).set_exception(EngineFailed(frame.message))
        elif isinstance(frame, ModelLoaded):
            answer = self._loads.pop(frame.model_id, None)
            if answer is not None and not answer.done():
                answer.set_result(frame)
        elif isinstance(frame, ModelUnloaded):
            self._unloads.pop(frame.model_id).set_result(None)
        elif isinstance(frame, StartEngine):
            self._started.set_result(None)

    def _finish(self, batch_id: int) -> asyncio.Future[BatchDone]:
        self._timers.pop(batch_id).cancel()
        self.running -= 1
        self.is_exclusive = False
        return self._batches.pop(batch_id)
