"""Rows from Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np

from ...errors import DataError
from .rows import BadRow, Place, Rows, check_names


class Parquet:
    """The columns of a file, row group by row group."""

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
        check_names(self.columns)
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
