"""Conformal calibration of intervals on recent out-of-sample errors, and the noise that these errors imply.

A Gaussian process states its uncertainty in standard deviations. On a real stream the model is never quite right, and a
normal 90 % interval may cover 80 % of the targets or 97 %. Every row is predicted before it is learned, so that the
nonconformity score |y − mean|/std of the last rows is known; an interval reaches to their weighted quantile (split
conformal prediction, weights that decay with age to follow drift).

Scores belong to the model that gave them. A batch as large as all rows before it replaces all earlier scores: it is
scored before it is learned and by leave-one-out after it, and the larger scores are kept. A tuning rescales scores.
Copies of one row that a stuck sensor sends are not scored.

References: Vovk, Gammerman & Shafer, Algorithmic Learning in a Random World (2005). Barber, Candès, Ramdas &
Tibshirani, Conformal prediction beyond exchangeability, Annals of Statistics 51 (2023). Kish, Survey Sampling (1965).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Self

import numpy as np
from scipy.special import stdtrit

from .._arrays import Array, asarray_like, index, joined, namespace, to_host, zeros
from ..gp.posterior import LeftOut
from ..labels import missing
from ..methods import State, predict_in_chunks
from ..methods.rows import STILL
from .answered import Late

# Scores that are kept, and the age in rows at which the weight of a score is 1/e: 300 rows are an effective sample
# size of 600, whose 90 % quantile has a coverage of 90 ± √(.9·.1/600) = ±1.2 %.
SCORES_KEPT = 1000
DECAY = 300.0
# The age in rows at which the weight of a squared error in the estimate of the noise is 1/e.
NOISE_DECAY = 500.0
# Errors are clipped to this many standard deviations in that estimate.
CLIPPED = 5.0
# Scores below this are rounding.
NOTHING = 1e-9
# Errors have suddenly grown if the median of the last SUDDEN is GROWN times that of the others. Of equally distributed
# normal errors it is more than twice as large once in 10⁶ times.
SUDDEN, GROWN = 20, 3.0
# With fewer scores than this the quantile of Student's t is used.
MIN_SCORES = 50
# Of a batch, the last rows that are scored before they are learned; bounds the cost of a large batch.
SCORED = 500


@dataclass(frozen=True)
class Scores:
    """Errors of the last rows, each predicted before it was learned, and the variances that were predicted.

    The score of a row is |y − mean|/std, std with the smaller of the noise at that time and the present noise: where
    the noise has grown, something has changed, and intervals should be longer rather than shorter.

    Attributes
    ----------
    errors : (w, q)
        |y − mean|, the newest last; NaN where a label was missing.
    variances, noises : (w, q)
        Of the function, without noise; and of the noise at that time.
    lags : (w,)
        Rows learned between the prediction and the label.
    sums : (5, q), weight : (q,)
        Decayed sums of the regression of squared errors on the variance of the function, and number of labels.
    unit : (q,)
        The variances in which the sums are measured, so that no square overflows; 0 while there are none.
    """

    errors: Array
    variances: Array
    noises: Array
    lags: Array
    sums: np.ndarray
    weight: np.ndarray
    unit: np.ndarray

    @classmethod
    def of(cls, errors: Array, variances: Array, noises: Array, lags: Array) -> Self:
        """Return scores without the sums by which the noise is estimated."""
        q = int(errors.shape[1])
        return cls(errors, variances, noises, lags, np.zeros((5, q)), np.zeros(q), np.zeros(q))

    @classmethod
    def none(cls, n_outputs: int, like: Array) -> Self:
        """Return the scores of no rows."""
        none = zeros((0, n_outputs), like)
        return cls.of(none, none, none, zeros((0,), like))

    def emptied(self) -> Self:
        """Return the scores of no rows."""
        return type(self).of(self.errors[:0, :], self.variances[:0, :], self.noises[:0, :], self.lags[:0])

    @property
    def count(self) -> int:
        """The number of scores."""
        return int(self.errors.shape[0])

    @property
    def noise(self) -> np.ndarray | None:
        """Estimate of the noises (q,): squared errors less the variance of the function; NaN, or None, with few rows.

        Squared errors ≈ γ · variance + noise with 0 ≤ γ ≤ 1: where the prior gives the function more variance than
        it has, only a share of that is subtracted.
        """
        enough = self.weight >= MIN_SCORES
        if not enough.any():
            return None
        w, wv, wvv, we, wev = np.where(enough, self.sums, 1.0)
        spread, slope = wvv - wv * wv / w, wev - wv * we / w
        known = spread > 1e-12 * wvv
        gamma = np.where(known, np.clip(slope / np.where(known, spread, 1.0), 0.0, 1.0), 1.0)
        return np.where(enough, self.unit * (we - gamma * wv) / w, np.nan)

    def add(
        self, error: Array, variance: Array, noise: np.ndarray, answered: tuple[Array, ...] | None = None
    ) -> Self:
        """Add rows: errors y − mean (b, q), variances of the function (b, q), none below zero, and noises (q,).

        `answered`: errors, variances and noises (b, q) and lags (b,) of what was answered, where earlier models
        answered some rows. These are the scores; the noise is estimated from what the present model predicts.
        """
        xp, b = namespace(error), error.shape[0]
        if not b:
            return self
        gaps = missing(error)
        b = np.full(error.shape[1], b) if gaps is None else b - gaps.sum(axis=0)
        fading = np.array([math.exp(-n / NOISE_DECAY) for n in b])
        typical = xp.mean(variance, axis=0)
        unit = np.where(self.unit > 0, self.unit, noise + to_host(typical))
        here, unit_here = (asarray_like(v, variance)[None, :] for v in (noise, unit))
        # Weighted by the inverse of the variance of a squared error; outliers are clipped.
        squared = xp.minimum(error * error, CLIPPED**2 * (variance + here)) / unit_here
        w = xp.minimum((here + typical[None, :]) / (here + variance), asarray_like(1e8, variance)) ** 2
        share = variance / unit_here
        new = [w, w * share, w * share**2, w * squared, w * share * squared]
        if gaps is not None:
            new = [np.where(gaps, 0.0, values) for values in new]
        now = (error, variance, xp.zeros_like(variance) + here, zeros((error.shape[0],), variance))
        scored = now if answered is None else answered
        return replace(
            self._joined(xp.abs(scored[0]), *scored[1:]),
            sums=fading * self.sums + to_host(xp.stack([xp.sum(v, axis=0) for v in new])),
            weight=fading * self.weight + b,
            unit=unit,
        )

    def _joined(self, errors: Array, variances: Array, noises: Array, lags: Array) -> Self:
        """Append errors, variances and noises, (b, q) each, and lags (b,); keep the last SCORES_KEPT."""
        kept = max(0, self.count + errors.shape[0] - SCORES_KEPT)
        newest = max(0, errors.shape[0] - SCORES_KEPT)
        return replace(
            self,
            errors=joined([self.errors[kept:, :], errors[newest:, :]]),
            variances=joined([self.variances[kept:, :], variances[newest:, :]]),
            noises=joined([self.noises[kept:, :], noises[newest:, :]]),
            lags=joined([self.lags[kept:], lags[newest:]]),
        )

    @property
    def suddenly_large(self) -> bool:
        """Whether the last SUDDEN rows were predicted far worse than those before, of some output."""
        if self.count < 4 * SUDDEN:
            return False
        # Errors, not scores: the noise has grown with them by the next batch.
        values = to_host(self.errors)
        last, before = np.nanmedian(values[-SUDDEN:], axis=0), np.nanmedian(values[:-SUDDEN], axis=0)
        return bool((last > GROWN * before).any())

    def without_last(self, n: int) -> Self:
        """Return the scores without those of the last n rows, and without the noise that these showed."""
        kept = max(self.count - n, 0)
        return type(self).of(
            self.errors[:kept, :], self.variances[:kept, :], self.noises[:kept, :], self.lags[:kept]
        )

    def retuned(self, errors: np.ndarray, variances: np.ndarray, noises: np.ndarray) -> Self:
        """Return the scores after a tuning that multiplied errors, variances and noises by these (q,); no noise."""
        e, v, n = (asarray_like(ratio, self.errors)[None, :] for ratio in (errors, variances, noises))
        return type(self).of(self.errors * e, self.variances * v, self.noises * n, self.lags)

    def _of_output(self, j: int) -> Self:
        """Return the scores of the labels of one output."""
        at = ~np.isnan(self.errors[:, j])
        errors, variances, noises = (v[at, j : j + 1] for v in (self.errors, self.variances, self.noises))
        return type(self).of(errors, variances, noises, self.lags[at])

    def merge(self, other: Self) -> Self:
        """Return the scores of both streams, these taken as the newer."""
        both = other._joined(self.errors, self.variances, self.noises, self.lags)
        return replace(both, sums=self.sums, weight=self.weight, unit=self.unit)

    def reach(
        self, probability: float, noise: np.ndarray, freedom: float = math.inf, rows: float = math.inf
    ) -> Array:
        """Return how many standard deviations the central interval of that probability reaches; shape (q,).

        `noise` (q,) is the present one; `freedom` the degrees of freedom of Student's t, which is used while there are
        few scores. The weight of a score decays with its age, and is reduced by m/n if the model had learned m rows
        then and has learned n `rows` now.
        """
        w, xp = self.count, namespace(self.errors)
        if missing(self.errors) is not None:
            each = (self._of_output(j) for j in range(self.errors.shape[1]))
            given = ((probability, noise[j : j + 1], freedom, rows) for j in range(noise.size))
            return xp.concat([s.reach(*arguments) for s, arguments in zip(each, given, strict=True)])
        out = zeros((self.errors.shape[1],), self.errors) + student(probability, freedom)
        if w < MIN_SCORES:
            return out
        now = xp.zeros_like(self.noises) + asarray_like(noise, self.noises)[None, :]
        values = self.errors / xp.sqrt(self.variances + xp.minimum(self.noises, now))
        age = np.arange(w)[::-1]
        known = max(rows, w)
        weights = np.exp(-age / DECAY) * np.maximum(1.0 - (age + to_host(self.lags)) / known, 1.0 / known)
        # Kish's effective sample size, with the finite-sample correction of conformal prediction.
        effective = weights.sum() ** 2 / (weights**2).sum()
        wanted = float(probability * (1.0 + 1.0 / effective))
        if wanted >= 1:
            # Beyond what so few scores can estimate: the larger of Student's t and the largest score.
            return xp.maximum(out, xp.max(values, axis=0))
        order = xp.argsort(values, axis=0)
        each = asarray_like(weights / weights.sum(), values)[:, None] + zeros((1, out.shape[0]), values)
        share = xp.cumulative_sum(xp.take_along_axis(each, order, axis=0), axis=0)
        at = xp.sum(xp.astype(share < wanted, xp.int64), axis=0)
        at = xp.where(at < w, at, xp.full_like(at, w - 1))
        found = xp.take_along_axis(xp.take_along_axis(values, order, axis=0), at[None, :], axis=0)[0, :]
        # Targets that never varied were predicted without an error, which says nothing about the next.
        return xp.where(found > NOTHING, found, out)


def student(probability: float, freedom: float) -> float:
    """Return the half-width of the central interval of Student's t; of the normal for infinite freedom."""
    upper = 0.5 + probability / 2
    return NormalDist().inv_cdf(upper) if math.isinf(freedom) else float(stdtrit(freedom, upper))


