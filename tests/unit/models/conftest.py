"""A published model in a folder of the test's own, and a store to install into."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """bert-embed, writable: random weights, so its answers mean nothing."""
    return Path(shutil.copytree(FIXTURES / "bert-embed", tmp_path / "bert-embed"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The models folder; it does not exist yet."""
    return tmp_path / "models"
