"""A BERT encoder as an ONNX graph of ONNX Runtime's fused operators. Builds; never runs it."""

from __future__ import annotations

import numpy as np
import onnx

from appliance.models.importer import reference
from appliance.models.importer.bert_config import BertConfig, canonical, check_tensors, read_config
from appliance.models.importer.config import ModelConfig
from appliance.models.importer.graph import Graph
from appliance.models.importer.weights import Array, Weights

OUTPUT = "last_hidden_state"
ROWS: dict[str, list[str]] = {"slots": ["batch", "sequence"], "places": ["tokens"], "lengths": ["batch"]}
"""Inputs that say how tokens lie in rows: which token is in each place, the place of each, how many a row has.

What is in a place past a row's length is never read.
"""
_FLAT = "flat"


def load(config: ModelConfig, weights: Weights) -> Bert:
    """Check configuration and tensors. Raises UnsupportedModel or CorruptModel naming what is wrong."""
    sizes = read_config(config)
    weights = canonical(weights)
    check_tensors(sizes, weights)
    return Bert(sizes, weights)


class Bert:
    """The encoder of Devlin et al. 2018 (arXiv:1810.04805) as saved by transformers' BertModel."""

    def __init__(self, sizes: BertConfig, weights: Weights) -> None:
        self._sizes = sizes
        self._weights = weights
        self.hidden_size = sizes.hidden_size
        self.max_tokens = sizes.max_positions
        self.vocab_size = sizes.vocab_size

    def reference(self, sequences: list[list[int]]) -> list[Array]:
        """Return the states [tokens, hidden] of each sequence, computed without ONNX."""
        return reference.bert_states(self._sizes, self._weights, sequences)

    def graph(self) -> onnx.ModelProto:
        """Return the model: input_ids, position_ids and those of `ROWS` -> last_hidden_state float32 [tokens, hidden].

        All inputs of a batch lie one after the other, so that no layer computes padding. Attention alone needs them in
        rows of one length; what it does there is a tenth of the work (measured, MiniLM: a batch of texts of 6 to 15
        tokens takes three quarters of the time that it takes padded, one of equal lengths the same).
        """
        graph = Graph()
        graph.constant(_FLAT, [-1, self.hidden_size])
        states = self._embeddings(graph)
        for layer in range(self._sizes.layers):
            at = f"encoder.layer.{layer}"
            output = OUTPUT if layer == self._sizes.layers - 1 else f"{at}.output"
            states = self._feed_forward(graph, at, self._attention(graph, at, states), output)
        inputs = {"input_ids": ["one", "tokens"], "position_ids": ["one", "tokens"], **ROWS}
        return graph.model(inputs, states, ["tokens", self.hidden_size])

    def _embeddings(self, graph: Graph) -> str:
        word = self._keep(graph, "embeddings.word_embeddings.weight")
        # A single text is all of type 0, so that row is added to the positions once and for all.
        types = self._weights.read("embeddings.token_type_embeddings.weight")
        positions = self._weights.read("embeddings.position_embeddings.weight") + types[0]
        position = graph.weight("embeddings.position_and_type", positions)
        norm = self._norm(graph, "embeddings.LayerNorm")
        inputs = ["input_ids", "", word, position, "", *norm, "", "position_ids"]
        states = graph.fused("EmbedLayerNormalization", "embeddings", inputs, 2, epsilon=self._sizes.epsilon)
        return graph.node("Reshape", "embeddings.flat", [states, _FLAT])

    def _attention(self, graph: Graph, at: str, states: str) -> str:
        parts = [f"{at}.attention.self.{part}" for part in ("query", "key", "value")]
        rows = [self._in_rows(graph, part, states) for part in parts]
        bias = np.concatenate([self._weights.read(f"{part}.bias") for part in parts])
        inputs = [*rows, graph.weight(f"{at}.attention.self.bias", bias), "lengths"]
        context = graph.fused("MultiHeadAttention", f"{at}.attention.context", inputs, num_heads=self._sizes.heads)
        flat = graph.node("Reshape", f"{at}.attention.flat", [context, _FLAT])
        tokens = graph.node("Gather", f"{at}.attention.tokens", [flat, "places"], axis=0)
        return self._project(graph, f"{at}.attention.output", tokens, states, f"{at}.attention.output")

    def _in_rows(self, graph: Graph, part: str, states: str) -> str:
        product = graph.node("MatMul", f"{part}.product", [states, self._transposed(graph, f"{part}.weight")])
        return graph.node("Gather", f"{part}.rows", [product, "slots"], axis=0)

    def _feed_forward(self, graph: Graph, at: str, states: str, output: str) -> str:
        dense = f"{at}.intermediate.dense"
        inner = graph.node("MatMul", f"{dense}.product", [states, self._transposed(graph, f"{dense}.weight")])
        bias = self._keep(graph, f"{dense}.bias")
        active = self._activation(graph, f"{at}.intermediate.active", inner, bias)
        return self._project(graph, f"{at}.output", active, states, output)

    def _activation(self, graph: Graph, name: str, inner: str, bias: str) -> str:
        if self._sizes.activation == "relu":
            return graph.node("Relu", name, [graph.node("Add", f"{name}.biased", [inner, bias])])
        # "gelu" is exact, by erf; the other two names mean its tanh approximation.
        op = "BiasGelu" if self._sizes.activation == "gelu" else "FastGelu"
        return graph.fused(op, name, [inner, bias])

    def _project(self, graph: Graph, at: str, states: str, skip: str, output: str) -> str:
        """Linear layer, then the sum with `skip`, then layer normalisation."""
        weight = self._transposed(graph, f"{at}.dense.weight")
        product = graph.node("MatMul", f"{at}.dense.product", [states, weight])
        inputs = [product, skip, *self._norm(graph, f"{at}.LayerNorm"), self._keep(graph, f"{at}.dense.bias")]
        return graph.fused("SkipLayerNormalization", output, inputs, epsilon=self._sizes.epsilon)

    def _norm(self, graph: Graph, at: str) -> list[str]:
        return [self._keep(graph, f"{at}.weight"), self._keep(graph, f"{at}.bias")]

    def _keep(self, graph: Graph, name: str) -> str:
        return graph.weight(name, self._weights.read(name))

    def _transposed(self, graph: Graph, name: str) -> str:
        """PyTorch keeps a linear layer as [out, in]; MatMul wants [in, out]."""
        return graph.weight(f"{name}.T", self._weights.read(name).T)
