"""The virtual device: deterministic vectors, scripted time, scripted failures. For tests and benchmarks."""

from __future__ import annotations

import ctypes
import time
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from appliance.runtimes.base import Floats, Ints, SessionSpec


class FakeSession:
    """Takes a_ms + b_ms_per_token x padded tokens + c_ms_per_item x rows a batch; its vectors are made from the ids.

    A row that holds the token id `fail_id` fails as `fail_mode` says: error (the pass raises), crash (the
    process kills itself), hang (never returns) or nan (that row's vector holds NaN).
    """

    def __init__(self, settings: dict[str, Any], device: str = "") -> None:
        second = (settings["slow_factor"] if device == settings["slow_device"] else 1.0) / 1e3
        self._a_s = settings["a_ms"] * second
        self._token_s = settings["b_ms_per_token"] * second
        self._item_s = settings["c_ms_per_item"] * second
        self._fail_id = settings["fail_id"]
        self._fail_mode = settings["fail_mode"]
        self.alone = self
        self.padding_cost = 1.0
        self._factors = np.arange(1, 2 * settings["dimensions"], 2, dtype=np.uint32) * np.uint32(2654435761)

    def run(self, lengths: Sequence[int], flat_ids: Ints) -> dict[str, Floats]:
        """Return {"pooled": [batch, dimensions]}, values in [-1, 1), the same for the same ids whatever the company."""
        ends = np.cumsum(lengths)
        rows = [flat_ids[end - length : end] for end, length in zip(ends, lengths, strict=True)]
        failing = np.array([self._fail_id in row for row in rows]) if self._fail_id >= 0 else None
        if failing is not None and failing.any() and self._fail_mode != "nan":
            self._fail()
        padded = max(lengths) * len(lengths)
        duration_s = self._a_s + self._token_s * padded + self._item_s * len(lengths)
        if duration_s > 0:
            time.sleep(duration_s)
        seeds = np.array([zlib.crc32(row.tobytes()) for row in rows], dtype=np.uint32)
        vectors = (seeds[:, None] * self._factors).astype(np.int32).astype(np.float32) / np.float32(2**31)
        if failing is not None:
            vectors[failing] = np.nan
        return {"pooled": vectors}

    def _fail(self) -> None:
        if self._fail_mode == "crash":
            ctypes.string_at(
                0
            )  # a real one, in this thread: a signal sent would find another, and this one would go on
        while self._fail_mode == "hang":
            time.sleep(3600)
        raise RuntimeError("scripted failure")


class FakeRuntime:
    def load(self, spec: SessionSpec) -> FakeSession:
        """See Runtime.load."""
        time.sleep(spec.settings["load_ms"] / 1e3)
        return FakeSession(spec.settings, spec.device)
