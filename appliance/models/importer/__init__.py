"""Turns a published model (config.json, safetensors, tokenizer.json) into a folder of the store."""

from __future__ import annotations

import importlib
import shutil
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol

import numpy as np
import onnx

from appliance.errors import CorruptModel, ModelError, UnsupportedModel
from appliance.models.checksum import file_hash
from appliance.models.golden import GOLDEN_FILE, MIN_COSINE, Golden, GoldenInput, write_golden
from appliance.models.importer import card
from appliance.models.importer.config import ModelConfig
from appliance.models.importer.golden_texts import golden_texts
from appliance.models.importer.reference import pool
from appliance.models.importer.sentence_transformers import SentenceSettings, read_settings
from appliance.models.importer.weights import Array, Weights
from appliance.models.manifest import write_manifest
from appliance.models.model import EmbedSettings, Limits, Model, computed_hash
from appliance.models.progress import Progress
from appliance.models.tokenizer import TOKENIZER_FILE, Tokenizer

# model_type of config.json -> module with `load(config, weights) -> Encoder`, imported when it is needed.
ARCHITECTURES: dict[str, str] = {
    "bert": "appliance.models.importer.bert",
}

ONNX_FILE = "model.onnx"
WEIGHTS_FILE = "model.onnx.data"
_INLINE_BYTES = 1024
# A protobuf message ends at 2 GiB, and the graph is built as one before its weights are put beside it.
_MOST_ONNX_BYTES = 1_500_000_000


class Encoder(Protocol):
    """A checked model: what it is made of, as a graph and as a reference."""

    hidden_size: int
    max_tokens: int
    vocab_size: int

    def graph(self) -> onnx.ModelProto: ...

    def reference(self, sequences: list[list[int]]) -> list[Array]: ...


def import_model(
    folder: Path, staged: Path, name: str, source: str, progress: Progress, *, source_hash: str = ""
) -> Model:
    """Write what is needed of the model in `folder` to `staged`: graph, weights, tokenizer, golden.json, model.toml.

    Raises UnsupportedModel where the model is of a kind that would be answered wrongly, CorruptModel where its
    files contradict each other. The graph itself is not run here: the caller checks it against golden.json.
    """
    progress("read the weights", 0, None)
    config = ModelConfig.read(folder)
    settings = read_settings(folder)
    encoder = _encoder(config, folder)
    tokenizer = _tokenizer(folder, staged, encoder, settings)
    max_tokens = min(settings.max_tokens or encoder.max_tokens, encoder.max_tokens)
    progress("convert to ONNX", 0, None)
    _write_graph(encoder, staged)
    progress("compute the expected answers", 0, None)
    write_golden(_golden(encoder, tokenizer, settings, max_tokens), staged)
    model = Model(
        name=name,
        folder=staged,
        operations=("embed",),
        runtime="onnx",
        limits=Limits(max_tokens=max_tokens, vocab_size=encoder.vocab_size),
        aliases=tuple(alias for alias in card.published_names(folder, name) if alias != name),
        architecture=config.model_type,
        source=source,
        source_hash=source_hash,
        licence=card.licence(folder),
        imported_at=datetime.now(timezone.utc).replace(microsecond=0),
        embed=EmbedSettings(encoder.hidden_size, settings.pooling, settings.normalize),
        files={file: file_hash(staged / file) for file in (ONNX_FILE, WEIGHTS_FILE, TOKENIZER_FILE, GOLDEN_FILE)},
    )
    model = replace(model, content_hash=computed_hash(model))
    write_manifest(model, staged)
    return model


def _encoder(config: ModelConfig, folder: Path) -> Encoder:
    known = ", ".join(sorted(ARCHITECTURES))
    if config.model_type not in ARCHITECTURES:
        found = f"model_type {config.model_type!r}" if config.model_type else "no model_type"
        classes = f" ({', '.join(config.classes)})" if config.classes else ""
        raise UnsupportedModel(f"config.json has {found}{classes}, which cannot be imported; known are: {known}")
    module = importlib.import_module(ARCHITECTURES[config.model_type])
    encoder: Encoder = module.load(config, Weights.open(folder))
    return encoder


def _tokenizer(folder: Path, staged: Path, encoder: Encoder, settings: SentenceSettings) -> Tokenizer:
    if not (folder / TOKENIZER_FILE).is_file():
        raise ModelError(f"{TOKENIZER_FILE} is missing; save the model with its fast tokenizer and try again")
    shutil.copyfile(folder / TOKENIZER_FILE, staged / TOKENIZER_FILE)
    tokenizer = Tokenizer.from_file(staged / TOKENIZER_FILE)
    if tokenizer.vocab_size > encoder.vocab_size:
        raise CorruptModel(
            f"{TOKENIZER_FILE} has {tokenizer.vocab_size} tokens and config.json {encoder.vocab_size}; "
            f"they belong to different models"
        )
    if settings.lowercase and tokenizer.encode(["ABC"]) != tokenizer.encode(["abc"]):
        raise UnsupportedModel("sentence_bert_config.json asks for lower case and tokenizer.json does not do that")
    return tokenizer


def _write_graph(encoder: Encoder, staged: Path) -> None:
    graph = encoder.graph()
    size = graph.ByteSize()
    if size > _MOST_ONNX_BYTES:
        raise UnsupportedModel(f"the model has {size} bytes of weights; up to {_MOST_ONNX_BYTES} can be imported")
    # Weights in a file of their own: ONNX Runtime maps it, so that two sessions of a model read the same pages and a
    # load takes a third of the time (MiniLM: 154 MiB for two sessions instead of 253).
    onnx.save_model(
        graph,
        staged / ONNX_FILE,
        save_as_external_data=True,
        location=WEIGHTS_FILE,
        size_threshold=_INLINE_BYTES,
    )


def _golden(encoder: Encoder, tokenizer: Tokenizer, settings: SentenceSettings, max_tokens: int) -> Golden:
    texts = golden_texts(tokenizer, max_tokens)
    with np.errstate(all="ignore"):  # broken weights are told below, in a sentence
        states = encoder.reference(list(texts.values()))
        vectors = [pool(each, settings.pooling, settings.normalize) for each in states]
    if not all(np.isfinite(vector).all() for vector in vectors):
        raise CorruptModel(
            "the weights give NaN or infinity for ordinary texts; they are broken, fetch the model again"
        )
    inputs = [
        GoldenInput(text, ids, [round(float(value), 7) for value in vector])
        for (text, ids), vector in zip(texts.items(), vectors, strict=True)
    ]
    return Golden("embed", MIN_COSINE, tuple(inputs))
