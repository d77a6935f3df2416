"""Rows that a broken sensor sent: too far from all that was seen to be learned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

# Fewer rows do not say what is far.
FEWEST = 20
# A normal distribution's standard deviation over its median absolute deviation.
_ROBUST = 1.4826


@dataclass(frozen=True)
class Inputs:
    """Mean and spread of the inputs that were learned, in units of the first rows, so that no square overflows.

    Attributes
    ----------
    unit, mean, squares : (d,)
        `squares` is the sum of squared deviations from the mean.
    count : float
    """

    unit: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    count: float = 0.0

    @classmethod
    def none(cls, unit: np.ndarray) -> Self:
        """Start from no rows; `unit` (d,) is the spread to measure in."""
        return cls(unit, np.zeros_like(unit), np.zeros_like(unit))

    def add(self, X: np.ndarray) -> Self:
        """See the rows X (b, d)."""
        scaled = X / self.unit
        mean = scaled.mean(axis=0)
        other = replace(self, mean=mean, squares=((scaled - mean) ** 2).sum(axis=0), count=float(len(X)))
        return self.merge(other)

    def merge(self, other: Self) -> Self:
        """Add the rows of another stream; its unit may be another."""
        ratio = other.unit / self.unit
        theirs, count = other.mean * ratio, self.count + other.count
        gap, share = theirs - self.mean, other.count / max(count, 1.0)
        return replace(
            self,
            mean=self.mean + share * gap,
            squares=self.squares + other.squares * ratio**2 + self.count * share * gap**2,
            count=count,
        )

    def far(self, X: np.ndarray, deviations: float) -> np.ndarray:
        """Tell which rows of X (b, d) lie further than that from the mean in some feature."""
        if self.count < FEWEST:
            return np.zeros(len(X), dtype=bool)
        spread = np.sqrt(self.squares / self.count)
        # A feature that never varied may vary by its own size.
        spread = np.where(spread > 1e-12, spread, 1.0)
        with np.errstate(over="ignore"):
            away = np.abs(X / self.unit - self.mean)
        return np.asarray(~(away <= deviations * spread).all(axis=1))


def far_from_the_others(values: np.ndarray, deviations: float) -> np.ndarray:
    """Tell which rows of (n, d) lie further than that from the median in some column that varies in most rows."""
    if len(values) < FEWEST:
        return np.zeros(len(values), dtype=bool)
    size = np.abs(np.median(values, axis=0))
    with np.errstate(over="ignore", invalid="ignore"):
        away = np.abs(values - np.median(values, axis=0))
        spread = _ROBUST * np.median(away, axis=0)
        # Most rows are the same: what differs is far if it is far in units of their size.
        spread = np.where(spread > 1e-12 * size, spread, np.where(size > 0, size, np.inf))
        return np.asarray(~(away <= deviations * spread).all(axis=1))
