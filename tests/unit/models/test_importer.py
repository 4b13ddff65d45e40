from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from appliance.errors import CorruptModel, ModelError, UnsupportedModel
from appliance.models.golden import check, check_tokens, read_golden
from appliance.models.importer import ONNX_FILE, import_model
from appliance.models.importer.bert import load
from appliance.models.importer.config import ModelConfig
from appliance.models.importer.reference import pool
from appliance.models.importer.weights import SINGLE, Weights
from appliance.models.manifest import read_manifest
from appliance.models.model import Model
from appliance.models.tokenizer import Tokenizer

from .conftest import FIXTURES
from .making import Steps, edit_json, read_tensors, write_tensors
from .onnx_session import OnnxSession

EXPECTED = json.loads((FIXTURES / "bert-embed" / "expected.json").read_text())


def run_import(folder: Path, name: str = "tiny") -> Model:
    staged = folder.parent / "staged"
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    return import_model(folder, staged, name, "file:tiny", Steps(), source_hash="sha256:0")


def expected_ids(model: Model) -> list[list[int]]:
    tokenizer = Tokenizer.load(model)
    return [tokenizer.truncate(ids, EXPECTED["max_length"]) for ids in tokenizer.encode(EXPECTED["texts"])]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return run_import(Path(shutil.copytree(FIXTURES / "bert-embed", tmp_path_factory.mktemp("import") / "bert-embed")))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_graph_answers_as_pytorch_does(imported: Model, pooling: str) -> None:
    vectors = OnnxSession(imported.folder / ONNX_FILE).vectors(expected_ids(imported), pooling)
    assert np.abs(np.array(vectors) - np.array(EXPECTED[pooling])).max() < 1e-4


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_reference_answers_as_pytorch_does(imported: Model, pooling: str) -> None:
    folder = FIXTURES / "bert-embed"
    encoder = load(ModelConfig.read(folder), Weights.open(folder))
    vectors = [pool(states, pooling, True) for states in encoder.reference(expected_ids(imported))]
    assert np.abs(np.array(vectors) - np.array(EXPECTED[pooling])).max() < 1e-5


def test_batched_with_padding_equals_alone(imported: Model) -> None:
    session = OnnxSession(imported.folder / ONNX_FILE)
    sequences = expected_ids(imported)
    assert len({len(ids) for ids in sequences}) > 2
    for ids, together in zip(sequences, session.states(sequences), strict=True):
        (alone,) = session.states([ids])
        assert np.abs(alone - together).max() < 1e-5


def test_the_manifest_says_what_was_imported(imported: Model) -> None:
    model = read_manifest(imported.folder)
    assert model == imported
    assert model.embed is not None
    assert (model.embed.dimensions, model.embed.pooling, model.embed.normalize) == (64, "mean", True)
    assert (model.limits.max_tokens, model.limits.vocab_size) == (160, 1200)
    assert (model.architecture, model.runtime, model.operations) == ("bert", "onnx", ("embed",))
    assert set(model.files) == {"model.onnx", "model.onnx.data", "tokenizer.json", "golden.json"}
    assert model.source_hash == "sha256:0"


def test_the_golden_answers_are_many_kinds_of_text_and_fit_the_graph(imported: Model) -> None:
    golden = read_golden(imported.folder)
    assert len(golden.inputs) == 12
    assert 150 <= max(len(entry.ids) for entry in golden.inputs) <= imported.limits.max_tokens
    check_tokens(golden, Tokenizer.load(imported))
    check(golden, OnnxSession(imported.folder / ONNX_FILE).answers)


def test_the_golden_check_finds_one_changed_layer(imported: Model, tmp_path: Path) -> None:
    graph = onnx.load(imported.folder / ONNX_FILE)
    (weight,) = (entry for entry in graph.graph.initializer if entry.name == "encoder.layer.1.output.LayerNorm.weight")
    weight.raw_data = np.linspace(0, 2, 64, dtype=np.float32).tobytes()
    onnx.save(graph, tmp_path / ONNX_FILE)
    with pytest.raises(ModelError, match="golden check: input"):
        check(read_golden(imported.folder), OnnxSession(tmp_path / ONNX_FILE).answers)


def test_the_graph_is_valid_and_the_same_every_time(imported: Model, published: Path) -> None:
    assert run_import(published).content_hash == imported.content_hash


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"])
def test_every_known_activation_agrees_with_the_reference(published: Path, activation: str) -> None:
    edit_json(published / "config.json", hidden_act=activation)
    model = run_import(published)
    session = OnnxSession(model.folder / ONNX_FILE)
    for entry in read_golden(model.folder).inputs:
        (vector,) = session.vectors([entry.ids])
        assert np.abs(vector - np.array(entry.vector)).max() < 1e-5


def test_activations_differ(published: Path) -> None:
    vectors = []
    for activation in ("gelu", "gelu_new", "relu"):
        edit_json(published / "config.json", hidden_act=activation)
        vectors.append(read_golden(run_import(published).folder).inputs[2].vector)
    assert vectors[0] != vectors[1] != vectors[2]


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_half_precision_weights_are_taken(published: Path, imported: Model, dtype: str) -> None:
    write_tensors(published / SINGLE, read_tensors(published), dtype)
    vectors = OnnxSession(run_import(published).folder / ONNX_FILE).vectors(expected_ids(imported))
    cosines = (np.array(vectors) * np.array(EXPECTED["mean"])).sum(axis=1)
    assert cosines.min() > (0.99999 if dtype == "F16" else 0.999)


