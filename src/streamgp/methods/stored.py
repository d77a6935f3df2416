"""Store: the last rows as they came, and which of them are nearest to a point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from .._arrays import Array, asarray_like, double, index, is_foreign, namespace, to_host, top, zeros
from ..gp.nearest import Index, closeness, largest, padded, places_among
from ..kernels import Kernel
from .rows import same_labels

# New rows wait until they are so many, or an eighth of the store, before they are copied to the others.
TAIL = 512
# No row counts for less than this: one over it stays a number.
LEAST_WEIGHT = 1e-12


@dataclass(frozen=True)
class Stored:
    """Some rows: X (n, d), standardised targets y (n, q) and weights (n,), in float64, on the device of the stream."""

    X: Array
    y: Array
    weights: Array

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    def joined(self, other: Stored, most: int | None = None) -> Stored:
        """Return these rows followed by others, the last `most` of them."""
        pairs = ((self.X, other.X), (self.y, other.y), (self.weights, other.weights))
        start, xp = 0 if most is None else max(0, self.count + other.count - most), namespace(self.X)
        late = max(0, start - self.count)
        return Stored(*(xp.concat([a[start:, ...], b[late:, ...]], axis=0) for a, b in pairs))

    def only(self, kept: np.ndarray) -> Stored:
        """Return the rows at these places, or of a mask (n,)."""
        values = (self.X, self.y, self.weights)
        if not is_foreign(self.X):
            return Stored(*(v[kept] for v in values))
        at = np.flatnonzero(kept) if kept.dtype == np.bool_ else kept
        return Stored(*(namespace(v).take(v, index(at.tolist(), v), axis=0) for v in values))

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

    def places(self, kernel: Kernel, X: Array, k: int) -> Array:
        """Return the places (m, k) of the k rows nearest to each row of X (m, d), of a library other than NumPy."""
        weights, xp = kernel.nearness(X.shape[1]), namespace(X)
        if weights is not None:
            return places_among(X, self.X, asarray_like(weights, X), k)
        prior = xp.clip(double(kernel.diag(self.X)), min=1e-300)
        return top(double(kernel.block(X, self.X)) / xp.sqrt(prior)[None, :], k)

    def at(self, places: Array) -> Nearest:
        """Return the rows at places (m, k)."""
        xp, flat = namespace(places), (-1,)
        values = (xp.take(v, xp.reshape(places, flat), axis=0) for v in (self.X, self.y, self.weights))
        return Nearest(*(xp.reshape(v, (*places.shape, *v.shape[1:])) for v in values))

    def _index(self, weights: np.ndarray) -> Index:
        # Made once for these rows and a kernel; any thread may put it there.
        known: Index | None = self.__dict__.get("_prepared")
        if known is None or not np.array_equal(known.scale, np.sqrt(weights)):
            known = self.__dict__["_prepared"] = Index.of(self.X, weights)
        return known


@dataclass(frozen=True)
class Nearest:
    """The stored rows nearest to each of m points: X (m, k, d), y (m, k, q), weights (m, k)."""

    X: Array
    y: Array
    weights: Array


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
    def empty(
        cls, size: int, neighbours: int, n_features: int, n_outputs: int, like: Array | None = None
    ) -> Self:
        """Return a store of no rows, on the device of `like`."""
        like = double(np.empty(0) if like is None else like)
        shapes = ((0, n_features), (0, n_outputs), (0,))
        none = Stored(*(zeros(shape, like) for shape in shapes))
        return cls(size, neighbours, none, none)

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.settled.count + self.newest.count

    @property
    def _tail(self) -> int:
        return min(TAIL, self.size // 8)

    # Learning

    def update(self, X: Array, y: Array, weights: Array | None = None) -> Self:
        """Return the store with the rows X (b, d), y (b, q) of weights (b,) too."""
        own = namespace(X).ones_like(X[:, 0]) if weights is None else _counting(weights)
        newest = self.newest.joined(Stored(X, y, own), self.size)
        if newest.count <= self._tail:
            return replace(self, newest=newest)
        return self._with(self.settled.joined(newest, self.size - self._tail))

    def _with(self, rows: Stored) -> Self:
        return replace(self, settled=rows, newest=rows.only(np.zeros(rows.count, dtype=bool)))

    @property
    def rows(self) -> Stored:
        """All rows, in the order in which they came."""
        return self.settled.joined(self.newest)

    def forgotten(self, rate: float) -> Self:
        """Return the store whose rows count for less: a row of weight w has the noise σ²/w."""

        def faded(rows: Stored) -> Stored:
            return replace(rows, weights=_counting(rate * rows.weights))

        return replace(self, settled=faded(self.settled), newest=faded(self.newest))

    def without(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Return the store without these rows, each once; of equal ones that of the nearest weight (b,)."""
        rows, kept = self.rows, np.ones(self.count, dtype=bool)
        there = Stored(*(to_host(v) for v in (rows.X, rows.y, rows.weights)))
        sought = np.ones(len(X)) if weights is None else weights
        for row, label, weight in zip(X, y, sought, strict=True):
            at = np.flatnonzero(kept & (row == there.X).all(axis=1))
            at = at[same_labels(there.y[at], label)]
            apart = np.abs(np.log(there.weights[at] / weight))
            kept[at[apart == apart.min(initial=np.inf)][-1:]] = False
        return self._with(rows.only(kept))

    def merge(self, other: Self) -> Self:
        """Return the store of the last rows of both, of each as its share of all; those of `other` count as older."""
        mine, theirs, total = self.rows, other.rows, self.count + other.count
        most = self.size if total <= self.size else self.size - self._tail
        n = theirs.count if total <= most else theirs.count * most // total
        return self._with(theirs.only(np.arange(theirs.count - n, theirs.count)).joined(mine, most))

    def with_targets(
        self, change: np.ndarray, factors: np.ndarray | float = 1.0, last: int | None = None
    ) -> Self:
        """Return the store with targets y·factors − change of the last rows, or of all; both (q,)."""
        rows = self.rows
        y = namespace(rows.y).asarray(rows.y, copy=True)
        start = 0 if last is None else max(0, rows.count - last)
        y[start:, :] = y[start:, :] * asarray_like(factors, y) - asarray_like(change, y)
        return self._with(replace(rows, y=y))

    def blank(self) -> Self:
        """Return the store of no rows."""
        return self._with(self.settled.only(np.zeros(self.settled.count, dtype=bool)))

    # Predicting

    def nearest(self, kernel: Kernel, X: Array, k: int) -> Nearest:
        """Return the k rows nearest to each row of X (m, d), exactly; O(m n d)."""
        if is_foreign(X):
            rows = self.rows
            return rows.at(rows.places(kernel, X, k))
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


def _counting(weights: Array) -> Array:
    """Return weights (n,), none below LEAST_WEIGHT."""
    if type(weights) is np.ndarray:
        return np.maximum(weights, LEAST_WEIGHT)
    return namespace(weights).clip(weights, min=LEAST_WEIGHT)
