"""A graph as one file of C99 that needs nothing but the mathematics of the standard library.

Products run over columns, so that a compiler may use vector instructions without changing the order of a sum; of a
triangle half is kept. Work arrays are on the stack, so that functions may be called from several threads.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

from ..errors import ExportError
from .graph import Node, in_order
from .model import Graph

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
CALLS = {
    "max": "fmax",
    "min": "fmin",
    "exp": "exp",
    "sqrt": "sqrt",
    "log1p": "log1p",
    "cos": "cos",
    "sin": "sin",
}
# Numbers on a line of a table.
PER_LINE = 8


class _Writer:
    """Writes tables and functions in one type; tables are shared by all functions."""

    def __init__(self, dtype: Any, prefix: str) -> None:
        self.dtype, self.prefix = np.dtype(dtype), prefix
        self.suffix = "f" if self.dtype == np.float32 else ""
        self.digits = 9 if self.suffix else 17
        self.tables: list[str] = []
        # The name of the table of an array, which is held so that its id stays its own.
        self.known: dict[int, tuple[str, np.ndarray]] = {}
        self.bytes = 0

    def number(self, value: float) -> str:
        """Return a constant of the type that reads back to the same bits."""
        if np.isinf(value):
            return "-INFINITY" if value < 0 else "INFINITY"
        text = f"{self.dtype.type(value):.{self.digits}g}"
        return (text if re.search(r"[.e]", text) else text + ".0") + self.suffix

    def table(self, values: np.ndarray, order: np.ndarray | None = None) -> str:
        """Return the name of the table of an array, whose numbers are in another `order` if it is given."""
        if id(values) not in self.known:
            name, numbers = f"t{len(self.tables)}", np.ravel(values if order is None else order)
            texts = [self.number(float(v)) for v in numbers]
            lines = [", ".join(texts[i : i + PER_LINE]) for i in range(0, len(texts), PER_LINE)]
            head = f"static const {self.prefix}_real {name}[{len(texts)}] = {{"
            self.tables.append(head + "\n" + ",\n".join(lines) + "};")
            self.bytes += len(texts) * self.dtype.itemsize
            self.known[id(values)] = name, values
        return self.known[id(values)][0]

    def product(self, node: Node, name: str, given: str) -> list[str]:
        """Return the lines that compute a node with constants, from the vector `given`."""
        values = node.values
        assert values is not None
        (n, k), real = values.shape, f"{self.prefix}_real"
        triangle = node.op == "dot" and n == k > 1 and not np.tril(values, -1).any()
        columns = [values[: j + 1 if triangle else n, j] for j in range(k)]
        table, rows = self.table(values, np.concatenate(columns)), "j + 1" if triangle else str(n)
        begin = f"{table} + j * (j + 1) / 2" if triangle else f"{table} + j * {n}"
        body = "o[i] += c[i] * v;" if node.op == "dot" else f"{{ const {real} a = v - c[i]; o[i] += a * a; }}"
        return [
            f"for (int i = 0; i < {n}; i++) {name}[i] = 0;",
            f"for (int j = 0; j < {k}; j++) {{",
            f"    const {real} *c = {begin}, v = {given}[j]; {real} *o = {name};",
            f"    for (int i = 0; i < {rows}; i++) {body}",
            "}",
        ]

    def body(self, answers: dict[str, Node]) -> list[str]:
        """Return the lines that compute the answers from x into arrays of their names."""
        order, real = in_order(list(answers.values())), f"{self.prefix}_real"
        uses = Counter(id(each) for node in order for each in node.inputs)
        names: dict[int, str] = {}
        lines: list[str] = []
        arrays = {
            id(each)
            for node in order
            if node.op in ("sum", "dot", "distance", "concat")
            for each in node.inputs
        }

        def term(node: Node) -> str:
            """Return element i of a node as an expression."""
            if node.op == "constant":
                assert node.values is not None
                same = bool((node.values == node.values[0]).all())
                return self.number(float(node.values[0])) if same else f"{self.table(node.values)}[i]"
            if id(node) in names:
                return f"{names[id(node)]}[{'i' if node.size > 1 else 0}]"
            parts = [term(each) for each in node.inputs]
            if node.op in INFIX:
                return f"({parts[0]} {INFIX[node.op]} {parts[1]})"
            return f"{CALLS[node.op]}{self.suffix}({', '.join(parts)})"

        for node in order:
            if node.op == "input":
                names[id(node)] = "x"
            if node.op == "input" or (node.op == "constant" and id(node) not in arrays):
                continue
            made = node.op in ("sum", "dot", "distance", "concat")
            if not made and uses[id(node)] == 1 and id(node) not in arrays:
                continue  # part of the expression that uses it
            name = f"v{len(names)}"
            lines.append(f"{real} {name}[{node.size}];")
            lines += self.statement(node, name, names, term)
            names[id(node)] = name
        for name, node in answers.items():
            lines.append(f"for (int i = 0; i < {node.size}; i++) {name}[i] = {term(node)};")
        return lines

    def statement(self, node: Node, name: str, names: dict[int, str], term: Any) -> list[str]:
        """Return the lines that compute one node into the array `name`."""
        if node.op in ("dot", "distance"):
            return self.product(node, name, names[id(node.inputs[0])])
        if node.op == "sum":
            [given] = node.inputs
            return [
                f"{name}[0] = 0;",
                f"for (int i = 0; i < {given.size}; i++) {name}[0] += {names[id(given)]}[i];",
            ]
        if node.op == "concat":
            lines, start = [], 0
            for part in node.inputs:
                lines.append(
                    f"for (int i = 0; i < {part.size}; i++) {name}[{start} + i] = {names[id(part)]}[i];"
                )
                start += part.size
            return lines
        return [f"for (int i = 0; i < {node.size}; i++) {name}[i] = {term(node)};"]

    def function(self, name: str, answers: dict[str, Node], d: int) -> str:
        """Return a function that computes the answers."""
        real = f"{self.prefix}_real"
        arguments = ", ".join(f"{real} {each}[{node.size}]" for each, node in answers.items())
        lines = self.body(answers)
        finite = " && ".join(f"isfinite({each}[i])" for each in answers)
        [q] = {node.size for node in answers.values()}
        lines.append(f"for (int i = 0; i < {q}; i++) if (!({finite})) return 1;")
        lines.append("return 0;")
        head = f"int {self.prefix}_{name}(const {real} x[{d}], {arguments})"
        return head + "\n{\n" + "\n".join("    " + line for line in lines) + "\n}"


def as_c(graph: Graph, dtype: Any, about: dict[str, str], prefix: str = "streamgp") -> str:
    """Return a file of C99 with PREFIX_mean and PREFIX_predict; `about` is its first comment."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", prefix):
        raise ExportError(f"prefix={prefix!r} must be a name in C: letters, digits and _, no digit first")
    writer = _Writer(dtype, prefix)
    answers = {"mean": graph.mean, "std": graph.std, "lower": graph.lower, "upper": graph.upper}
    d = next(node.size for node in in_order(list(answers.values())) if node.op == "input")
    interval = f"{graph.probability:.0%} interval"
    functions = [
        ("The mean alone: far cheaper.", "mean", {"mean": graph.mean}),
        (f"Mean and std of a new observation, and the ends of its {interval}.", "predict", answers),
    ]
    status = "Returns 0; or 1 where x, or an answer, is not a finite number."
    texts = [f"/* {text} {status} */\n" + writer.function(name, what, d) for text, name, what in functions]
    kind = "float" if writer.suffix else "double"
    comment = "\n".join(f" * {name}: {value}" for name, value in about.items()).replace("*/", "* /")
    parts = [
        f"/*\n{comment}\n * tables: {writer.bytes} bytes, read only\n * Compile as C99 or later, without -ffast-math; "
        "link with -lm.\n */",
        "#include <math.h>",
        f"#define {prefix.upper()}_FEATURES {d}\n#define {prefix.upper()}_OUTPUTS {graph.mean.size}",
        f"typedef {kind} {prefix}_real;",
        f"int {prefix}_mean(const {prefix}_real x[{d}], {prefix}_real mean[{graph.mean.size}]);",
        *writer.tables,
        *texts,
    ]
    return "\n\n".join(parts) + "\n"