def test_older_names_of_tensors_are_taken(published: Path, imported: Model) -> None:
    old = {
        "bert." + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): array
        for name, array in read_tensors(published).items()
    }
    old["bert.pooler.dense.bias"] = np.zeros(64, np.float32)
    write_tensors(published / SINGLE, old)
    assert run_import(published).content_hash == imported.content_hash


def test_the_limit_of_sentence_transformers_counts_up_to_what_the_model_has(published: Path) -> None:
    (published / "modules.json").write_text('[{"type": "sentence_transformers.models.Transformer", "path": ""}]')
    for limit, expected in ((48, 48), (10_000, 160)):
        (published / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": limit}))
        assert run_import(published).limits.max_tokens == expected


def test_the_card_gives_licence_and_published_name(published: Path) -> None:
    load_it = 'model = SentenceTransformer("org/Tiny")\nother = SentenceTransformer("org/else")\n'
    (published / "README.md").write_text(f"---\nlanguage: en\nlicense: apache-2.0\n---\nlicense: mit\n{load_it}")
    model = run_import(published)
    assert model.licence == "apache-2.0"
    assert model.aliases == ("org/Tiny",)


@pytest.mark.parametrize(
    ("folder", "told"),
    [
        ("modernbert-embed", "model_type 'modernbert' (ModernBertModel), which cannot be imported; known are: bert"),
        ("deberta-v3-classify", "model_type 'deberta-v2'"),
        ("xlmr-embed", "model_type 'xlm-roberta'"),
    ],
)
def test_an_unknown_architecture_is_refused_by_name(published: Path, folder: str, told: str) -> None:
    shutil.copyfile(FIXTURES / folder / "config.json", published / "config.json")
    with pytest.raises(UnsupportedModel, match=re.escape(told)):
        run_import(published)


def test_a_head_is_refused_by_name(published: Path) -> None:
    shutil.copyfile(FIXTURES / "bert-classify" / "config.json", published / "config.json")
    with pytest.raises(UnsupportedModel, match="BertForSequenceClassification"):
        run_import(published)


@pytest.mark.parametrize(
    ("changes", "kind", "told"),
    [
        ({"model_type": None}, UnsupportedModel, "no model_type"),
        ({"model_type": 3}, CorruptModel, "model_type is 3"),
        ({"position_embedding_type": "relative_key"}, UnsupportedModel, "relative_key"),
        ({"is_decoder": True}, UnsupportedModel, "is_decoder"),
        ({"add_cross_attention": True}, UnsupportedModel, "add_cross_attention"),
        ({"hidden_act": "swish"}, UnsupportedModel, "swish"),
        ({"hidden_size": None}, CorruptModel, "hidden_size is None"),
        ({"hidden_size": "64"}, CorruptModel, "hidden_size is '64'"),
        ({"num_attention_heads": 5}, CorruptModel, "5 heads"),
        ({"layer_norm_eps": "small"}, CorruptModel, "layer_norm_eps"),
        ({"num_hidden_layers": 3}, CorruptModel, "encoder.layer.2"),
        ({"num_hidden_layers": 1}, UnsupportedModel, "encoder.layer.1"),
        ({"vocab_size": 1100}, CorruptModel, "word_embeddings"),
    ],
)
def test_a_variant_or_a_contradiction_is_named(
    published: Path, changes: dict[str, Any], kind: type[ModelError], told: str
) -> None:
    edit_json(published / "config.json", **changes)
    with pytest.raises(kind, match=re.escape(told)):
        run_import(published)


def without(tensors: dict[str, Any], name: str) -> None:
    del tensors[name]


def misshape(tensors: dict[str, Any], name: str) -> None:
    tensors[name] = tensors[name][:-1]


def poison(tensors: dict[str, Any], name: str) -> None:
    tensors[name] = np.full_like(tensors[name], np.nan)


def overflow(tensors: dict[str, Any], name: str) -> None:
    tensors[name] = np.full_like(tensors[name], -np.inf)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (without, "tensor encoder.layer.1.output.dense.bias is missing"),
        (misshape, "tensor encoder.layer.1.output.dense.bias has shape [63]; config.json makes it [64]"),
        (poison, "NaN or infinity"),
        (overflow, "NaN or infinity"),
    ],
)
def test_a_wrong_tensor_is_named(published: Path, harm: Any, told: str) -> None:
    tensors = read_tensors(published)
    harm(tensors, "encoder.layer.1.output.dense.bias")
    write_tensors(published / SINGLE, tensors)
    with pytest.raises(CorruptModel, match=re.escape(told)):
        run_import(published)


def test_a_tensor_that_would_be_left_out_is_named(published: Path) -> None:
    tensors = read_tensors(published) | {"adapter.down.weight": np.zeros((2, 2), np.float32)}
    write_tensors(published / SINGLE, tensors)
    with pytest.raises(UnsupportedModel, match=re.escape("tensor adapter.down.weight")):
        run_import(published)


def test_a_tokenizer_of_another_model_is_refused(published: Path) -> None:
    tokenizer = json.loads((published / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] |= {f"word{number}": 1200 + number for number in range(5)}
    (published / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(CorruptModel, match="belong to different models"):
        run_import(published)
    (published / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="fast tokenizer"):
        run_import(published)


@pytest.mark.parametrize("content", ["", "[]", "<html>", "[" * 100_000])
def test_a_config_that_is_no_object_is_named(published: Path, content: str) -> None:
    (published / "config.json").write_text(content)
    with pytest.raises(CorruptModel, match=r"config\.json"):
        run_import(published)
