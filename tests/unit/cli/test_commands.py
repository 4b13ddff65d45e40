from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from appliance import __version__
from appliance.__main__ import BAD_CONFIGURATION, main
from appliance.cli import status
from appliance.cli.run import first_words

COMMANDS = [
    ["run"],
    ["status"],
    ["models"],
    ["models", "pull"],
    ["models", "list"],
    ["models", "show"],
    ["models", "verify"],
    ["models", "remove"],
    ["check-config"],
    ["version"],
]


@pytest.mark.parametrize("command", [[], *COMMANDS], ids=" ".join)
def test_every_command_explains_itself(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])
    assert caught.value.code == 0
    assert "usage: appliance" in capsys.readouterr().out


def test_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"appliance {__version__}\n"


def test_check_config_tells_what_differs_from_the_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[server]\nport = 9000\ngateways = 1\n")
    assert main(["check-config", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{path} is good.", "  server.port = 9000"]


def absent(path: Path) -> None:
    """Leave the file out."""


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (absent, "cannot be read"),
        (lambda path: path.write_text("[server]\nprot = 1"), "server.prot"),
        (lambda path: path.write_text("[worker]\ndevices = ['gpu99']"), "gpu99"),
        (lambda path: path.write_text("["), "not valid TOML"),
    ],
)
def test_a_bad_configuration_is_one_sentence_and_status_78(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], object], words: str
) -> None:
    make(tmp_path / "config.toml")
    assert main(["check-config", str(tmp_path / "config.toml")]) == BAD_CONFIGURATION == 78
    err = capsys.readouterr().err
    assert err.startswith("appliance: ")
    assert len(err.splitlines()) == 1
    assert words in err


def test_an_unknown_model_is_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "show", "nothing", "--data", str(tmp_path)]) == 1
    assert "installed: none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:80/"), ("0.0.0.0", "http://127.0.0.1:80/"), ("::", "http://[::1]:80/")],
)
def test_the_first_words_can_be_pasted(host: str, url: str) -> None:
    assert f"curl -s {url}v1/embeddings" in first_words(host, 80, "m")


def test_a_report_without_a_daemon_or_a_worker_is_still_one() -> None:
    health = {
        "version": "1",
        "status": "unavailable",
        "reason": "No worker.",
        "problems": ["No worker is up."],
        "daemon": None,
        "workers": [],
        "models": [],
    }
    lines = list(status.lines(health))
    assert lines[:2] == ["appliance 1: unavailable - No worker.", "  ! No worker is up."]
