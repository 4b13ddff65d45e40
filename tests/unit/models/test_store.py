from __future__ import annotations

import errno
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.errors import ModelError
from appliance.models import exchange
from appliance.models.catalog import Catalog
from appliance.models.checksum import file_hash
from appliance.models.manifest import read_manifest, write_manifest
from appliance.models.model import Model, computed_hash
from appliance.models.store import Store

from .making import fake_model


def stage(staged: Path, name: str, content: str = "{}", aliases: tuple[str, ...] = ()) -> Model:
    """Write a whole model with one file to `staged`."""
    fake_model(staged, name, aliases)
    (staged / "golden.json").write_text(content)
    model = replace(read_manifest(staged), files={"golden.json": file_hash(staged / "golden.json")})
    model = replace(model, content_hash=computed_hash(model))
    write_manifest(model, staged)
    return model


def install(store: Store, name: str, content: str = "{}", aliases: tuple[str, ...] = ()) -> Model:
    with store.staging() as staged:
        return store.install(staged, stage(staged, name, content, aliases))


def inside(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_an_installed_model_is_whole_and_readable_for_other_users(root: Path) -> None:
    model = install(Store(root), "Org/A")
    assert model.folder == root / "org--a"
    assert Store(root).verify(model) == []
    assert model.folder.stat().st_mode & 0o777 == 0o755
    assert (model.folder / "golden.json").stat().st_mode & 0o777 == 0o644
    assert inside(root) == ["org--a"]


def test_a_newer_version_replaces_the_older_one(root: Path) -> None:
    old = install(Store(root), "a", "[1]")
    new = install(Store(root), "a", "[2]")
    assert new.content_hash != old.content_hash
    assert (root / "a" / "golden.json").read_text() == "[2]"
    assert inside(root) == ["a"]


@pytest.mark.parametrize("has_exchange", [True, False])
def test_folders_are_swapped_with_and_without_help_of_the_kernel(
    tmp_path: Path, has_exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_exchange:
        monkeypatch.setattr(exchange, "_exchange", lambda one, other: False)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    exchange.swap(tmp_path / "one", tmp_path / "two")
    assert inside(tmp_path) == ["one", "two"]
    assert inside(tmp_path / "one") == ["two"]
    assert inside(tmp_path / "two") == ["one"]


def test_a_scan_never_sees_a_half_model_or_none_while_it_is_replaced(root: Path) -> None:
    store = Store(root)
    install(store, "a", "[0]")
    wrong: list[str] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            catalog = Catalog(root)
            catalog.scan()
            if catalog.broken or len(catalog.models) != 1:
                wrong.append(f"{catalog.broken} {catalog.models}")

    watcher = threading.Thread(target=watch)
    watcher.start()
    for number in range(30):
        install(store, "a", f"[{number}]")
    done.set()
    watcher.join()
    assert wrong == []


def test_a_model_whose_files_are_not_what_it_says_is_not_installed(root: Path) -> None:
    store = Store(root)
    with store.staging() as staged:
        model = stage(staged, "a")
        (staged / "golden.json").write_text("[3]")
        with pytest.raises(ModelError, match="SHA-256 differs"):
            store.install(staged, model)
    assert inside(root) == []


@pytest.mark.parametrize(("name", "aliases"), [("b", ("A",)), ("b", ("x",)), ("x", ()), ("org--a", ()), ("X", ("b",))])
def test_a_name_that_belongs_to_another_model_is_refused(root: Path, name: str, aliases: tuple[str, ...]) -> None:
    store = Store(root)
    install(store, "a", aliases=("x",))
    install(store, "org/a")
    with pytest.raises(ModelError, match="already belongs to the model"):
        install(store, name, aliases=aliases)
    assert inside(root) == ["a", "org--a"]


def test_leftovers_of_a_crash_are_swept_and_living_work_is_not(root: Path) -> None:
    store = Store(root)
    dead = root / ".staging-dead"
    dead.mkdir(parents=True)
    (dead / "model.onnx").write_bytes(b"half")
    with store.staging() as living:
        install(store, "a")
        assert living.exists()
        assert not dead.exists()


def test_a_full_disk_is_said_plainly_and_leaves_nothing_behind(root: Path) -> None:
    def fill() -> None:
        with Store(root).staging() as staged:
            (staged / "part").write_bytes(b"x")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(ModelError, match=r"disk .* is full"):
        fill()
    assert inside(root) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match="cannot be written"), Store(tmp_path / "file" / "models").staging():
        pass


def test_removing_a_model_leaves_nothing(root: Path) -> None:
    store = Store(root)
    store.remove(install(store, "a"))
    assert inside(root) == []


def tamper(model: Model) -> None:
    (model.folder / "golden.json").write_text("[]")


def delete(model: Model) -> None:
    (model.folder / "golden.json").unlink()


def add(model: Model) -> None:
    (model.folder / "extra.json").touch()


def link_symbolically(model: Model) -> None:
    content = model.folder.parent / "elsewhere"
    (model.folder / "golden.json").rename(content)
    (model.folder / "golden.json").symlink_to(content)


def link_hard(model: Model) -> None:
    os.link(model.folder / "golden.json", model.folder.parent / "elsewhere")


def link_folder(model: Model) -> None:
    (model.folder / "sub").symlink_to(model.folder.parent)


def edit_manifest(model: Model) -> None:
    path = model.folder / "model.toml"
    path.write_text(path.read_text().replace('"mean"', '"cls"'))


def remove_folder(model: Model) -> None:
    Store(model.folder.parent).remove(model)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (tamper, "golden.json: its bytes"),
        (delete, "golden.json: missing"),
        (add, "extra.json: not in the manifest"),
        (link_symbolically, "golden.json: is a symbolic link"),
        (link_hard, "golden.json: has a second hard link"),
        (link_folder, "sub: not in the manifest"),
    ],
)
def test_verify_finds_what_was_done_to_the_files(root: Path, harm: object, told: str) -> None:
    store = Store(root)
    model = install(store, "a")
    assert callable(harm)
    harm(model)
    (problem,) = store.verify(model)
    assert problem.startswith(told)


def test_verify_finds_an_edited_manifest(root: Path) -> None:
    store = Store(root)
    edit_manifest(install(store, "a"))
    (problem,) = store.verify(read_manifest(root / "a"))
    assert problem.startswith("model.toml: content_hash")


def test_verify_finds_a_missing_folder_and_leaves_tuned_profiles_alone(root: Path) -> None:
    store = Store(root)
    model = install(store, "a")
    (model.folder / "profiles").mkdir()
    (model.folder / "profiles" / "cpu.toml").touch()
    assert store.verify(model) == []
    remove_folder(model)
    assert store.verify(model) == [f"{root / 'a'}: missing"]
