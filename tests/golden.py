"""What PyTorch computed for some texts, and how close an answer must come."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).with_name("fixtures")
MODEL = "all-MiniLM-L6-v2"
MIN_COSINE = 0.9999
"""In fp32, whatever shares the batch."""


@dataclass(frozen=True)
class Golden:
    texts: list[str]
    vectors: list[list[float]]


def minilm() -> Golden:
    found = json.loads((FIXTURES / "minilm-golden.json").read_text(encoding="utf-8"))
    return Golden(found["texts"], found["vectors"])


def bert() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIXTURES / "bert-embed" / "expected.json").read_text(encoding="utf-8"))
    return found


def cosine(one: list[float], other: list[float]) -> float:
    assert len(one) == len(other)
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


def is_close(one: list[float], other: list[float]) -> bool:
    return cosine(one, other) > MIN_COSINE


def assert_close(vectors: list[list[float]], expected: list[list[float]]) -> None:
    assert len(vectors) == len(expected)
    cosines = [cosine(one, other) for one, other in zip(vectors, expected, strict=True)]
    assert min(cosines) > MIN_COSINE, cosines
