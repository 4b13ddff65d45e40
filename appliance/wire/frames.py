"""Messages between a worker and its engine: length-prefixed msgpack on a socket pair.

Token ids travel as one flat int32 array, so that the worker needs no numpy and the engine no parsing.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Any

import msgpack

from appliance.wire.items import Options

_LENGTH = struct.Struct("<I")
HEADER_BYTES = _LENGTH.size
MAX_FRAME_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class StartEngine:
    """Worker to engine, first of all, and echoed when the runtime's libraries are loaded.

    `threads` is for each of `streams` batches at once, `threads_alone` for a batch without company.
    """

    runtime: str
    device: str
    threads: int
    threads_alone: int
    streams: int
    log_level: str
    log_json: bool


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Worker to engine: load this model folder and check its golden answers."""

    model_id: str
    folder: str


@dataclass(frozen=True, slots=True)
class UnloadModel:
    """Worker to engine: give back the memory of this model, of which nothing runs."""

    model_id: str


@dataclass(frozen=True, slots=True)
class ModelUnloaded:
    """Engine to worker: the model's memory is free."""

    model_id: str


@dataclass(frozen=True, slots=True)
class ModelLoaded:
    """Engine to worker. `error` is empty on success; `memory_bytes` is what the load added, measured.

    `padding_cost` is what a token of padding costs this model, in real ones.
    """

    model_id: str
    load_s: float
    memory_bytes: int
    error: str
    padding_cost: float = 1.0


@dataclass(frozen=True, slots=True)
class RunBatch:
    """Worker to engine: `ids` is int32 little-endian, all inputs one after the other; `lengths` says how to cut it.

    `alone` says that nothing else runs or waits: the batch may have the whole device.
    """

    batch_id: int
    model_id: str
    operation: str
    options: Options
    lora: str
    lengths: list[int]
    ids: bytes
    alone: bool


@dataclass(frozen=True, slots=True)
class BatchDone:
    """Engine to worker: one output per input, in order; an empty output is an error listed in `errors` by index."""

    batch_id: int
    run_s: float
    outputs: list[bytes]
    errors: dict[int, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class BatchFailed:
    """Engine to worker: the whole batch failed; nothing is known about its single inputs."""

    batch_id: int
    code: str
    message: str


Frame = StartEngine | LoadModel | ModelLoaded | RunBatch | BatchDone | BatchFailed | UnloadModel | ModelUnloaded
_KINDS: tuple[type[Any], ...] = (
    StartEngine,
    LoadModel,
    ModelLoaded,
    RunBatch,
    BatchDone,
    BatchFailed,
    UnloadModel,
    ModelUnloaded,
)
_NUMBER = {kind: number for number, kind in enumerate(_KINDS)}


def pack(frame: Frame) -> bytes:
    """Return the frame with its length in front."""
    body: bytes = msgpack.packb((_NUMBER[type(frame)], *_fields(frame)))
    return _LENGTH.pack(len(body)) + body


def _fields(frame: Frame) -> tuple[Any, ...]:
    """dataclasses.astuple copies every list deeply; this does not."""
    return tuple(getattr(frame, name) for name in frame.__slots__)


def unpack(body: bytes | bytearray | memoryview) -> Frame:
    """Decode a frame's body (without its length)."""
    number, *fields = msgpack.unpackb(body, strict_map_key=False)
    kind = _KINDS[number]
    if kind is RunBatch:
        fields[3] = tuple((key, value) for key, value in fields[3])
    frame: Frame = kind(*fields)
    return frame


def length(header: bytes | bytearray | memoryview) -> int:
    """Decode a length; raises ValueError on one that no frame of ours has."""
    size: int = _LENGTH.unpack(header)[0]
    if size > MAX_FRAME_BYTES:
        raise ValueError(f"frame of {size} bytes")
    return size


def receive(sock: socket.socket) -> Frame | None:
    """Read one frame from a blocking socket; None at its end."""
    header = _receive_exactly(sock, HEADER_BYTES)
    body = _receive_exactly(sock, length(header)) if header else None
    return unpack(body) if body else None


def _receive_exactly(sock: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = sock.recv_into(view)
        if not count:
            return None
        view = view[count:]
    return data
