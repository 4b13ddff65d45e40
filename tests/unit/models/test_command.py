from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from appliance.cli import models as command
from appliance.config import Config
from appliance.errors import ModelNotFound
from appliance.models.pull import pull

from .making import Steps, fake_model


@dataclass(frozen=True)
class Folders:
    """The one setting that these commands read."""

    models_dir: Path


@pytest.fixture
def installed(tmp_path: Path, root: Path) -> Path:
    pull(f"file:{fake_model(tmp_path / 'x', 'Org/A', ('bee',))}", None, root, None, Steps())
    pull(f"file:{fake_model(tmp_path / 'y', 'c')}", None, root, None, Steps())
    return root


def run(root: Path, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers(), argparse.ArgumentParser(add_help=False))
    args = parser.parse_args(["models", *arguments])
    status: int = args.handler(args, cast(Config, Folders(root)))
    return status


def test_list_is_an_aligned_table(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(installed, "list") == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == ["c", "Org/A"]
    assert {row.index("embed") for row in rows} == {head.index("OPERATIONS")}


def test_list_as_json_is_complete(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (installed / "bad").mkdir()
    (installed / "bad" / "model.toml").write_text("x")
    assert run(installed, "list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in listed["models"]] == ["c", "Org/A"]
    assert listed["models"][1]["aliases"] == ["bee"]
    assert listed["models"][1]["limits"] == {"max_tokens": 64, "vocab_size": 1000}
    assert "bad" in listed["broken"]


def test_list_of_nothing_is_a_head(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root, "list") == 0
    assert capsys.readouterr().out.startswith("NAME")


def test_show_takes_an_alias(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(installed, "show", "BEE") == 0
    assert "Org/A" in capsys.readouterr().out
    assert run(installed, "show", "bee", "--json") == 0
    assert json.loads(capsys.readouterr().out)["name"] == "Org/A"


@pytest.mark.parametrize("leaf", ["show", "verify", "remove"])
def test_an_unknown_model_is_told_with_what_there_is(installed: Path, leaf: str) -> None:
    with pytest.raises(ModelNotFound, match="installed: c, Org/A"):
        run(installed, leaf, "nothing")


def test_verify_fails_where_one_model_is_not_whole(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(installed, "verify") == 0
    (installed / "c" / "extra").touch()
    assert run(installed, "verify") == 1
    assert "c: NOT OK\n  extra: not in the manifest\nOrg/A: ok\n" in capsys.readouterr().out
    assert run(installed, "verify", "bee") == 0
    (installed / "bad").mkdir()
    (installed / "bad" / "model.toml").write_text("x")
    (installed / "c" / "extra").unlink()
    assert run(installed, "verify") == 1


def test_remove_takes_one_model_or_a_broken_folder(installed: Path) -> None:
    (installed / "bad").mkdir()
    (installed / "bad" / "model.toml").write_text("x")
    assert run(installed, "remove", "bee") == 0
    assert run(installed, "remove", "bad") == 0
    assert [path.name for path in installed.iterdir()] == ["c"]


def test_pull_checks_the_answers_in_the_real_runtime(
    published: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(root, "pull", f"file:{published}", "--name", "tiny") == 0
    out, err = capsys.readouterr()
    assert out.startswith("tiny: embed, 160 tokens, ")
    assert err.splitlines() == [
        "hash",
        "read the weights",
        "convert to ONNX",
        "compute the expected answers",
        "check the answers",
        "install",
    ]
