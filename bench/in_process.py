"""The parent's end of bench.limit: asks one model's limit for its fastest way, for windows, for vectors to compare."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from appliance.models.catalog import Model
from bench.appliance_under_test import ApplianceUnderTest
from bench.limit import Way
from bench.measure import MeasureError, Window, ask, run_module, watch
from bench.texts import SHORT, Kind

IN_PROCESS = "in-process"
_MIN_COSINE = 0.999


class InProcessLimit:
    """Each task runs in a subprocess of its own, so that neither its threads nor its memory outlive it."""

    def __init__(self, model: Model) -> None:
        assert model.embed is not None
        self.model = model
        self._spec = {
            "folder": str(model.folder.resolve()),
            "pooling": model.embed.pooling,
            "normalize": model.embed.normalize,
        }

    def best(self, name: str, kind: Kind, seconds: float) -> tuple[Way, dict[str, float]]:
        """Return the fastest way, and what each gave."""
        found = ask("bench.limit", self._task(name, kind, 0, seconds))
        return Way(**found["way"]), found["tried"]

    def run(self, name: str, kind: Kind, seed: int, seconds: float, way: Way) -> Window:
        """Measure one window."""
        task = {**self._task(name, kind, seed, seconds), "way": asdict(way)}
        return watch(run_module("bench.limit", [], task), IN_PROCESS, {})

    def check_same_work(self, appliance: ApplianceUnderTest) -> None:
        """See that both give the same vectors. Raises MeasureError."""
        expected = ask("bench.limit", self._task("vectors", SHORT, 0, 0.0))
        for text, vector in zip(expected["texts"], expected["vectors"], strict=True):
            answer = json.loads(appliance.embed(self.model.name, text))
            cosine = _cosine(answer["data"][0]["embedding"], vector)
            if not cosine >= _MIN_COSINE:
                raise MeasureError(f"The appliance's vector is not the one computed in process: cosine {cosine:.6f}.")

    def _task(self, name: str, kind: Kind, seed: int, seconds: float) -> dict[str, Any]:
        return {"task": name, "spec": self._spec, "kind": kind.name, "seed": seed, "seconds": seconds}


def _cosine(one: list[float], other: list[float]) -> float:
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))
