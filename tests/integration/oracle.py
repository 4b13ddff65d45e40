"""What the fake runtime answers for a text, computed here and now, without daemon, queue or batch."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from appliance.models.model import FakeSettings
from appliance.models.tokenizer import WordTokenizer
from appliance.operations.embed import Embed
from appliance.runtimes.base import SessionSpec
from appliance.runtimes.fake import FakeRuntime

_TOKENIZER = WordTokenizer(30000)
_SESSION = FakeRuntime().load(
    SessionSpec(Path("/nowhere"), "virtual0", 1, {**asdict(FakeSettings()), "fail_id": -1, "dimensions": 8})
)


def vector(text: str, dimensions: int = 0) -> list[float]:
    """Return the vector that a model of the harness must answer for `text`."""
    (ids,) = _TOKENIZER.encode([text])
    found: list[float] = (
        Embed("mean", True).vectors(_SESSION, [len(ids)], np.array(ids, np.int32), dimensions)[0].tolist()
    )
    return found