def score_ahead(
    scores: Scores, state: State, X: Array, z: Array, fresh: Array | None, late: Late | None = None
) -> Scores:
    """Return the scores with the newest of the rows X (b, d), z (b, q) added, predicted before they are learned.

    Rows that were answered by earlier models, `late` in standardised units, are scored by what was answered. Only rows
    with the numbers `fresh` count; None for all.
    """
    newest = max(0, X.shape[0] - SCORED)
    X, z = X[newest:, :], z[newest:, :]
    found = predict_in_chunks(state, X)
    xp, error = namespace(X), z - found.mean
    variance: Array = found.variance
    variance = xp.where(variance > 0, variance, xp.zeros_like(variance))
    at = None if fresh is None else fresh[fresh >= newest] - newest

    def kept(values: Array) -> Array:
        return values if at is None else xp.take(values, at, axis=0)

    if late is None:
        return scores.add(kept(error), kept(variance), state.noise)
    late = late.only(slice(newest, None))
    said = late.known[:, None] & xp.isfinite(late.variance)
    now = xp.zeros_like(variance) + asarray_like(state.noise, variance)[None, :]
    answered = (
        xp.where(late.known[:, None], z - late.mean, error),
        xp.where(said, late.variance, variance),
        xp.where(said, late.noise, now),
        late.lag,
    )
    return scores.add(kept(error), kept(variance), state.noise, tuple(kept(part) for part in answered))


