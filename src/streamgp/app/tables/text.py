"""What the readers of text share: line numbers, positions, batches.

One line is one row, even if a quote is left open, so a bad line costs one row.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np

from ...errors import DataError
from .base import BadRow, Position, ReadOptions, TableRows
from .cells import Cells
from .lines import Lines

# Returns the inputs, labels and texts of a line, or raises ValueError with what is wrong with it.
Parse = Callable[[str], tuple[list[float], list[float], list[str]]]

_FOREIGN = {
    b"\x1f\x8b": "compressed by gzip (use zcat FILE | streamgp run -)", b"PK\x03\x04": "a zip archive",
    b"\xff\xfe": "UTF-16 (use iconv -f utf-16 -t utf-8 FILE | streamgp run -)",
    b"\xfe\xff": "UTF-16", b"PAR1": "Parquet (use --format parquet)",
}  # fmt: skip


class _Pending:
    """Rows read that are not in a batch yet."""

    def __init__(self, widths: tuple[int, int, int], cells: Cells) -> None:
        self.widths, self.cells = widths, cells
        self._clear()

    def _clear(self) -> None:
        self.rows: list[tuple[list[float], list[float], list[str]]] = []
        self.line_numbers: list[int] = []
        self.bad: list[BadRow] = []
        self.empty = 0

    def __len__(self) -> int:
        return len(self.line_numbers) + len(self.bad)

    def take(self, position: Position) -> TableRows:
        """Return all rows as a batch and forget them."""
        n = len(self.rows)
        X, y, texts = (
            np.array([row[part] for row in self.rows], dtype=kind).reshape(n, width)
            for part, (width, kind) in enumerate(zip(self.widths, (float, float, object), strict=True))
        )
        X, y = self.cells.without_missing(X), self.cells.without_missing(y)
        batch = TableRows(X, y, self.line_numbers, self.bad, position, texts, self.empty)
        self._clear()
        return batch


class LineReader(ABC):
    """Reader of a table that has one row in each line of text."""

    columns: list[str]
    open_ended = False

    def __init__(self, lines: Lines, options: ReadOptions) -> None:
        self.lines, self.size, self.options = lines, lines.size, options
        self.cells = Cells(options.decimal, options.missing)
        self.unnamed: list[str] = []
        self.position = Position()
        self._remaining = iter(lines)
        self._searching_columns = True
        self._searched: list[bytes] = []

    @property
    def remarks(self) -> Sequence[str]:
        """What the summary of a run should tell."""
        return self.lines.remarks

    def close(self) -> None:
        """Let go of the input."""
        self.lines.close()

    def _next_line(self) -> bytes | None:
        """Return the next line, or None while a pipe is silent; raise StopIteration at the end."""
        line = next(self._remaining)
        if line is not None:
            offset = self.position.offset + len(line) + self.lines.omitted
            self.position = Position(offset, self.position.line + 1)
            self.lines.omitted = 0
            if self._searching_columns:
                self._searched.append(line)
        return line

    def _rewind(self) -> None:
        """Go back to the first line: the lines searched for columns are rows, or blank."""
        self.position, self._remaining = Position(), chain(self._searched, self._remaining)

    def _resume(self) -> None:
        """Go to the position where a run stopped; without `replay`, a pipe continues with what its writer sends."""
        self._searching_columns = False
        position = self.options.position
        if not position.line:
            return
        if self.lines.seek(position.offset):
            self._remaining = iter(self.lines)
        elif self.options.replay:
            while self.position.line < position.line:
                if self.options.should_stop():
                    raise KeyboardInterrupt
                try:
                    self._next_line()
                except StopIteration:
                    raise DataError(
                        f"the input ends before line {position.line}, where the run resumes; is it the same input?"
                    ) from None
        self.position = position

    def _first_line(self, *, required: bool) -> bytes | None:
        """Return the next line that is not blank; at the end of the input raise DataError if it is `required`."""
        while True:
            try:
                line = self._next_line()
            except StopIteration:
                if not required:
                    return None
                raise DataError("the input is empty; its first line must show the columns") from None
            if line is None and self.options.should_stop():
                raise KeyboardInterrupt
            if line is not None and line.strip():
                for prefix, kind in _FOREIGN.items():
                    if line.startswith(prefix):
                        raise DataError(f"the input is {kind}, not lines of text; convert it first")
                return line

    @abstractmethod
    def _parser(self, features: Sequence[str], targets: Sequence[str], texts: Sequence[str]) -> Parse:
        """Return the function that parses a line."""

    def _is_empty(self, text: str) -> bool:
        """Return whether every cell of a line is empty."""
        return not text or text.isspace()

    def batches(
        self, features: Sequence[str], targets: Sequence[str], batch_size: int, texts: Sequence[str] = ()
    ) -> Iterator[TableRows]:
        """Yield batches of `batch_size` rows, bad ones counted; the last, and those of a slow pipe, may be smaller."""
        parse = self._parser(features, targets, texts)
        pending = _Pending((len(features), len(targets), len(texts)), self.cells)
        while True:
            try:
                line = self._next_line()
            except StopIteration:
                break
            if line is None:
                # Even without rows: the caller may have to stop, or to show that it is waiting.
                self.lines.deadline = None
                yield pending.take(self.position)
                continue
            text = line.decode(self.options.encoding, "surrogateescape").rstrip("\r\n")
            if self.position.line == 1:
                text = text.removeprefix("\ufeff")
            if self._is_empty(text):
                pending.empty += bool(text and not text.isspace())
                continue
            try:
                row = parse(text)
            except ValueError as error:
                shown = text.encode("utf-8", "backslashreplace").decode()
                pending.bad.append(BadRow(self.position.line, str(error), shown[:2000]))
            else:
                pending.rows.append(row)
                pending.line_numbers.append(self.position.line)
            if self.size is None and self.lines.deadline is None:
                self.lines.deadline = time.monotonic() + self.options.max_wait
            late = self.lines.deadline is not None and time.monotonic() >= self.lines.deadline
            if len(pending) >= batch_size or late:
                self.lines.deadline = None
                yield pending.take(self.position)
        if pending or pending.empty:
            yield pending.take(self.position)
