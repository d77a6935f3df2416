"""Tails: by how much rare errors are larger than the typical ones tell.

A standard deviation that is learned from errors must not follow one wrong label, so that squared errors are limited to
some multiple of their mean. Where errors have long tails (a kettle that is switched on, a firework) that leaves out
what matters most to the density. The limit therefore follows the stream: it is the squared error that one row in RARELY
exceeds, a quantile that is learned by stochastic approximation.

Reference: Robbins & Monro, A stochastic approximation method (1951).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

# Squared errors count as at most so many times their mean, at first and at least.
LIMIT = 25.0
# Wrong labels are rarer than one row in so many, or they are what the stream is like.
RARELY = 2000.0
# With each row beyond it the logarithm of the limit grows by so much. Rows less than APART from the last one beyond it
# are of the same disturbance and do not count; nor do the first rows, in which everything is learned.
GROWTH, APART, FIRST_ROWS = 0.5, 20, 500
# The age in rows at which the weight of a squared error is 1/e, and the weight of the prior in rows.
MEMORY, PRIOR_ROWS = 1000.0, 50.0


@dataclass(frozen=True)
class Tails:
    """Squared errors of q outputs, in k units each.

    Attributes
    ----------
    typical, whole : (q, k)
        Decayed means, limited by LIMIT and by `limits` times the typical one.
    limits : (q, k)
    count : (q,)
        The number of rows in these means.
    since : (q, k)
        Rows since the last one that was beyond its limit.
    seen : int
        Rows so far.
    """

    typical: np.ndarray
    whole: np.ndarray
    limits: np.ndarray
    count: np.ndarray
    since: np.ndarray
    seen: int = 0

    @classmethod
    def none(cls, q: int, k: int) -> Self:
        """Return the tails of no errors."""
        ones, count = np.ones((q, k)), np.full(q, PRIOR_ROWS)
        return cls(ones, ones, LIMIT * ones, count, APART * ones)

    @property
    def excess(self) -> np.ndarray:
        """The mean of squared errors over that of limited ones, 1 or more; (q, k)."""
        return np.asarray(self.whole / np.maximum(self.typical, 1e-300)).clip(min=1.0)

    def after(self, squares: np.ndarray, n: np.ndarray) -> Self:
        """Return the tails after squared errors (b, q, k), zero where a label was missing; n (q,) were not."""
        before = np.exp(-n / MEMORY) * self.count
        count, typical = before + n, np.maximum(self.typical, 1e-300)
        times, since = self._exceeded(squares > self.limits * typical)
        largest = np.max(squares / typical, axis=0, initial=LIMIT)
        limits = self.limits * np.exp(GROWTH * (times - n[:, None] / RARELY))
        # Not beyond all errors that were seen.
        limits = np.clip(limits, LIMIT, np.maximum(self.limits, largest))

        def mean(old: np.ndarray, limit: np.ndarray | float) -> np.ndarray:
            new = np.minimum(squares, limit * typical).sum(axis=0)
            return np.asarray((before[:, None] * old + new) / count[:, None])

        means = {"typical": mean(self.typical, LIMIT), "whole": mean(self.whole, self.limits)}
        seen = self.seen + squares.shape[0]
        return replace(self, **means, count=count, limits=limits, since=since, seen=seen)

    def _exceeded(self, beyond: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how many disturbances began among rows (b, q, k), of those that are `beyond`, and `since` after."""
        row = np.arange(beyond.shape[0], dtype=np.float64)[:, None, None]
        last = np.concatenate([-1.0 - self.since[None], np.where(beyond, row, -np.inf)])
        last = np.maximum.accumulate(last, axis=0)
        begins = beyond & (row - last[:-1] > APART)
        times = begins.sum(axis=0) if self.seen >= FIRST_ROWS else np.zeros(begins.shape[1:])
        return times, beyond.shape[0] - 1.0 - last[-1]
