"""Intervals that keep their promise: the quantiles of a normal distribution, replaced by those that were seen.

A Gaussian process says how sure it is in standard deviations. On a real stream the model is never quite
right, and a normal 90 % interval may hold 80 % of the targets or 97 %. Every row that is learned was predicted
first, so |y − mean|/std is known for the last rows; the interval reaches as far as the share of them that it
promises (split conformal prediction with weights that fade, which follows drift).

References: Vovk, Gammerman & Shafer, Algorithmic Learning in a Random World (2005). Barber, Candès, Ramdas &
Tibshirani, Conformal prediction beyond exchangeability, Annals of Statistics 51 (2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Self

import numpy as np

from ._arrays import Array, asarray_like, joined, namespace, zeros

# Rows that are looked back on, and after how many of them a score counts for 1/e.
WINDOW = 1000
FADING = 300.0
# Rows after which a squared error counts for 1/e.
MEMORY = 500.0
# An error beyond so many standard deviations counts as one of that many.
FAR = 5.0
# With fewer scores than this the normal quantile stands.
FEWEST = 50


@dataclass(frozen=True)
class Scores:
    """How far off, in predicted standard deviations, the last rows were; each before it was learned.

    Attributes
    ----------
    values : (w, q)
        |y − mean|/std, the newest last.
    sums, weight
        Of the regression of squared errors on the function's own variance, and the number of rows; older ones
        fade away.
    """

    values: Array
    sums: tuple[float, ...] = (0.0,) * 5
    weight: float = 0.0

    @classmethod
    def none(cls, n_outputs: int, like: Array) -> Self:
        """Give the scores of no rows."""
        return cls(zeros((0, n_outputs), like))

    @property
    def noise(self) -> float | None:
        """What is left of squared errors when the function's own variance is taken off; None if not known yet.

        Squared errors ≈ γ · variance + noise with 0 ≤ γ ≤ 1: where the prior claims more for the function than it
        needs, not all of that claim comes off.
        """
        if self.weight < FEWEST:
            return None
        w, wv, wvv, we, wev = self.sums
        spread, slope = wvv - wv * wv / w, wev - wv * we / w
        gamma = min(max(slope / spread, 0.0), 1.0) if spread > 1e-12 * wvv else 1.0
        return (we - gamma * wv) / w

    def add(self, error: Array, variance: Array, noise: float) -> Self:
        """See more rows: y − mean (b, q), the variance of the function (b,), not below zero, and of the noise."""
        xp, b = namespace(error), error.shape[0]
        scores = xp.abs(error) / xp.sqrt(variance + noise)[:, None]
        fading = math.exp(-b / MEMORY)
        # Weighed by the inverse of the variance of a squared error; a far outlier counts as one of FAR deviations.
        squared = xp.mean(error * error, axis=1)
        squared = xp.minimum(squared, FAR**2 * (variance + noise))
        w = ((noise + xp.mean(variance)) / (noise + variance)) ** 2
        new = (w, w * variance, w * variance**2, w * squared, w * variance * squared)
        kept = self.values[max(0, self.values.shape[0] + scores.shape[0] - WINDOW) :, :]
        newest = scores[max(0, scores.shape[0] - WINDOW) :, :]
        return replace(
            self,
            values=joined([kept, newest]),
            sums=tuple(fading * old + float(xp.sum(v)) for old, v in zip(self.sums, new, strict=True)),
            weight=fading * self.weight + b,
        )

    def without_noise(self) -> Self:
        """Start the estimate of the noise anew."""
        return replace(self, sums=(0.0,) * 5, weight=0.0)

    def merge(self, other: Self) -> Self:
        """Look back on the rows of another stream, too."""
        both = joined([other.values, self.values])
        return replace(self, values=both[max(0, both.shape[0] - WINDOW) :, :])

    def reach(self, probability: float) -> Array:
        """Give how many standard deviations the central interval of that probability reaches; shape (q,)."""
        normal = NormalDist().inv_cdf(0.5 + probability / 2)
        w, xp = self.values.shape[0], namespace(self.values)
        out = zeros((self.values.shape[1],), self.values) + normal
        if w < FEWEST:
            return out
        weights = np.exp(-np.arange(w)[::-1] / FADING)
        # So many equal scores would tell as much; the next one is as likely to fall between any two of them.
        scores = weights.sum() ** 2 / (weights**2).sum()
        wanted = probability * (1.0 + 1.0 / scores)
        if wanted >= 1:
            # More than the scores can tell: as far as the normal says, or as the worst that was seen.
            return xp.maximum(out, xp.max(self.values, axis=0))
        order = xp.argsort(self.values, axis=0)
        each = asarray_like(weights / weights.sum(), self.values)[:, None] + zeros(
            (1, out.shape[0]), self.values
        )
        share = xp.cumulative_sum(xp.take_along_axis(each, order, axis=0), axis=0)
        at = xp.sum(xp.astype(share < wanted, xp.int64), axis=0)
        at = xp.where(at < w, at, xp.full_like(at, w - 1))
        return xp.take_along_axis(xp.take_along_axis(self.values, order, axis=0), at[None, :], axis=0)[0, :]
