"""What must be answered, known without asking the product: the fake runtime's arithmetic, and a model's golden vectors.

Written anew on purpose: an oracle that calls the code under test would agree with its mistakes.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

_VOCAB_SIZE = 30_000
_RESERVED = 10
_FACTOR = 2654435761
_FAKE_TOLERANCE = 1e-5
_REAL_COSINE = 0.9999

Vector = Sequence[float]


def fake_vector(text: str, dimensions: int) -> list[float]:
    """Return the vector of a fake model for a text: its seed is the CRC-32 of the token ids."""
    words = (zlib.crc32(word.encode()) % (_VOCAB_SIZE - _RESERVED) + _RESERVED for word in text.split())
    ids = [1, *words, 2]
    seed = zlib.crc32(struct.pack(f"<{len(ids)}i", *ids))
    raw = [_signed(seed * ((2 * n + 1) * _FACTOR)) / 2**31 for n in range(dimensions)]
    length = max(math.sqrt(sum(value * value for value in raw)), 1e-12)
    return [value / length for value in raw]


def _signed(number: int) -> int:
    number &= 0xFFFFFFFF
    return number - (1 << 32) if number & 0x80000000 else number


def is_fake(vector: Vector, text: str, dimensions: int) -> bool:
    """Return whether a vector is the fake model's for exactly this text."""
    wanted = fake_vector(text, dimensions)
    return len(vector) == dimensions and all(
        abs(one - other) < _FAKE_TOLERANCE for one, other in zip(vector, wanted, strict=True)
    )


def golden(folder: Path) -> dict[str, list[float]]:
    """Return the texts of a model's golden.json with the vectors that a second implementation gave for them."""
    raw = json.loads((folder / "golden.json").read_text(encoding="utf-8"))
    return {entry["text"]: entry["vector"] for entry in raw["inputs"]}


def is_like(vector: Vector, wanted: Vector) -> bool:
    """Return whether two vectors of length 1 point the same way."""
    return len(vector) == len(wanted) and sum(a * b for a, b in zip(vector, wanted, strict=True)) > _REAL_COSINE
