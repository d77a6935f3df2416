"""Files that a run writes, and can resume after any interruption: predictions and quarantined rows.

Predictions are a table: the line in the input, the columns that are kept of it as text, then for each target TARGET
what was measured, TARGET_mean, TARGET_std, TARGET_low and TARGET_high.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

import numpy as np

from ..errors import DataError, ParameterError
from .tables import BadRow
from .tables.parquet import import_pyarrow

# What follows the name of a target in the name of a column.
ENDS = ("_measured", "_mean", "_std", "_low", "_high")


class Writer(Protocol):
    """Destination of predictions."""

    path: str

    def write(self, line_numbers: Sequence[int], texts: np.ndarray, columns: Sequence[np.ndarray]) -> None:
        """Write rows: their line numbers, kept texts (b, k), then one value from each column (b,)."""

    def flush(self) -> int:
        """Write everything to the disk and return the size of the file in bytes."""

    def close(self) -> None:
        """Write everything and close the file."""


class _LineWriter(ABC):
    """Predictions as lines in a file or on standard output ("-"); a resumed file is first cut to `size` bytes."""

    def __init__(self, path: str, names: Sequence[str], size: int = 0, *, begin: bool = True) -> None:
        self.path, self.names = path, list(names)
        if path == "-":
            if sys.stdout is None:
                raise DataError("there is no standard output; name a file with --output")
            self.file: IO[bytes] = sys.stdout.buffer
        else:
            self.file = open_at(path, size)
        if not size and begin:
            self._put(self._first())

    @abstractmethod
    def _first(self) -> str:
        """Return what stands before the first row."""

    @abstractmethod
    def _row(self, line: int, texts: Sequence[str], values: Sequence[float]) -> str:
        """Return a row; NaN becomes a missing value, other numbers keep every bit."""

    def _put(self, text: str) -> None:
        with _write_errors(self.path):
            self.file.write(text.encode("utf-8", "backslashreplace"))
            if self.path == "-":
                self.file.flush()

    def write(self, line_numbers: Sequence[int], texts: np.ndarray, columns: Sequence[np.ndarray]) -> None:
        """Write rows: their line numbers, kept texts (b, k), then one value from each column (b,)."""
        rows = zip(line_numbers, texts.tolist(), np.column_stack(columns).tolist(), strict=True)
        self._put("".join(self._row(*row) for row in rows))

    def flush(self) -> int:
        """Write everything to the disk and return the size of the file in bytes."""
        return synced(self.file, self.path)

    def close(self) -> None:
        """Write everything and close the file."""
        self.flush()
        if self.path != "-":
            self.file.close()


class CsvWriter(_LineWriter):
    """Predictions as CSV; a missing value is an empty cell."""

    def _first(self) -> str:
        return _csv(["line", *self.names])

    def _row(self, line: int, texts: Sequence[str], values: Sequence[float]) -> str:
        numbers = ",".join("" if v != v else repr(v) for v in values)
        return f"{line},{_csv(texts)[:-1]},{numbers}\n" if texts else f"{line},{numbers}\n"


def _csv(cells: Sequence[str]) -> str:
    """Return a line of CSV."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    text = buffer.getvalue()
    return text if len(cells) != 1 or cells[0] else "\n"  # one empty cell alone would be quoted


class JsonWriter(_LineWriter):
    """Predictions as JSON lines; a missing value is null."""

    def _first(self) -> str:
        return ""

    def _row(self, line: int, texts: Sequence[str], values: Sequence[float]) -> str:
        cells = (line, *texts, *(None if v != v else v for v in values))
        row = dict(zip(("line", *self.names), cells, strict=True))
        return json.dumps(row, ensure_ascii=False) + "\n"


