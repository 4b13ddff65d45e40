"""What a model of the catalogue is: plain data, shared by every process."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

RUNTIMES = ("onnx", "fake")
OPERATIONS = ("embed", "sparse", "score", "extract", "classify", "ocr", "generate")
POOLINGS = ("mean", "cls")
FAIL_MODES = ("error", "crash", "hang", "nan")

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_NAME = re.compile(rf"{_PART}(/{_PART})?")


def valid_name(name: str) -> bool:
    """Return whether `name` is one or two parts ("org/model") of letters, digits, dot, underscore, hyphen."""
    return _NAME.fullmatch(name) is not None


def folder_name(name: str) -> str:
    """Return the folder of the model `name` in the store; names that differ in case only share it."""
    return name.lower().replace("/", "--")


@dataclass(frozen=True)
class Limits:
    """`max_tokens` counts special tokens; token ids are below `vocab_size`."""

    max_tokens: int
    vocab_size: int


@dataclass(frozen=True)
class EmbedSettings:
    """How token states [tokens, dimensions] become one vector: mean over tokens, or the first token."""

    dimensions: int
    pooling: str
    normalize: bool


@dataclass(frozen=True)
class FakeSettings:
    """Timing and failures of the fake runtime: a batch takes a + b * padded tokens + c * items, a load `load_ms`.

    On the device `slow_device`, an old card beside new ones, a batch takes `slow_factor` times as long.
    """

    a_ms: float = 0.0
    b_ms_per_token: float = 0.0
    c_ms_per_item: float = 0.0
    load_ms: float = 0.0
    memory_bytes: int = 0
    slow_device: str = ""
    slow_factor: float = 1.0
    fail_marker: str = ""
    fail_mode: str = "error"


@dataclass(frozen=True)
class Model:
    """One catalogue entry. `files` maps a path inside `folder` to "sha256:<hex>"."""

    name: str
    folder: Path
    operations: tuple[str, ...]
    runtime: str
    limits: Limits
    aliases: tuple[str, ...] = ()
    architecture: str = ""
    source: str = ""
    source_hash: str = ""
    licence: str = ""
    imported_at: datetime | None = None
    content_hash: str = ""
    embed: EmbedSettings | None = None
    fake: FakeSettings | None = None
    files: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The name and every alias."""
        return (self.name, *self.aliases)


def computed_hash(model: Model) -> str:
    """Return the content hash: SHA-256 over everything that decides an answer, the [files] table included.

    Name, aliases, licence and origin are left out, so the same model under two names has one hash.
    """
    parts = {
        "architecture": model.architecture,
        "runtime": model.runtime,
        "operations": sorted(model.operations),
        "limits": asdict(model.limits),
        "embed": asdict(model.embed) if model.embed else None,
        "fake": asdict(model.fake) if model.fake else None,
        "files": dict(model.files),
    }
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
