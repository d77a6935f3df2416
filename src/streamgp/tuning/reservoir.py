"""A sample of the stream, of a size that does not grow: what hyperparameters are tuned on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from .._arrays import Array, index, namespace, to_host

# Rows that are kept; a tuning's evaluation is O(SAMPLE³).
SAMPLE = 500


@dataclass(frozen=True)
class Reservoir:
    """A uniform sample of all rows seen, the same however they were cut into batches.

    Each row draws a key from (seed, its number); the rows of the smallest keys stay.

    Attributes
    ----------
    X : (m, d), y : (m, q)
        On the host, in the order in which they came.
    keys : (m,)
        The smaller, the longer a row stays.
    seen : int
    favour : float
        −Σ log of what the past was multiplied by: a row that comes now is e^favour times as likely to stay as
        the first ones were.
    """

    X: np.ndarray
    y: np.ndarray
    keys: np.ndarray
    seen: int
    seed: int
    favour: float = 0.0

    @classmethod
    def empty(cls, n_features: int, n_outputs: int, seed: int) -> Self:
        """Give the sample of no rows."""
        return cls(np.empty((0, n_features)), np.empty((0, n_outputs)), np.empty(0), 0, seed)

    def without(self, X: Array, y: Array) -> Self:
        """Take rows out that were unlearned."""
        gone = {row.tobytes() for row in np.hstack([to_host(X), to_host(y)]).astype(np.float64)}
        kept = np.array([r.tobytes() not in gone for r in np.hstack([self.X, self.y])], dtype=bool)
        return replace(self, X=self.X[kept], y=self.y[kept], keys=self.keys[kept])

    def cleared(self) -> Self:
        """Give the sample of no rows."""
        return replace(self, X=self.X[:0], y=self.y[:0], keys=self.keys[:0], seen=0, favour=0.0)

    def faded(self, rate: float) -> Self:
        """Let all rows so far count `rate` times as much as they did."""
        return self if rate == 1 else replace(self, favour=self.favour - math.log(rate))

    def standing_for(self, n: int) -> Self:
        """Let a sample of some rows be the sample of n of which these were drawn."""
        n = max(n, self.seen)
        return replace(self, keys=self.keys + math.log(self.seen / n) if self.seen else self.keys, seen=n)

    def merge(self, other: Self) -> Self:
        """Give a sample of both streams, rows weighed by what they count for now."""
        keys = np.concatenate([self.keys + self.favour, other.keys + other.favour])
        kept = np.sort(np.argsort(keys, kind="stable")[:SAMPLE])
        return replace(
            self,
            X=np.concatenate([self.X, other.X])[kept],
            y=np.concatenate([self.y, other.y])[kept],
            keys=keys[kept],
            seen=self.seen + other.seen,
            favour=0.0,
        )

    def add(self, X: Array, y: Array, fresh: Array | None = None) -> Self:
        """See more rows, X (b, d) and y (b, q), and keep none but those of the numbers `fresh` (None: any)."""
        b = X.shape[0]
        keys = _keys(self.seed, self.seen, b) - self.favour
        limit = self.keys.max() if self.keys.size >= SAMPLE else math.inf
        chosen = np.flatnonzero(keys < limit)
        if fresh is not None:
            chosen = np.intersect1d(chosen, to_host(fresh))
        if not chosen.size:
            return replace(self, seen=self.seen + b)
        at, xp = index([int(i) for i in chosen], X), namespace(X)
        keys = np.concatenate([self.keys, keys[chosen]])
        rows, targets = (to_host(xp.take(v, at, axis=0)).astype(np.float64) for v in (X, y))
        rows = np.concatenate([self.X, rows])
        kept = np.sort(np.argsort(keys, kind="stable")[:SAMPLE])
        return replace(
            self,
            X=rows[kept],
            y=np.concatenate([self.y, targets])[kept],
            keys=keys[kept],
            seen=self.seen + b,
        )


def _keys(seed: int, first: int, n: int, block: int = 256) -> np.ndarray:
    """Give the logarithm of an exponential variable for each of n rows from number `first` on."""
    blocks = range(first // block, (first + n - 1) // block + 1)
    drawn = np.concatenate([np.random.default_rng([seed, 7, i]).standard_exponential(block) for i in blocks])
    skipped = first - blocks[0] * block
    return np.asarray(np.log(drawn[skipped : skipped + n]))
