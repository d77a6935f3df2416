"""Rows from lines of text: CSV and JSON lines.

One line is one row: a bad line costs one row, whatever quotes it holds. Numbers are read as Python reads them.
"""

from __future__ import annotations

import codecs
import csv
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from ...errors import DataError
from .lines import FileLines, PipeLines
from .rows import BadRow, Place, Rows, check_names

Parse = Callable[[str], tuple[list[float], list[float]]]
_FOREIGN = {
    b"\x1f\x8b": "compressed by gzip (zcat FILE | streamgp run -)", b"PK\x03\x04": "a zip archive",
    b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"PAR1": "Parquet (--format parquet)",
}  # fmt: skip


class _LineReader(ABC):
    """What CSV and JSON lines share: numbers of lines, places, batches."""

    @property
    def left(self) -> bool:
        """Whether a last line was left alone because it does not end yet."""
        return self.lines.left

    columns: list[str]
    open_ended = False

    def __init__(self, lines: FileLines | PipeLines, stopped: Callable[[], bool]) -> None:
        self.lines, self.size, self.stopped = lines, lines.size, stopped
        self.place = Place()
        self._left = iter(lines)
        # Lines read while the columns are looked for.
        self._read: list[bytes] = []
        self._beginning = True

    def _take(self) -> bytes | None:
        """Give the next line; None while a pipe is silent. Raises StopIteration at the end."""
        line = next(self._left)
        if line is not None:
            self.place = Place(self.place.offset + len(line) + self.lines.skipped, self.place.line + 1)
            self.lines.skipped = 0
            if self._beginning:
                self._read.append(line)
        return line

    def _unread(self) -> None:
        """Give back all lines that were read: they are rows, or blank."""
        self.place, self._left = Place(), chain(self._read, self._left)

    def _go_on(self, place: Place, replay: bool) -> None:
        """Go to where a run stopped; a pipe goes on where its writer stands, unless it sends everything again."""
        self._beginning = False
        if not place.line:
            return
        if self.lines.skip_to(place.offset):
            self._left = iter(self.lines)
        elif replay:
            while self.place.line < place.line:
                if self.stopped():
                    raise KeyboardInterrupt
                try:
                    self._take()
                except StopIteration:
                    raise DataError(
                        f"the input ends before line {place.line}, where it is to go on"
                    ) from None
        self.place = place

    def _first(self, known: bool) -> bytes | None:
        """Give the first line that is not blank; None at the end of an input whose columns are `known`."""
        while True:
            try:
                line = self._take()
            except StopIteration:
                if known:
                    return None
                raise DataError(
                    "the input is empty: there is no first line to take the columns from"
                ) from None
            if line is None and self.stopped():
                raise KeyboardInterrupt
            if line is not None and line.strip():
                for start, what in _FOREIGN.items():
                    if line.startswith(start):
                        raise DataError(f"the input is {what}, not lines of text in UTF-8")
                return line

    @abstractmethod
    def _parser(self, features: Sequence[str], targets: Sequence[str]) -> Parse:
        """Give what turns a line into inputs and labels, or raises ValueError saying what is wrong with it."""

    def batches(self, features: Sequence[str], targets: Sequence[str], n: int) -> Iterator[Rows]:
        """Give batches of n rows, good and bad; the last one, and those of a slow pipe, may have fewer."""
        parse = self._parser(features, targets)
        X: list[list[float]] = []
        y: list[list[float]] = []
        lines: list[int] = []
        bad: list[BadRow] = []

        def batch() -> Rows:
            rows = Rows(
                np.array(X, dtype=np.float64).reshape(len(X), len(features)),
                np.array(y, dtype=np.float64).reshape(len(y), len(targets)),
                lines.copy(), bad.copy(), self.place,
            )  # fmt: skip
            for kept in (X, y, lines, bad):
                kept.clear()
            return rows

        while True:
            try:
                line = self._take()
            except StopIteration:
                break
            if line is None:
                yield batch()  # of no rows, perhaps: who reads may want to stop, or to say that it is waiting
                continue
            if line.isspace():
                continue
            text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
            if self.place.line == 1:
                text = text.removeprefix("\ufeff")
            try:
                inputs, labels = parse(text)
            except ValueError as error:
                shown = text.encode("utf-8", "backslashreplace").decode()
                bad.append(BadRow(self.place.line, str(error), shown[:2000]))
            else:
                X.append(inputs)
                y.append(labels)
                lines.append(self.place.line)
            if len(lines) + len(bad) >= n:
                yield batch()
        if lines or bad:
            yield batch()


