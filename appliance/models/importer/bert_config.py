"""What a BERT encoder is made of: its sizes out of config.json, its tensors, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass

from appliance.errors import CorruptModel, UnsupportedModel
from appliance.models.importer.config import ModelConfig
from appliance.models.importer.weights import Weights

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu")

# Buffers and the head for next-sentence prediction: part of the checkpoint, no part of the encoder's output.
_UNUSED = ("pooler.", "embeddings.position_ids", "embeddings.token_type_ids")


@dataclass(frozen=True)
class BertConfig:
    """Sizes of the encoder; `max_positions` is the longest sequence."""

    vocab_size: int
    hidden_size: int
    layers: int
    heads: int
    intermediate_size: int
    max_positions: int
    types: int
    epsilon: float
    activation: str


def read_config(config: ModelConfig) -> BertConfig:
    """Read the sizes. Raises UnsupportedModel for a variant that would give wrong answers."""
    _refuse_variants(config)
    sizes = BertConfig(
        vocab_size=config.count("vocab_size"),
        hidden_size=config.count("hidden_size"),
        layers=config.count("num_hidden_layers"),
        heads=config.count("num_attention_heads"),
        intermediate_size=config.count("intermediate_size"),
        max_positions=config.count("max_position_embeddings"),
        types=config.count("type_vocab_size"),
        epsilon=config.number("layer_norm_eps", 1e-12),
        activation=config.text("hidden_act", "gelu"),
    )
    if sizes.hidden_size % sizes.heads:
        raise CorruptModel(f"config.json: {sizes.hidden_size} hidden units do not divide among {sizes.heads} heads")
    return sizes


def _refuse_variants(config: ModelConfig) -> None:
    for name in config.classes:
        if name != "BertModel":
            raise UnsupportedModel(
                f"these weights are a {name}, that is BERT with a head; only the plain encoder (BertModel) is known yet"
            )
    position = config.text("position_embedding_type", "absolute")
    if position != "absolute":
        raise UnsupportedModel(f"BERT with position_embedding_type {position!r} is not known; absolute is")
    for key in ("is_decoder", "add_cross_attention"):
        if config.is_set(key):
            raise UnsupportedModel(f"BERT with {key} is a decoder; only encoders are known")
    activation = config.text("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        raise UnsupportedModel(f"hidden_act {activation!r} is not known; known are {', '.join(ACTIVATIONS)}")


def canonical(weights: Weights) -> Weights:
    """Return the tensors under today's names: without the prefix `bert.`, LayerNorm's gamma and beta renamed."""

    def rename(name: str) -> str:
        name = name.removeprefix("bert.")
        return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")

    return weights.renamed(rename)


def check_tensors(sizes: BertConfig, weights: Weights) -> None:
    """Raise CorruptModel or UnsupportedModel naming the first tensor that is missing, misshapen or unknown."""
    expected = _shapes(sizes)
    for name, shape in expected.items():
        if name not in weights.names:
            raise CorruptModel(f"tensor {name} is missing from the weights")
        if weights.shape(name) != shape:
            raise CorruptModel(
                f"tensor {name} has shape {list(weights.shape(name))}; config.json makes it {list(shape)}"
            )
    for name in sorted(weights.names - set(expected)):
        if not name.startswith(_UNUSED):
            raise UnsupportedModel(
                f"tensor {name} is no part of a BERT encoder; leaving it out would change the answers"
            )


def _shapes(sizes: BertConfig) -> dict[str, tuple[int, ...]]:
    hidden, inner = sizes.hidden_size, sizes.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (sizes.vocab_size, hidden),
        "embeddings.position_embeddings.weight": (sizes.max_positions, hidden),
        "embeddings.token_type_embeddings.weight": (sizes.types, hidden),
        **_norm("embeddings", hidden),
    }
    for layer in range(sizes.layers):
        at = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            shapes |= _linear(f"{at}.attention.self.{part}", hidden, hidden)
        shapes |= _linear(f"{at}.attention.output.dense", hidden, hidden)
        shapes |= _norm(f"{at}.attention.output", hidden)
        shapes |= _linear(f"{at}.intermediate.dense", inner, hidden)
        shapes |= _linear(f"{at}.output.dense", hidden, inner)
        shapes |= _norm(f"{at}.output", hidden)
    return shapes


def _linear(name: str, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}


def _norm(name: str, size: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.LayerNorm.weight": (size,), f"{name}.LayerNorm.bias": (size,)}
