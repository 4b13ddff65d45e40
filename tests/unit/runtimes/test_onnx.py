"""Both kinds of graph: ours, which computes no padding, and those that are published with a mask."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from appliance.models.importer.graph import Graph
from appliance.runtimes.base import Floats, Session, SessionSpec
from appliance.runtimes.onnx import MODEL_FILE, OnnxRuntime

WORDS = np.arange(40, dtype=np.float32).reshape(10, 4)
INPUTS = [[3, 4], [5], [6, 7, 8]]


def load(folder: Path, graph: onnx.ModelProto) -> Session:
    onnx.save_model(graph, folder / MODEL_FILE)
    return OnnxRuntime().load(SessionSpec(folder, "cpu", 1, 1))


def run(session: Session, output: str = "last_hidden_state") -> Floats:
    flat = np.array([token for one in INPUTS for token in one], dtype=np.int32)
    return session.run([len(one) for one in INPUTS], flat)[output]


def published(pools: bool) -> onnx.ModelProto:
    """Looks words up; with `pools` it answers the sum of each row, with the padding's mask times the words."""
    graph = Graph()
    words = graph.node("Gather", "last_hidden_state", [graph.weight("words", WORDS), "input_ids"])
    axes = ["batch", "sequence"]
    inputs = {"input_ids": axes, "attention_mask": axes}
    if not pools:
        return graph.model(inputs, words, [*axes, 4])
    mask = graph.node("Cast", "mask", ["attention_mask"], to=onnx.TensorProto.FLOAT)
    mask = graph.node("Unsqueeze", "columns", [mask, graph.constant("last", [-1])])
    masked = graph.node("Mul", "masked", [words, mask])
    summed = graph.node("ReduceSum", "pooled", [masked, graph.constant("axes", [1])], keepdims=0)
    return graph.model(inputs, summed, ["batch", 4])


def test_the_states_of_a_padded_graph_come_back_without_the_padding(tmp_path: Path) -> None:
    states = run(load(tmp_path, published(pools=False)))
    assert states.tolist() == WORDS[[3, 4, 5, 6, 7, 8]].tolist()


def test_what_a_graph_pooled_itself_is_left_as_it_is(tmp_path: Path) -> None:
    pooled = run(load(tmp_path, published(pools=True)), "pooled")
    assert pooled.tolist() == [WORDS[one].sum(axis=0).tolist() for one in INPUTS]


def test_a_graph_that_computes_no_padding_is_told_where_everything_is(tmp_path: Path) -> None:
    graph = Graph()
    shape = graph.constant("shape", [-1])
    tokens = graph.node("Reshape", "tokens", ["input_ids", shape])
    there = graph.node("Gather", "there", [tokens, "slots"])
    back = graph.node("Gather", "back", [graph.node("Reshape", "rows", [there, shape]), "places"])
    placed = graph.node("Add", "placed", [back, graph.node("Reshape", "positions", ["position_ids", shape])])
    states = graph.node("Cast", "last_hidden_state", [placed], to=onnx.TensorProto.FLOAT)
    one, rows = ["one", "tokens"], ["batch", "sequence"]
    inputs = {"input_ids": one, "position_ids": one, "slots": rows, "places": ["tokens"], "lengths": ["batch"]}
    session = load(tmp_path, graph.model(inputs, states, ["tokens"]))
    assert run(session).tolist() == [token + place for one in INPUTS for place, token in enumerate(one)]


def test_a_pass_that_fails_is_a_runtime_error(tmp_path: Path) -> None:
    session = load(tmp_path, published(pools=False))
    with pytest.raises(RuntimeError, match="ONNX Runtime"):
        session.run([1], np.array([10_000], dtype=np.int32))
