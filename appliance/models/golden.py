"""golden.json: inputs and the vectors expected for them. Checked at import, at load and as a canary; no numpy."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from appliance.errors import CorruptModel, ModelError
from appliance.models.tokenizer import Tokenizer

GOLDEN_FILE = "golden.json"
MIN_COSINE = 0.9999

Vectors = Sequence[Sequence[float]]


@dataclass(frozen=True)
class GoldenInput:
    """One text, its token ids with special tokens, and its expected vector."""

    text: str
    ids: list[int]
    vector: list[float]


@dataclass(frozen=True)
class Golden:
    """What the model must answer, and how close an answer must come (cosine similarity)."""

    operation: str
    min_cosine: float
    inputs: tuple[GoldenInput, ...]


def read_golden(folder: Path) -> Golden:
    """Read `folder`/golden.json. Raises CorruptModel."""
    path = folder / GOLDEN_FILE
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["schema"] != 1:
            raise CorruptModel(f"{path}: schema {raw['schema']!r} is not known; 1 is expected")
        inputs = tuple(_input(entry) for entry in raw["inputs"])
        return Golden(operation=str(raw["operation"]), min_cosine=float(raw["min_cosine"]), inputs=inputs)
    except OSError as error:
        raise CorruptModel(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptModel(f"{path}: not a golden file: {type(error).__name__} {error}") from error


def _input(entry: dict[str, Any]) -> GoldenInput:
    return GoldenInput(
        text=str(entry["text"]),
        ids=[int(token) for token in entry["ids"]],
        vector=[float(value) for value in entry["vector"]],
    )


def write_golden(golden: Golden, folder: Path) -> None:
    """Write `folder`/golden.json, one input a line."""
    head = json.dumps({"schema": 1, "operation": golden.operation, "min_cosine": golden.min_cosine})[1:-1]
    lines = ",\n".join(json.dumps(asdict(entry), ensure_ascii=False) for entry in golden.inputs)
    (folder / GOLDEN_FILE).write_text(f'{{{head}, "inputs": [\n{lines}\n]}}\n', encoding="utf-8")


def check(golden: Golden, run: Callable[[list[list[int]]], Vectors]) -> None:
    """Run all inputs as one batch of id lists and compare with the expected vectors.

    Raises ModelError naming the worst cosine and its input's index; NaN counts as worst.
    """
    vectors = run([entry.ids for entry in golden.inputs])
    if len(vectors) != len(golden.inputs):
        raise ModelError(f"golden check: {len(golden.inputs)} inputs gave {len(vectors)} vectors")
    cosines = [_cosine(vector, entry.vector) for vector, entry in zip(vectors, golden.inputs, strict=True)]
    worst = min(range(len(cosines)), key=lambda index: _rank(cosines[index]), default=None)
    if worst is not None and not cosines[worst] >= golden.min_cosine:
        raise ModelError(
            f"golden check: input {worst} has cosine {cosines[worst]:.6f} to its expected vector; "
            f"at least {golden.min_cosine} is needed, so this model's answers would be wrong"
        )


def check_tokens(golden: Golden, tokenizer: Tokenizer) -> None:
    """Raise ModelError where a golden text no longer gives its token ids."""
    encoded = tokenizer.encode([entry.text for entry in golden.inputs])
    for index, (ids, entry) in enumerate(zip(encoded, golden.inputs, strict=True)):
        if ids != entry.ids:
            raise ModelError(f"golden check: input {index} gives other tokens than at import; the tokenizer changed")


def _rank(cosine: float) -> float:
    return -math.inf if math.isnan(cosine) else cosine


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine similarity; NaN where a value is not finite or the lengths differ."""
    if len(one) != len(other):
        return math.nan
    dot = _dot(one, other)
    # Multiplied, for a power that overflows raises in Python and a product is infinite.
    norms = math.sqrt(_dot(one, one) * _dot(other, other))
    return dot / norms if norms > 0 and math.isfinite(norms) and math.isfinite(dot) else math.nan


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(float(a) * float(b) for a, b in zip(one, other, strict=True))
