"""Rows from CSV, JSON lines, Parquet or a pipe, a batch at a time, each with its place.

One line is one row: a bad line costs one row, whatever quotes it holds. Numbers are read as Python reads them.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import os
import select
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from .errors import DataError

Parse = Callable[[str], tuple[list[float], list[float]]]
# A batch that is not full is handed on when nothing more has come through a pipe for so many seconds.
PATIENCE = 1.0
_FOREIGN = {
    b"\x1f\x8b": "compressed by gzip (zcat FILE | streamgp run -)", b"PK\x03\x04": "a zip archive",
    b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"PAR1": "Parquet (--format parquet)",
}  # fmt: skip
_READ = 1 << 16
_LONGEST_LINE = 1 << 24


@dataclass(frozen=True)
class Place:
    """Where in the input a reader stands: bytes (or rows, for Parquet) passed, and the number of the last line."""

    offset: int = 0
    line: int = 0


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be learned: the number of its line or row, why, and what it was."""

    line: int
    reason: str
    text: str


@dataclass
class Rows:
    """A batch: inputs (b, d); targets (b, q), NaN where a label is missing; line numbers; and rows that are bad."""

    X: np.ndarray
    y: np.ndarray
    lines: list[int]
    bad: list[BadRow] = field(default_factory=list)
    place: Place = Place()


class Reader(Protocol):
    """What hands out batches.

    `size` is that of a file; `open_ended`, whether other columns than these may come; `left`, whether a last line was
    left alone because it does not end yet.
    """

    columns: list[str]
    size: int | None
    open_ended: bool

    @property
    def left(self) -> bool:
        """See above."""

    def batches(self, features: Sequence[str], targets: Sequence[str], n: int) -> Iterator[Rows]:
        """Give batches of n rows, good and bad; the last one, and those of a slow pipe, may have fewer."""


def open_table(
    source: str,
    place: Place | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    header: bool = True,
    columns: Sequence[str] | None = None,
    replay: bool = False,
    whole_lines: bool = False,
    stopped: Callable[[], bool] | None = None,
) -> Reader:
    """Open a table by its suffix, or `format`; "-" is standard input (CSV unless said otherwise).

    `place` is where to go on. `columns` names the columns where the first line does not; without that and without
    `header` they are called 1, 2, 3. `replay`: a pipe sends everything again, and what was passed is skipped.
    `whole_lines`: a last line of a file that does not end yet is left alone. `stopped` is asked while a pipe is silent.
    """
    kind, place = format or _format_of(source), place or Place()
    if kind == "parquet":
        if source == "-":
            raise DataError("Parquet cannot be read from standard input; name a file")
        return _Parquet(source, place)
    file = _opened(source)
    lines = _lines(file, whole_lines)
    given = (lines, place, columns, replay, stopped or (lambda: False))
    return _JsonLines(*given) if kind == "jsonl" else _Csv(*given, delimiter, header)


def _opened(source: str) -> IO[bytes]:
    if source == "-":
        if sys.stdin is None:
            raise DataError("there is no standard input; name a file")
        return sys.stdin.buffer
    try:
        if stat.S_ISDIR(os.stat(source).st_mode):
            raise DataError(f"{source} is a folder; name a file")
        return open(source, "rb")
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror}") from error


def _lines(file: IO[bytes], whole_lines: bool) -> _FileLines | _PipeLines:
    """Tell files, which can be gone on in, from pipes; standard input may be either."""
    try:
        status = os.fstat(file.fileno())
    except (io.UnsupportedOperation, ValueError):  # a test's, or a notebook's
        return _PipeLines(file)
    return _FileLines(file, status.st_size, whole_lines) if stat.S_ISREG(status.st_mode) else _PipeLines(file)


def _format_of(source: str) -> str:
    suffix = Path(source).suffix.lower()
    known = {
        ".csv": "csv",
        ".tsv": "csv",
        ".txt": "csv",
        ".jsonl": "jsonl",
        ".ndjson": "jsonl",
        ".parquet": "parquet",
    }
    if source == "-":
        return "csv"
    if suffix not in known:
        raise DataError(f"{source} ends in none of {', '.join(known)}; say what it is with --format")
    return known[suffix]


# Lines


class _FileLines:
    """Lines of a file; None never comes: a file does not keep one waiting."""

    def __init__(self, file: IO[bytes], size: int, whole_lines: bool) -> None:
        self.file, self.size, self.whole_lines = file, size, whole_lines
        self.skipped = 0
        self.left = False

    def skip_to(self, offset: int) -> bool:
        if offset > self.size:
            raise DataError(f"the file ends before byte {offset}, where it is to go on: is it the same file?")
        self.file.seek(offset)
        return True

    def __iter__(self) -> Iterator[bytes | None]:
        while line := self.file.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
                length, more = len(line), line
                while more and not more.endswith(b"\n"):
                    more = self.file.readline(_LONGEST_LINE)
                    length += len(more)
                line = _too_long(length)
                self.skipped = length - len(line)
            elif not line.endswith(b"\n") and self.whole_lines:
                self.left = True
                return
            yield line


def _too_long(length: int) -> bytes:
    """Give what stands for a line that is too long to be a row."""
    return f"\0a line of {length:,} bytes\n".encode()


