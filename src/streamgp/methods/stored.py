"""Store: the last rows as they came, and which of them are nearest to a point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ..gp.nearest import Index, closeness, largest, padded
from ..kernels import Kernel
from .rows import same_labels

# New rows wait until they are so many, or an eighth of the store, before they are copied to the others.
TAIL = 512
# No row counts for less than this: one over it stays a number.
LEAST_WEIGHT = 1e-12


@dataclass(frozen=True)
class Stored:
    """Some rows: X (n, d), standardised targets y (n, q) and weights (n,), on the host in float64."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    def joined(self, other: Stored, most: int | None = None) -> Stored:
        """Return these rows followed by others, the last `most` of them."""
        pairs = ((self.X, other.X), (self.y, other.y), (self.weights, other.weights))
        start = 0 if most is None else max(0, self.count + other.count - most)
        return Stored(*(np.concatenate([a[start:], b[max(0, start - self.count) :]]) for a, b in pairs))

    def only(self, kept: np.ndarray) -> Stored:
        """Return the rows at these places, or of a mask (n,)."""
        return Stored(self.X[kept], self.y[kept], self.weights[kept])

    def nearest(self, kernel: Kernel, X: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return how near the k nearest rows are to each row of X (m, d) under a kernel, and their places; (m, k)."""
        weights = kernel.nearness(X.shape[1])
        if not k:
            close = np.empty((X.shape[0], 0))
        elif weights is not None:
            # An index of few rows costs more than it saves.
            few = self.count <= TAIL
            close = padded(closeness(X, self.X, weights)) if few else self._index(weights).closeness(X)
        else:
            prior = np.maximum(np.asarray(kernel.diag(self.X), dtype=np.float64), 1e-300)
            close = padded(np.asarray(kernel.block(X, self.X), dtype=np.float64) / np.sqrt(prior))
        places = largest(close, k)
        return np.take_along_axis(close, places, axis=1), places

    def _index(self, weights: np.ndarray) -> Index:
        # Made once for these rows and a kernel; any thread may put it there.
        known: Index | None = self.__dict__.get("_prepared")
        if known is None or not np.array_equal(known.scale, np.sqrt(weights)):
            known = self.__dict__["_prepared"] = Index.of(self.X, weights)
        return known


@dataclass(frozen=True)
class Nearest:
    """The stored rows nearest to each of m points: X (m, k, d), y (m, k, q), weights (m, k)."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Store:
    """The last rows learned; immutable. In O(d) a row, for the most part.

    Attributes
    ----------
    size : int
        The most rows that are kept; up to TAIL or an eighth of it fewer.
    neighbours : int
        How many of them are asked.
    settled, newest : Stored
        Rows in the order in which they came.
    """

    size: int
    neighbours: int
    settled: Stored
    newest: Stored

    @classmethod
    def empty(cls, size: int, neighbours: int, n_features: int, n_outputs: int) -> Self:
        """Return a store of no rows."""
        none = Stored(np.empty((0, n_features)), np.empty((0, n_outputs)), np.empty(0))
        return cls(size, neighbours, none, none)

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.settled.count + self.newest.count

    @property
    def _tail(self) -> int:
        return min(TAIL, self.size // 8)

    # Learning

    def update(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Return the store with the rows X (b, d), y (b, q) of weights (b,) too."""
        own = np.ones(X.shape[0]) if weights is None else np.maximum(weights, LEAST_WEIGHT)
        newest = self.newest.joined(Stored(X, y, own), self.size)
        if newest.count <= self._tail:
            return replace(self, newest=newest)
        return self._with(self.settled.joined(newest, self.size - self._tail))

    def _with(self, rows: Stored) -> Self:
        return replace(self, settled=rows, newest=rows.only(np.zeros(rows.count, dtype=bool)))

    def _all(self) -> Stored:
        return self.settled.joined(self.newest)

    def forgotten(self, rate: float) -> Self:
        """Return the store whose rows count for less: a row of weight w has the noise σ²/w."""

        def faded(rows: Stored) -> Stored:
            return replace(rows, weights=np.maximum(rate * rows.weights, LEAST_WEIGHT))

        return replace(self, settled=faded(self.settled), newest=faded(self.newest))

    def without(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Return the store without these rows, each once; of equal ones that of the nearest weight (b,)."""
        rows, kept = self._all(), np.ones(self.count, dtype=bool)
        sought = np.ones(len(X)) if weights is None else weights
        for row, label, weight in zip(X, y, sought, strict=True):
            at = np.flatnonzero(kept & (row == rows.X).all(axis=1))
            at = at[same_labels(rows.y[at], label)]
            apart = np.abs(np.log(rows.weights[at] / weight))
            kept[at[apart == apart.min(initial=np.inf)][-1:]] = False
        return self._with(rows.only(kept))

    def merge(self, other: Self) -> Self:
        """Return the store of the last rows of both, of each as its share of all; those of `other` count as older."""
        mine, theirs, total = self._all(), other._all(), self.count + other.count
        most = self.size if total <= self.size else self.size - self._tail
        n = theirs.count if total <= most else theirs.count * most // total
        return self._with(
            theirs.only(np.flatnonzero(np.ones(theirs.count))[theirs.count - n :]).joined(mine, most)
        )

    def with_targets(
        self, change: np.ndarray, factors: np.ndarray | float = 1.0, last: int | None = None
    ) -> Self:
        """Return the store with targets y·factors − change of the last rows, or of all; both (q,)."""
        rows = self._all()
        y = rows.y.copy()
        start = 0 if last is None else max(0, rows.count - last)
        y[start:] = y[start:] * factors - change
        return self._with(replace(rows, y=y))

    def blank(self) -> Self:
        """Return the store of no rows."""
        return self._with(self.settled.only(np.zeros(self.settled.count, dtype=bool)))

    # Predicting

    def nearest(self, kernel: Kernel, X: np.ndarray, k: int) -> Nearest:
        """Return the k rows nearest to each row of X (m, d), exactly; O(m n d)."""
        parts, (m, d) = (self.settled, self.newest), X.shape
        found = [rows.nearest(kernel, X, min(k, rows.count)) for rows in parts]
        best = np.argpartition(-np.concatenate([close for close, _ in found], axis=1), k - 1, axis=1)[:, :k]
        places = np.take_along_axis(np.concatenate([at for _, at in found], axis=1), best, axis=1)
        late = best >= found[0][1].shape[1]
        out = Nearest(np.empty((m, k, d)), np.empty((m, k, self.settled.y.shape[1])), np.empty((m, k)))
        for rows, mask in ((parts[0], ~late), (parts[1], late)):
            for name in ("X", "y", "weights"):
                getattr(out, name)[mask] = getattr(rows, name)[places[mask]]
        return out
