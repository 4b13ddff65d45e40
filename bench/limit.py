"""The limit of the rows with a real model: tokenizers and ONNX Runtime in one process, in the way that is fastest here.

Shares no code with the appliance, so that what is slow in one cannot hide in the other. Reads a task (JSON) from
standard input; prints `begin` and `end` around what is measured, then one JSON object.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import tokenizers

from bench.texts import KINDS, texts

CORES = len(os.sched_getaffinity(0))
BATCH_TOKENS = (128, 256, 512, 1024, 2048)
FINALISTS = 4
TEXTS = {"short": 1024, "mixed": 192}
"""Texts in one pass, sorted by length as a whole: a pass takes a few seconds."""

Ints = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Spec:
    """The model: its folder and how token states become one vector."""

    folder: str
    pooling: str
    normalize: bool


@dataclass(frozen=True)
class Way:
    """How the cores are used: `streams` passes at once, each on up to `threads` threads of the session's one pool."""

    threads: int
    spin: bool
    streams: int
    batch_tokens: int = 0

    def __str__(self) -> str:
        spin = "" if self.threads == 1 else ", spinning" if self.spin else ", not spinning"
        size = f", {self.batch_tokens} tokens a batch" if self.batch_tokens else ""
        return f"{self.streams} at once on {self.threads} thread{'s' if self.threads > 1 else ''}{spin}{size}"


class InProcess:
    """One ONNX Runtime session and a tokenizer."""

    def __init__(self, spec: Spec, way: Way) -> None:
        self._spec = spec
        self._way = way
        self._tokenizer = tokenizers.Tokenizer.from_file(str(Path(spec.folder, "tokenizer.json")))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._session = ort.InferenceSession(
            str(Path(spec.folder, "model.onnx")), _options(way), providers=["CPUExecutionProvider"]
        )
        self._inputs = [(i.name, np.int32 if "int32" in i.type else np.int64) for i in self._session.get_inputs()]
        self._is_flat = any(name == "slots" for name, _ in self._inputs)
        self._output = self._session.get_outputs()[0].name

    def embed_one(self, text: str) -> Vectors:
        return self._vectors([self._tokenizer.encode(text).ids])

    def embed_all(self, inputs: list[str], batch_tokens: int) -> int:
        """Embed all `inputs`, sorted by length into batches; return how many vectors there were."""
        encoded = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(inputs)]
        batches = cut(sorted(encoded, key=len, reverse=True), batch_tokens)
        if self._way.streams == 1:
            return sum(len(self._vectors(batch)) for batch in batches)
        with ThreadPoolExecutor(self._way.streams) as pool:
            return sum(map(len, pool.map(self._vectors, batches)))

    def _vectors(self, batch: list[list[int]]) -> Vectors:
        ids = np.zeros((len(batch), max(map(len, batch))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, one in enumerate(batch):
            ids[row, : len(one)] = one
            mask[row, : len(one)] = 1
        values = self._flat(batch, mask) if self._is_flat else self._padded(ids, mask)
        feeds = {name: values[name].astype(kind) for name, kind in self._inputs}
        hidden = self._session.run([self._output], feeds)[0]
        if self._is_flat:  # back into rows, so that both kinds of model are pooled in the same way
            hidden = hidden[values["slots"]]
        return self._pooled(hidden, mask)

    @staticmethod
    def _padded(ids: Ints, mask: Ints) -> dict[str, Ints]:
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}

    @staticmethod
    def _flat(batch: list[list[int]], mask: Ints) -> dict[str, Ints]:
        """The inputs one after the other, and where each token is in the rows that attention works on."""
        slots = np.cumsum(mask).reshape(mask.shape) - 1
        return {
            "input_ids": np.concatenate(batch)[None, :],
            "position_ids": np.concatenate([np.arange(len(one)) for one in batch])[None, :],
            "slots": slots,
            "places": np.flatnonzero(mask),
            "lengths": mask.sum(axis=1),
        }

    def _pooled(self, hidden: Vectors, mask: Ints) -> Vectors:
        if hidden.ndim == 2:
            vectors = hidden
        elif self._spec.pooling == "cls":
            vectors = hidden[:, 0]
        else:
            weights = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
            vectors = np.matmul(weights[:, None, :], hidden)[:, 0, :]
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if self._spec.normalize else vectors


def _options(way: Way) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.intra_op_num_threads = way.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if way.spin else "0")
    return options


