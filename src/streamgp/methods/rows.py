"""Rows that are remembered, with their features: what new pivots learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._arrays import Array, asarray_like, copied, double, index, joined, namespace, to_host

# Rows whose inputs have stood still for so long are no news.
STILL = 50


@dataclass(frozen=True)
class Rows:
    """Some rows with their features: X (n, d), y (n, q), F (n, r), and what each counts for, (n,)."""

    X: Array
    y: Array
    F: Array
    weights: Array

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    def join(self, other: Rows) -> Rows:
        """Put other rows after these."""
        pairs = ((self.X, other.X), (self.y, other.y), (self.F, other.F), (self.weights, other.weights))
        return Rows(*(joined(pair) for pair in pairs))

    def copied(self) -> Rows:
        """Give these rows in memory of their own: a view would keep all that it is a part of."""
        return Rows(*(copied(v) for v in (self.X, self.y, self.F, self.weights)))

    def weighed(self) -> tuple[Array, Array]:
        """Return √w·F (n, r) and √w·y (n, q), whose products are the weighted statistics."""
        root = namespace(self.F).sqrt(self.weights)[:, None]
        return double(self.F) * root, self.y * root

    def at(self, numbers: list[int]) -> Rows:
        """Return the rows of these numbers."""
        xp, at = namespace(self.X), index(numbers, self.X)
        return Rows(*(xp.take(v, at, axis=0) for v in (self.X, self.y, self.F, self.weights)))

    def last(self, n: int) -> Rows:
        """Keep the last n."""
        start = max(0, self.count - n)
        return Rows(self.X[start:, :], self.y[start:, :], self.F[start:, :], self.weights[start:])


def without(window: Rows, X: Array, y: Array) -> tuple[Array, Array, bool]:
    """Give the weights of the window without the rows X and y, what each of these weighed, and if all were there.

    A row that is not in the window counts 1.
    """
    found, weights, gone = True, to_host(window.weights).copy(), np.ones(X.shape[0])
    have, lost = (
        to_host(namespace(X).concat([double(a), b], axis=1)) for a, b in ((window.X, window.y), (X, y))
    )
    for i, row in enumerate(lost):
        at = np.flatnonzero((have == row).all(axis=1) & (weights > 0))[:1]
        if at.size:
            gone[i], weights[at] = weights[at[0]], 0.0
        found = found and bool(at.size)
    return asarray_like(weights, window.weights), asarray_like(gone, window.weights), found


def moving(
    X: Array, last: Array | None = None, still: int = 0, alone: bool = False
) -> tuple[Array | None, int]:
    """Return the numbers of the rows of X (b, d) whose inputs had not stood still for STILL rows; None if all are.

    A stuck sensor sends the same inputs again and again; that the model predicts them ever better says nothing of
    other rows. Where inputs have never changed there are no others.

    Parameters
    ----------
    last : (1, d), optional
        The row before.
    still : int
        For how many rows inputs have been equal to it.
    alone : bool
        Whether no other inputs were ever seen.

    Returns
    -------
    numbers, and for how many rows inputs have stood still after the last one
    """
    xp, b = namespace(X), X.shape[0]
    goes_on = last is not None and bool(xp.all(X[0, :] == last[0, :]))
    equal = np.append(goes_on, to_host(xp.all(X[1:, :] == X[:-1, :], axis=1)))
    if not equal.any():
        return None, 1
    places = np.arange(b)
    starts = np.maximum.accumulate(np.where(equal, 0, places))
    goes_on_from = np.logical_and.accumulate(equal)  # rows equal to the one before the batch
    run = places - starts + 1 + np.where(goes_on_from, still, 0)
    kept = run <= STILL
    if kept.all() or (alone and bool(equal[1:].all()) and (goes_on or last is None)):
        return None, int(run[-1])
    return index(np.flatnonzero(kept).tolist(), X), int(run[-1])
