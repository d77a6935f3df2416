"""Rows from Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import DataError
from .base import BadRow, Position, ReadOptions, TableRows, check_names
from .cells import Cells

# Rows that are decoded at once, at least.
_DECODED = 10_000


def import_pyarrow() -> Any:
    """Return pyarrow with its Parquet module; raise DataError if it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise DataError("Parquet needs pyarrow: pip install 'streamgp[parquet]'") from error
    return pyarrow


@dataclass(frozen=True)
class _Columns:
    """The numbers that are read, which of them are inputs and labels, and the texts; any may not be there."""

    names: list[str]
    inputs: list[int | None]
    labels: list[int | None]
    texts: list[str]


class ParquetReader:
    """Reader of the numeric columns of a file, one row group after another."""

    open_ended = False
    remarks: Sequence[str] = ()

    def __init__(self, path: str, options: ReadOptions) -> None:
        self.arrow = import_pyarrow()
        try:
            self.file = self.arrow.parquet.ParquetFile(path)
        except (OSError, self.arrow.ArrowException) as error:
            raise DataError(f"{path} cannot be read as Parquet: {error}") from error
        types = self.arrow.types
        schema = self.file.schema_arrow
        self.numeric = {
            f.name
            for f in schema
            if types.is_integer(f.type) or types.is_floating(f.type) or types.is_decimal(f.type)
        }
        self.path, self.position, self.cells = path, options.position, Cells(missing=options.missing)
        self.columns, self.unnamed = list(schema.names), [name for name in schema.names if not name]
        check_names(self.columns)
        self.size = self.file.metadata.num_rows
        if self.position.offset > self.size:
            raise DataError(
                f"{path} ends before row {self.position.offset}, where the run resumes; is it the same file?"
            )

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def batches(
        self, features: Sequence[str], targets: Sequence[str], batch_size: int, texts: Sequence[str] = ()
    ) -> Iterator[TableRows]:
        """Yield batches of `batch_size` rows, bad ones counted; the last may be smaller."""
        columns = self._columns(features, targets, texts)
        values = np.empty((0, len(columns.names)))
        cells = np.empty((0, len(columns.texts)), dtype=object)
        for new_values, new_cells in self._decoded(columns, max(batch_size, _DECODED)):
            values, cells = np.concatenate([values, new_values]), np.concatenate([cells, new_cells])
            while values.shape[0] >= batch_size:
                yield self._batch(columns, values[:batch_size], cells[:batch_size])
                values, cells = values[batch_size:], cells[batch_size:]
        if values.shape[0]:
            yield self._batch(columns, values, cells)

    def _columns(self, features: Sequence[str], targets: Sequence[str], other: Sequence[str]) -> _Columns:
        names = [name for name in dict.fromkeys([*features, *targets]) if name in self.columns]
        texts = [name for name in names if name not in self.numeric]
        if texts:
            raise DataError(
                f"column {texts[0]!r} of {self.path} does not hold numbers; leave it out with --ignore, or choose "
                "others with --target and --features"
            )
        index = {name: i for i, name in enumerate(names)}
        inputs, labels = ([index.get(name) for name in part] for part in (features, targets))
        return _Columns(names, inputs, labels, list(other))

    def _decoded(self, columns: _Columns, n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the numbers (NaN where they are null) and texts of about n rows at a time, from the position on."""
        groups, skip = self._remaining_groups()
        if not groups:
            return
        texts = [name if name in self.columns else None for name in columns.texts]
        read = list(dict.fromkeys([*columns.names, *(name for name in texts if name)]))
        try:
            for part in self.file.iter_batches(n, row_groups=groups, columns=read):
                values = np.full((part.num_rows, len(columns.names)), np.nan)
                for j, name in enumerate(columns.names):
                    numbers = part.column(name).cast(self.arrow.float64(), safe=False)
                    values[:, j] = numbers.to_numpy(zero_copy_only=False)
                cells = np.empty((part.num_rows, len(columns.texts)), dtype=object)
                for j, text in enumerate(texts):
                    found = (
                        [None] * part.num_rows
                        if text is None
                        else part.column(text).cast(self.arrow.string()).to_pylist()
                    )
                    cells[:, j] = [self.cells.text(cell) for cell in found]
                dropped = min(skip, part.num_rows)
                skip -= dropped
                yield self.cells.without_missing(values[dropped:]), cells[dropped:]
        except (OSError, self.arrow.ArrowException) as error:
            raise DataError(f"{self.path} cannot be read: {error}") from error

    def _remaining_groups(self) -> tuple[list[int], int]:
        """Return the row groups from the position on, and how many rows of the first one to skip."""
        start = 0
        for i in range(self.file.metadata.num_row_groups):
            end = start + self.file.metadata.row_group(i).num_rows
            if end > self.position.offset:
                return list(range(i, self.file.metadata.num_row_groups)), self.position.offset - start
            start = end
        return [], 0

    def _batch(self, columns: _Columns, values: np.ndarray, cells: np.ndarray) -> TableRows:
        X, y = (
            np.column_stack([np.full(len(values), np.nan) if i is None else values[:, i] for i in part])
            for part in (columns.inputs, columns.labels)
        )
        wrong = np.isinf(values)
        numbers = self.position.offset + 1 + np.arange(values.shape[0])
        good = ~wrong.any(axis=1)
        bad = []
        for r in np.flatnonzero(~good):
            i = int(np.flatnonzero(wrong[r])[0])
            reason = f"{columns.names[i]}={values[r, i]} is not finite"
            bad.append(BadRow(int(numbers[r]), reason, _as_json(columns.names, values[r])))
        end = self.position.offset + values.shape[0]
        self.position = Position(end, end)
        kept = [int(n) for n in numbers[good]]
        return TableRows(X[good], y[good], kept, bad, self.position, cells[good])


def _as_json(names: Sequence[str], values: np.ndarray) -> str:
    row = {n: float(v) if np.isfinite(v) else str(v) for n, v in zip(names, values, strict=True)}
    return json.dumps(row)
