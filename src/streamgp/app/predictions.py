"""Predictions of rows: mean, standard deviation and interval of each target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class RowPredictions:
    """Mean, standard deviation and ends of the interval, each (b, q); NaN before anything was learned."""

    mean: np.ndarray
    std: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def constant(cls, n: int, n_targets: int, value: float = np.nan) -> RowPredictions:
        """Return a prediction of n rows with the same value everywhere."""
        return cls(*(np.full((n, n_targets), value) for _ in range(4)))

    def beside(self, y: np.ndarray) -> list[np.ndarray]:
        """Return what was measured (b, q), mean, standard deviation and ends, (b,) each, target after target."""
        parts = (y, self.mean, self.std, self.low, self.high)
        return [part[:, j] for j in range(self.mean.shape[1]) for part in parts]
