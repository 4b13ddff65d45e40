"""The commands beside a daemon that runs, and without one."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

import pytest

from appliance import __version__
from tests.golden import FIXTURES, MODEL
from tests.harness import Appliance


def command(office: Appliance, *arguments: str) -> subprocess.CompletedProcess[str]:
    return office.command(*arguments, "--data", str(office.data))


def test_status_is_a_report_for_people(office: Appliance) -> None:
    done = office.command("status", "--port", str(office.port))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"appliance {__version__}: ok\n")
    for word in ("nats-server", "gateway0", "worker cpu", "onnx (up)", MODEL, "ready"):
        assert word in done.stdout


def test_status_as_json_is_health(office: Appliance) -> None:
    done = office.command("status", "--json", "--port", str(office.port))
    assert done.returncode == 0
    assert json.loads(done.stdout)["models"] == [{"name": MODEL, "operations": ["embed"], "state": "ready"}]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_status_without_a_daemon_says_so_and_is_3(tmp_path: Path, options: list[str]) -> None:
    with socket.socket() as sock:  # bound and not listening: nobody else takes it, nobody answers
        sock.bind(("127.0.0.1", 0))
        port = str(sock.getsockname()[1])
        done = Appliance(tmp_path).command("status", "--port", port, *options)
    assert done.returncode == 3
    assert json.loads(done.stdout)["status"] == "not running" if options else "appliance run" in done.stdout


def test_models_are_listed_shown_and_verified(office: Appliance) -> None:
    listed = json.loads(command(office, "models", "list", "--json").stdout)
    assert [model["name"] for model in listed["models"]] == [MODEL]
    assert listed["broken"] == {}
    shown = json.loads(command(office, "models", "show", MODEL, "--json").stdout)
    assert shown["embed"] == {"dimensions": 384, "pooling": "mean", "normalize": True}
    assert MODEL in command(office, "models", "list").stdout
    assert "384" in command(office, "models", "show", MODEL).stdout
    verified = command(office, "models", "verify")
    assert (verified.returncode, verified.stdout) == (0, f"{MODEL}: ok\n")


def test_a_model_is_pulled_found_wrong_and_removed(tmp_path: Path) -> None:
    made = Appliance(tmp_path)
    source = f"file:{FIXTURES / 'bert-embed'}"
    assert command(made, "models", "pull", source, "--name", "tiny").returncode == 0
    again = command(made, "models", "pull", source, "--name", "tiny")
    assert (again.returncode, "already installed as tiny" in again.stderr) == (0, True)
    assert command(made, "models", "verify", "tiny").returncode == 0
    with (made.models / "tiny" / "model.onnx").open("ab") as file:
        file.write(b"\0")
    wrong = command(made, "models", "verify", "tiny")
    assert (wrong.returncode, "model.onnx" in wrong.stdout) == (1, True)
    assert command(made, "models", "remove", "tiny").returncode == 0
    assert list(made.models.iterdir()) == []
    gone = command(made, "models", "remove", "tiny")
    assert (gone.returncode, len(gone.stderr.splitlines())) == (1, 1)


@pytest.mark.parametrize("source", ["file:/nowhere/at/all", "hf:org/name", "nonsense", f"file:{__file__}"])
def test_a_source_that_is_none_is_one_sentence(tmp_path: Path, source: str) -> None:
    done = command(Appliance(tmp_path), "models", "pull", source)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("appliance: ")


def test_check_config_and_version(office: Appliance) -> None:
    checked = office.command("check-config", str(office.config))
    assert (checked.returncode, checked.stdout) == (0, f"{office.config} is good.\n  worker.devices = ('cpu',)\n")
    assert office.command("version").stdout == f"appliance {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["models"], ["models", "show"], ["run", "--port", "x"]])
def test_a_wrong_command_line_is_usage_and_2(office: Appliance, arguments: list[str]) -> None:
    done = office.command(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: appliance")
