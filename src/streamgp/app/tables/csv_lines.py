"""Rows from CSV. Numbers are read as Python reads them, but only ASCII digits and no underscores."""

from __future__ import annotations

import codecs
import csv
import math
from collections.abc import Sequence

from ...errors import DataError
from .base import ReadOptions, check_names
from .lines import FileLines, PipeLines
from .text import LineReader, Parse


class CsvReader(LineReader):
    """Reader of cells between delimiters, the same number in each line."""

    def __init__(self, lines: FileLines | PipeLines, options: ReadOptions) -> None:
        super().__init__(lines, options)
        line = self._first_line(required=options.columns is None)
        text = (line or b"").removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").strip("\r\n")
        self.delimiter = options.delimiter or max(",;\t", key=text.count)
        try:
            first = [cell.strip() for cell in self._split(text)]
        except ValueError as error:
            raise DataError(f"the first line, {text[:60]!r}, is {error}") from error
        if options.columns is not None:
            self.columns = list(options.columns)
            if line is not None and first != self.columns:
                _check_is_row(first, self.columns)
                self._rewind()
        elif not options.header:
            self.columns = [str(i + 1) for i in range(len(first))]
            self._rewind()
        elif all(_is_number(cell) for cell in first):
            raise DataError(
                f"the first line, {text[:60]!r}, holds numbers instead of column names; name the columns with "
                "--columns, or call them 1, 2, 3, … with --no-header (`tail -n +1 -f` sends the first line too)"
            )
        else:
            self.columns = first
        check_names(self.columns)
        self._resume()

    def _split(self, text: str) -> list[str]:
        if '"' not in text:
            return text.split(self.delimiter)
        try:
            return next(csv.reader([text], delimiter=self.delimiter, strict=True))
        except (csv.Error, StopIteration) as error:
            raise ValueError(f"not a line of CSV: {error}") from error

    def _parser(self, features: Sequence[str], targets: Sequence[str]) -> Parse:
        width = len(self.columns)
        inputs = [self.columns.index(name) for name in features]
        # A table to predict may have no target columns.
        labels = [self.columns.index(name) if name in self.columns else None for name in targets]
        finite = math.isfinite

        def parse(text: str) -> tuple[list[float], list[float]]:
            cells = self._split(text)
            if len(cells) != width:
                raise ValueError(f"{len(cells)} cells, expected {width}")
            try:
                x = [float(cells[i]) for i in inputs]
                y = [float(cells[i]) if i is not None and cells[i].strip() else math.nan for i in labels]
            except ValueError:
                raise ValueError(_first_wrong(cells, self.columns, inputs, labels)) from None
            if "_" in text or not text.isascii():
                odd = [
                    i for i in (*inputs, *labels) if i is not None and not _is_number(cells[i].strip() or "0")
                ]
                if odd:
                    raise ValueError(f"{self.columns[odd[0]]}={cells[odd[0]].strip()[:60]!r} is not a number")
            # One test of the sum is faster than a test of each value. A sum that is not finite may have overflowed.
            if not finite(sum(x)) or not finite(sum(y)):
                for i, value in [*zip(inputs, x, strict=True), *zip(labels, y, strict=True)]:
                    if not finite(value) and i is not None and cells[i].strip():
                        remedy = "; leave the cell empty if the label is missing" if i in labels else ""
                        raise ValueError(f"{self.columns[i]}={cells[i].strip()} is not finite{remedy}")
            return x, y

        return parse


def _check_is_row(first: list[str], columns: list[str]) -> None:
    """Raise DataError if the first line is a header of other columns rather than a row."""
    is_header = not any(_is_number(cell) or not cell for cell in first)
    if is_header or len(set(first) & set(columns)) > 1:
        raise DataError(f"the first line has the columns {', '.join(first)}; expected {', '.join(columns)}")


def _first_wrong(cells: list[str], names: list[str], inputs: list[int], labels: list[int | None]) -> str:
    """Return what is wrong with the first cell that is not a number."""
    for i in [*inputs, *(i for i in labels if i is not None and cells[i].strip())]:
        if not cells[i].strip():
            return f"{names[i]} is empty"
        if not _is_number(cells[i]):
            return f"{names[i]}={cells[i].strip()[:60]!r} is not a number"
    return "not a row of numbers"


def _is_number(text: str) -> bool:
    """Return whether text is a number as files have it; Python also accepts 1_000 and digits of any script."""
    if "_" in text or not text.isascii():
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True
