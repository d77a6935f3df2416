"""OpenChoice: the first rows as they came, while the transform of their targets may still be chosen by them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from .._arrays import copied, is_foreign, joined
from ..checks import Batch
from ..transforms import AUTO, FEWEST, MOST


@dataclass(frozen=True)
class OpenChoice:
    """The rows so far as they came, while a transform may still be chosen by them.

    Attributes
    ----------
    X, y, weights : (n, d), (n, q), (n,) or None
        NaN where a feature or one of several labels is missing.
    """

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None

    @classmethod
    def first(cls, wanted: str | None, batch: Batch) -> Self | None:
        """Return the choice that the first rows leave open; None where nothing is left to choose."""
        if wanted != AUTO or is_foreign(batch.X):
            return None
        weights = None if batch.weights is None else copied(batch.weights)
        return cls(copied(batch.X), copied(batch.y), weights)._if_open()

    def followed_by(self, batch: Batch) -> tuple[Batch, Self | None]:
        """Return all rows as one batch, and the choice that they leave open."""
        n, b = self.X.shape[0], batch.X.shape[0]
        weights = None
        if self.weights is not None or batch.weights is not None:
            parts = ((self.weights, n), (batch.weights, b))
            weights = np.concatenate([np.ones(k) if w is None else w for w, k in parts])
        X, y = joined([self.X, batch.X]), joined([self.y, batch.y])
        lacking = np.isnan(X)
        rows = replace(batch, X=X, y=y, weights=weights, lacking=lacking if lacking.any() else None)
        return rows, replace(self, X=X, y=y, weights=weights)._if_open()

    def _if_open(self) -> Self | None:
        return self if looks(self.X.shape[0]) < looks(MOST) else None


def looks(n: int) -> int:
    """Return how often n rows are looked at: once there are FEWEST, and whenever these have doubled."""
    return int(np.log2(max(n, 1) / FEWEST) + 1) if n >= FEWEST else 0