class _PipeLines:
    """Lines of a pipe; None when nothing has come for a while."""

    size = None
    left = False

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.skipped = 0

    def skip_to(self, offset: int) -> bool:
        return False

    def __iter__(self) -> Iterator[bytes | None]:
        try:
            handle = self.file.fileno()
        except (io.UnsupportedOperation, ValueError):  # a test's, or a notebook's
            yield from self.file
            return
        left, lost = b"", 0
        while True:
            if sys.platform != "win32" and not select.select([handle], [], [], PATIENCE)[0]:
                yield None
                continue
            data = os.read(handle, _READ)
            if not data:
                break
            *whole, left = (left + data).split(b"\n")
            for line in whole:
                if lost:
                    lost, line = 0, _too_long(lost + len(line))[:-1]
                yield line + b"\n"
            if len(left) > _LONGEST_LINE:
                lost, left = lost + len(left), b""
        if left or lost:
            yield _too_long(lost + len(left)) if lost else left


# Lines to rows


class _LineReader(ABC):
    """What CSV and JSON lines share: numbers of lines, places, batches."""

    @property
    def left(self) -> bool:
        """Whether a last line was left alone because it does not end yet."""
        return self.lines.left

    columns: list[str]
    open_ended = False

    def __init__(self, lines: _FileLines | _PipeLines, stopped: Callable[[], bool]) -> None:
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


class _Csv(_LineReader):
    def __init__(
        self,
        lines: _FileLines | _PipeLines,
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
        _check_names(self.columns)
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
                        raise ValueError(f"{self.columns[i]}={cells[i].strip()} is not finite")
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


def _check_names(columns: Sequence[str]) -> None:
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise DataError(f"the columns {', '.join(map(repr, twice))} stand there more than once; rename them")


class _JsonLines(_LineReader):
    # A name that the first row lacks may come later.
    open_ended = True

    def __init__(
        self,
        lines: _FileLines | _PipeLines,
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


class _Parquet:
    open_ended = False
    left = False

    def __init__(self, path: str, place: Place) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise DataError("Parquet needs pyarrow: pip install 'streamgp[parquet]'") from error
        try:
            self.file = pyarrow.parquet.ParquetFile(path)
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(f"{path} cannot be read as Parquet: {error}") from error
        kinds = pyarrow.types
        schema = self.file.schema_arrow
        self.numeric = {
            f.name
            for f in schema
            if kinds.is_integer(f.type) or kinds.is_floating(f.type) or kinds.is_decimal(f.type)
        }
        self.path, self.place = path, place
        self.columns = list(schema.names)
        _check_names(self.columns)
        self.size = self.file.metadata.num_rows
        if place.offset > self.size:
            raise DataError(
                f"{path} ends before row {place.offset}, where it is to go on: is it the same file?"
            )

    def batches(self, features: Sequence[str], targets: Sequence[str], n: int) -> Iterator[Rows]:
        """Give batches of n rows; the last one may have fewer."""
        import pyarrow

        names = list(dict.fromkeys([*features, *(name for name in targets if name in self.columns)]))
        texts = [name for name in names if name not in self.numeric]
        if texts:
            raise DataError(f"the column {texts[0]!r} of {self.path} does not hold numbers; name others")
        # Row groups that were passed before are not read again.
        passed, groups = 0, list[int]()
        for i in range(self.file.metadata.num_row_groups):
            rows = self.file.metadata.row_group(i).num_rows
            if passed + rows <= self.place.offset and not groups:
                passed += rows
            else:
                groups.append(i)
        skip, at = self.place.offset - passed, self.place.offset
        held = np.empty((0, len(names)))
        missing = np.empty((0, len(names)), dtype=bool)
        if not groups:
            return
        try:
            for part in self.file.iter_batches(max(n, 10_000), row_groups=groups, columns=names):
                columns = [part.column(name) for name in names]
                nulls = np.column_stack([np.asarray(c.is_null()) for c in columns])
                table = np.column_stack(
                    [
                        np.asarray(c.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False))
                        for c in columns
                    ]
                )
                drop = min(skip, table.shape[0])
                skip -= drop
                held, missing = np.concatenate([held, table[drop:]]), np.concatenate([missing, nulls[drop:]])
                while held.shape[0] >= n:
                    at += n
                    yield self._rows(names, held[:n], missing[:n], features, targets, at)
                    held, missing = held[n:], missing[n:]
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(f"{self.path} cannot be read: {error}") from error
        if held.shape[0]:
            yield self._rows(names, held, missing, features, targets, at + held.shape[0])

    def _rows(
        self,
        names: list[str],
        table: np.ndarray,
        missing: np.ndarray,
        features: Sequence[str],
        targets: Sequence[str],
        end: int,
    ) -> Rows:
        at = {name: i for i, name in enumerate(names)}
        inputs, labels = [at[name] for name in features], [at.get(name) for name in targets]
        y = np.full((table.shape[0], len(targets)), np.nan)
        wrong = ~np.isfinite(table)
        for j, i in enumerate(labels):
            if i is not None:
                y[:, j] = np.where(missing[:, i], np.nan, table[:, i])
                wrong[:, i] &= ~missing[:, i]
        numbers = np.arange(end - table.shape[0], end) + 1
        bad = [
            BadRow(
                int(numbers[r]),
                self._reason(names, table[r], missing[r], wrong[r]),
                json.dumps(_row(names, table[r])),
            )
            for r in np.flatnonzero(wrong.any(axis=1))
        ]
        good = ~wrong.any(axis=1)
        self.place = Place(end, end)
        return Rows(table[good][:, inputs], y[good], [int(v) for v in numbers[good]], bad, self.place)

    @staticmethod
    def _reason(names: list[str], row: np.ndarray, missing: np.ndarray, wrong: np.ndarray) -> str:
        i = int(np.flatnonzero(wrong)[0])
        return f"{names[i]} is missing" if missing[i] else f"{names[i]}={row[i]} is not finite"


def _row(names: Sequence[str], values: np.ndarray) -> dict[str, float | str]:
    return {n: float(v) if np.isfinite(v) else str(v) for n, v in zip(names, values, strict=True)}
