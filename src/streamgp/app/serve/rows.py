"""Rows of a request as arrays; a refusal names the row, the column and the remedy."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np

from ..tables.cells import Cells

LONGEST_ID = LONGEST_TEXT = 200


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
    """Names of the columns, and what may be missing in them.

    Attributes
    ----------
    features : tuple of str
        Inputs, those that are numbers first; empty while they are not known.
    targets : tuple of str
    texts : tuple of str
        Inputs that are times and categories.
    gaps : bool
        Whether an input may be null.
    cells : Cells
        Knows the values that mean null.
    """

    features: tuple[str, ...]
    targets: tuple[str, ...]
    texts: tuple[str, ...] = ()
    gaps: bool = False
    cells: Cells = field(default_factory=Cells)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Inputs that are numbers."""
        return tuple(name for name in self.features if name not in self.texts)


@dataclass(frozen=True)
class RawRows:
    """Rows as they were sent: numbers (b, k), NaN where there is none, and t texts a row, empty where there is none."""

    numbers: np.ndarray
    texts: tuple[tuple[str, ...], ...]

    def take(self, rows: Sequence[int]) -> RawRows:
        """Return some of the rows."""
        return RawRows(self.numbers[list(rows)], tuple(self.texts[i] for i in rows))

    @classmethod
    def joined(cls, parts: Sequence[RawRows]) -> RawRows:
        """Return the rows of several, one after another."""
        texts = tuple(row for part in parts for row in part.texts)
        return cls(np.concatenate([part.numbers for part in parts]), texts)


@dataclass(frozen=True)
class Labelled:
    """Rows to learn, as a request gives them.

    Attributes
    ----------
    features : tuple of str
        Names of the inputs.
    raw : RawRows or None
        None where the ids say which rows are meant.
    y : (b, q)
        NaN where one of several targets is missing.
    ids : tuple of str or None, or None
    """

    features: tuple[str, ...]
    raw: RawRows | None
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


def names_of(rows: Sequence[Any], columns: Columns, most: int) -> tuple[str, ...]:
    """Return names for the inputs of the first rows: those of an object, or x1, x2, … of an array."""
    first = rows[0]
    if isinstance(first, dict):
        names = tuple(name for name in first if name not in (*columns.targets, *columns.texts))
    elif isinstance(first, list):
        names = tuple(f"x{i + 1}" for i in range(len(first)))
    else:
        _not_a_row(0)
    lacking = [name for name in columns.texts if not isinstance(first, dict) or name not in first]
    if lacking:
        raise Refusal(
            422, f"row 0 lacks the column {lacking[0]!r}", "send the first rows as objects, by name", row=0,
            column=lacking[0],
        )  # fmt: skip
    names = (*names, *columns.texts)
    if not names:
        raise Refusal(422, "row 0 has no input", "send one input or more in each row", row=0)
    if len(names) > most:
        raise Refusal(413, f"row 0 has {len(names)} columns, at most {most} are taken", "send fewer", row=0)
    return names


def raw_rows(rows: Sequence[Any], columns: Columns) -> RawRows:
    """Return rows, each an object or an array in the order of the inputs."""
    n_numbers = len(columns.numbers)
    numbers, texts = np.empty((len(rows), n_numbers)), []
    for i, row in enumerate(rows):
        values = _values(row, columns.features, i)
        lacking = [name for name in columns.features if name not in row] if isinstance(row, dict) else []
        if lacking:
            hint = f"send {lacking[0]}{', null where it is not known' if columns.gaps else ''}"
            raise Refusal(422, f"{lacking[0]} of row {i} is missing", hint, row=i, column=lacking[0])
        for j, value in enumerate(values[:n_numbers]):
            numbers[i, j] = _number(value, i, columns.features[j], columns.gaps)
        texts.append(
            tuple(
                _text(value, i, name, columns.cells)
                for name, value in zip(columns.texts, values[n_numbers:], strict=True)
            )
        )
    return RawRows(columns.cells.without_missing(numbers) if columns.gaps else numbers, tuple(texts))


def target_rows(rows: Sequence[Any], names: Sequence[str]) -> np.ndarray:
    """Return rows of targets, each an object or an array, as (n, q); one of several may be null, which is NaN."""
    out = np.empty((len(rows), len(names)))
    for i, row in enumerate(rows):
        extra = next((name for name in row if name not in names), None) if isinstance(row, dict) else None
        if extra is not None:
            raise Refusal(
                422, f"row {i} has the unknown column {extra[:60]!r}", f"send only {', '.join(names)[:200]}",
                row=i, column=extra[:60],
            )  # fmt: skip
        for j, value in enumerate(_values(row, names, i)):
            out[i, j] = _number(value, i, names[j], len(names) > 1)
    return out


def _values(row: Any, names: Sequence[str], i: int) -> list[Any]:
    """Return the values of a row in the order of the names."""
    if isinstance(row, dict):
        return [row.get(name) for name in names]
    if not isinstance(row, list):
        _not_a_row(i)
    if len(row) != len(names):
        raise Refusal(
            422, f"row {i} has {len(row)} values, the model has {len(names)} columns",
            f"send them in the order {', '.join(names)[:200]}, or by name", row=i,
        )  # fmt: skip
    return row


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


def _text(value: Any, i: int, name: str, cells: Cells) -> str:
    """Return a time or a category, empty where it is null."""
    if value is not None and not isinstance(value, str | int | float):
        said = f"{name} of row {i} is {value!r:.60}, neither a text nor a number"
        raise Refusal(422, said, f"send {name} as a text", row=i, column=name)
    text = cells.text(value if not isinstance(value, int) or isinstance(value, bool) else _digits(value))
    if len(text) > LONGEST_TEXT or not text.isprintable():
        raise Refusal(
            422, f"{name} of row {i} is {text!r:.60}, not a text of at most {LONGEST_TEXT} printable characters",
            f"send a shorter {name}", row=i, column=name,
        )  # fmt: skip
    return text


def _digits(value: int) -> str:
    # Python refuses to spell a number of thousands of digits.
    return str(value) if abs(value) < 10**LONGEST_TEXT else "9" * (LONGEST_TEXT + 1)


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
    y = target_rows(given, columns.targets)
    if (none := np.flatnonzero(np.isnan(y).all(axis=1))).size:
        i, name = int(none[0]), columns.targets[0]
        raise Refusal(422, f"row {i} has no target", f"send {name}, or leave the row out", row=i, column=name)
    if rows is None:
        if ids is None or None in ids:
            raise Refusal(422, "a target has neither a row nor an id", "send an id for each target")
        return Labelled(columns.features, None, y, ids)
    features = columns.features or names_of(rows, columns, most_columns)
    raw = raw_rows(rows, replace(columns, features=features))
    empty = np.isnan(raw.numbers).all(axis=1) & np.array([not any(row) for row in raw.texts])
    if empty.any():
        i = int(np.flatnonzero(empty)[0])
        raise Refusal(
            422, f"row {i} has no value to predict from", "send one or more, or leave it out", row=i
        )
    return Labelled(features, raw, y, ids)


def _targets_of(content: dict[str, Any], n: int, most: int) -> list[Any] | None:
    if "target" in content and "targets" in content:
        raise Refusal(400, "both target and targets are given", "send one of them")
    if "target" not in content and "targets" not in content:
        return None
    given = [content["target"]] if "target" in content else list_of(content["targets"], "targets", most)
    if len(given) != n:
        raise Refusal(422, f"{len(given)} targets for {n} rows", "send a target for each row")
    return given
