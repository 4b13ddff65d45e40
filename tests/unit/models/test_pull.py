from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from appliance.errors import CorruptModel, ModelError
from appliance.models import sources
from appliance.models.catalog import Catalog
from appliance.models.golden import check, read_golden
from appliance.models.importer import ONNX_FILE
from appliance.models.model import Model
from appliance.models.pull import pull
from appliance.models.store import Store

from .making import Steps, fake_model, zip_folder
from .onnx_session import OnnxSession

IMPORT = ["read the weights", "convert to ONNX", "compute the expected answers"]


def run_golden(model: Model) -> None:
    check(read_golden(model.folder), OnnxSession(model.folder / ONNX_FILE).answers)


def inside(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir()) if root.exists() else []


def test_a_wheel_becomes_an_installed_model_whose_answers_were_checked(
    published: Path, tmp_path: Path, root: Path
) -> None:
    wheel = zip_folder(published, tmp_path / "tiny-1.0-py3-none-any.whl")
    steps = Steps()
    model = pull(f"file:{wheel}", "org/Tiny", root, run_golden, steps)
    assert steps.seen == ["hash", "unpack", *IMPORT, "check the answers", "install"]
    assert (model.name, model.folder, model.source) == ("org/Tiny", root / "org--tiny", f"file:{wheel}")
    assert Store(root).verify(model) == []
    catalog = Catalog(root)
    catalog.scan()
    assert catalog.resolve("ORG/tiny") == model
    assert inside(root) == ["org--tiny"]


def test_the_name_comes_from_the_source_where_none_is_given(published: Path, root: Path) -> None:
    assert pull(f"file:{published}", None, root, None, Steps()).name == "bert-embed"


def test_pulling_the_same_again_changes_nothing_and_says_so(published: Path, root: Path) -> None:
    first = pull(f"file:{published}", "tiny", root, run_golden, Steps())
    steps = Steps()
    again = pull(f"file:{published}", "tiny", root, None, steps)
    assert steps.seen == ["hash", "already installed as tiny"]
    assert again == first


def test_a_source_that_changed_is_imported_anew(published: Path, root: Path) -> None:
    first = pull(f"file:{published}", "tiny", root, None, Steps())
    (published / "modules.json").write_text('[{"type": "sentence_transformers.models.Transformer", "path": ""}]')
    again = pull(f"file:{published}", "tiny", root, None, Steps())
    assert again.content_hash != first.content_hash
    assert inside(root) == ["tiny"]


def test_a_model_that_lost_a_file_is_pulled_again(published: Path, root: Path) -> None:
    model = pull(f"file:{published}", "tiny", root, None, Steps())
    (model.folder / ONNX_FILE).unlink()
    assert Store(root).verify(pull(f"file:{published}", "tiny", root, None, Steps())) == []


@pytest.mark.parametrize("name", ["m", None])
@pytest.mark.parametrize("source", ["pypi:tiny-model", "pypi:Tiny_Model==1.5"])
def test_an_installed_package_is_not_asked_for_again(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch, source: str, name: str | None
) -> None:
    folder = fake_model(tmp_path / "m", "m")
    text = (folder / "model.toml").read_text()
    (folder / "model.toml").write_text(text.replace('name = "m"', 'name = "m"\nsource = "pypi:tiny-model==1.5"'))
    pull(f"file:{folder}", None, root, None, Steps())

    def refuse(*_: object) -> Path:
        raise AssertionError("asked the network")

    monkeypatch.setattr(sources, "_download", refuse)
    steps = Steps()
    assert pull(source, name, root, None, steps).name == "m"
    assert steps.seen == ["already installed as m"]
    with pytest.raises(AssertionError, match="network"):
        pull("pypi:tiny-model==1.6", name, root, None, Steps())


def test_a_wrong_answer_keeps_the_model_out(published: Path, root: Path) -> None:
    def fail(model: Model) -> None:
        assert model.folder.parent == root
        raise ModelError("golden check: input 0")

    with pytest.raises(ModelError, match="golden check"):
        pull(f"file:{published}", "tiny", root, fail, Steps())
    assert inside(root) == []


def test_a_failed_pull_leaves_the_installed_version_as_it_was(published: Path, root: Path) -> None:
    first = pull(f"file:{published}", "tiny", root, None, Steps())
    (published / "model.safetensors").write_bytes(b"<html>")
    with pytest.raises(CorruptModel, match="HTML"):
        pull(f"file:{published}", "tiny", root, None, Steps())
    assert Store(root).verify(first) == []
    assert inside(root) == ["tiny"]


def test_a_ready_model_is_verified_and_installed_as_it_is(published: Path, root: Path, tmp_path: Path) -> None:
    first = pull(f"file:{published}", "tiny", root, None, Steps())
    exported = Path(shutil.copytree(first.folder, tmp_path / "exported"))
    (exported / "notes.md").write_text("not part of it")
    checked: list[str] = []
    second = pull(f"file:{exported}", None, tmp_path / "other", lambda model: checked.append(model.name), Steps())
    assert second.content_hash == first.content_hash
    assert second.source == first.source
    assert checked == ["tiny"]
    assert Store(tmp_path / "other").verify(second) == []


def test_a_ready_model_that_was_tampered_with_is_refused(published: Path, root: Path, tmp_path: Path) -> None:
    first = pull(f"file:{published}", "tiny", root, None, Steps())
    exported = Path(shutil.copytree(first.folder, tmp_path / "exported"))
    (exported / "golden.json").write_text("{}")
    with pytest.raises(CorruptModel, match=r"golden\.json: its bytes"):
        pull(f"file:{exported}", None, tmp_path / "other", None, Steps())
    (exported / "golden.json").unlink()
    with pytest.raises(CorruptModel, match=r"golden\.json, which is missing"):
        pull(f"file:{exported}", None, tmp_path / "other", None, Steps())
    assert inside(tmp_path / "other") == []


def test_a_ready_model_may_not_bring_a_pickle(tmp_path: Path, root: Path) -> None:
    folder = fake_model(tmp_path / "m", extra='[files]\n"model.bin" = "sha256:' + "0" * 64 + '"')
    with pytest.raises(ModelError, match=r"model\.bin"):
        pull(f"file:{folder}", None, root, None, Steps())


def test_a_fake_model_is_installed_and_can_be_renamed(tmp_path: Path, root: Path) -> None:
    folder = fake_model(tmp_path / "m", "m", ("other",))
    assert pull(f"file:{folder}", None, root, None, Steps()).aliases == ("other",)
    with pytest.raises(ModelError, match="already belongs"):
        pull(f"file:{folder}", "second", root, None, Steps())
    Store(root).remove_folder("m")
    assert pull(f"file:{folder}", "other", root, None, Steps()).aliases == ()


@pytest.mark.parametrize("name", ["../x", "", "a/b/c", ".x"])
def test_a_name_that_is_none_is_refused_before_anything_is_fetched(root: Path, name: str) -> None:
    with pytest.raises(ModelError, match="not a valid name"):
        pull("pypi:whatever", name, root, None, Steps())
    assert not root.exists()


def test_a_taken_name_is_refused_before_the_long_work(published: Path, root: Path, tmp_path: Path) -> None:
    pull(f"file:{fake_model(tmp_path / 'm', 'm', ('tiny',))}", None, root, None, Steps())
    steps = Steps()
    with pytest.raises(ModelError, match="already belongs to the model 'm'"):
        pull(f"file:{published}", "tiny", root, None, steps)
    assert steps.seen == ["hash"]