class ParquetWriter:
    """Predictions as Parquet; the file can be read only after `close`."""

    ROW_GROUP = 100_000

    def __init__(self, path: str, kept: Sequence[str], names: Sequence[str]) -> None:
        self.arrow, self.path = import_pyarrow(), path
        fields = [("line", self.arrow.int64()), *((name, self.arrow.string()) for name in kept)]
        self.schema = self.arrow.schema([*fields, *((name, self.arrow.float64()) for name in names)])
        try:
            self.file = self.arrow.parquet.ParquetWriter(path, self.schema)
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error}") from error
        self.pending: list[list[np.ndarray]] = []

    def write(self, line_numbers: Sequence[int], texts: np.ndarray, columns: Sequence[np.ndarray]) -> None:
        """Write rows; NaN becomes a null."""
        clean = [[text.encode("utf-8", "backslashreplace").decode() for text in cells] for cells in texts.T]
        kept = [np.array(cells, dtype=object) for cells in clean]
        self.pending.append([np.array(line_numbers), *kept, *columns])
        if sum(len(part[0]) for part in self.pending) >= self.ROW_GROUP:
            self._put()

    def _put(self) -> None:
        if self.pending:
            columns = [np.concatenate(column) for column in zip(*self.pending, strict=True)]
            arrays = [
                self.arrow.array(column, field.type, from_pandas=True)
                for column, field in zip(columns, self.schema, strict=True)
            ]
            self.file.write_table(self.arrow.table(arrays, schema=self.schema))
            self.pending = []

    def flush(self) -> int:
        """Return 0: Parquet output cannot be resumed."""
        return 0

    def close(self) -> None:
        """Write everything and close the file."""
        self._put()
        self.file.close()


def open_writer(
    output: str | None, targets: Sequence[str], kept: Sequence[str] = (), size: int = 0, *, begin: bool = True
) -> Writer | None:
    """Return a writer of predictions that fits the suffix of `output`, None without one.

    `kept` are the columns of the input that are written beside; `size` is the number of bytes after which a resumed
    file continues, `begin` is false for it.
    """
    if output is None:
        return None
    names = prediction_names(targets, kept)
    end = Path(output).suffix.lower()
    if end == ".parquet":
        return ParquetWriter(output, kept, names[len(kept) :])
    kind = JsonWriter if end in (".jsonl", ".ndjson") else CsvWriter
    return kind(output, names, size, begin=begin)


def prediction_names(targets: Sequence[str], kept: Sequence[str]) -> list[str]:
    """Return the names of what is written beside the line; raise ParameterError if two are the same."""
    names = [*kept, *(f"{target}{end}" for target in targets for end in ENDS)]
    repeated = sorted({name for name in names if ["line", *names].count(name) > 1})
    if repeated:
        raise ParameterError(
            f"the output would have two columns called {repeated[0]}; rename a target or a kept column in the input"
        )
    return names


class Quarantine:
    """Bad rows as JSON lines, or nowhere if `path` is None; a resumed file is first cut to `size` bytes."""

    def __init__(self, path: str | None, size: int = 0) -> None:
        self.path = path
        self.file: IO[bytes] | None = None if path is None else open_at(path, size)

    def add(self, row: BadRow) -> None:
        """Write one row."""
        if self.file is not None:
            line = json.dumps({"line": row.line, "reason": row.reason, "row": row.text}, ensure_ascii=False)
            with _write_errors(str(self.path)):
                self.file.write(line.encode("utf-8", "backslashreplace") + b"\n")

    def flush(self) -> int:
        """Write everything to the disk and return the size of the file in bytes."""
        return 0 if self.file is None else synced(self.file, str(self.path))


def open_at(path: str, size: int) -> IO[bytes]:
    """Return a file opened for writing after its first `size` bytes; what follows them is cut off."""
    with _write_errors(path):
        file = open(path, "r+b" if size else "wb")  # noqa: SIM115  closed by its writer
        if size:
            if os.fstat(file.fileno()).st_size < size:
                raise DataError(
                    f"{path} is shorter than at the checkpoint ({size} bytes) and cannot be resumed; restore it, "
                    "or start again without the checkpoint"
                )
            file.truncate(size)
            file.seek(size)
        return file


def synced(file: IO[bytes], path: str) -> int:
    """Write everything to the disk and return the size; 0 for standard output ("-")."""
    with _write_errors(path):
        file.flush()
        if path == "-":
            return 0
        os.fsync(file.fileno())
        return file.tell()


@contextmanager
def _write_errors(path: str) -> Iterator[None]:
    """Turn an OSError into a DataError that names the file; a closed pipe is left to the command."""
    try:
        yield
    except (DataError, BrokenPipeError):
        raise
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from error
