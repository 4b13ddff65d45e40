from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from appliance.engine.sessions import Sessions
from appliance.runtimes.base import Floats, Ints, SessionSpec
from appliance.wire.frames import RunBatch
from tests.harness import write_fake

BESIDE, ALONE = 1.0, -1.0


class Constant:
    """Answers the same vector to everything."""

    padding_cost = 1.0

    def __init__(self, value: float, alone: Constant | None = None) -> None:
        self._value = value
        self.alone = alone or self

    def run(self, lengths: Sequence[int], flat_ids: Ints) -> dict[str, Floats]:
        return {"pooled": np.full((len(lengths), 8), self._value, dtype=np.float32)}


class TwoSessions:
    """A runtime whose answers tell which of a model's two sessions ran."""

    def load(self, spec: SessionSpec) -> Constant:
        return Constant(BESIDE, Constant(ALONE))


@pytest.mark.parametrize(("alone", "expected"), [(False, BESIDE), (True, ALONE)])
def test_a_batch_has_all_cores_only_where_the_worker_says_so(tmp_path: Path, alone: bool, expected: float) -> None:
    folder = write_fake(tmp_path)
    sessions = Sessions(TwoSessions(), "cpu", 1, 2)
    name = sessions.load(folder).model.name
    batch = RunBatch(1, name, "embed", (), "", [3], b"", alone)
    (output,) = sessions.run(batch, np.arange(3, dtype=np.int32)).outputs
    assert np.sign(np.frombuffer(output, dtype="<f4")[0]) == expected
