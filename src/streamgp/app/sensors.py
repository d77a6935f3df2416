"""What a run has seen of each column: missing cells, and constants that may mean 'missing'."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# A constant is pointed out if at least one row in a hundred has it, and five.
_SHARE, _FEWEST = 0.01, 5
# So far from the other values, as a share of their range: a sensor at its limit has values just within it.
_FAR = 0.1
# Codes for 'missing' are whole and long, such as -200, 999 or -9999; a category may well be 99 or less.
_SMALLEST = 99


@dataclass(frozen=True)
class Extreme:
    """The lowest value of each column (d,), how often it came, and the next one above it."""

    value: np.ndarray
    count: np.ndarray
    next: np.ndarray

    @classmethod
    def none(cls, d: int) -> Extreme:
        """Return the extreme of no rows."""
        return cls(np.full(d, np.inf), np.zeros(d), np.full(d, np.inf))

    def add(self, values: np.ndarray) -> Extreme:
        """Return the extreme with more rows (b, d), inf where a value is missing."""
        lowest = values.min(axis=0)
        is_lowest = (values == lowest) & np.isfinite(values)
        second = np.where(is_lowest, np.inf, values).min(axis=0)
        value = np.minimum(self.value, lowest)
        count = np.where(self.value == value, self.count, 0) + np.where(
            lowest == value, is_lowest.sum(axis=0), 0
        )
        candidates = np.stack([self.value, self.next, lowest, second])
        return Extreme(value, count, np.where(candidates > value, candidates, np.inf).min(axis=0))


@dataclass
class Sensors:
    """Counts for the columns `names`; `lowest` and `highest` are extremes, the latter of negated values.

    Attributes
    ----------
    rows, empty : int
        Rows, and lines in which every cell was empty.
    missing : (d,)
        Rows in which the column had no value.
    """

    names: tuple[str, ...]
    lowest: Extreme
    highest: Extreme
    missing: np.ndarray
    rows: int = 0
    empty: int = 0

    @classmethod
    def none(cls, names: Sequence[str]) -> Sensors:
        """Return the counts of no rows."""
        d = len(names)
        return cls(tuple(names), Extreme.none(d), Extreme.none(d), np.zeros(d, dtype=np.int64))

    def add(self, values: np.ndarray, empty: int = 0) -> None:
        """Count rows (b, d), NaN where a value is missing, and empty lines."""
        self.empty += empty
        if not values.size:
            return
        self.rows += values.shape[0]
        gaps = np.isnan(values)
        self.missing += gaps.sum(axis=0)
        self.lowest = self.lowest.add(np.where(gaps, np.inf, values))
        self.highest = self.highest.add(np.where(gaps, np.inf, -values))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as names, numbers and arrays, for a checkpoint."""
        return {**self.__dict__, "lowest": self.lowest.__dict__, "highest": self.highest.__dict__}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Sensors:
        """Return the counts of which `to_dict` returned `content`."""
        ends = {name: Extreme(**content[name]) for name in ("lowest", "highest")}
        return cls(**{**content, **ends})

    def suspicious(self) -> Iterator[tuple[str, float, int]]:
        """Yield columns with a constant that may mean 'missing': name, constant, rows.

        It is a frequent whole number of two digits or more that is far from all other values.
        """
        fewest = max(_FEWEST, _SHARE * self.rows)
        for sign, low, high in ((1, self.lowest, self.highest), (-1, self.highest, self.lowest)):
            with np.errstate(invalid="ignore"):
                gap, spread = low.next - low.value, -high.value - low.next
                whole = (np.abs(low.value) >= _SMALLEST) & (low.value % 1 == 0)
            far = (low.count >= fewest) & (spread > 0) & (gap > _FAR * spread) & np.isfinite(gap)
            for j in np.flatnonzero(far & whole):
                yield self.names[j], sign * float(low.value[j]), int(low.count[j])

    def lines(self) -> Iterator[str]:
        """Yield sentences about what was missing and what may mean 'missing'."""
        gaps = [f"{self.names[j]} {self.missing[j]:,}" for j in np.argsort(-self.missing) if self.missing[j]]
        if gaps:
            yield f"missing values in {self.rows:,} rows: {', '.join(gaps)}"
        if self.empty:
            yield f"{self.empty:,} empty lines"
        found: dict[float, list[str]] = {}
        for name, value, count in self.suspicious():
            found.setdefault(value, []).append(f"{name} ({count:,} rows)")
        for value, columns in found.items():
            yield (
                f"{value:g} is far from all other values of {', '.join(columns)}; if it means that there is none, add "
                f"--missing {value:g}"
            )
