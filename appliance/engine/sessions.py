"""Models loaded in this process, each with its operations, golden-checked when loaded."""

from __future__ import annotations

import ctypes
import gc
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from appliance.errors import ModelError
from appliance.models import golden
from appliance.models.manifest import Model, read_manifest
from appliance.models.tokenizer import Tokenizer
from appliance.operations import base as operations
from appliance.operations.base import Operation, Outcome
from appliance.operations.embed import Embed
from appliance.runtimes import base as runtimes
from appliance.runtimes import memory
from appliance.runtimes.base import Ints, Runtime, Session, SessionSpec
from appliance.wire.frames import RunBatch


@dataclass(frozen=True)
class Loaded:
    """A model in memory. `memory_bytes` is what it took of the device's, measured; a fake model's is declared."""

    model: Model
    session: Session
    operations: dict[str, Operation]
    load_s: float
    memory_bytes: int


class Sessions:
    """The sessions of one engine. Loads replace; what is evicted, and when, is the worker's decision."""

    def __init__(self, runtime: Runtime, device: str, threads: int, threads_alone: int) -> None:
        self._runtime = runtime
        self._device = device
        self._threads = threads
        self._threads_alone = threads_alone
        self._loaded: dict[str, Loaded] = {}

    def load(self, folder: Path) -> Loaded:
        """Load a model folder and check its golden answers. Raises ModelError with the reason."""
        model = read_manifest(folder)
        start, before = time.perf_counter(), memory.used_bytes(self._device)
        try:
            spec = SessionSpec(model.folder, self._device, self._threads, self._threads_alone, _settings(model))
            session = self._runtime.load(spec)
        except (RuntimeError, OSError, MemoryError) as exc:
            raise ModelError(f"{model.name} cannot be loaded: {exc}") from exc
        made = {name: operations.create(name, _operation_settings(model, name)) for name in model.operations}
        _check_golden(model, session, made)
        grown = max(0, memory.used_bytes(self._device) - before)
        memory_bytes = model.fake.memory_bytes if model.fake else grown
        loaded = Loaded(model, session, made, time.perf_counter() - start, memory_bytes)
        self._loaded[model.name] = loaded
        return loaded

    def unload(self, model_id: str) -> None:
        """Give a model's memory back, to the system too: the allocator would keep it for this process."""
        self._loaded.pop(model_id, None)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)

    def run(self, batch: RunBatch, ids: Ints) -> Outcome:
        """Run one batch. Raises KeyError for a model that is not loaded, RuntimeError when the pass fails."""
        loaded = self._loaded[batch.model_id]
        session = loaded.session.alone if batch.alone else loaded.session
        return loaded.operations[batch.operation].run(session, batch.lengths, ids, batch.options)


def _settings(model: Model) -> dict[str, object]:
    """The fake runtime's script; other runtimes need none."""
    if model.fake is None or model.embed is None:
        return {}
    marker = model.fake.fail_marker
    fail_id = Tokenizer.load(model).encode([marker])[0][1] if marker else -1  # [0] is the special token before it
    return {**asdict(model.fake), "fail_id": fail_id, "dimensions": model.embed.dimensions}


def _operation_settings(model: Model, operation: str) -> dict[str, object]:
    if operation == "embed" and model.embed is not None:
        return {"pooling": model.embed.pooling, "normalize": model.embed.normalize}
    raise ModelError(f"{model.name}: the operation {operation} has no settings in model.toml.")


def _check_golden(model: Model, session: Session, made: dict[str, Operation]) -> None:
    """Compare with golden.json, where the model has one: what it answers now is what it answered at import."""
    embed = made.get("embed")
    if not (model.folder / golden.GOLDEN_FILE).exists() or not isinstance(embed, Embed):
        return

    def run(inputs: list[list[int]]) -> list[list[float]]:
        # One at a time: together the short ones would be padded to the longest, for twice the time and 100 MiB more.
        alone = (embed.vectors(session, [len(ids)], np.array(ids, dtype=np.int32)) for ids in inputs)
        return [vectors[0].tolist() for vectors in alone]

    golden.check(golden.read_golden(model.folder), run)


def check_golden(model: Model) -> None:
    """Load a model folder on the CPU in this process and compare it with its golden.json. Raises ModelError."""
    Sessions(runtimes.create(model.runtime), "cpu", 0, 0).load(model.folder)
