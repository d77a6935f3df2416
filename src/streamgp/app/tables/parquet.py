"""Rows from Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import DataError
from .base import BadRow, Position, TableRows, check_names

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
    """The columns that are read, and which of them are inputs and labels; a target may be missing."""

    names: list[str]
    inputs: list[int]
    labels: list[int | None]


class ParquetReader:
    """Reader of the numeric columns of a file, one row group after another."""

    open_ended = False
    incomplete_line = False

    def __init__(self, path: str, position: Position) -> None:
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
        self.path, self.position = path, position
        self.columns = list(schema.names)
        check_names(self.columns)
        self.size = self.file.metadata.num_rows
        if position.offset > self.size:
            raise DataError(
                f"{path} ends before row {position.offset}, where the run resumes; is it the same file?"
            )

    def batches(
        self, features: Sequence[str], targets: Sequence[str], batch_size: int
    ) -> Iterator[TableRows]:
        """Yield batches of `batch_size` rows, bad ones counted; the last may be smaller."""
        columns = self._columns(features, targets)
        values = np.empty((0, len(columns.names)))
        missing = np.empty((0, len(columns.names)), dtype=bool)
        for new_values, new_missing in self._decoded(columns.names, max(batch_size, _DECODED)):
            values, missing = np.concatenate([values, new_values]), np.concatenate([missing, new_missing])
            while values.shape[0] >= batch_size:
                yield self._batch(columns, values[:batch_size], missing[:batch_size])
                values, missing = values[batch_size:], missing[batch_size:]
        if values.shape[0]:
            yield self._batch(columns, values, missing)

    def _columns(self, features: Sequence[str], targets: Sequence[str]) -> _Columns:
        names = list(dict.fromkeys([*features, *(name for name in targets if name in self.columns)]))
        texts = [name for name in names if name not in self.numeric]
        if texts:
            raise DataError(
                f"column {texts[0]!r} of {self.path} does not hold numbers; leave it out with --ignore, or choose "
                "others with --target and --features"
            )
        index = {name: i for i, name in enumerate(names)}
        return _Columns(names, [index[name] for name in features], [index.get(name) for name in targets])

    def _decoded(self, names: list[str], n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the values of about n rows at a time and where they are null, from the position on."""
        groups, skip = self._remaining_groups()
        if not groups:
            return
        try:
            for part in self.file.iter_batches(n, row_groups=groups, columns=names):
                columns = [part.column(name) for name in names]
                missing = np.column_stack([np.asarray(c.is_null()) for c in columns])
                values = np.column_stack(
                    [
                        np.asarray(c.cast(self.arrow.float64(), safe=False).to_numpy(zero_copy_only=False))
                        for c in columns
                    ]
                )
                dropped = min(skip, values.shape[0])
                skip -= dropped
                yield values[dropped:], missing[dropped:]
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

    def _batch(self, columns: _Columns, values: np.ndarray, missing: np.ndarray) -> TableRows:
        y = np.full((values.shape[0], len(columns.labels)), np.nan)
        wrong = ~np.isfinite(values)
        for j, i in enumerate(columns.labels):
            if i is not None:
                y[:, j] = np.where(missing[:, i], np.nan, values[:, i])
                wrong[:, i] &= ~missing[:, i]
        numbers = self.position.offset + 1 + np.arange(values.shape[0])
        good = ~wrong.any(axis=1)
        bad = []
        for r in np.flatnonzero(~good):
            i = int(np.flatnonzero(wrong[r])[0])
            name = columns.names[i]
            reason = f"{name} is missing" if missing[r, i] else f"{name}={values[r, i]} is not finite"
            bad.append(BadRow(int(numbers[r]), reason, _as_json(columns.names, values[r])))
        end = self.position.offset + values.shape[0]
        self.position = Position(end, end)
        return TableRows(
            values[good][:, columns.inputs], y[good], [int(n) for n in numbers[good]], bad, self.position
        )


def _as_json(names: Sequence[str], values: np.ndarray) -> str:
    row = {n: float(v) if np.isfinite(v) else str(v) for n, v in zip(names, values, strict=True)}
    return json.dumps(row)
