from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from appliance.errors import CorruptModel
from appliance.models.manifest import read_manifest, write_manifest
from appliance.models.model import FakeSettings, Model, computed_hash, folder_name, valid_name

from .making import fake_model

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize("name", ["a", "all-MiniLM-L6-v2", "BAAI/bge-small-en-v1.5", "9x", "a" * 64, "a/" + "b" * 64])
def test_a_name_has_one_or_two_plain_parts(name: str) -> None:
    assert valid_name(name)


@pytest.mark.parametrize(
    "name", ["", "/", "a/", "/a", "a/b/c", ".a", "-a", "a/.b", "a b", "a\n", "ä", "..", "a/..", "a" * 65, "a\\b", "a:b"]
)
def test_any_other_name_is_refused(name: str) -> None:
    assert not valid_name(name)


def test_the_folder_of_a_name_is_lower_case_and_flat() -> None:
    assert folder_name("BAAI/bge-Small") == "baai--bge-small"


def test_what_is_written_reads_back_equal(tmp_path: Path) -> None:
    model = read_manifest(
        fake_model(tmp_path, "org/a", ("b",), '[fake]\na_ms = 40\nfail_marker = "bad \\"word\\"\\t\\u007F"')
    )
    rich = Model(
        **{
            **{name: getattr(model, name) for name in model.__dataclass_fields__},
            "licence": "apache-2.0",
            "imported_at": datetime(2026, 12, 1, 12, 0, tzinfo=timezone.utc),
            "files": {"sub/x y.json": DIGEST},
        }
    )
    write_manifest(rich, tmp_path)
    assert read_manifest(tmp_path) == rich
    assert rich.fake is not None
    assert rich.fake.a_ms == 40.0


def test_a_fake_model_needs_no_fake_table(tmp_path: Path) -> None:
    assert read_manifest(fake_model(tmp_path)).fake == FakeSettings()


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ("surprise = 1", "embed.surprise: unknown key"),
        ("[surprise]", "surprise: unknown key"),
        ("[fake]\na_ms = 'x'", "fake.a_ms: is str"),
        ("[fake]\na_ms = inf", "fake.a_ms: is inf"),
        ("[fake]\nmemory_bytes = 1.5", "fake.memory_bytes: is float"),
        ("[fake]\nmemory_bytes = true", "fake.memory_bytes: is bool"),
        ("[fake]\nfail_mode = 'explode'", "fake.fail_mode: is 'explode'"),
        ("[files]\n'../x' = '" + DIGEST + "'", "files.../x"),
        ("[files]\n'/x' = '" + DIGEST + "'", "files./x"),
        ("[files]\n'x.onnx' = 'sha256:12'", "files.x.onnx"),
        ("[limits]\nmax_tokens = 1", "not TOML"),
    ],
)
def test_a_wrong_key_is_named_with_its_file(tmp_path: Path, extra: str, named: str) -> None:
    with pytest.raises(CorruptModel) as caught:
        read_manifest(fake_model(tmp_path, extra=extra))
    assert str(tmp_path / "model.toml") in caught.value.message
    assert named in caught.value.message


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("schema = 1", "schema = 2", "newer appliance"),
        ('name = "fake"', "", "name: missing"),
        ('name = "fake"', 'name = "../x"', "not a valid name"),
        ('["embed"]', "[]", "operations: at least one"),
        ('["embed"]', '["dance"]', "'dance'"),
        ('["embed"]', "[1]", "a list of strings"),
        ('runtime = "fake"', 'runtime = "torch"', "'torch'"),
        ("max_tokens = 64", "max_tokens = 0", "limits.max_tokens"),
        ("max_tokens = 64", "", "limits.max_tokens: missing"),
        ('pooling = "mean"', 'pooling = "max"', "embed.pooling"),
        ("normalize = true", "normalize = 1", "embed.normalize: is int"),
        ("aliases = []", 'aliases = ["a b"]', "aliases: 'a b'"),
        ("aliases = []", "imported_at = 2026-12-01T12:00:00", "with its offset"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, old: str, new: str, named: str) -> None:
    path = fake_model(tmp_path) / "model.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(CorruptModel, match=r"model\.toml") as caught:
        read_manifest(tmp_path)
    assert named in caught.value.message


def test_the_content_hash_covers_what_decides_the_answer_and_no_name(tmp_path: Path) -> None:
    path = fake_model(tmp_path) / "model.toml"
    model = read_manifest(tmp_path)
    assert model.content_hash == computed_hash(model)
    path.write_text(path.read_text().replace('"fake"', '"other"', 1))
    assert read_manifest(tmp_path).content_hash == model.content_hash
    path.write_text(path.read_text().replace('"mean"', '"cls"'))
    assert read_manifest(tmp_path).content_hash != model.content_hash
