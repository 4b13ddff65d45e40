"""The model card, README.md: licence, and the names under which the model is published."""

from __future__ import annotations

import re
from pathlib import Path

_LICENCE = re.compile(r"^licen[sc]e:\s*([A-Za-z0-9][A-Za-z0-9._+-]*)\s*$", re.MULTILINE)
_LOADED = re.compile(r"""SentenceTransformer\(\s*["']([A-Za-z0-9._-]+/[A-Za-z0-9._-]+)["']""")


def licence(folder: Path) -> str:
    """Return the licence that the front matter states, or an empty string."""
    text = _read(folder)
    if not text.startswith("---"):
        return ""
    found = _LICENCE.search(text.split("\n---", 1)[0])
    return found.group(1) if found else ""


def published_names(folder: Path, name: str) -> tuple[str, ...]:
    """Return the "org/name" by which the card loads the model, where its last part is `name`."""
    found = {match for match in _LOADED.findall(_read(folder)) if match.split("/")[1].lower() == name.lower()}
    return tuple(sorted(found))


def _read(folder: Path) -> str:
    path = folder / "README.md"
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
