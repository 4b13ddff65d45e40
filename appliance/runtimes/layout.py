"""How a batch's inputs, one after the other in flat arrays, lie in the rows that attention wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from appliance.runtimes.base import Ints


class Layout:
    """`lengths` are token counts, each at least 1. A row is as long as the longest input, padded on its right."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = np.asarray(lengths, dtype=np.int32)
        columns = np.arange(self.lengths.max(initial=1), dtype=np.int32)
        self.is_token: npt.NDArray[np.bool_] = columns < self.lengths[:, None]
        """[batch, longest]."""

    def padded(self, flat: Ints) -> Ints:
        """Return [batch, longest] with zeros where there is no token."""
        rows = np.zeros(self.is_token.shape, dtype=np.int32)
        rows[self.is_token] = flat
        return rows

    def mask(self) -> Ints:
        """Return [batch, longest]: 1 for tokens, 0 for padding."""
        return self.is_token.astype(np.int32)

    def flat(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the tokens of [batch, longest, ...] one after the other."""
        return rows[self.is_token]

    def slots(self) -> Ints:
        """Return [batch, longest]: for each place in a row which token of the flat array belongs there; 0 for none."""
        return self.padded(np.arange(self.lengths.sum(), dtype=np.int32))

    def places(self) -> Ints:
        """Return [tokens]: where in the rows, counted through, each token of the flat array is."""
        return np.flatnonzero(self.is_token).astype(np.int32)

    def positions(self) -> Ints:
        """Return [tokens]: the place of each token in its own input."""
        return self.places() % np.int32(self.is_token.shape[1])
