"""Files that a run writes, and can resume after any interruption: predictions and quarantined rows."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Protocol

import numpy as np

from ..errors import DataError, ParameterError
from .tables import BadRow
from .tables.parquet import import_pyarrow


class Writer(Protocol):
    """Destination of predictions."""

    path: str

    def write(self, line_numbers: Sequence[int], columns: Sequence[np.ndarray]) -> None:
        """Write rows: their line numbers, then one value from each column."""

    def flush(self) -> int:
        """Write everything to the disk and return the size of the file in bytes."""

    def close(self) -> None:
        """Write everything and close the file."""


class CsvWriter:
    """Predictions as CSV in a file or on standard output ("-"); a resumed file is first cut to `size` bytes."""

    def __init__(self, path: str, names: Sequence[str], size: int = 0, *, header: bool = True) -> None:
        self.path = path
        if path == "-":
            if sys.stdout is None:
                raise DataError("there is no standard output; name a file with --output")
            self.file: IO[bytes] = sys.stdout.buffer
        else:
            self.file = open_at(path, size)
        if not size and header:
            buffer = io.StringIO()
            csv.writer(buffer, lineterminator="\n").writerow(["line", *names])
            self._put(buffer.getvalue().encode())

    def _put(self, data: bytes) -> None:
        with _write_errors(self.path):
            self.file.write(data)
            if self.path == "-":
                self.file.flush()

    def write(self, line_numbers: Sequence[int], columns: Sequence[np.ndarray]) -> None:
        """Write rows; NaN becomes an empty cell, other numbers keep every bit."""
        values = np.column_stack(columns).tolist()
        text = [
            ",".join([str(line), *("" if v != v else repr(v) for v in row)])
            for line, row in zip(line_numbers, values, strict=True)
        ]
        self._put(("\n".join(text) + "\n").encode() if text else b"")

    def flush(self) -> int:
        """Write everything to the disk and return the size of the file in bytes."""
        return synced(self.file, self.path)

    def close(self) -> None:
        """Write everything and close the file."""
        self.flush()
        if self.path != "-":
            self.file.close()


class ParquetWriter:
    """Predictions as Parquet; the file can be read only after `close`."""

    ROW_GROUP = 100_000

    def __init__(self, path: str, names: Sequence[str]) -> None:
        self.arrow, self.names, self.path = import_pyarrow(), ["line", *names], path
        types = [self.arrow.int64(), *[self.arrow.float64()] * len(names)]
        self.schema = self.arrow.schema(list(zip(self.names, types, strict=True)))
        try:
            self.file = self.arrow.parquet.ParquetWriter(path, self.schema)
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error}") from error
        self.pending: list[list[np.ndarray]] = []

    def write(self, line_numbers: Sequence[int], columns: Sequence[np.ndarray]) -> None:
        """Write rows; NaN becomes a null."""
        self.pending.append([np.array(line_numbers), *columns])
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
    output: str | None, targets: Sequence[str], size: int = 0, *, header: bool = True
) -> Writer | None:
    """Return a writer of predictions that fits the suffix of `output`, None without one.

    `size` is the number of bytes after which a resumed CSV file continues.
    """
    if output is None:
        return None
    names = [f"{target}{end}" for target in targets for end in ("", "_std", "_low", "_high")]
    repeated = sorted({name for name in ["line", *names] if ["line", *names].count(name) > 1})
    if repeated:
        raise ParameterError(
            f"the output would have two columns called {repeated[0]}; rename a target in the input"
        )
    if output.lower().endswith(".parquet"):
        return ParquetWriter(output, names)
    return CsvWriter(output, names, size, header=header)


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
