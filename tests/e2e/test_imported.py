"""A published encoder, from its safetensors to HTTP answers that equal PyTorch's."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import golden
from tests.client import embed
from tests.e2e.conftest import CPU
from tests.harness import Appliance, running

EXPECTED = golden.bert()
SOURCE = golden.FIXTURES / "bert-embed"
POOLED_BY_FIRST = {
    "modules.json": [
        {"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
        {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"},
    ],
    "1_Pooling/config.json": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
}


def pull(appliance: Appliance, source: Path, name: str) -> subprocess.CompletedProcess[str]:
    return appliance.command("models", "pull", f"file:{source}", "--name", name, "--data", str(appliance.data))


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    """A daemon that starts without a model and is given both while it runs."""
    made = Appliance(tmp_path_factory.mktemp("imported"), CPU)
    copy = Path(shutil.copytree(SOURCE, made.folder / "by-first"))
    for name, content in POOLED_BY_FIRST.items():
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text(json.dumps(content))
    for source, name in ((SOURCE, "mean"), (copy, "cls")):
        done = pull(made, source, name)
        assert done.returncode == 0, done.stderr
    with running(made):
        yield made


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_equal_pytorch_s(imported: Appliance, pooling: str) -> None:
    together = embed(imported.url, EXPECTED["texts"], pooling, truncate=True).vectors
    alone = [embed(imported.url, text, pooling, truncate=True).vectors[0] for text in EXPECTED["texts"]]
    for vectors in (together, alone):
        for found, expected in zip(vectors, EXPECTED[pooling], strict=True):
            assert found == pytest.approx(expected, abs=1e-4)


def test_the_two_poolings_differ(imported: Appliance) -> None:
    one, other = (embed(imported.url, EXPECTED["texts"][0], pooling).vectors[0] for pooling in ("mean", "cls"))
    assert golden.cosine(one, other) < 0.99
