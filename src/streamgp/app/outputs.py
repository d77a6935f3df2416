"""Predictions to CSV or Parquet, in files that a run can go on with after any end."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Sequence
from typing import IO, Protocol

import numpy as np

from ..errors import DataError, ParameterError


class Writer(Protocol):
    """What takes predictions."""

    def write(self, lines: Sequence[int], columns: Sequence[np.ndarray]) -> None:
        """Write rows; NaN is an empty cell."""

    def flush(self) -> int:
        """Bring all to the disk and give the number of bytes there."""

    def close(self) -> None:
        """End."""


class CsvWriter:
    """Predictions as CSV, to a file or standard output; a file is cut to `size` first, where a run goes on."""

    def __init__(self, path: str, names: Sequence[str], size: int = 0, *, header: bool = True) -> None:
        self.path = path
        if path == "-":
            if sys.stdout is None:
                raise DataError("there is no standard output; name a file")
            self.file: IO[bytes] = sys.stdout.buffer
        else:
            self.file = open_at(path, size)
        if not size and header:
            buffer = io.StringIO()
            csv.writer(buffer, lineterminator="\n").writerow(["line", *names])
            self._put(buffer.getvalue().encode())

    def _put(self, data: bytes) -> None:
        try:
            self.file.write(data)
            if self.path == "-":
                self.file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise DataError(f"{self.path} cannot be written: {error.strerror}") from error

    def write(self, lines: Sequence[int], columns: Sequence[np.ndarray]) -> None:
        """Write rows; NaN is an empty cell. Numbers are written so that they read back the same."""
        values = np.column_stack(columns).tolist()
        text = [
            ",".join([str(line), *("" if v != v else repr(v) for v in row)])
            for line, row in zip(lines, values, strict=True)
        ]
        self._put(("\n".join(text) + "\n").encode() if text else b"")

    def flush(self) -> int:
        """Bring all to the disk and give the number of bytes there."""
        return synced(self.file, self.path)

    def close(self) -> None:
        """End."""
        self.flush()
        if self.path != "-":
            self.file.close()


class ParquetWriter:
    """Predictions as Parquet; the file is whole only after `close`."""

    ROWS = 100_000

    def __init__(self, path: str, names: Sequence[str]) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise DataError("Parquet needs pyarrow: pip install 'streamgp[parquet]'") from error
        self.arrow, self.names, self.path = pyarrow, ["line", *names], path
        kinds = [pyarrow.int64(), *[pyarrow.float64()] * len(names)]
        self.schema = pyarrow.schema(list(zip(self.names, kinds, strict=True)))
        try:
            self.file = pyarrow.parquet.ParquetWriter(path, self.schema)
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error}") from error
        self.held: list[list[np.ndarray]] = []

    def write(self, lines: Sequence[int], columns: Sequence[np.ndarray]) -> None:
        """Write rows; NaN is a null."""
        self.held.append([np.array(lines), *columns])
        if sum(len(part[0]) for part in self.held) >= self.ROWS:
            self._put()

    def _put(self) -> None:
        if self.held:
            columns = [np.concatenate(column) for column in zip(*self.held, strict=True)]
            arrays = [
                self.arrow.array(c, kind.type, from_pandas=True)
                for c, kind in zip(columns, self.schema, strict=True)
            ]
            self.file.write_table(self.arrow.table(arrays, schema=self.schema))
            self.held = []

    def flush(self) -> int:
        """Say that nothing is kept: a Parquet file cannot be gone on with."""
        return 0

    def close(self) -> None:
        """End."""
        self._put()
        self.file.close()


def open_writer(
    output: str | None, targets: Sequence[str], size: int = 0, *, header: bool = True
) -> Writer | None:
    """Open predictions for writing, by the suffix of `output`; None for none. `size` is where to go on in a file."""
    if output is None:
        return None
    names = [f"{target}{end}" for target in targets for end in ("", "_std", "_low", "_high")]
    twice = sorted({name for name in ["line", *names] if ["line", *names].count(name) > 1})
    if twice:
        raise ParameterError(
            f"the output would have two columns called {twice[0]}; rename a target in the input"
        )
    if output.lower().endswith(".parquet"):
        return ParquetWriter(output, names)
    return CsvWriter(output, names, size, header=header)


def open_at(path: str, size: int) -> IO[bytes]:
    """Open a file to go on writing after `size` bytes; what stands beyond them is cut off."""
    try:
        file = open(path, "r+b" if size else "wb")  # noqa: SIM115  closed by its writer
        if size:
            if os.fstat(file.fileno()).st_size < size:
                raise DataError(f"{path} is shorter than when the run stopped; it cannot be gone on with")
            file.truncate(size)
            file.seek(size)
        return file
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from error


def synced(file: IO[bytes], path: str) -> int:
    """Bring what was written to the disk; give the size."""
    try:
        file.flush()
        if path == "-":
            return 0
        os.fsync(file.fileno())
        return file.tell()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from error
