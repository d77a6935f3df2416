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
from typing import Self

import numpy as np

from .._arrays import Array, asarray_like, index, joined, namespace, to_host, zeros
from ..gp.posterior import LeftOut
from ..labels import missing
from ..methods import State, predict_in_chunks
from ..methods.rows import STILL
from ..row_weights import part_of, taken, times, whitened
from .answered import Late
from .local import LocalScale, Place
from .weights import conformal_ends, lasting, quantile, recent_weights, student

# Scores that are kept: with weights that decay as 1/age their effective sample size is 970, and the 90 % quantile has a
# coverage of 90 ± √(.9·.1/970) = ±1 %.
SCORES_KEPT = 2000
# The age in rows at which the weight of a squared error in the estimate of the noise is 1/e.
NOISE_DECAY = 500.0
# A noise that was tuned counts as so many rows in that estimate: the first rows after a tuning, of whose variance the
# standard error is √(2/n), would move it by chance.
TUNED_ROWS = 100.0
# Errors are clipped to this many standard deviations in that estimate.
CLIPPED = 5.0
# Scores below this are rounding.
NOTHING = 1e-9
# Errors have suddenly grown if the median of the last SUDDEN is GROWN times that of the others. Of equally distributed
# normal errors it is more than twice as large once in 10⁶ times.
SUDDEN, GROWN = 20, 3.0
# The last rows, which tell whether something has changed and not how things were before.
CHANGING = 500
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
        y − mean, the newest last; NaN where a label was missing. Errors and variances are whitened by weights.
    variances, noises : (w, q)
        Of the function, without noise; and of the noise at that time.
    lags : (w,)
        Rows learned between the prediction and the label.
    local : LocalScale
        Scales of the last rows; its rows are the last ones here, or fewer.
    sums : (5, q), weight : (q,)
        Decayed sums of the regression of squared errors on the variance of the function, and number of labels.
    unit : (q,)
        The variances in which the sums are measured, so that no square overflows; 0 while there are none.
    """

    errors: Array
    variances: Array
    noises: Array
    lags: Array
    local: LocalScale
    sums: np.ndarray
    weight: np.ndarray
    unit: np.ndarray

    @classmethod
    def of(cls, errors: Array, variances: Array, noises: Array, lags: Array, local: LocalScale) -> Self:
        """Return scores without the sums by which the noise is estimated."""
        q = int(errors.shape[1])
        return cls(errors, variances, noises, lags, local, np.zeros((5, q)), np.zeros(q), np.zeros(q))

    @classmethod
    def none(cls, n_features: int, n_outputs: int, like: Array, *, local: bool = True) -> Self:
        """Return the scores of no rows; `local`: scales that depend on the input are tried."""
        none = zeros((0, n_outputs), like)
        return cls.of(none, none, none, zeros((0,), like), LocalScale.none(n_features, n_outputs, used=local))

    def emptied(self) -> Self:
        """Return the scores of no rows."""
        none = self.errors[:0, :]
        return type(self).of(none, none, none, self.lags[:0], self.local.emptied())

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
        self,
        error: Array,
        variance: Array,
        noise: np.ndarray,
        answered: tuple[Array, ...] | None = None,
        at: Place | None = None,
    ) -> Self:
        """Add rows: errors y − mean (b, q), variances of the function (b, q), none below zero, and noises (q,).

        `answered`: errors, variances and noises (b, q) and lags (b,) of what was answered, where earlier models
        answered some rows. These are the scores; the noise is estimated from what the present model predicts.
        `at`: where the rows lie; without it, scales are forgotten.
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
        after = self._joined(*scored)
        # The newest rows of all that are kept: those that are here, those that wait, and these.
        n = min(self.local.count + self.local.waiting + error.shape[0], after.count)
        return replace(
            after,
            local=self.local.emptied() if at is None else self.local.add(at, after._sizes(n)),
            sums=fading * self.sums + to_host(xp.stack([xp.sum(v, axis=0) for v in new])),
            weight=fading * self.weight + b,
            unit=unit,
        )

    def _sizes(self, n: int) -> np.ndarray:
        """Return the scores |y − mean|/std of the last n rows, (n, q)."""
        rows = slice(self.count - n, None)
        e, v, s = (to_host(values[rows, :]) for values in (self.errors, self.variances, self.noises))
        return np.asarray(np.abs(e) / np.sqrt(np.where(v + s > 0, v + s, 1.0)))

    @property
    def sizes(self) -> np.ndarray:
        """Scores |y − mean|/std of the rows whose scale is known, (l, q)."""
        n = self.local.count + self.local.waiting
        return self._sizes(n)[: self.local.count]

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
        values = np.abs(to_host(self.errors))
        gaps = np.isnan(values)
        if not gaps.any():
            median = np.median  # far cheaper
        else:
            values = values[:, ~(gaps[-SUDDEN:].all(axis=0) | gaps[:-SUDDEN].all(axis=0))]
            median = np.nanmedian
        return bool((median(values[-SUDDEN:], axis=0) > GROWN * median(values[:-SUDDEN], axis=0)).any())

    @property
    def lasting(self) -> float:
        """Over how many rows errors are alike: their integrated autocorrelation time, 1 for independent ones.

        Without the last rows, which may be of a change.
        """
        return lasting(to_host(self.errors)[: -min(CHANGING, self.count // 2) or None])

    def without_last(self, n: int) -> Self:
        """Return the scores without those of the last n rows, and without the noise that these showed."""
        kept = slice(0, max(self.count - n, 0))
        rows = (self.errors[kept, :], self.variances[kept, :], self.noises[kept, :], self.lags[kept])
        return type(self).of(*rows, self.local.without_last(n))

    def retuned(
        self, errors: np.ndarray, variances: np.ndarray, noises: np.ndarray, tuned: np.ndarray | None = None
    ) -> Self:
        """Return the scores after a tuning that multiplied errors, variances and noises by these (q,).

        The noise is estimated anew, from what was `tuned` (q,) on.
        """
        e, v, n = (asarray_like(ratio, self.errors)[None, :] for ratio in (errors, variances, noises))
        local = replace(self.local, means=self.local.means * noises**0.5)
        after = type(self).of(self.errors * e, self.variances * v, self.noises * n, self.lags, local)
        if tuned is None or not (tuned > 0).all():
            return after
        # Rows of a function that is known, whose squared errors are the noise.
        known = TUNED_ROWS * np.array([1.0, 0.0, 0.0, 1.0, 0.0])[:, None] * np.ones(tuned.size)
        return replace(after, sums=known, weight=known[0], unit=tuned)

    def merge(self, other: Self) -> Self:
        """Return the scores of both streams, these taken as the newer."""
        both = other._joined(self.errors, self.variances, self.noises, self.lags)
        return replace(both, local=self.local, sums=self.sums, weight=self.weight, unit=self.unit)

    def reach(
        self, probability: float, noise: np.ndarray, freedom: float = math.inf, rows: float = math.inf
    ) -> np.ndarray:
        """Return how many standard deviations the symmetric interval of that probability reaches, (q,), anywhere.

        `noise` (q,) is the present one; `freedom` the degrees of freedom of Student's t, which is used while there are
        few scores. The weight of a score decays with its age, and is reduced by m/n if the model had learned m rows
        then and has learned n `rows` now.
        """
        least, values = student(probability, freedom), self._values(noise)
        out = np.full(values.shape[1], least)
        for j, scores in enumerate(values.T):
            labelled = np.flatnonzero(~np.isnan(scores))
            if labelled.size >= MIN_SCORES:
                sizes = np.abs(scores[labelled])
                found = quantile(sizes, self._weights(labelled, rows), probability)
                # Beyond what so few scores can estimate: the larger of Student's t and the largest score.
                found = max(least, float(sizes.max())) if found is None else found
                # Targets that never varied were predicted without an error, which says nothing about the next.
                out[j] = found if found > NOTHING else least
        return out

    def ends(
        self, probability: float, noise: np.ndarray, freedom: float = math.inf, rows: float = math.inf
    ) -> np.ndarray:
        """Return how far below and above the mean the central interval reaches, (2, q), in units of λ(x) std.

        As `reach`, with scores that are divided by their local scale; lower and upper end apart where they differ.
        """
        least, values = student(probability, freedom), self._values(noise)
        out, scaled = np.full((2, values.shape[1]), least), self.local.chosen > 0
        scales, end = self.local.of_rows, self.count - self.local.waiting
        for j, scores in enumerate(values.T):
            labelled = np.flatnonzero(~np.isnan(scores))
            if scaled[j]:  # only rows whose scale is known can be compared
                start = end - self.local.count
                labelled = labelled[(labelled >= start) & (labelled < end)]
                scores = scores / np.concatenate([np.ones(start), scales[:, j], np.ones(self.local.waiting)])
            if labelled.size >= MIN_SCORES:
                weights = self._weights(labelled, rows)
                below, above = conformal_ends(scores[labelled], weights, probability, least)
                out[:, j] = (below, above) if below + above > NOTHING else least
        return out

    def _values(self, noise: np.ndarray) -> np.ndarray:
        """Return (y − mean)/std, (w, q), std with the smaller of the noise then and the present one (q,)."""
        errors, variances, noises = (to_host(v) for v in (self.errors, self.variances, self.noises))
        return np.asarray(errors / np.sqrt(variances + np.minimum(noises, noise)))

    def _weights(self, which: np.ndarray, rows: float) -> np.ndarray:
        """Return the weights of the scores with the numbers `which` (n,), for a model that has learned so many rows."""
        n = which.size
        known, age = max(rows, n), np.arange(n)[::-1] + to_host(self.lags)[which]
        return np.asarray(recent_weights(n) * np.maximum(1.0 - age / known, 1.0 / known))


def score_ahead(
    scores: Scores,
    state: State,
    X: Array,
    z: Array,
    fresh: Array | None,
    late: Late | None = None,
    weights: Array | None = None,
    *,
    doubt: Array | None = None,
) -> Scores:
    """Return the scores with the newest of the rows X (b, d), z (b, q) added, predicted before they are learned.

    Rows that were answered by earlier models, `late` in standardised units, are scored by what was answered. Only rows
    with the numbers `fresh` count; None for all. Of a row of weight w, whose noise is σ²/w, the error is multiplied by
    √w and the variance by w: its noise is then that of all rows. `doubt` (b, q): variance by missing features.
    """
    newest = max(0, X.shape[0] - SCORED)
    X, z, weights = X[newest:, :], z[newest:, :], part_of(weights, slice(newest, None))
    found = predict_in_chunks(state, X)
    xp, error = namespace(X), whitened(z - found.mean, weights)
    variance: Array = times(found.variance, weights)
    variance = xp.where(variance > 0, variance, xp.zeros_like(variance))
    variance = variance if doubt is None else variance + times(doubt[newest:], weights)
    at = None if fresh is None else fresh[fresh >= newest] - newest

    def kept(values: Array) -> Array:
        return values if at is None else xp.take(values, at, axis=0)

    place = Place(kept(X), kept(found.mean), kept(zeros((X.shape[0],), z)), state.kernel)
    if late is None:
        return scores.add(kept(error), kept(variance), state.noise, at=place)
    late = late.only(slice(newest, None))
    said = late.known[:, None] & xp.isfinite(late.variance)
    now = xp.zeros_like(variance) + asarray_like(state.noise, variance)[None, :]
    answered = (
        xp.where(late.known[:, None], whitened(z - late.mean, weights), error),
        xp.where(said, times(late.variance, weights), variance),
        xp.where(said, late.noise, now),
        late.lag,
    )
    means = xp.where(late.known[:, None], late.mean, found.mean)
    place = replace(place, means=kept(means), lags=kept(late.lag))
    said_now = tuple(kept(part) for part in answered)
    return scores.add(kept(error), kept(variance), state.noise, said_now, at=place)


def score_left_out(
    scores: Scores,
    state: State,
    X: Array,
    z: Array,
    at: Array,
    correction: float,
    weights: Array | None = None,
) -> Scores:
    """Return the scores of rows `at` of X (n, d), z (n, q), the last that were learned, each left out in turn.

    Errors are multiplied by `correction`. Where the method cannot leave rows out, the scores are as they were.
    """
    n, xp = X.shape[0], namespace(X)
    X, z, weights = xp.take(X, at, axis=0), xp.take(z, at, axis=0), taken(weights, at)
    found = state.left_out(X, z, at + (round(state.count) - n), weights)
    if found is None:
        return scores
    place = None
    if found.error.shape[0] == X.shape[0]:  # rows that only they themselves tell about cannot be left out
        error = found.error if weights is None else found.error / xp.sqrt(weights)[:, None]
        place = Place(X, z - error, zeros((X.shape[0],), z), state.kernel)
    return scores.emptied().add(correction * found.error, found.variance, found.noise, at=place)


def chosen_to_score(n: int, fresh: Array | None, X: Array, seed: tuple[int, ...]) -> Array:
    """Return the numbers of at most SCORES_KEPT rows, drawn from n or from those numbered `fresh`, in order."""
    rows = np.arange(n) if fresh is None else to_host(fresh)
    rows = np.random.default_rng(list(seed)).permutation(rows)[:SCORES_KEPT]
    return index(np.sort(rows).tolist(), X)


def larger(some: Scores, others: Scores, noise: np.ndarray) -> Scores:
    """Return the scores by which 90 % intervals are longer, summed over outputs; `others` where some are few."""
    if some is others or some.count < MIN_SCORES:
        return others
    mine, theirs = (s.reach(0.9, noise).sum() for s in (some, others))
    return some if mine > theirs else others


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
    return scores.retuned(errors, variances, units**2, new.noise)
