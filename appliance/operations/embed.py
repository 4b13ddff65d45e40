"""embed: one vector per input, pooled, cut to `dimensions` where asked, normalised, checked to be finite."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from appliance.operations.base import Options, Outcome
from appliance.runtimes.base import Floats, Ints, Session

Counts = npt.NDArray[np.int_]

NOT_FINITE = ("not_finite", "The model's output for this input holds NaN or infinity.")


class Embed:
    """`pooling` is mean or cls; `normalize` scales vectors to length 1."""

    def __init__(self, pooling: str, normalize: bool) -> None:
        self._pool = _POOLINGS[pooling]
        self._normalize = normalize

    def run(self, session: Session, lengths: Sequence[int], flat_ids: Ints, options: Options) -> Outcome:
        """Each output is one vector, float32 little-endian."""
        vectors = self.vectors(session, lengths, flat_ids, dict(options).get("dimensions", 0))
        finite = np.isfinite(vectors).all(axis=1)
        errors = {int(i): NOT_FINITE for i in np.flatnonzero(~finite)}
        data, size = vectors.astype("<f4", copy=False).tobytes(), vectors.shape[1] * 4
        return Outcome([data[i : i + size] for i in range(0, len(data), size)], errors)

    def vectors(self, session: Session, lengths: Sequence[int], flat_ids: Ints, dimensions: int = 0) -> Floats:
        """Return [batch, dimensions] float32; `dimensions` 0 means the model's own."""
        outputs = session.run(lengths, flat_ids)
        if "pooled" in outputs:
            pooled = outputs["pooled"]
        else:
            counts = np.asarray(lengths)
            pooled = self._pool(outputs["last_hidden_state"], np.cumsum(counts) - counts, counts)
        if dimensions:
            pooled = pooled[:, :dimensions]
        # A cut vector is no longer of length 1, and the OpenAI interface promises length 1.
        return _normalized(pooled) if self._normalize or dimensions else pooled


def _mean(hidden: Floats, starts: Counts, counts: Counts) -> Floats:
    """Mean over an input's tokens: [tokens, hidden] to [batch, hidden], as sentence-transformers does."""
    pooled: Floats = np.add.reduceat(hidden, starts, axis=0)
    pooled /= counts[:, None].astype(np.float32)
    return pooled


def _cls(hidden: Floats, starts: Counts, counts: Counts) -> Floats:
    return hidden[starts]


_POOLINGS = {"mean": _mean, "cls": _cls}


def _normalized(vectors: Floats) -> Floats:
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    scaled: Floats = vectors / np.maximum(norms, 1e-12)
    return scaled
