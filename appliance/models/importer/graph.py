"""Writes an ONNX graph node by node. Knows the format and nothing of models."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Old enough for every ONNX Runtime that serves an old GPU (1.22 onwards), new enough for what is used here.
IR_VERSION = 10
OPSET = 17

# ONNX Runtime's own operators: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
FUSED = "com.microsoft"


class Graph:
    """A graph under construction; every method that adds a value returns its name."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def weight(self, name: str, array: np.ndarray[Any, Any]) -> str:
        """Add a constant tensor, stored in the file."""
        self._weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def constant(self, name: str, values: list[int]) -> str:
        """Add a constant of integers, as shapes are."""
        return self.weight(name, np.array(values, dtype=np.int64))

    def fused(self, op: str, name: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> str:
        """Add one of ONNX Runtime's own operators; its further outputs are named `<name>.1`, `<name>.2`."""
        return self.node(op, name, inputs, outputs, domain=FUSED, **attributes)

    def node(self, op: str, name: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> str:
        names = [name, *(f"{name}.{index}" for index in range(1, outputs))]
        self._nodes.append(helper.make_node(op, inputs, names, name=name, **attributes))
        return name

    def model(self, inputs: dict[str, list[str]], output: str, shape: list[str | int]) -> onnx.ModelProto:
        """Finish: `inputs` are int32 tensors by name with their named axes, `output` is float32."""
        graph = helper.make_graph(
            self._nodes,
            "appliance",
            [helper.make_tensor_value_info(name, TensorProto.INT32, axes) for name, axes in inputs.items()],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
            self._weights,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="appliance")
