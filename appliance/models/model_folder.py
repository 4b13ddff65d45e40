"""Finds the one folder with a model in what was fetched."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from appliance.errors import ModelError
from appliance.models.archive import is_kept
from appliance.models.manifest import MANIFEST

_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")


def find_model_folder(root: Path, source: str) -> Path:
    """Return the folder at or below `root` that holds model.toml, or config.json beside safetensors.

    Raises ModelError where there is none or more than one.
    """
    found = _topmost(_folders(root, _is_ready)) or _topmost(_folders(root, _is_published))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(folder.relative_to(root).as_posix() for folder in found)
        raise ModelError(f"{source} holds several models ({names}); give the folder of one with file:")
    raise ModelError(
        f"{source} holds no model: no folder has model.toml, or config.json beside a .safetensors file"
        f"{_pickles(root)}; choose another source"
    )


def model_files(folder: Path) -> list[str]:
    """Return the paths inside `folder`, sorted, of the files that a model can consist of."""
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() and is_kept(path.name)
    )


def _is_ready(names: set[str]) -> bool:
    return MANIFEST in names


def _is_published(names: set[str]) -> bool:
    return "config.json" in names and any(name.endswith(".safetensors") for name in names)


def _folders(root: Path, is_model: Callable[[set[str]], bool]) -> list[Path]:
    return [Path(parent) for parent, _, files in os.walk(root) if is_model(set(files))]


def _topmost(folders: list[Path]) -> list[Path]:
    """Leave out what lies inside another one: sentence-transformers keeps parts of a model in subfolders."""
    return [folder for folder in folders if not any(other in folder.parents for other in folders)]


def _pickles(root: Path) -> str:
    found = sorted(path.name for path in root.rglob("*") if path.suffix in _PICKLES)
    return f" ({found[0]} is a pickle, which could run code and is never loaded)" if found else ""
