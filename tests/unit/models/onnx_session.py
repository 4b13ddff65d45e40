"""Runs an imported encoder in the real ONNX Runtime, padded as the engine pads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from appliance.models.importer.reference import pool


class OnnxSession:
    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def states(self, sequences: list[list[int]]) -> list[np.ndarray[Any, Any]]:
        """Return the states [tokens, hidden] of each sequence, all run in one padded batch."""
        shape = (len(sequences), max(map(len, sequences)))
        ids, mask = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        for row, sequence in enumerate(sequences):
            ids[row, : len(sequence)] = sequence
            mask[row, : len(sequence)] = 1
        (states,) = self._session.run(None, {"input_ids": ids, "attention_mask": mask})
        return [states[row, : len(sequence)] for row, sequence in enumerate(sequences)]

    def vectors(self, sequences: list[list[int]], pooling: str = "mean") -> list[np.ndarray[Any, Any]]:
        return [pool(states, pooling, True) for states in self.states(sequences)]

    def answers(self, sequences: list[list[int]]) -> list[list[float]]:
        """Return mean-pooled vectors as plain lists, as a golden check takes them."""
        return [vector.tolist() for vector in self.vectors(sequences)]
