"""Daemons on the fake runtime. Each test module that changes what runs starts one of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Appliance


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    """A daemon of the test's own, not started."""
    made = Appliance(tmp_path)
    yield made
    made.end()
