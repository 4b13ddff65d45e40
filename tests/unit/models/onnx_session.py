"""Runs an imported encoder in the real ONNX Runtime, its inputs laid out here by hand."""

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
        """Return the states [tokens, hidden] of each sequence, all run in one batch."""
        longest = max(map(len, sequences))
        tokens = [token for sequence in sequences for token in sequence]
        positions = [position for sequence in sequences for position in range(len(sequence))]
        places = [row * longest + position for row, one in enumerate(sequences) for position in range(len(one))]
        slots = np.full(len(sequences) * longest, len(tokens) - 1)  # whatever is in the other places is not read
        slots[places] = range(len(tokens))
        lengths = list(map(len, sequences))
        feeds = {
            "input_ids": [tokens],
            "position_ids": [positions],
            "slots": slots.reshape(len(sequences), longest),
            "places": places,
            "lengths": lengths,
        }
        (states,) = self._session.run(None, {name: np.array(value, np.int32) for name, value in feeds.items()})
        return list(np.split(states, np.cumsum(lengths)[:-1]))

    def vectors(self, sequences: list[list[int]], pooling: str = "mean") -> list[np.ndarray[Any, Any]]:
        return [pool(states, pooling, True) for states in self.states(sequences)]

    def answers(self, sequences: list[list[int]]) -> list[list[float]]:
        """Return mean-pooled vectors as plain lists, as a golden check takes them."""
        return [vector.tolist() for vector in self.vectors(sequences)]
