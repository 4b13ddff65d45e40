"""SHA-256 of files, in the form that model.toml holds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

_CHUNK_BYTES = 1 << 20


def file_hash(path: Path) -> str:
    """Return "sha256:<hex>" of the file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


def tree_hash(folder: Path, files: Iterable[str]) -> str:
    """Return one hash over the names and the bytes of `files`, paths inside `folder`."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{file_hash(folder / name)}\n".encode())
    return f"sha256:{digest.hexdigest()}"
