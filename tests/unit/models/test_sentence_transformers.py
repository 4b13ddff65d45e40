from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import ApplianceError, CorruptModel, UnsupportedModel
from appliance.models.importer.sentence_transformers import SentenceSettings, read_settings


def save(folder: Path, *modules: str, pooling: dict[str, Any] | None = None, **files: Any) -> Path:
    """Write what sentence-transformers saves; `files` are further JSON files by stem."""
    paths = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    entries = [{"type": f"sentence_transformers.models.{name}", "path": paths.get(name, "3_Other")} for name in modules]
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "modules.json").write_text(json.dumps(entries))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling or {"pooling_mode_mean_tokens": True}))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def test_a_plain_encoder_is_pooled_by_mean_and_normalised(tmp_path: Path) -> None:
    assert read_settings(tmp_path) == SentenceSettings("mean", True, None)


def test_the_usual_files_are_read(tmp_path: Path) -> None:
    save(
        tmp_path,
        "Transformer",
        "Pooling",
        "Normalize",
        pooling={"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "word_embedding_dimension": 384},
        sentence_bert_config={"max_seq_length": 256, "do_lower_case": True},
        tokenizer_config={"model_max_length": 512},
        config_sentence_transformers={"prompts": {"query": "q: "}, "default_prompt_name": None},
    )
    assert read_settings(tmp_path) == SentenceSettings("cls", True, 256, lowercase=True)


def test_without_a_normalize_module_vectors_keep_their_length(tmp_path: Path) -> None:
    assert not read_settings(save(tmp_path, "Transformer", "Pooling")).normalize


def test_the_tokenizer_limits_where_nothing_else_does(tmp_path: Path) -> None:
    assert read_settings(save(tmp_path, "Transformer", tokenizer_config={"model_max_length": 100})).max_tokens == 100
    assert (
        read_settings(save(tmp_path, "Transformer", tokenizer_config={"model_max_length": int(1e30)})).max_tokens
        is None
    )


def test_a_transformer_in_a_folder_of_its_own_is_found(tmp_path: Path) -> None:
    save(tmp_path, "Transformer", "Pooling", pooling={"pooling_mode": "cls"})
    (tmp_path / "0_Transformer").mkdir()
    assert read_settings(tmp_path / "0_Transformer").pooling == "cls"


@pytest.mark.parametrize(
    ("pooling", "told"),
    [
        ({"pooling_mode_max_tokens": True}, "max_tokens"),
        ({"pooling_mode_lasttoken": True}, "lasttoken"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, "mean \\+ cls"),
        ({"pooling_mode": "weightedmean"}, "weightedmean"),
        ({"pooling_mode_mean_tokens": False}, "of no kind"),
    ],
)
def test_any_other_pooling_is_refused_by_name(tmp_path: Path, pooling: dict[str, Any], told: str) -> None:
    with pytest.raises(UnsupportedModel, match=told):
        read_settings(save(tmp_path, "Transformer", "Pooling", pooling=pooling))


def test_a_further_module_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="Dense"):
        read_settings(save(tmp_path, "Transformer", "Pooling", "Dense"))


def test_a_prompt_that_every_text_would_need_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="'query'"):
        read_settings(save(tmp_path, "Transformer", config_sentence_transformers={"default_prompt_name": "query"}))


@pytest.mark.parametrize(
    "files",
    [
        {"modules": {"a": 1}},
        {"modules": [{"type": "x.Pooling"}]},
        {"modules": [{"type": "x.Pooling", "path": "../other"}]},
        {"sentence_bert_config": []},
        {"sentence_bert_config": {"max_seq_length": "many"}},
        {"sentence_bert_config": {"max_seq_length": 0}},
    ],
)
def test_broken_files_are_named(tmp_path: Path, files: dict[str, Any]) -> None:
    with pytest.raises(CorruptModel) as caught:
        read_settings(save(tmp_path, "Transformer", **files))
    assert isinstance(caught.value, ApplianceError)
    assert f"{next(iter(files))}.json" in caught.value.message
