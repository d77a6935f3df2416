"""Rows that a state keeps, with their features, and which rows carry new information."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._arrays import Array, asarray_like, copied, double, index, joined, namespace, to_host
from ..row_weights import joined_weights, part_of, taken, whitened

# Equal inputs in a row after which further copies are left out. A stuck sensor repeats one reading; a set point that
# is held for less than this still informs the estimate of the noise.
STILL = 50


@dataclass(frozen=True)
class Rows:
    """Some rows with their features: X (n, d), y (n, q), F (n, r) and present weights (n,).

    `given` (n,) are the weights that they were learned with, None for ones; `weights` are these times what forgetting
    has left of each row.
    """

    X: Array
    y: Array
    F: Array
    weights: Array
    given: Array | None = None

    @classmethod
    def of(cls, X: Array, y: Array, F: Array, weights: Array | None = None) -> Rows:
        """Return rows of these weights (n,), or of weight one."""
        ones = double(namespace(y).ones_like(y[:, 0]))
        return cls(X, double(y), F, ones if weights is None else weights, weights)

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    def join(self, other: Rows) -> Rows:
        """Return these rows followed by others."""
        pairs = ((self.X, other.X), (self.y, other.y), (self.F, other.F), (self.weights, other.weights))
        given = joined_weights([(self.given, self.X), (other.given, other.X)])
        X, y, F, weights = (joined(pair) for pair in pairs)
        return Rows(X, y, F, weights, given)

    def copied(self) -> Rows:
        """Return these rows in memory of their own: a view would keep all that it is a part of."""
        given = None if self.given is None else copied(self.given)
        X, y, F, weights = (copied(v) for v in (self.X, self.y, self.F, self.weights))
        return Rows(X, y, F, weights, given)

    def weighted(self) -> tuple[Array, Array]:
        """Return √w·F (n, r) and √w·y (n, q), whose products are the weighted statistics."""
        root = namespace(self.F).sqrt(self.weights)[:, None]
        return double(self.F) * root, self.y * root

    def whitened(self) -> tuple[Array, Array]:
        """Return features and targets multiplied by the roots of the weights that the rows were learned with."""
        return whitened(self.F, self.given), whitened(self.y, self.given)

    def rescaled(self, factors: Array) -> Rows:
        """Return these rows with targets multiplied by `factors` (q,)."""
        return replace(self, y=self.y * factors[None, :])

    def at(self, numbers: list[int]) -> Rows:
        """Return the rows with these numbers."""
        xp, at = namespace(self.X), index(numbers, self.X)
        X, y, F, weights = (xp.take(v, at, axis=0) for v in (self.X, self.y, self.F, self.weights))
        return Rows(X, y, F, weights, taken(self.given, at))

    def last(self, n: int) -> Rows:
        """Return the last n rows."""
        start = max(0, self.count - n)
        return self.between(start, self.count)

    def between(self, start: int, end: int) -> Rows:
        """Return the rows from number `start` on, before number `end`."""
        X, y, F = (v[start:end, :] for v in (self.X, self.y, self.F))
        return Rows(X, y, F, self.weights[start:end], part_of(self.given, slice(start, end)))


@dataclass(frozen=True)
class Removal:
    """What taking some rows out of a window does: the weights left (n,), those removed (b,), whether all were there."""

    kept: Array
    removed: Array
    complete: bool

    @classmethod
    def of(cls, window: Rows, X: Array, y: Array, given: Array | None = None) -> Removal:
        """Find the rows X (b, d), y (b, q) of the weights `given` (b,) in a window; others keep that weight."""
        complete, weights = True, to_host(window.weights).copy()
        sought = np.ones(X.shape[0]) if given is None else to_host(given)
        known = np.ones(weights.size) if window.given is None else to_host(window.given)
        removed = sought.copy()
        have, targets, lost, labels = (to_host(v) for v in (window.X, window.y, X, y))
        for i, (row, label) in enumerate(zip(lost, labels, strict=True)):
            at = np.flatnonzero((have == row).all(axis=1) & (weights > 0) & (known == sought[i]))
            at = at[same_labels(targets[at], label)][:1]
            if at.size:
                removed[i], weights[at] = weights[at[0]], 0.0
            complete = complete and bool(at.size)
        like = window.weights
        return cls(asarray_like(weights, like), asarray_like(removed, like), complete)


def same_labels(y: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return which rows of y (n, q) are `label` (q,), to the rounding of a change of units (`State.rescaled`); (n,)."""
    return np.asarray((np.abs(y - label) <= 1e-12 * np.abs(label)).all(axis=1))


def moving(
    X: Array, last: Array | None = None, still: int = 0, alone: bool = False
) -> tuple[Array | None, int]:
    """Return the numbers of the rows of X (b, d) that are not the (STILL + 1)st or later copy of one reading.

    A stuck sensor repeats its inputs; that the model predicts these ever better says nothing about other rows. Where
    inputs have never changed there are no others, and all rows count.

    Parameters
    ----------
    last : (1, d), optional
        The row before X.
    still : int
        The number of rows up to and including `last` with equal inputs.
    alone : bool
        Whether no other inputs were ever seen.

    Returns
    -------
    numbers (None for all), and the number of rows with equal inputs up to the last of X
    """
    xp, b = namespace(X), X.shape[0]
    goes_on = last is not None and bool(xp.all(X[0, :] == last[0, :]))
    equal = np.append(goes_on, to_host(xp.all(X[1:, :] == X[:-1, :], axis=1)))
    if not equal.any():
        return None, 1
    places = np.arange(b)
    starts = np.maximum.accumulate(np.where(equal, 0, places))
    as_before = np.logical_and.accumulate(equal)  # rows equal to the one before X
    run = places - starts + 1 + np.where(as_before, still, 0)
    kept = run <= STILL
    if kept.all() or (alone and bool(equal[1:].all()) and (goes_on or last is None)):
        return None, int(run[-1])
    return index(np.flatnonzero(kept).tolist(), X), int(run[-1])


def stand_still(X: Array) -> bool:
    """Return whether most rows of X (n, d) are copies sent by a stuck sensor, which tell nothing of the function."""
    fresh = moving(X)[0] if X.shape[0] else None
    return fresh is not None and 2 * fresh.shape[0] < X.shape[0]
