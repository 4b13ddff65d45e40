"""Models come and go, and break, while the appliance runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import wait
from tests.client import embed
from tests.harness import FAKE, FAST_CONFIG, Appliance, fake_manifest, running, write_fake, write_model

SEEN_S = 15.0
FIXTURES = Path(__file__).parents[1] / "fixtures"

ENCODER = """\
schema = 1
name = "{name}"
operations = ["embed"]
runtime = "onnx"
[limits]
max_tokens = 64
vocab_size = 1000
[embed]
dimensions = 8
pooling = "mean"
normalize = true
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    # A request that gateway and worker disagree on while a model comes or goes waits for its deadline.
    config = FAST_CONFIG.replace("virtual0", "cpu") + "[server]\nrequest_timeout_s = 2.0\n"
    made = Appliance(tmp_path_factory.mktemp("models"), config)
    write_fake(made.models, "stays")
    with running(made):
        yield made


def install(appliance: Appliance, name: str, files: dict[str, bytes]) -> Path:
    """Install an encoder of which some files are missing or garbage."""
    staged = appliance.models / f".staging-{name}"
    staged.mkdir()
    (staged / "model.toml").write_text(ENCODER.format(name=name))
    for file, content in files.items():
        (staged / file).write_bytes(content)
    return staged.rename(appliance.models / name)


def status(appliance: Appliance, name: str) -> int:
    return embed(appliance.url, "x", name).status


def test_a_model_that_is_added_becomes_usable_and_one_that_is_removed_is_a_404(watched: Appliance) -> None:
    assert status(watched, "comes") == 404
    folder = write_fake(watched.models, "comes", aliases=("arrival",))
    wait.until(lambda: status(watched, "arrival") == 200, SEEN_S)
    shutil.rmtree(folder)
    wait.until(lambda: status(watched, "comes") == 404, SEEN_S)
    assert status(watched, "arrival") == 404
    wait.until(watched.is_ready, SEEN_S)


def test_a_model_that_is_replaced_answers_with_what_it_is_now(watched: Appliance) -> None:
    folder = write_fake(watched.models, "changes", max_tokens=8)
    wait.until(lambda: status(watched, "changes") == 200, SEEN_S)
    assert embed(watched.url, "w " * 20, "changes").error["code"] == "input_too_long"
    shutil.rmtree(folder)
    write_fake(watched.models, "changes", max_tokens=64)
    wait.until(lambda: embed(watched.url, "w " * 20, "changes").status == 200, SEEN_S)
    shutil.rmtree(folder)
    wait.until(lambda: status(watched, "changes") == 404, SEEN_S)


@pytest.mark.parametrize(
    ("name", "manifest", "words"),
    [
        ("garbage", "\x00not toml", "not TOML"),
        ("unknown-key", FAKE + "speed = 1", "fake.speed"),
        ("newer", FAKE.replace("schema = 1", "schema = 2"), "schema"),
        ("elsewhere", FAKE.replace("{name}", "other"), "must be named 'other'"),
    ],
)
def test_a_folder_that_is_no_model_is_named_and_harms_no_other(
    watched: Appliance, name: str, manifest: str, words: str
) -> None:
    folder = write_model(watched.models, name, fake_manifest(name, manifest) if "{" in manifest else manifest)
    problem = wait.until(lambda: next((p for p in watched.health()["problems"] if f"folder {name} " in p), ""), SEEN_S)
    assert words in problem
    assert (status(watched, name), status(watched, "stays")) == (404, 200)
    assert watched.is_ready()
    shutil.rmtree(folder)
    wait.until(lambda: watched.health()["problems"] == [], SEEN_S)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "tokenizer.json"),
        ({"tokenizer.json": b"<html>"}, "not a tokenizer"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_a_503_that_says_why_and_harms_no_other(
    watched: Appliance, files: dict[str, bytes], words: str
) -> None:
    folder = install(watched, "cripple", files)
    wait.until(lambda: [p for p in watched.health()["problems"] if "cripple" in p], SEEN_S)
    # The worker that names the problem and the gateway look at the folder each in its own time.
    reply = wait.until(lambda: (got := embed(watched.url, "x", "cripple")).status != 404 and got, SEEN_S)
    assert (reply.status, reply.error["code"]) == (503, "unavailable")
    assert words in reply.error["message"]
    assert int(reply.headers["retry-after"]) >= 1
    assert status(watched, "stays") == 200
    wait.until(watched.is_ready, SEEN_S)
    health = watched.health()
    assert health["status"] == "degraded"
    assert len([p for p in health["problems"] if "cripple" in p]) == 1
    shutil.rmtree(folder)
    wait.until(lambda: status(watched, "cripple") == 404, SEEN_S)
    wait.until(lambda: watched.health()["status"] == "ok", SEEN_S)


def test_a_model_whose_weights_are_not_any_is_a_503_that_says_why(watched: Appliance) -> None:
    tokenizer = (FIXTURES / "bert-embed" / "tokenizer.json").read_bytes()
    folder = install(watched, "weightless", {"model.onnx": b"<html>404</html>", "tokenizer.json": tokenizer})
    reply = wait.until(lambda: (got := embed(watched.url, "x", "weightless")).status == 503 and got, 30)
    assert "ONNX Runtime cannot load model.onnx" in reply.error["message"]
    assert status(watched, "stays") == 200
    wait.until(watched.is_ready, SEEN_S)
    shutil.rmtree(folder)
    wait.until(lambda: watched.health()["status"] == "ok", SEEN_S)
