from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from appliance.models.catalog import Catalog

from .making import fake_model


def scanned(root: Path) -> Catalog:
    catalog = Catalog(root)
    catalog.scan()
    return catalog


def test_a_missing_folder_is_an_empty_catalogue(root: Path) -> None:
    catalog = scanned(root)
    assert catalog.models == ()
    assert not catalog.is_stale()


def test_names_and_aliases_resolve_whatever_their_case(root: Path) -> None:
    fake_model(root / "b", "B", ("Org/Bee",))
    fake_model(root / "a", "a")
    catalog = scanned(root)
    assert [model.name for model in catalog.models] == ["a", "B"]
    for name in ("b", "B", "org/bee", "ORG/BEE"):
        found = catalog.resolve(name)
        assert found is not None
        assert found.name == "B"


def test_nothing_else_is_tolerated_in_a_name(root: Path) -> None:
    fake_model(root / "a", "a")
    catalog = scanned(root)
    for name in ("", " a", "a ", "a/", "models/a", "org/a", "a.", "á"):
        assert catalog.resolve(name) is None


def test_a_broken_model_does_not_take_the_others_down(root: Path) -> None:
    fake_model(root / "good", "good")
    (root / "bad").mkdir()
    (root / "bad" / "model.toml").write_text("schema = ")
    fake_model(root / "wrong-folder", "other")
    catalog = scanned(root)
    assert [model.name for model in catalog.models] == ["good"]
    assert set(catalog.broken) == {"bad", "wrong-folder"}
    assert "must be named 'other'" in catalog.broken["wrong-folder"]


def test_an_alias_never_shadows_a_name_and_the_clash_is_told(root: Path) -> None:
    fake_model(root / "a", "a", ("b",))
    fake_model(root / "b", "b")
    catalog = scanned(root)
    found = catalog.resolve("b")
    assert found is not None
    assert found.name == "b"
    assert "already names the model 'b'" in catalog.broken["a"]


def test_dotted_folders_and_loose_files_are_no_models(root: Path) -> None:
    fake_model(root / ".staging-x", "x")
    (root / "notes.txt").write_text("x")
    (root / "empty").mkdir()
    catalog = scanned(root)
    assert catalog.models == ()
    assert catalog.broken == {}


def test_a_model_that_cannot_be_read_is_broken_and_lost_and_found_is_nothing(root: Path) -> None:
    (root / "a" / "model.toml").mkdir(parents=True)
    (root / "lost+found").mkdir()
    catalog = scanned(root)
    assert set(catalog.broken) == {"a"}
    assert "Is a directory" in catalog.broken["a"]


def test_the_catalogue_is_stale_after_an_install_a_replacement_and_a_removal(root: Path) -> None:
    catalog = Catalog(root)
    assert catalog.is_stale()
    catalog.scan()
    fake_model(root / "a", "a")
    assert catalog.is_stale()
    catalog.scan()
    assert not catalog.is_stale()
    (root / "a").rename(root / ".old")
    fake_model(root / "a", "a")
    assert catalog.is_stale()
    catalog.scan()
    (root / "a" / "model.toml").unlink()
    (root / "a").rmdir()
    assert catalog.is_stale()


def test_catalogue_and_tokenizer_load_no_numpy() -> None:
    code = (
        "import sys, appliance.models.catalog, appliance.models.tokenizer, appliance.models.golden;"
        "print([m for m in ('numpy', 'onnx', 'safetensors', 'appliance.models.importer') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
