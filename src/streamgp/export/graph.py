"""Node: a model as a graph of operations on short vectors, of one row; NumPy, ONNX and C are made from the same graph.

A node is a vector of fixed length. Element by element, a vector of length 1 counts as one of any length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Node:
    """A vector that is computed from others.

    Attributes
    ----------
    op : str
        "input", "constant", the name of an operation in NUMPY, or one of those with constants: "dot", values @ v, and
        "distance", the squared distances of v from the rows of values.
    size : int
    inputs : tuple of Node
    values : array or None
        (size,) of a constant, (size, k) of an operation with constants.
    """

    op: str
    size: int
    inputs: tuple[Node, ...] = ()
    values: np.ndarray | None = None

    def __add__(self, other: Node | float | np.ndarray) -> Node:
        return _elementwise("add", self, other)

    def __sub__(self, other: Node | float | np.ndarray) -> Node:
        return _elementwise("sub", self, other)

    def __mul__(self, other: Node | float | np.ndarray) -> Node:
        return _elementwise("mul", self, other)

    def __truediv__(self, other: Node | float | np.ndarray) -> Node:
        return _elementwise("div", self, other)

    def clipped(self, low: Any, high: Any) -> Node:
        """Return the vector with each element between two bounds, numbers or (size,)."""
        return _elementwise("min", _elementwise("max", self, low), high)

    def apply(self, op: str) -> Node:
        """Return a function of each element: exp, sqrt, log1p, cos or sin."""
        return Node(op, self.size, (self,))

    def sum(self) -> Node:
        """Return the sum, a vector of length 1."""
        return self if self.size == 1 else Node("sum", 1, (self,))

    def dot(self, values: np.ndarray) -> Node:
        """Return values @ self, for values (n, size)."""
        return Node("dot", values.shape[0], (self,), np.asarray(values, dtype=np.float64))

    def distance(self, values: np.ndarray) -> Node:
        """Return the squared distances from the rows of values (n, size)."""
        return Node("distance", values.shape[0], (self,), np.asarray(values, dtype=np.float64))


def constant(values: Any) -> Node:
    """Return a vector that does not depend on the row."""
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    return Node("constant", array.size, (), array)


def joined(nodes: Sequence[Node]) -> Node:
    """Return the elements of all nodes one after the other."""
    kept = tuple(node for node in nodes if node.size)
    return kept[0] if len(kept) == 1 else Node("concat", sum(node.size for node in kept), kept)


def _elementwise(op: str, left: Node, right: Node | float | np.ndarray) -> Node:
    other = right if isinstance(right, Node) else constant(right)
    if left.size != other.size and 1 not in (left.size, other.size):
        raise ValueError(f"{op} of vectors of length {left.size} and {other.size}")
    return Node(op, max(left.size, other.size), (left, other))


def in_order(outputs: Sequence[Node]) -> list[Node]:
    """Return all nodes that the outputs need, each after its inputs."""
    found: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) in found:
            return
        for each in node.inputs:
            visit(each)
        found[id(node)] = node

    for node in outputs:
        visit(node)
    return list(found.values())


# Each operation on arrays (n, size) of n rows.
NUMPY: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "log1p": np.log1p,
    "cos": np.cos,
    "sin": np.sin,
    "sum": lambda v: v.sum(axis=1, keepdims=True),
    "concat": lambda *parts: np.concatenate(parts, axis=1),
    "dot": lambda v, values: v @ values.T,
    "distance": lambda v, values: ((v[:, None, :] - values) ** 2).sum(axis=2),
}


def evaluated(outputs: Sequence[Node], X: np.ndarray, dtype: Any) -> list[np.ndarray]:
    """Return what the outputs are at the rows of X (n, d), computed in `dtype`; (n, size) each."""
    X = np.asarray(X, dtype=dtype)
    known: dict[int, np.ndarray] = {}
    for node in in_order(outputs):
        given = [known[id(each)] for each in node.inputs]
        if node.op == "input":
            value = X
        elif node.op == "constant":
            value = np.broadcast_to(np.asarray(node.values, dtype=dtype), (X.shape[0], node.size))
        else:
            values = [] if node.values is None else [np.asarray(node.values, dtype=dtype)]
            value = NUMPY[node.op](*given, *values)
        known[id(node)] = value
    return [known[id(node)] for node in outputs]
