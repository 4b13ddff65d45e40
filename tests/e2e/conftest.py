"""One daemon with the real model for the whole folder, and whoever wants to break one starts another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import store
from tests.harness import Appliance, running

CPU = '[worker]\ndevices = ["cpu"]\n'


@pytest.fixture(scope="session")
def minilm_store() -> Path:
    return store.find_store()


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory, minilm_store: Path) -> Iterator[Appliance]:
    """A daemon that is up, with MiniLM. No test may leave it any other way than it found it."""
    made = Appliance(tmp_path_factory.mktemp("office"), CPU)
    store.install(minilm_store, made.models)
    with running(made):
        yield made
