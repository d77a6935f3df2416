"""The mixture: what the members of the panel predict, weighted by how well each has predicted before it learned.

Weights for the mean come from squared errors, those for the spread from log densities: a sharp member that is now and
then far off has the better density, and should not have the mean. Both are exponential weights with a fixed share: a
member that was bad for long can come back. With squared errors up to e² and a typical one s² the loss η e²/(2s²) is
exp-concave as long as η e²/s² ≤ 1, so that the regret against the best member is at most 2s² ln(1/prior)/η; tempered
by τ ≤ 1, that of the density is at most ln(1/prior)/τ.

Each member's variance is scaled by the mean of its squared errors over it. What was *answered* is scored: with labels
that come late, a member that learns quickly would look better than it was.

References: Vovk, Competitive on-line statistics (2001). Herbster & Warmuth, Tracking the best expert (1998).
Cesa-Bianchi & Lugosi, Prediction, Learning, and Games (2006), chapter 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from .._arrays import Array, index, namespace, to_host
from ..methods import Prediction, State, predict_in_chunks
from .answered import Late
from .calibration import SCORED, Scores, larger
from .local import Place
from .members import FadingRidge, Level, Member

# Learning rates: of squared errors over a typical one, and of log densities. Small ones average members that are about
# as good as each other, whose errors partly cancel.
ETA, TEMPER = 0.02, 0.1
# Weight that is shared out again with each row: one change of the best member in a thousand rows.
SHARE = 1e-3
# The weight of the Gaussian process at first; the others share the rest.
FIRST_WEIGHT = 0.5
# The age in rows at which the weight of a squared error is 1/e, in what is typical of a member.
MEMORY = 500.0
# The variance of a member counts as known from so many rows at first.
PRIOR_ROWS = 10.0
# Rows that are left out in turn tell less than rows that come next, which are not between them: they count as so many.
LEFT_OUT_ROWS = 100.0
# Squared errors count as at most so many typical ones (η e²/s² ≤ 1), and so many variances.
LARGEST, LARGEST_RATIO = 1.0 / ETA, 25.0
# No variance is below this share of a typical squared error, or of a squared error over a variance.
LEAST = 1e-12
# Errors may be suddenly large if one is beyond so many deviations.
SURPRISING = 3.0
# Errors below this, in deviations of the targets, are rounding.
NOTHING = 1e-9
# The memory of a ridge regression that fades, in rows.
RECENT_ROWS = 1000.0


@dataclass(frozen=True)
class Said:
    """What the members said of m rows, in standardised units.

    Attributes
    ----------
    means, variances : (m, K, q)
        Of a new observation; variances not yet scaled by past errors, NaN where only means were asked for.
    mean, variance : (m, q)
        Of the mixture.
    """

    means: np.ndarray
    variances: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    def table(self) -> np.ndarray:
        """Return all of it as one array (m, 2, K + 1, q), the mixture last."""
        means = np.concatenate([self.means, self.mean[:, None, :]], axis=1)
        return np.stack([means, np.concatenate([self.variances, self.variance[:, None, :]], axis=1)], axis=1)

    @classmethod
    def of_table(cls, table: np.ndarray) -> Self:
        """Return what `table` was made of."""
        return cls(table[:, 0, :-1], table[:, 1, :-1], table[:, 0, -1], table[:, 1, -1])


@dataclass(frozen=True)
class Mixture:
    """The members of the panel, and how far each is trusted.

    Attributes
    ----------
    names : tuple of K str
        The Gaussian process first, whose state is the learner's.
    members : tuple of Member
        The others.
    by_error, by_density : (K, q)
        Logarithms of the weights for the mean and for the spread.
    squares, ratios : (K, q)
        Decayed means of squared errors, and of squared errors over variances.
    count : (q,)
        Rows in these means.
    scores : Scores
        What intervals of the mixture are calibrated on.
    calm : Mixture or None
        While errors are suddenly far larger: the mixture before they were.
    """

    names: tuple[str, ...]
    members: tuple[Member, ...]
    by_error: np.ndarray
    by_density: np.ndarray
    squares: np.ndarray
    ratios: np.ndarray
    count: np.ndarray
    scores: Scores
    calm: Mixture | None = None

    @classmethod
    def begun(cls, names: tuple[str, ...], X: np.ndarray, z: np.ndarray, scores: Scores) -> Self:
        """Return a mixture of members that have learned the first rows, X (n, d) and z (n, q)."""
        X, z, q = _host(X), _host(z), z.shape[1]
        made: dict[str, Member] = {
            "ridge": FadingRidge.of(X, q, 1.0),
            "ridge_recent": FadingRidge.of(X, q, float(np.exp(-1.0 / RECENT_ROWS))),
            "level": Level.of(q),
        }
        members = tuple(made[name].update(X, z) for name in names[1:])
        prior = _prior(len(names), q)
        ones = np.ones_like(prior)
        return cls(names, members, prior, prior, ones, ones, np.full(q, PRIOR_ROWS), scores)

    @property
    def weights(self) -> np.ndarray:
        """The weights of the members in the mean, (K, q)."""
        return np.asarray(np.exp(self.by_error))

    # Predicting

    def predict(self, X: Array, found: Prediction, noise: np.ndarray) -> Said:
        """Return what the members say of the rows X (m, d). `found` is of the Gaussian process, whose noise is (q,)."""
        rows = _host(X)
        means = np.stack([to_host(found.mean), *(member.predict(rows) for member in self.members)], axis=1)
        variances = np.full(means.shape, np.nan)
        if found.variance is not None:
            variances[:, 0] = np.maximum(to_host(found.variance), 0.0) + noise
            variances[:, 1:] = 1.0
        return self._mixed(means, variances)

    def _mixed(self, means: np.ndarray, variances: np.ndarray) -> Said:
        """Return the mixture of means and variances (m, K, q)."""
        mean = np.einsum("kq,mkq->mq", np.exp(self.by_error), means)
        spread = self.ratios * variances + (means - mean[:, None, :]) ** 2
        variance = np.einsum("kq,mkq->mq", np.exp(self.by_density), spread)
        return Said(means, variances, mean, np.maximum(variance, NOTHING**2))

    # Following what was predicted

    def scored(self, state: State, X: Array, z: Array, fresh: Array | None, late: Late | None) -> Self:
        """Return the mixture after it saw the targets z (b, q) of rows X (b, d) that are not learned yet.

        Rows that earlier models answered are scored by what was answered. Only rows with the numbers `fresh` count.
        """
        newest = max(0, X.shape[0] - SCORED)
        X, z, lags = X[newest:, :], _host(z)[newest:], np.zeros(X.shape[0] - newest)
        said, X = self.predict(X, predict_in_chunks(state, X), state.noise), _host(X)
        if late is not None and late.members.shape[2] == len(self.names) + 1:
            answered = late.members[newest:]
            # An answer without a spread has the spread of now.
            known = to_host(late.known)[newest:, None, None, None] & np.isfinite(answered)
            said = Said.of_table(np.where(known, answered, said.table()))
            lags = np.where(known[:, 0, 0, 0], to_host(late.lag)[newest:], 0)
        if fresh is not None:
            at = to_host(fresh)
            at = at[at >= newest] - newest
            X, z, lags, said = X[at], z[at], lags[at], Said.of_table(said.table()[at])
        if not z.shape[0]:
            return self
        error, none = z - said.mean, np.zeros_like(said.variance)
        place = Place(X, said.mean, lags, state.kernel)
        scores = self.scores.add(error, said.variance, none[0], (error, said.variance, none, lags), at=place)
        after = self._judged(z[:, None, :] - said.means, said.variances)
        # Scores are in units of the spread: where all spreads are scaled anew, so are they.
        units = np.einsum(
            "kq,kq->q", np.exp(after.by_density), after.ratios / np.maximum(self.ratios, 1e-300)
        )
        after = replace(after, scores=replace(scores, variances=scores.variances * units), calm=None)
        if not (np.abs(error) > SURPRISING * np.sqrt(said.variance)).any() and self.calm is None:
            return after
        return replace(after, calm=self.calm or self) if scores.suddenly_large else after

    def unscored(self) -> Self:
        """Return the mixture without scores to calibrate on."""
        return replace(self, scores=self.scores.emptied())

    def scored_left_out(self, state: State, X: Array, z: Array, at: Array) -> Self:
        """Return the mixture that is judged by rows just learned alone, each left out in turn.

        These are the rows `at`, at most SCORED of them, of X (n, d), z (n, q), the last that were learned.
        """
        at, n, xp = at[max(0, at.shape[0] - SCORED) :], X.shape[0], namespace(X)
        X, z = xp.take(X, at, axis=0), xp.take(z, at, axis=0)
        found = state.left_out(X, z, at + (round(state.count) - n))
        if found is None or found.error.shape[0] != z.shape[0]:
            return self
        X, z = _host(X), _host(z)
        others = [member.left_out(X, z) for member in self.members]
        means = np.stack([z - to_host(found.error), *others], axis=1)
        errors, variances = z[:, None, :] - means, np.ones_like(means)
        variances[:, 0] = np.maximum(to_host(found.variance), 0.0) + found.noise
        prior = _prior(len(self.names), z.shape[1])
        first = replace(self, by_error=prior, by_density=prior, count=np.full(z.shape[1], PRIOR_ROWS))
        known = ~np.isnan(errors).any(axis=(1, 2)) & (np.abs(errors) > NOTHING).any(axis=(1, 2))
        if not known.any():
            return self
        ratios = _capped(errors[known], variances[known]).mean(axis=0)
        first = replace(first, squares=(errors[known] ** 2).mean(axis=0), ratios=ratios)
        after = first._judged(errors, variances, min(1.0, LEFT_OUT_ROWS / errors.shape[0]))
        said, none = after._mixed(means, variances), np.zeros(z.shape[1])
        place = Place(X, np.nan_to_num(said.mean), np.zeros(z.shape[0]), state.kernel)
        scores = self.scores.emptied().add(z - said.mean, said.variance, none, at=place)
        return replace(after, scores=larger(self.scores, scores, none))

    def _judged(self, errors: np.ndarray, variances: np.ndarray, share: float = 1.0) -> Self:
        """Return the mixture after errors (b, K, q) of predictions with these variances; rows count as a `share`."""
        # Targets that never varied were predicted without an error by all, which says nothing about the next.
        known = ~np.isnan(errors).any(axis=1) & (np.abs(errors) > NOTHING).any(axis=1)  # (b, q)
        errors = np.where(known[:, None, :], errors, 0.0)
        n = share * known.sum(axis=0)
        fading = np.exp(-n / MEMORY)
        typical = np.maximum(self.squares.min(axis=0), 1e-300)
        squares = np.minimum(errors**2, LARGEST * typical)
        loss = share * 0.5 * ETA * squares.sum(axis=0) / typical
        scaled = np.maximum(self.ratios * variances, np.maximum(LEAST * typical, NOTHING**2))
        with np.errstate(over="ignore"):
            density = -0.5 * np.log(scaled) - 0.5 * np.minimum(errors**2 / scaled, LARGEST_RATIO)
        density = share * TEMPER * np.where(known[:, None, :], density, 0.0).sum(axis=0)
        count = fading * self.count + n
        # A member far worse than the best is not clipped by the best: its own typical error tells how bad it is.
        own = np.minimum(errors**2, LARGEST * np.maximum(self.squares, typical))
        ratio = np.where(known[:, None, :], _capped(errors, variances, self.ratios), 0.0)
        return replace(
            self,
            by_error=_weighted(self.by_error, loss, n),
            by_density=_weighted(self.by_density, -density, n),
            squares=(fading * self.count * self.squares + share * own.sum(axis=0)) / count,
            ratios=(fading * self.count * self.ratios + share * ratio.sum(axis=0)) / count,
            count=count,
        )

    # Learning

    def update(self, X: Array, z: Array) -> Self:
        """Return the mixture whose members have learned the rows X (b, d), z (b, q)."""
        X, z = _host(X), _host(z)
        gaps = np.isnan(z)
        if not gaps.any():
            return replace(self, members=tuple(member.update(X, z) for member in self.members))
        # Where a label is missing, what a member expects tells it nothing new.
        filled = (np.where(gaps, member.predict(X), z) for member in self.members)
        members = tuple(m.update(X, rows) for m, rows in zip(self.members, filled, strict=True))
        return replace(self, members=members)

    def blank(self) -> Self:
        """Return the mixture with the same weights, whose members have learned nothing."""
        return replace(self, members=tuple(member.blank() for member in self.members))

    def without(self, X: Array, z: Array, state: State, others: tuple[Array, Array]) -> Self:
        """Return the mixture whose members have not learned these rows, as the `state` has not.

        They are judged again, by some other rows that they have learned.
        """
        X, z, kept = _host(X), _host(z), (_host(others[0]), _host(others[1]))
        members = tuple(member.without(X, z, kept) for member in self.members)
        after = replace(self, members=members, scores=self.scores.emptied())
        return after.scored_left_out(state, *others, index(range(others[0].shape[0]), others[0]))

    def forgotten(self, rate: float) -> Self:
        """Return the mixture whose members have forgotten all but a share of the past."""
        return replace(self, members=tuple(member.forgotten(rate) for member in self.members))

    def merge(self, other: Self) -> Self:
        """Return the mixture of members that have learned the rows of both."""
        members = tuple(mine.merge(theirs) for mine, theirs in zip(self.members, other.members, strict=True))
        return replace(self, members=members, scores=self.scores.merge(other.scores))

    def rescaled(self, factors: np.ndarray) -> Self:
        """Return the mixture for targets that are multiplied by `factors` (q,)."""
        ratios = self.ratios * factors**2
        ratios[0] = self.ratios[0]  # the variance of the Gaussian process is rescaled with its state
        return replace(
            self,
            calm=self.calm and self.calm.rescaled(factors),
            members=tuple(member.rescaled(factors) for member in self.members),
            squares=self.squares * factors**2,
            ratios=ratios,
            scores=self.scores.retuned(factors, factors**2, factors**2),
        )

    def jumped(self, shift: np.ndarray, X: Array, z: Array) -> Mixture:
        """Return the mixture of a stream that is followed to a level higher by `shift` (q,).

        Its last rows, X (n, d) and z (n, q), were learned before this was known.
        """
        X, z = _host(X), _host(z)
        members = tuple(member.jumped(shift, X, z) for member in self.members)
        if self.calm is not None:
            return replace(self.calm, members=members)
        return replace(self, members=members, scores=self.scores.without_last(X.shape[0]))

    def moved(self, shift: np.ndarray) -> Self:
        """Return the mixture for targets that are smaller by `shift` (q,)."""
        scores = replace(self.scores, local=self.scores.local.moved(shift))
        calm = self.calm and self.calm.moved(shift)
        members = tuple(member.moved(shift) for member in self.members)
        return replace(self, members=members, scores=scores, calm=calm)


def _host(values: Array) -> np.ndarray:
    return np.asarray(to_host(values), dtype=np.float64)


def _prior(n_members: int, n_outputs: int) -> np.ndarray:
    """Return the logarithms of the first weights, (K, q)."""
    weights = np.full((n_members, n_outputs), (1.0 - FIRST_WEIGHT) / max(n_members - 1, 1))
    weights[0] = FIRST_WEIGHT if n_members > 1 else 1.0
    return np.asarray(np.log(weights))


def _weighted(log_weights: np.ndarray, losses: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the logarithms of the weights (K, q) after so many rows (q,) with these losses (K, q) in all.

    With each row a share of the weight is shared out by the prior. What a member got by that at an earlier row, it has
    lost again with the rows since, as if each had the same part in its loss.
    """
    weights = np.exp(log_weights - losses - (log_weights - losses).max(axis=0))
    excess = (losses - losses.min(axis=0)) / np.maximum(rows, 1.0)
    since = np.where(excess > 1e-9, np.expm1(-rows * excess) / np.expm1(-np.maximum(excess, 1e-9)), rows)
    kept, shared = (1.0 - SHARE) ** rows, SHARE * np.exp(_prior(*weights.shape)) * since
    mixed = kept * weights / weights.sum(axis=0) + shared
    return np.asarray(np.log(np.maximum(mixed / mixed.sum(axis=0), 1e-300)))


def _capped(errors: np.ndarray, variances: np.ndarray, typical: np.ndarray | None = None) -> np.ndarray:
    """Return squared errors over variances, (b, K, q), at most LARGEST_RATIO times what is `typical` (K, q)."""
    ratio = errors**2 / np.maximum(variances, 1e-300)
    typical = np.median(ratio, axis=0) if typical is None else typical
    return np.asarray(np.minimum(ratio, LARGEST_RATIO * np.maximum(typical, LEAST)))