class Csv(_LineReader):
    """Cells between delimiters, the same number in each line."""

    def __init__(
        self,
        lines: FileLines | PipeLines,
        place: Place,
        columns: Sequence[str] | None,
        replay: bool,
        stopped: Callable[[], bool],
        delimiter: str | None,
        header: bool,
    ) -> None:
        super().__init__(lines, stopped)
        line = self._first(columns is not None)
        text = (line or b"").removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").strip("\r\n")
        self.delimiter = delimiter or max(",;\t", key=text.count)
        try:
            names = [name.strip() for name in self._split(text)]
        except ValueError as error:
            raise DataError(f"the first line, {text[:60]!r}, is {error}") from error
        self.columns = names
        if columns is not None:
            self.columns = list(columns)
            if line is not None and names != self.columns:
                # A header of other columns, or a row.
                if len(set(names) & set(columns)) > 1 or not any(
                    _is_number(name) or not name for name in names
                ):
                    raise DataError(
                        f"the first line has the columns {', '.join(names)}, not {', '.join(columns)}"
                    )
                self._unread()
        elif not header:
            self.columns = [str(i + 1) for i in range(len(names))]
            self._unread()
        elif all(_is_number(name) for name in names):
            raise DataError(
                f"the first line, {text[:60]!r}, holds numbers and no names of columns; name them with --columns, "
                "or call them 1, 2, 3 and so on with --no-header (`tail -n +1 -f` sends the first line too)"
            )
        check_names(self.columns)
        self._go_on(place, replay)

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
        # In a table to predict on, the targets may be missing altogether.
        labels = [self.columns.index(name) if name in self.columns else None for name in targets]
        finite = math.isfinite

        def parse(text: str) -> tuple[list[float], list[float]]:
            cells = self._split(text)
            if len(cells) != width:
                raise ValueError(f"{len(cells)} cells, not {width}")
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
            # A sum is finite if all are, and costs less than asking each; one that is not may have overflowed.
            if not finite(sum(x)) or not finite(sum(y)):
                for i, value in [*zip(inputs, x, strict=True), *zip(labels, y, strict=True)]:
                    if not finite(value) and i is not None and cells[i].strip():
                        missing = "; a label that is missing is an empty cell" if i in labels else ""
                        raise ValueError(f"{self.columns[i]}={cells[i].strip()} is not finite{missing}")
            return x, y

        return parse


def _first_wrong(cells: list[str], names: list[str], inputs: list[int], labels: list[int | None]) -> str:
    for i in [*inputs, *(i for i in labels if i is not None and cells[i].strip())]:
        if not cells[i].strip():
            return f"{names[i]} is empty"
        if not _is_number(cells[i]):
            return f"{names[i]}={cells[i].strip()[:60]!r} is not a number"
    return "not a row of numbers"


def _is_number(text: str) -> bool:
    """Tell whether text is a number as files have it; Python would also take 1_000, and digits of any script."""
    if "_" in text or not text.isascii():
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


class JsonLines(_LineReader):
    """An object or an array in each line."""

    # A name that the first row lacks may come later.
    open_ended = True

    def __init__(
        self,
        lines: FileLines | PipeLines,
        place: Place,
        columns: Sequence[str] | None,
        replay: bool,
        stopped: Callable[[], bool],
    ) -> None:
        super().__init__(lines, stopped)
        seen: list[bytes] = []
        found = None if columns is None else list(columns)
        # The columns are those of the first line that is a row; lines before it are bad rows.
        while found is None and len(seen) < 1000:
            line = self._first(bool(seen))
            if line is None:
                break
            seen.append(line)
            try:
                first = json.loads(line.removeprefix(codecs.BOM_UTF8))
            except (ValueError, RecursionError):
                continue
            found = list(first) if isinstance(first, dict) else None
        if found is None:
            raise DataError('no line is an object such as {"x": 1.5, "y": 2}')
        self.columns = found
        self._unread()
        self._go_on(place, replay)

    def _parser(self, features: Sequence[str], targets: Sequence[str]) -> Parse:
        def number(row: dict[str, Any], name: str) -> float:
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
            x = [number(row, name) for name in features]
            return x, [math.nan if row.get(name) is None else number(row, name) for name in targets]

        return parse


# Parquet
