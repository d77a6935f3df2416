"""A graph as an ONNX model, of operations that every runtime has."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ExportError
from .graph import Node, in_order
from .model import Graph

# Operations of one ONNX operator; the others are made of several below.
OPERATORS = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "exp": "Exp", "sqrt": "Sqrt",
    "cos": "Cos", "sin": "Sin",
}  # fmt: skip
# Operators as of 2021, which runtimes on devices have, too.
OPSET, IR_VERSION = 15, 8


class _Writer:
    """Collects the operators and constants of a graph; each value is a matrix with a row for each row of X."""

    def __init__(self, dtype: Any) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ExportError(
                "ONNX export needs the package onnx; install it with: pip install 'streamgp[onnx]'"
            ) from error
        self.onnx, self.dtype = onnx, np.dtype(dtype)
        self.operators: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: Any, dtype: Any = None) -> str:
        name = f"c{len(self.constants)}"
        array = np.asarray(values, dtype=self.dtype if dtype is None else dtype)
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def operator(self, kind: str, inputs: list[str], output: str | None = None, **more: Any) -> str:
        name = output or f"v{len(self.operators)}"
        self.operators.append(self.onnx.helper.make_node(kind, inputs, [name], **more))
        return name

    def for_each_row(self, name: str, node: Node) -> str:
        """Return the name of a matrix with as many rows as X; what does not depend on X has one."""
        if any(each.op == "input" for each in in_order([node])):
            return name
        zeros = self.operator("Mul", ["X", self.constant([[0.0]])])
        return self.operator("Add", [name, self.operator("ReduceSum", [zeros, self.constant([1], np.int64)])])

    def node(self, node: Node, inputs: list[str]) -> str:
        """Add a node whose inputs have these names; return its name."""
        if node.op == "constant":
            assert node.values is not None
            return self.constant(node.values[None, :])
        if node.op in OPERATORS:
            return self.operator(OPERATORS[node.op], inputs)
        if node.op == "log1p":
            return self.operator("Log", [self.operator("Add", [inputs[0], self.constant([[1.0]])])])
        if node.op == "sum":
            return self.operator("ReduceSum", [inputs[0], self.constant([1], np.int64)], keepdims=1)
        if node.op == "concat":
            each = zip(inputs, node.inputs, strict=True)
            return self.operator("Concat", [self.for_each_row(name, part) for name, part in each], axis=1)
        assert node.values is not None
        if node.op == "dot":
            return self.operator("MatMul", [inputs[0], self.constant(node.values.T)])
        # A distance by differences: a product would lose the digits of points that are near each other.
        rows = self.operator("Unsqueeze", [inputs[0], self.constant([1], np.int64)])
        apart = self.operator("Sub", [rows, self.constant(node.values[None, :, :])])
        squares = self.operator("Mul", [apart, apart])
        return self.operator("ReduceSum", [squares, self.constant([2], np.int64)], keepdims=0)


def as_onnx(graph: Graph, dtype: Any, about: dict[str, str], *, one_dimensional: bool) -> bytes:
    """Return an ONNX model: X (n, d) to mean, std, lower and upper, (n,) if `one_dimensional`, else (n, q).

    `about` is kept as its metadata. O(n r d) memory for n rows.
    """
    writer = _Writer(dtype)
    answers = {"mean": graph.mean, "std": graph.std, "lower": graph.lower, "upper": graph.upper}
    names: dict[int, str] = {}
    order = in_order(list(answers.values()))
    for node in order:
        inputs = [names[id(each)] for each in node.inputs]
        names[id(node)] = "X" if node.op == "input" else writer.node(node, inputs)
    for name, node in answers.items():
        value = writer.for_each_row(names[id(node)], node)
        if one_dimensional:
            writer.operator("Squeeze", [value, writer.constant([1], np.int64)], name)
        else:
            writer.operator("Identity", [value], name)
    onnx, q, d = writer.onnx, graph.mean.size, next(node.size for node in order if node.op == "input")
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    shape = ["n"] if one_dimensional else ["n", q]
    outputs = [onnx.helper.make_tensor_value_info(name, kind, shape) for name in answers]
    inputs = [onnx.helper.make_tensor_value_info("X", kind, ["n", d])]
    made = onnx.helper.make_graph(writer.operators, "streamgp", inputs, outputs, writer.constants)
    opset = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(made, opset_imports=opset, producer_name="streamgp", ir_version=IR_VERSION)
    onnx.helper.set_model_props(model, about)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
