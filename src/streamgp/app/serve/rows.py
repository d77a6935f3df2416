"""Rows of a request as arrays; a refusal names the row, the column and the remedy."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

LONGEST_ID = 200


class Refusal(Exception):  # noqa: N818  it is an answer, not a fault
    """A request that is answered by an error of the client, or by 503, and changes nothing."""

    def __init__(
        self, status: int, error: str, remedy: str, *, row: int | None = None, column: str | None = None
    ) -> None:
        super().__init__(error)
        self.status = status
        place = {"row": row, "column": column}
        self.content = {"error": error, "remedy": remedy, **{k: v for k, v in place.items() if v is not None}}


@dataclass(frozen=True)
class Columns:
    """Names of the inputs, empty while they are not known, and of the targets."""

    features: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Labelled:
    """Rows to learn, as a request gives them.

    Attributes
    ----------
    features : tuple of str
        Names of the inputs.
    X : (b, d) or None
        None where the ids say which rows are meant.
    y : (b, q)
        NaN where one of several targets is missing.
    ids : tuple of str or None, or None
    """

    features: tuple[str, ...]
    X: np.ndarray | None
    y: np.ndarray
    ids: tuple[str | None, ...] | None


def parsed(body: bytes) -> dict[str, Any]:
    """Return the object that a body of JSON holds."""
    try:
        content = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        text = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise Refusal(
            400, f"the body is not JSON: {text[:200]}", 'send an object such as {"rows": [{"x": 1.5}]}'
        ) from None
    if not isinstance(content, dict):
        raise Refusal(400, "the body is not a JSON object", 'send an object such as {"rows": [{"x": 1.5}]}')
    return content


def _no_constant(name: str) -> NoReturn:
    raise ValueError(
        f"{name} is not a number of JSON; leave the value out, or send null where it may be missing"
    )


def only_keys(content: dict[str, Any], allowed: Sequence[str]) -> None:
    """Refuse an object with other keys: a misspelled one would be ignored without a word."""
    for key in content:
        if key not in allowed:
            raise Refusal(400, f"{key[:60]!r} is not known here", f"send only {', '.join(allowed)}")


def rows_of(content: dict[str, Any], most: int) -> list[Any] | None:
    """Return the rows of a request, one given as `row` too; None where there are none."""
    if "row" in content and "rows" in content:
        raise Refusal(400, "both row and rows are given", "send row for one row, or rows for a list of them")
    if "row" in content:
        return [content["row"]]
    if "rows" not in content:
        return None
    return list_of(content["rows"], "rows", most)


def list_of(value: Any, name: str, most: int) -> list[Any]:
    """Return a list of a request that holds something, and not too much."""
    if not isinstance(value, list):
        raise Refusal(422, f"{name} is not a list", f"send {name} as a list with an entry for each row")
    if not value:
        raise Refusal(422, f"{name} is empty", "send one row or more")
    if len(value) > most:
        raise Refusal(
            413, f"{name} has {len(value)} entries, at most {most} are taken", "send several requests"
        )
    return value


def ids_of(content: dict[str, Any], n: int | None, most: int) -> tuple[str | None, ...] | None:
    """Return the ids of a request for n rows, an `id` of one row too; None where there are none."""
    if "id" in content and "ids" in content:
        raise Refusal(400, "both id and ids are given", "send id for one row, or ids for a list of them")
    if "id" not in content and "ids" not in content:
        return None
    ids = [content["id"]] if "id" in content else list_of(content["ids"], "ids", most)
    if n is not None and len(ids) != n:
        raise Refusal(422, f"{len(ids)} ids for {n} rows", "send an id for each row, null for one without")
    for i, value in enumerate(ids):
        fine = value is None or (isinstance(value, str) and 0 < len(value) <= LONGEST_ID)
        if not fine or (isinstance(value, str) and not value.isprintable()):
            raise Refusal(
                422, f"id {str(value)[:60]!r} of row {i} is not a text of 1 to {LONGEST_ID} printable characters",
                "send ids as texts", row=i, column="id",
            )  # fmt: skip
    known = [value for value in ids if value is not None]
    if len(set(known)) != len(known):
        raise Refusal(422, "an id occurs more than once in the request", "give each row an id of its own")
    return tuple(ids)


def names_of(rows: Sequence[Any], targets: Sequence[str], most: int) -> tuple[str, ...]:
    """Return names for the inputs of the first rows: those of an object, or x1, x2, … of an array."""
    first = rows[0]
    if isinstance(first, dict):
        names = tuple(name for name in first if name not in targets)
    elif isinstance(first, list):
        names = tuple(f"x{i + 1}" for i in range(len(first)))
    else:
        _not_a_row(0)
    if not names:
        raise Refusal(422, "row 0 has no input", "send one input or more in each row", row=0)
    if len(names) > most:
        raise Refusal(413, f"row 0 has {len(names)} columns, at most {most} are taken", "send fewer", row=0)
    return names


def matrix(
    rows: Sequence[Any], names: Sequence[str], *, missing: bool = False, exact: bool = False
) -> np.ndarray:
    """Return rows, each an object or an array, as (n, d) with the columns `names`.

    `missing`: null, or a name that is not there, becomes NaN. `exact`: no other names are allowed.
    """
    out = np.empty((len(rows), len(names)))
    for i, row in enumerate(rows):
        if isinstance(row, dict):
            if exact and (extra := next((name for name in row if name not in names), None)) is not None:
                raise Refusal(
                    422, f"row {i} has the unknown column {extra[:60]!r}", f"send only {', '.join(names)[:200]}",
                    row=i, column=extra[:60],
                )  # fmt: skip
            values = [row.get(name) for name in names]
        elif isinstance(row, list):
            if len(row) != len(names):
                raise Refusal(
                    422, f"row {i} has {len(row)} values, the model has {len(names)} columns",
                    f"send them in the order {', '.join(names)[:200]}, or by name", row=i,
                )  # fmt: skip
            values = row
        else:
            _not_a_row(i)
        for j, value in enumerate(values):
            out[i, j] = _number(value, i, names[j], missing)
    return out


def _not_a_row(i: int) -> NoReturn:
    raise Refusal(
        422, f"row {i} is neither an object nor an array", 'send {"name": number, …} or [number, …]', row=i
    )


def _number(value: Any, i: int, name: str, missing: bool) -> float:
    if type(value) is float or type(value) is int:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
        said = f"{name} of row {i} is beyond the range of numbers"
    elif value is None:
        if missing:
            return math.nan
        said = f"{name} of row {i} is missing"
    else:
        said = f"{name} of row {i} is {value!r:.60}, not a number"
    raise Refusal(422, said, f"send a finite number for {name}, or leave the row out", row=i, column=name)


def labelled(content: dict[str, Any], columns: Columns, most_rows: int, most_columns: int) -> Labelled:
    """Return the rows to learn of a request.

    Targets are in `targets` (or `target`, of one row), or in rows that are objects. Without rows, `ids` say which rows
    the targets belong to.
    """
    only_keys(content, ("row", "rows", "target", "targets", "id", "ids"))
    rows = rows_of(content, most_rows)
    ids = ids_of(content, None if rows is None else len(rows), most_rows)
    n = len(rows if rows is not None else ids or ())
    if not n:
        raise Refusal(422, "neither rows nor ids are given", "send rows with targets, or ids with targets")
    given = _targets_of(content, n, most_rows)
    if given is None:
        if rows is None:
            raise Refusal(422, "no targets are given", "send targets, one for each id")
        given = [
            {name: row.get(name) for name in columns.targets} if isinstance(row, dict) else {} for row in rows
        ]
    if len(columns.targets) == 1:
        given = [[value] if not isinstance(value, dict | list) else value for value in given]
    y = matrix(given, columns.targets, missing=len(columns.targets) > 1, exact=True)
    if (none := np.flatnonzero(np.isnan(y).all(axis=1))).size:
        i, name = int(none[0]), columns.targets[0]
        raise Refusal(422, f"row {i} has no target", f"send {name}, or leave the row out", row=i, column=name)
    if rows is None:
        if ids is None or None in ids:
            raise Refusal(422, "a target has neither a row nor an id", "send an id for each target")
        return Labelled(columns.features, None, y, ids)
    features = columns.features or names_of(rows, columns.targets, most_columns)
    return Labelled(features, matrix(rows, features), y, ids)


def _targets_of(content: dict[str, Any], n: int, most: int) -> list[Any] | None:
    if "target" in content and "targets" in content:
        raise Refusal(400, "both target and targets are given", "send one of them")
    if "target" not in content and "targets" not in content:
        return None
    given = [content["target"]] if "target" in content else list_of(content["targets"], "targets", most)
    if len(given) != n:
        raise Refusal(422, f"{len(given)} targets for {n} rows", "send a target for each row")
    return given


def tensor(content: dict[str, Any], names: Sequence[str], most: int) -> np.ndarray:
    """Return the rows (n, d) of a request of KServe's V2 protocol: a tensor (n, d), or one (n,) for each column."""
    inputs = list_of(content.get("inputs"), "inputs", max(len(names), 1))
    parts = {}
    for one in inputs:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise Refusal(
                422, "an input has no name", 'send {"name": …, "shape": …, "datatype": "FP64", "data": […]}'
            )
        parts[one["name"]] = _flat(one, most * len(names))
    if len(inputs) == 1 and (inputs[0]["name"] not in names or len(names) == 1):
        values, shape = parts[inputs[0]["name"]], inputs[0].get("shape")
        fits = isinstance(shape, list) and shape in ([len(values) // len(names), len(names)], [len(values)])
        if not fits or (len(shape) == 1 and len(names) != 1) or len(values) % len(names):
            raise Refusal(
                422, f"shape {shape!r:.60} is not (n, {len(names)}) with as many data", "send (n, d)"
            )
        return matrix([values[i : i + len(names)] for i in range(0, len(values), len(names))], names)
    if missing := [name for name in names if name not in parts]:
        raise Refusal(
            422, f"the input {missing[0]!r} is missing", "send an input for each column", column=missing[0]
        )
    if len({len(parts[name]) for name in names}) != 1:
        raise Refusal(422, "the inputs differ in length", "send as many data for each column")
    return matrix([list(row) for row in zip(*(parts[name] for name in names), strict=True)], names)


def _flat(one: dict[str, Any], most: int) -> list[Any]:
    """Return the data of a tensor; nested lists are taken, too."""
    if one.get("datatype") not in (
        "FP64",
        "FP32",
        "INT64",
        "INT32",
        "INT16",
        "INT8",
        "UINT8",
        "UINT16",
        "UINT32",
    ):
        raise Refusal(422, f"datatype {one.get('datatype')!r:.60} is not a number", "send FP64")
    data = list_of(one.get("data"), "data", most)
    if all(isinstance(row, list) for row in data):
        data = [value for row in data for value in row]
    return list_of(data, "data", most)
