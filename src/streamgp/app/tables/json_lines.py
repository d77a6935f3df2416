"""Rows from JSON lines: one object in each line."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Sequence
from typing import Any

from ...errors import DataError
from .base import ReadOptions
from .cells import Cells
from .lines import Lines
from .text import LineReader, Parse

# Lines that may precede the first object.
_MOST_SEARCHED = 1000


class JsonReader(LineReader):
    """Reader of objects that map names to numbers."""

    # A label that the first row lacks may come later.
    open_ended = True

    def __init__(self, lines: Lines, options: ReadOptions) -> None:
        super().__init__(lines, options)
        self.columns = self._first_names() if options.columns is None else list(options.columns)
        self._rewind()
        self._resume()

    def _first_names(self) -> list[str]:
        """Return the names in the first line that is an object; the lines before it are bad rows."""
        for i in range(_MOST_SEARCHED):
            line = self._first_line(required=i == 0)
            if line is None:
                break
            try:
                first = json.loads(line.removeprefix(codecs.BOM_UTF8))
            except (ValueError, RecursionError):
                continue
            if isinstance(first, dict):
                return list(first)
        raise DataError('no line is a JSON object such as {"x": 1.5, "y": 2}; is the input JSON lines?')

    def _parser(self, features: Sequence[str], targets: Sequence[str], texts: Sequence[str]) -> Parse:
        cells, known = self.cells, frozenset((*features, *targets, *texts))

        def parse(text: str) -> tuple[list[float], list[float], list[str]]:
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"not JSON: {error}") from error
            if not isinstance(row, dict):
                raise ValueError("not an object with names and numbers")
            if known.isdisjoint(row):
                raise ValueError(f"has none of the names {', '.join(sorted(known))[:200]}")
            x, y = ([_number(row.get(name), name, cells) for name in names] for names in (features, targets))
            return x, y, [cells.text(row.get(name)) for name in texts]

        return parse


def _number(value: Any, name: str, cells: Cells) -> float:
    if value is None or (isinstance(value, str) and cells.is_missing(value)):
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}={value!r:.60} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise ValueError(f"{name}={number} is not finite")
    return number
