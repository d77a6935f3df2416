"""Baselines: what one would predict without a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NAMES = ("last value", "running mean")


@dataclass(frozen=True)
class Baselines:
    """The last label and the mean of all labels that were known when a batch was predicted, for q targets.

    Attributes
    ----------
    last, mean, count : (q,)
        The last label, the mean of all, NaN before the first, and their number.
    """

    last: np.ndarray
    mean: np.ndarray
    count: np.ndarray

    @classmethod
    def none(cls, q: int) -> Baselines:
        """Return the baselines before the first label."""
        return cls(np.full(q, np.nan), np.full(q, np.nan), np.zeros(q))

    @property
    def values(self) -> np.ndarray:
        """What they predict, (2, q), in the order of NAMES."""
        return np.stack([self.last, self.mean])

    def add(self, y: np.ndarray) -> Baselines:
        """Return the baselines that know labels (b, q) too, NaN where one is missing."""
        known = np.isfinite(y)
        new = known.sum(axis=0)
        count = self.count + new
        rows = np.where(known, np.arange(len(y))[:, None], -1).max(axis=0, initial=-1)
        last = np.where(rows >= 0, y[rows, np.arange(y.shape[1])] if len(y) else self.last, self.last)
        before = np.where(self.count > 0, self.mean, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.where(known, y - before, 0.0).sum(axis=0)
        mean = np.where(count > 0, before + sums / np.maximum(count, 1), np.nan)
        return Baselines(last, mean, count)
