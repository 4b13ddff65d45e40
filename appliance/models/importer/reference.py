"""The forward pass in plain numpy, straight from the safetensors: the second opinion on an ONNX graph."""

from __future__ import annotations

import math

import numpy as np

from appliance.models.importer.bert_config import BertConfig
from appliance.models.importer.weights import Array, Weights


def bert_states(sizes: BertConfig, weights: Weights, sequences: list[list[int]]) -> list[Array]:
    """Return BERT's last hidden states [tokens, hidden] of each sequence (post-norm encoder, arXiv:1810.04805).

    The sequences lie end to end without padding; only attention and positions see where each one ends.
    """
    lengths = [len(ids) for ids in sequences]
    word = weights.read("embeddings.word_embeddings.weight")[np.concatenate(sequences)]
    positions = np.concatenate([np.arange(length) for length in lengths])
    position = weights.read("embeddings.position_embeddings.weight")[positions]
    kind = weights.read("embeddings.token_type_embeddings.weight")[0]
    states = _norm(word + position + kind, weights, "embeddings.LayerNorm", sizes.epsilon)
    for layer in range(sizes.layers):
        states = _layer(sizes, weights, f"encoder.layer.{layer}", states, lengths)
    result: list[Array] = np.split(states, np.cumsum(lengths)[:-1])
    return result


def pool(states: Array, pooling: str, normalize: bool) -> Array:
    """Return one vector [hidden] of the states [tokens, hidden]: their mean, or the first ("cls")."""
    vector: Array = states[0] if pooling == "cls" else states.mean(axis=0)
    if normalize:
        vector = (vector / np.linalg.norm(vector)).astype(np.float32)
    return vector


def _layer(sizes: BertConfig, weights: Weights, at: str, states: Array, lengths: list[int]) -> Array:
    context = _attention(sizes.heads, weights, f"{at}.attention.self", states, lengths)
    attended = _linear(context, weights, f"{at}.attention.output.dense") + states
    attended = _norm(attended, weights, f"{at}.attention.output.LayerNorm", sizes.epsilon)
    inner = _ACTIVATIONS[sizes.activation](_linear(attended, weights, f"{at}.intermediate.dense"))
    output = _linear(inner, weights, f"{at}.output.dense") + attended
    return _norm(output, weights, f"{at}.output.LayerNorm", sizes.epsilon)


def _attention(heads: int, weights: Weights, at: str, states: Array, lengths: list[int]) -> Array:
    parts = [_linear(states, weights, f"{at}.{part}") for part in ("query", "key", "value")]
    ends = np.cumsum(lengths)[:-1]
    sequences = zip(*(np.split(part, ends) for part in parts), strict=True)
    return np.concatenate([_mix(heads, *sequence) for sequence in sequences])


def _mix(heads: int, query: Array, key: Array, value: Array) -> Array:
    """softmax(QK^T / sqrt(d)) V per head, the heads' results side by side."""
    tokens, hidden = query.shape
    query, key, value = (part.reshape(tokens, heads, -1).transpose(1, 0, 2) for part in (query, key, value))
    scores = query @ key.transpose(0, 2, 1) / math.sqrt(hidden // heads)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    mixed: Array = (shares @ value).transpose(1, 0, 2).reshape(tokens, hidden)
    return mixed


def _linear(states: Array, weights: Weights, at: str) -> Array:
    product: Array = states @ weights.read(f"{at}.weight").T + weights.read(f"{at}.bias")
    return product


def _norm(states: Array, weights: Weights, at: str, epsilon: float) -> Array:
    mean = states.mean(axis=-1, keepdims=True)
    variance = states.var(axis=-1, keepdims=True)
    normal = (states - mean) / np.sqrt(variance + np.float32(epsilon))
    result: Array = normal * weights.read(f"{at}.weight") + weights.read(f"{at}.bias")
    return result


def _gelu(x: Array) -> Array:
    """x * Phi(x), Phi by erf; Hendrycks and Gimpel, arXiv:1606.08415."""
    return (x * 0.5 * (1.0 + _erf(x / math.sqrt(2.0)))).astype(np.float32)


def _gelu_tanh(x: Array) -> Array:
    """The tanh approximation of the same paper."""
    return (0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))).astype(np.float32)


def _relu(x: Array) -> Array:
    result: Array = np.maximum(x, np.float32(0.0))
    return result


def _erf(x: Array) -> Array:
    """Abramowitz and Stegun 7.1.26, error below 1.5e-7; numpy has no erf and math.erf is slow on arrays."""
    z = np.abs(x.astype(np.float64))
    t = 1.0 / (1.0 + 0.3275911 * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    result: Array = (np.sign(x) * (1.0 - series * np.exp(-z * z))).astype(np.float32)
    return result


_ACTIVATIONS = {"gelu": _gelu, "gelu_new": _gelu_tanh, "gelu_pytorch_tanh": _gelu_tanh, "relu": _relu}
