"""Intervals that keep their promise: the quantiles of a normal distribution, replaced by those that were seen.

A Gaussian process says how sure it is in standard deviations. On a real stream the model is never quite
right, and a normal 90 % interval may hold 80 % of the targets or 97 %. Every row that is learned was predicted
first, so |y − mean|/std is known for the last rows; the interval reaches as far as the share of them that it
promises (split conformal prediction with weights that fade, which follows drift).

Scores belong to the model that gave them. A batch as large as all rows before it replaces all earlier scores: it is
scored before it is learned and by leave-one-out after it, and the larger scores are kept. A tuning rescales scores.
Rows whose inputs have stood still for long tell nothing of others and are not scored.

References: Vovk, Gammerman & Shafer, Algorithmic Learning in a Random World (2005). Barber, Candès, Ramdas &
Tibshirani, Conformal prediction beyond exchangeability, Annals of Statistics 51 (2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Self

import numpy as np
from scipy.special import stdtrit

from .._arrays import Array, asarray_like, joined, namespace, zeros

# Rows that are looked back on, and after how many of them a score counts for 1/e.
WINDOW = 1000
FADING = 300.0
# Rows after which a squared error counts for 1/e.
MEMORY = 500.0
# An error beyond so many standard deviations counts as one of that many.
FAR = 5.0
# Scores below this are rounding.
NOTHING = 1e-9
# With fewer scores than this the quantile of Student's t stands.
FEWEST = 50


@dataclass(frozen=True)
class Scores:
    """Errors of the last rows, each predicted before it was learned, and the variances that were predicted.

    A row's score is |y − mean|/std with the noise of then in std, or the noise of now where that is less: where it has
    grown, something has changed, and intervals had better be long.

    Attributes
    ----------
    errors : (w, q)
        |y − mean|, the newest last.
    variances, noises : (w,)
        Of the function, without noise; of the noise then.
    sums, weight
        Of the regression of squared errors on the function's own variance, and the number of rows; older ones
        fade away.
    unit : float
        The variance in which the sums are measured, so that no square overflows; 0 while there are none.
    """

    errors: Array
    variances: Array
    noises: Array
    sums: tuple[float, ...] = (0.0,) * 5
    weight: float = 0.0
    unit: float = 0.0

    @classmethod
    def none(cls, n_outputs: int, like: Array) -> Self:
        """Return the scores of no rows."""
        return cls(zeros((0, n_outputs), like), zeros((0,), like), zeros((0,), like))

    def emptied(self) -> Self:
        """Return the scores of no rows."""
        return type(self)(self.errors[:0, :], self.variances[:0], self.noises[:0])

    @property
    def count(self) -> int:
        """The number of scores."""
        return int(self.errors.shape[0])

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
        return self.unit * (we - gamma * wv) / w

    def add(self, error: Array, variance: Array, noise: float) -> Self:
        """See more rows: y − mean (b, q), the variance of the function (b,), not below zero, and of the noise."""
        xp, b = namespace(error), error.shape[0]
        if not b:
            return self
        fading = math.exp(-b / MEMORY)
        unit = self.unit or noise + float(xp.mean(variance))
        # Weighed by the inverse of the variance of a squared error; a far outlier counts as one of FAR deviations.
        squared = xp.minimum(xp.mean(error * error, axis=1), FAR**2 * (variance + noise)) / unit
        w = xp.minimum((noise + xp.mean(variance)) / (noise + variance), asarray_like(1e8, variance)) ** 2
        share = variance / unit
        new = (w, w * share, w * share**2, w * squared, w * share * squared)
        return replace(
            self._joined(xp.abs(error), variance, xp.zeros_like(variance) + noise),
            sums=tuple(fading * old + float(xp.sum(v)) for old, v in zip(self.sums, new, strict=True)),
            weight=fading * self.weight + b,
            unit=unit,
        )

    def _joined(self, errors: Array, variances: Array, noises: Array) -> Self:
        """Put newer errors (b, q), variances (b,) and noises (b,) after these, and keep the last WINDOW."""
        kept = max(0, self.count + errors.shape[0] - WINDOW)
        newest = max(0, errors.shape[0] - WINDOW)
        return replace(
            self,
            errors=joined([self.errors[kept:, :], errors[newest:, :]]),
            variances=joined([self.variances[kept:], variances[newest:]]),
            noises=joined([self.noises[kept:], noises[newest:]]),
        )

    def retuned(self, error_ratio: float, variance_ratio: float) -> Self:
        """Return the scores after a tuning that changed errors and variances so; the noise is estimated anew."""
        return type(self)(self.errors * error_ratio, self.variances * variance_ratio, self.noises)

    def merge(self, other: Self) -> Self:
        """Look back on the rows of another stream, too."""
        both = other._joined(self.errors, self.variances, self.noises)
        return replace(both, sums=self.sums, weight=self.weight, unit=self.unit)

    def reach(
        self, probability: float, noise: float, freedom: float = math.inf, rows: float = math.inf
    ) -> Array:
        """Return how many standard deviations the central interval of that probability reaches; shape (q,).

        `noise` is the variance that it has now; `freedom` the degrees of freedom of Student's t, which stands while
        there are few scores. Scores fade with age, and a score that a model of m rows gave counts m/n where the model
        knows n `rows` by now.
        """
        w, xp = self.count, namespace(self.errors)
        out = zeros((self.errors.shape[1],), self.errors) + student(probability, freedom)
        if w < FEWEST:
            return out
        noises = xp.where(self.noises < noise, self.noises, xp.zeros_like(self.noises) + noise)
        values = self.errors / xp.sqrt(self.variances + noises)[:, None]
        age = np.arange(w)[::-1]
        weights = np.exp(-age / FADING) * np.maximum(1.0 - age / max(rows, w), 1.0 / max(rows, w))
        # Kish's effective number of scores; the next one is as likely to fall between any two of them.
        effective = weights.sum() ** 2 / (weights**2).sum()
        wanted = float(probability * (1.0 + 1.0 / effective))
        if wanted >= 1:
            # More than the scores can tell: as far as Student's t says, or as the worst that was seen.
            return xp.maximum(out, xp.max(values, axis=0))
        order = xp.argsort(values, axis=0)
        each = asarray_like(weights / weights.sum(), values)[:, None] + zeros((1, out.shape[0]), values)
        share = xp.cumulative_sum(xp.take_along_axis(each, order, axis=0), axis=0)
        at = xp.sum(xp.astype(share < wanted, xp.int64), axis=0)
        at = xp.where(at < w, at, xp.full_like(at, w - 1))
        found = xp.take_along_axis(xp.take_along_axis(values, order, axis=0), at[None, :], axis=0)[0, :]
        # Targets that never varied were predicted without an error, which says nothing of the next.
        return xp.where(found > NOTHING, found, out)


def student(probability: float, freedom: float) -> float:
    """Return the half-width of the central interval of Student's t; of the normal for infinite freedom."""
    upper = 0.5 + probability / 2
    return NormalDist().inv_cdf(upper) if math.isinf(freedom) else float(stdtrit(freedom, upper))
