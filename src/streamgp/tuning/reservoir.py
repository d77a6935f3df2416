"""Reservoir: a uniform sample of the stream, of bounded size, on which hyperparameters are tuned."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from .._arrays import Array, index, namespace, to_host
from ..methods.rows import same_labels

# Rows that are kept; a tuning's evaluation is O(SAMPLE³).
SAMPLE = 500
# Rows of a past of which less was kept are not tuned on.
LEAST_SHARE = 0.1


@dataclass(frozen=True)
class Reservoir:
    """A uniform sample of all rows seen, the same however they were cut into batches.

    The key of a row is drawn from (seed, its number); the rows with the smallest keys are kept.

    Attributes
    ----------
    X : (m, d), y : (m, q)
        On the host, in the order in which they came.
    keys : (m,)
        Random; the rows with the smallest keys are kept.
    numbers : (m,)
        The places of the rows in the stream.
    seen : int
    weights : (m,)
        Those that the rows were learned with.
    favour : float
        Accumulated −log(forgetting); raises the retention probability of new rows.
    """

    X: np.ndarray
    y: np.ndarray
    keys: np.ndarray
    numbers: np.ndarray
    seen: int
    seed: int
    weights: np.ndarray
    favour: float = 0.0

    @classmethod
    def empty(cls, n_features: int, n_outputs: int, seed: int) -> Self:
        """Return the sample of no rows."""
        rows, none = np.empty((0, n_features)), np.empty(0)
        return cls(rows, np.empty((0, n_outputs)), none, none, 0, seed, none)

    def without(self, X: Array, y: Array) -> Self:
        """Return the sample without rows that were unlearned."""
        gone: dict[bytes, list[np.ndarray]] = {}
        for row, label in zip(to_host(X).astype(np.float64), to_host(y), strict=True):
            gone.setdefault(row.tobytes(), []).append(label)
        labels = [np.array(gone.get(row.tobytes(), np.empty((0, y.shape[1])))) for row in self.X]
        kept = np.array(
            [not same_labels(known, label).any() for known, label in zip(labels, self.y, strict=True)],
            dtype=bool,
        )
        return self._only(kept)

    def _only(self, kept: np.ndarray) -> Self:
        """Return the sample with some of its rows."""
        names = ("X", "y", "keys", "numbers", "weights")
        return replace(self, **{name: getattr(self, name)[kept] for name in names})

    def rescaled(self, factors: np.ndarray) -> Self:
        """Return the sample with targets multiplied by `factors` (q,)."""
        return replace(self, y=self.y * factors)

    def moved(self, shift: np.ndarray) -> Self:
        """Return the sample with targets smaller by `shift` (q,)."""
        return replace(self, y=self.y - shift)

    def cleared(self) -> Self:
        """Return the sample of no rows."""
        return replace(self._only(np.arange(0)), seen=0, favour=0.0)

    def faded(self, share: float, n_recent: int) -> Self:
        """Return the sample with a `share` of its rows before the last n of the stream, drawn at random.

        None of them below LEAST_SHARE: a few labels that hold no more would be taken for noise.
        """
        recent = self.numbers >= self.seen - n_recent
        n_old = math.floor(share * (~recent).sum()) if share >= LEAST_SHARE else 0
        old = np.flatnonzero(~recent)
        kept = np.sort(
            np.append(old[np.argsort(self.keys[old], kind="stable")[:n_old]], np.flatnonzero(recent))
        )
        return replace(self._only(kept), favour=self.favour - math.log(share))

    def standing_for(self, n: int) -> Self:
        """Return the sample as one of n rows, of which the rows seen were drawn."""
        n = max(n, self.seen)
        return replace(self, keys=self.keys + math.log(self.seen / n) if self.seen else self.keys, seen=n)

    def merge(self, other: Self) -> Self:
        """Return a sample of both streams, rows weighted by their present weight."""
        keys = np.concatenate([self.keys + self.favour, other.keys + other.favour])
        kept = np.sort(np.argsort(keys, kind="stable")[:SAMPLE])
        return replace(
            self,
            X=np.concatenate([self.X, other.X])[kept],
            y=np.concatenate([self.y, other.y])[kept],
            keys=keys[kept],
            numbers=np.concatenate([other.seen + self.numbers, other.numbers])[kept],
            weights=np.concatenate([self.weights, other.weights])[kept],
            seen=self.seen + other.seen,
            favour=0.0,
        )

    def add(
        self,
        X: Array,
        y: Array,
        fresh: Array | None = None,
        weights: Array | None = None,
        *,
        forgetting: float = 1.0,
    ) -> Self:
        """Add rows X (b, d), y (b, q); only those with the numbers `fresh` can be kept (None: any).

        The weight of all earlier rows is multiplied by `forgetting` first. A row is as likely to be kept whatever its
        own weight (b,) is: that tells how noisy its target is.
        """
        b, favour = X.shape[0], self.favour - math.log(forgetting)
        keys = _keys(self.seed, self.seen, b) - favour
        limit = self.keys.max() if self.keys.size >= SAMPLE else math.inf
        chosen = np.flatnonzero(keys < limit)
        if fresh is not None:
            chosen = np.intersect1d(chosen, to_host(fresh))
        if not chosen.size:
            return replace(self, seen=self.seen + b, favour=favour)
        at, xp = index([int(i) for i in chosen], X), namespace(X)
        keys = np.concatenate([self.keys, keys[chosen]])
        rows, targets = (to_host(xp.take(v, at, axis=0)).astype(np.float64) for v in (X, y))
        rows = np.concatenate([self.X, rows])
        own = np.ones(b) if weights is None else to_host(weights)
        kept = np.sort(np.argsort(keys, kind="stable")[:SAMPLE])
        return replace(
            self,
            X=rows[kept],
            y=np.concatenate([self.y, targets])[kept],
            keys=keys[kept],
            numbers=np.concatenate([self.numbers, self.seen + chosen])[kept],
            weights=np.concatenate([self.weights, own[chosen]])[kept],
            seen=self.seen + b,
            favour=favour,
        )


def _keys(seed: int, first: int, n: int, block: int = 256) -> np.ndarray:
    """Return the logarithm of an exponential variable for each of n rows from number `first` on."""
    blocks = range(first // block, (first + n - 1) // block + 1)
    drawn = np.concatenate([np.random.default_rng([seed, 7, i]).standard_exponential(block) for i in blocks])
    skipped = first - blocks[0] * block
    return np.asarray(np.log(drawn[skipped : skipped + n]))
