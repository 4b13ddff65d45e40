from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from appliance import config as configuration
from appliance.config import Config
from appliance.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LISTED = Path(__file__).parents[2] / "config.toml"
SETTINGS = [
    (section.name, setting)
    for section in dataclasses.fields(Config)
    for setting in dataclasses.fields(section.default_factory)  # type: ignore[arg-type]
]


def plain(table: dict[str, Any]) -> dict[str, Any]:
    """Tuples as TOML has them."""
    return {
        section: {key: list(value) if isinstance(value, tuple) else value for key, value in body.items()}
        for section, body in table.items()
    }


def test_config_toml_lists_every_setting_with_its_default() -> None:
    listed = tomllib.loads(LISTED.read_text(encoding="utf-8"))
    assert listed == plain(configuration.to_table(Config()))
    assert configuration.load(LISTED) == Config()


@pytest.mark.parametrize(("section", "setting"), SETTINGS, ids=[f"{s}.{f.name}" for s, f in SETTINGS])
def test_config_toml_says_what_the_declaration_says(section: str, setting: dataclasses.Field[Any]) -> None:
    body = re.split(r"^\[(\w+)\]$", LISTED.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = body[body.index(section) + 1]
    comment = re.search(rf"((?:^#.*\n)+)^{setting.name} = ", text, flags=re.MULTILINE)
    assert comment is not None
    words = " ".join(line.lstrip("# ") for line in comment[1].splitlines())
    assert setting.metadata["doc"] in words
    for bound in (setting.metadata["low"], setting.metadata["high"]):
        assert bound is None or str(bound) in words


@pytest.mark.parametrize(
    ("text", "param", "words"),
    [
        ("[sever]\nport = 1", "sever", "sever"),
        ("port = 1", "port", "port"),
        ("server = 1", "server", "section"),
        ("[server]\nprot = 1", "server.prot", "not a setting"),
        ("[server]\nport = '80'", "server.port", "a whole number"),
        ("[server]\nport = 80.0", "server.port", "a whole number"),
        ("[server]\nport = true", "server.port", "a whole number"),
        ("[server]\nport = 65536", "server.port", "from 0 to 65535"),
        ("[server]\nport = -1", "server.port", "from 0 to 65535"),
        ("[server]\nhost = 5", "server.host", "a string"),
        ("[server]\nrequest_timeout_s = nan", "server.request_timeout_s", "from 0.1"),
        ("[server]\nrequest_timeout_s = inf", "server.request_timeout_s", "from 0.1"),
        ("[server]\nrequest_timeout_s = 0", "server.request_timeout_s", "from 0.1"),
        ("[worker]\ndevices = 'cpu'", "worker.devices", "a list of strings"),
        ("[worker]\ndevices = []", "worker.devices", "a list of strings"),
        ("[worker]\ndevices = ['cpu', 1]", "worker.devices", "a list of strings"),
        ("[log]\nlevel = 'loud'", "log.level", "debug, info, warning, error"),
        ("[log]\nrequests = 1", "log.requests", "true or false"),
        ("[log]\nformat = {}", "log.format", "a string"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, param: str, words: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        configuration.load(path)
    assert caught.value.param == param
    assert param in caught.value.message
    assert words in caught.value.message
    assert str(path) in caught.value.message


@pytest.mark.parametrize("content", [b"[server", b"\xff\xfe", b"a = 1\na = 2"])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="is not valid TOML"):
        configuration.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml cannot be read: No such file"):
        configuration.load(tmp_path / "missing.toml")


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.toml").touch()
    assert configuration.load(tmp_path / "config.toml") == Config() == configuration.load(None)


def test_whole_numbers_are_taken_where_fractions_are_meant() -> None:
    config = configuration.from_table({"server": {"request_timeout_s": 5}}, "test")
    assert type(config.server.request_timeout_s) is float


def test_the_command_line_wins_over_the_file() -> None:
    config = configuration.from_table({"server": {"host": "127.0.0.9", "port": 9}, "data": {"dir": "d"}}, "test")
    assert configuration.replaced(config) == config
    changed = configuration.replaced(config, host="127.0.0.2", port=0, data="elsewhere")
    assert (changed.server.host, changed.server.port, changed.data_dir) == ("127.0.0.2", 0, Path("elsewhere"))


def test_a_table_round_trips() -> None:
    config = configuration.from_table({"worker": {"devices": ["cpu", "virtual1"]}, "queue": {"max_items": 3}}, "test")
    assert configuration.from_table(configuration.to_table(config), "again") == config


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().server.port = 1  # type: ignore[misc]
