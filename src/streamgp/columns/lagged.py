"""Values of earlier rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Lagged:
    """The newest values of some columns, so many as the longest lag needs.

    Attributes
    ----------
    names : tuple of str
        Of the c columns.
    lags : tuple of int
        How many rows before it each row is given a value of.
    rows : (m,)
        Numbers of the rows that are kept, in increasing order.
    values : (m, c)
        NaN where a value is not known, or not yet.
    """

    names: tuple[str, ...]
    lags: tuple[int, ...]
    rows: np.ndarray
    values: np.ndarray

    @classmethod
    def none(cls, names: tuple[str, ...], lags: tuple[int, ...]) -> Lagged:
        """Return the values of no rows."""
        return cls(names, lags, np.empty(0, dtype=np.int64), np.empty((0, len(names))))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the values that a row is given."""
        return tuple(f"{name}_lag{lag}" for lag in self.lags for name in self.names)

    def add(self, rows: np.ndarray, values: np.ndarray) -> Lagged:
        """Return this with the values (b, c) of newer rows (b,) as well."""
        return replace(
            self, rows=np.concatenate([self.rows, rows]), values=np.concatenate([self.values, values])
        )

    def set(self, rows: np.ndarray, values: np.ndarray) -> Lagged:
        """Return this with values (b, c) of rows (b,) that have come late; those of rows not kept are of no use."""
        at = np.searchsorted(self.rows, rows)
        kept = at < self.rows.size
        kept[kept] = self.rows[at[kept]] == rows[kept]
        late = self.values.copy()
        late[at[kept]] = np.where(np.isnan(values[kept]), late[at[kept]], values[kept])
        return replace(self, values=late)

    def given(self, rows: np.ndarray) -> np.ndarray:
        """Return the values (b, len(lags) · c) that rows (b,) are given; NaN where they are not known."""
        out = np.full((rows.size, len(self.lags), len(self.names)), np.nan)
        if self.rows.size:
            wanted = rows[:, None] - np.array(self.lags)
            at = np.searchsorted(self.rows, wanted)
            found = np.take(self.rows, at, mode="clip") == wanted
            out[found] = self.values[np.minimum(at, self.rows.size - 1)][found]
        return out.reshape(rows.size, -1)

    def cut(self, next_row: int) -> Lagged:
        """Return what rows from `next_row` on may be given."""
        keep = self.rows >= next_row - max(self.lags)
        return replace(self, rows=self.rows[keep], values=self.values[keep])
