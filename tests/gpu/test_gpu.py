"""The golden texts on the first GPU; and where ONNX Runtime cannot use it, that this is said, not worked around."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnxruntime
import pytest

from appliance.supervisor import gpus
from tests import golden, store, wait
from tests.client import embed
from tests.golden import MODEL, assert_close
from tests.harness import Appliance, running

COUNT, WHY = gpus.count_gpus()
HAS_CUDA = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
GPU0 = '[worker]\ndevices = ["gpu0"]\n'

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not COUNT, reason=f"no GPU: {WHY}")]


@pytest.fixture
def unstarted(tmp_path: Path) -> Iterator[Appliance]:
    made = Appliance(tmp_path, GPU0)
    store.install(store.find_store(), made.models)
    yield made
    made.end()


@pytest.mark.skipif(not HAS_CUDA, reason="this onnxruntime has no CUDA")
def test_the_golden_texts_on_gpu0(unstarted: Appliance) -> None:
    expected = golden.minilm()
    with running(unstarted):
        assert [worker["device"] for worker in unstarted.health()["workers"]] == ["gpu0"]
        assert_close(embed(unstarted.url, expected.texts, MODEL, truncate=True).vectors, expected.vectors)
        alone = [embed(unstarted.url, text, MODEL, truncate=True).vectors[0] for text in expected.texts]
        assert_close(alone, expected.vectors)


@pytest.mark.skipif(HAS_CUDA, reason="this onnxruntime has CUDA")
def test_a_gpu_that_cannot_be_used_is_said_and_never_replaced_by_the_cpu(unstarted: Appliance) -> None:
    unstarted.start()
    wait.until(lambda: unstarted.port, 60)
    wait.until(lambda: any("CUDA" in problem for problem in unstarted.health()["problems"]), 60)
    assert embed(unstarted.url, "x", MODEL).status == 503
    assert unstarted.stop() == 0
