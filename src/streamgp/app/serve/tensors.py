"""Rows as tensors of KServe's V2 protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .rows import Columns, RawRows, Refusal, list_of, raw_rows

_NUMBERS = ("FP64", "FP32", "INT64", "INT32", "INT16", "INT8", "UINT8", "UINT16", "UINT32")


def inputs_of(columns: Columns) -> list[dict[str, Any]]:
    """Return the tensors that are taken: one (n, d), or one for each column where some are texts."""
    if not columns.texts:
        return [{"name": "rows", "datatype": "FP64", "shape": [-1, len(columns.features)]}]
    return [{"name": name, "datatype": _datatype(name, columns), "shape": [-1]} for name in columns.features]


def _datatype(name: str, columns: Columns) -> str:
    return "BYTES" if name in columns.texts else "FP64"


def rows_of_tensors(content: dict[str, Any], columns: Columns, most: int) -> RawRows:
    """Return the rows of a request: a tensor (n, d), where all columns are numbers, or one (n,) for each column."""
    names = columns.features
    inputs = list_of(content.get("inputs"), "inputs", max(len(names), 1))
    parts = {}
    for one in inputs:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise Refusal(
                422, "an input has no name", 'send {"name": …, "shape": …, "datatype": "FP64", "data": […]}'
            )
        parts[one["name"]] = _flat(one, columns, most * len(names))
    if len(inputs) == 1 and not columns.texts and (inputs[0]["name"] not in names or len(names) == 1):
        return raw_rows(_split(parts[inputs[0]["name"]], inputs[0].get("shape"), names), columns)
    if missing := [name for name in names if name not in parts]:
        raise Refusal(
            422, f"the input {missing[0]!r} is missing", "send an input for each column", column=missing[0]
        )
    if len({len(parts[name]) for name in names}) != 1:
        raise Refusal(422, "the inputs differ in length", "send as many data for each column")
    return raw_rows([list(row) for row in zip(*(parts[name] for name in names), strict=True)], columns)


def _split(values: list[Any], shape: Any, names: Sequence[str]) -> list[list[Any]]:
    """Return the rows of a tensor (n, d)."""
    d = len(names)
    fits = isinstance(shape, list) and shape in ([len(values) // d, d], [len(values)])
    if not fits or (len(shape) == 1 and d != 1) or len(values) % d:
        raise Refusal(422, f"shape {shape!r:.60} is not (n, {d}) with as many data", "send (n, d)")
    return [values[i : i + d] for i in range(0, len(values), d)]


def _flat(one: dict[str, Any], columns: Columns, most: int) -> list[Any]:
    """Return the data of a tensor; nested lists are taken, too."""
    wanted = ("BYTES",) if one["name"] in columns.texts else _NUMBERS
    if one.get("datatype") not in wanted:
        raise Refusal(
            422, f"datatype {one.get('datatype')!r:.60} of {one['name'][:60]!r} is not {wanted[0]}",
            f"send {wanted[0]}", column=one["name"][:60],
        )  # fmt: skip
    data = list_of(one.get("data"), "data", most)
    if all(isinstance(row, list) for row in data):
        data = [value for row in data for value in row]
    return list_of(data, "data", most)