def cut(ordered: list[list[int]], batch_tokens: int) -> list[list[list[int]]]:
    """Cut inputs, longest first, into batches of about `batch_tokens` padded tokens."""
    batches, start = [], 0
    while start < len(ordered):
        count = max(1, batch_tokens // max(1, len(ordered[start])))
        batches.append(ordered[start : start + count])
        start += count
    return batches


# -- tasks ------------------------------------------------------------------------------------


def throughput(spec: Spec, kind: str, seed: int, seconds: float, way: Way) -> dict[str, Any]:
    """Texts a second over whole passes that last `seconds` or a little longer."""
    model = InProcess(spec, way)
    inputs = texts(KINDS[kind], seed, TEXTS[kind])
    model.embed_all(inputs[: len(inputs) // 8], way.batch_tokens)
    print("begin", flush=True)
    done, begin = 0, time.perf_counter()
    while (elapsed_s := time.perf_counter() - begin) < seconds:
        done += model.embed_all(inputs, way.batch_tokens)
    print("end", flush=True)
    return {"requests": done, "per_second": done / elapsed_s}


def latency(spec: Spec, kind: str, seed: int, seconds: float, way: Way) -> dict[str, Any]:
    """The median time of one call on one text, calls one after the other."""
    model = InProcess(spec, way)
    inputs = texts(KINDS[kind], seed, TEXTS[kind])
    _durations_s(model, inputs, seconds / 8)
    print("begin", flush=True)
    durations_s = _durations_s(model, inputs, seconds)
    print("end", flush=True)
    return {"requests": len(durations_s), "p50_ms": statistics.median(durations_s) * 1e3}


def _durations_s(model: InProcess, inputs: list[str], seconds: float) -> list[float]:
    durations_s: list[float] = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        model.embed_one(inputs[len(durations_s) % len(inputs)])
        durations_s.append(time.perf_counter() - start)
    return durations_s


def best_throughput(spec: Spec, kind: str, seed: int, seconds: float) -> dict[str, Any]:
    """Try every way for a moment, the best few for `seconds` each; return the fastest."""
    inputs = texts(KINDS[kind], seed, TEXTS[kind])
    some = inputs[: len(inputs) // 4] if seconds > 1 else inputs[: len(inputs) // 8]
    rates: dict[Way, float] = {}
    for use in _uses():
        model = InProcess(spec, use)
        for size in BATCH_TOKENS * (2 if seconds > 1 else 1):
            way = replace(use, batch_tokens=size)
            rates[way] = max(rates.get(way, 0.0), _rate(model, some, size, 0.0))
    best = sorted(rates, key=lambda way: -rates[way])[:FINALISTS]
    finals = {way: _rate(InProcess(spec, way), inputs, way.batch_tokens, seconds) for way in best}
    way = max(finals, key=lambda one: finals[one])
    return {"way": asdict(way), "tried": {str(one): finals.get(one, rate) for one, rate in rates.items()}}


def _uses() -> list[Way]:
    """One pass on all cores, two that share them, or a pass a core."""
    shared = [Way(CORES, spin, streams) for streams in (1, 2) for spin in (False, True)]
    return [Way(1, False, CORES), *shared] if CORES > 1 else [Way(1, False, 1)]


def _rate(model: InProcess, inputs: list[str], batch_tokens: int, seconds: float) -> float:
    """The fastest of a few passes: noise only ever slows one down."""
    best, end = 0.0, time.perf_counter() + seconds
    while not best or time.perf_counter() < end:
        start = time.perf_counter()
        best = max(best, model.embed_all(inputs, batch_tokens) / (time.perf_counter() - start))
    return best


def best_latency(spec: Spec, kind: str, seed: int, seconds: float) -> dict[str, Any]:
    """Return the way with the lowest median time for one text."""
    inputs = texts(KINDS[kind], seed, TEXTS[kind])
    medians: dict[Way, float] = {}
    for way in {Way(1, False, 1), Way(CORES, False, 1), Way(CORES, True, 1)}:
        model = InProcess(spec, way)
        model.embed_one(inputs[0])
        medians[way] = statistics.median(_durations_s(model, inputs, seconds))
    return {
        "way": asdict(min(medians, key=lambda one: medians[one])),
        "tried": {str(way): median * 1e3 for way, median in medians.items()},
    }


def vectors(spec: Spec, kind: str, seed: int, seconds: float) -> dict[str, Any]:
    """A few texts and their vectors, to see that both sides do the same work."""
    model = InProcess(spec, Way(CORES, False, 1))
    inputs = texts(KINDS[kind], seed, 4)
    return {"texts": inputs, "vectors": [model.embed_one(text)[0].tolist() for text in inputs]}


_TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "throughput": throughput,
    "latency": latency,
    "best_throughput": best_throughput,
    "best_latency": best_latency,
    "vectors": vectors,
}


def main() -> None:
    task = json.load(sys.stdin)
    arguments = {"spec": Spec(**task["spec"]), "kind": task["kind"], "seed": task["seed"], "seconds": task["seconds"]}
    if "way" in task:
        arguments["way"] = Way(**task["way"])
    json.dump(_TASKS[task["task"]](**arguments), sys.stdout)


if __name__ == "__main__":
    main()
