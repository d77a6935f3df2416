"""Rows from CSV.

Numbers are read as Python reads them, but only ASCII digits and no underscores. Readers of whole files
(pyarrow's, pandas') do not say on which line a row was, and a stray quote costs them the rows up to the next one.
"""

from __future__ import annotations

import codecs
import csv
import math
import re
from collections.abc import Sequence

from ...errors import DataError
from .base import ReadOptions, check_names, numbered
from .cells import Cells, is_number
from .lines import Lines
from .text import LineReader, Parse


class CsvReader(LineReader):
    """Reader of cells between delimiters, the same number in each line."""

    def __init__(self, lines: Lines, options: ReadOptions) -> None:
        super().__init__(lines, options)
        line = self._first_line(required=options.columns is None)
        text = (line or b"").removeprefix(codecs.BOM_UTF8).decode(options.encoding, "replace").strip("\r\n")
        self.delimiter = options.delimiter or _delimiter_in(text, options.decimal)
        try:
            first = [cell.strip() for cell in self._split(text)]
        except ValueError as error:
            raise DataError(f"the first line, {text[:60]!r}, is {error}") from error
        if options.columns is not None:
            self.columns = list(options.columns)
            check_names(self.columns)
            if line is not None and numbered(first)[0] != self.columns:
                _check_is_row(first, self.columns)
                self._rewind()
        elif not options.header:
            self.columns = [str(i + 1) for i in range(len(first))]
            self._rewind()
        elif all(is_number(cell) for cell in first):
            raise DataError(
                f"the first line, {text[:60]!r}, holds numbers instead of column names; name the columns with "
                "--columns, or call them 1, 2, 3, … with --no-header (`tail -n +1 -f` sends the first line too)"
            )
        else:
            self.columns, self.unnamed = numbered(first)
        self._resume()

    def _split(self, text: str) -> list[str]:
        if '"' not in text:
            return text.split(self.delimiter)
        try:
            return next(csv.reader([text], delimiter=self.delimiter, strict=True))
        except (csv.Error, StopIteration) as error:
            raise ValueError(f"not a line of CSV: {error}") from error

    def _is_empty(self, text: str) -> bool:
        return not text.strip(self.delimiter + ' "\t\r')

    def _parser(self, features: Sequence[str], targets: Sequence[str], texts: Sequence[str]) -> Parse:
        width, cells_of, plain = len(self.columns), self.cells, self.cells.plain
        # A table to predict may have no targets, and one that brings labels no features.
        names = [name for name in dict.fromkeys((*features, *targets)) if name in self.columns]
        numbers = [self.columns.index(name) for name in names]
        place = {name: j for j, name in enumerate(names)}
        inputs, labels = ([place.get(name, len(names)) for name in part] for part in (features, targets))
        other = [self.columns.index(name) if name in self.columns else None for name in texts]
        # Where all columns are there, features and then targets, nothing has to be put in its place.
        in_order, n = [*inputs, *labels] == list(range(len(names))), len(inputs)

        def parse(text: str) -> tuple[list[float], list[float], list[str]]:
            cells = self._split(text)
            if len(cells) != width:
                raise ValueError(f"{len(cells)} cells, expected {width}")
            odd = not plain or "_" in text or not text.isascii()
            try:
                values = None if odd else [float(cells[i]) for i in numbers]
            except ValueError:
                values = None
            if values is None or math.inf in values or -math.inf in values:
                values = [_number(cells_of, cells[i], self.columns[i]) for i in numbers]
            read = [cells_of.text(cells[i]) if i is not None else "" for i in other]
            if in_order:
                return values[:n], values[n:], read
            values.append(math.nan)
            return [values[j] for j in inputs], [values[j] for j in labels], read

        return parse


def _delimiter_in(text: str, decimal: str) -> str:
    """Return the most frequent delimiter outside quotes; where numbers have a decimal comma, it is no comma."""
    bare = re.sub('"[^"]*"', "", text)
    return max(",;\t".replace(decimal, ""), key=bare.count)


def _number(cells: Cells, text: str, name: str) -> float:
    """Return the number in a cell; raise ValueError that begins with the name of the column."""
    try:
        return cells.number(text)
    except ValueError as error:
        raise ValueError(f"{name}={error}") from None


def _check_is_row(first: list[str], columns: list[str]) -> None:
    """Raise DataError if the first line is a header of other columns rather than a row."""
    is_header = not any(is_number(cell) or not cell for cell in first)
    if is_header or len(set(first) & set(columns)) > 1:
        raise DataError(f"the first line has the columns {', '.join(first)}; expected {', '.join(columns)}")
