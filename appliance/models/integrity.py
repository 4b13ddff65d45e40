"""Compares a model's folder with its manifest, file by file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from appliance.models.checksum import file_hash
from appliance.models.manifest import MANIFEST
from appliance.models.model import Model, computed_hash

# Written by tuning after the import, so no hash of them is in the manifest.
_TUNED = "profiles/"


def problems(model: Model) -> list[str]:
    """Return a sentence for each file that is missing, extra, linked or not what its hash says."""
    if not model.folder.is_dir():
        return [f"{model.folder}: missing"]
    present = _present(model.folder)
    found = [f"{name}: not in the manifest" for name in sorted(present) if not _is_expected(name, model)]
    for name, expected in model.files.items():
        if name not in present:
            found.append(f"{name}: missing")
        elif problem := _file_problem(model.folder / name, expected):
            found.append(f"{name}: {problem}")
    if model.content_hash != computed_hash(model):
        found.append(f"{MANIFEST}: content_hash does not fit the rest of it; it was changed after the import")
    return found


def _is_expected(name: str, model: Model) -> bool:
    return name == MANIFEST or name in model.files or name.startswith(_TUNED)


def _present(folder: Path) -> set[str]:
    """Return the paths inside `folder` of all that is not a folder, links to folders included."""
    found: set[str] = set()
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        found.update(Path(parent, name).relative_to(folder).as_posix() for name in [*files, *links])
    return found


def _file_problem(path: Path, expected: str) -> str | None:
    facts = path.lstat()
    if stat.S_ISLNK(facts.st_mode):
        return "is a symbolic link"
    if not stat.S_ISREG(facts.st_mode):
        return "is not a regular file"
    if facts.st_nlink > 1:
        return "has a second hard link, through which it could be changed"
    try:
        actual = file_hash(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None if actual == expected else "its bytes are not those of the import (SHA-256 differs)"
