"""Rows from JSON lines: one object in each line."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Sequence
from typing import Any

from ...errors import DataError
from .base import ReadOptions
from .lines import FileLines, PipeLines
from .text import LineReader, Parse

# Lines that may precede the first object.
_MOST_SEARCHED = 1000


class JsonReader(LineReader):
    """Reader of objects that map names to numbers."""

    # A label that the first row lacks may come later.
    open_ended = True

    def __init__(self, lines: FileLines | PipeLines, options: ReadOptions) -> None:
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

    def _parser(self, features: Sequence[str], targets: Sequence[str]) -> Parse:
        def parse(text: str) -> tuple[list[float], list[float]]:
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"not JSON: {error}") from error
            if not isinstance(row, dict):
                raise ValueError("not an object with names and numbers")
            missing = [name for name in features if row.get(name) is None]
            if missing:
                raise ValueError(f"{missing[0]} is missing")
            x = [_number(row, name) for name in features]
            return x, [math.nan if row.get(name) is None else _number(row, name) for name in targets]

        return parse


def _number(row: dict[str, Any], name: str) -> float:
    value = row[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}={value!r:.60} is not a number")
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"{name}={value} is not finite")
    return value