def chosen_to_score(n: int, fresh: Array | None, X: Array, seed: tuple[int, ...]) -> Array:
    """Return the numbers of at most SCORES_KEPT rows, drawn from n or from those numbered `fresh`, in order."""
    rows = np.arange(n) if fresh is None else to_host(fresh)
    rows = np.random.default_rng(list(seed)).permutation(rows)[:SCORES_KEPT]
    return index(np.sort(rows).tolist(), X)


def larger(some: Scores, others: Scores, noise: np.ndarray) -> Scores:
    """Return the scores by which 90 % intervals are longer, summed over outputs; `others` where some are few."""
    if some.count < MIN_SCORES:
        return others
    mine, theirs = (namespace(s.errors).sum(s.reach(0.9, noise)) for s in (some, others))
    return some if bool(mine > theirs) else others


def rescaled(
    scores: Scores, old: LeftOut | None, new: LeftOut | None, factors: np.ndarray | None = None
) -> Scores:
    """Return the scores as a retuned model would have them, by leave-one-out errors of the old and the new one.

    `factors` (q,) is what the tuning multiplied targets by; None where they stayed.
    """
    units = np.ones(scores.errors.shape[1]) if factors is None else factors
    if old is None or new is None or min(old.error.shape[0], new.error.shape[0]) <= STILL:
        return scores.retuned(units, units**2, units**2)
    errors, variances = new.typical_error / old.typical_error, new.typical_variance / old.typical_variance
    return scores.retuned(errors, variances, units**2)
