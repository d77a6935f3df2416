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

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from .._arrays import Array, copied, index, namespace, to_host
from ..methods import Prediction, State, predict_in_chunks
from ..methods.recent import MOST_ROWS
from ..methods.stored import Store
from ..row_weights import part_of, taken, whitened
from .answered import Late
from .calibration import SCORED, Scores, larger
from .exponential import LARGEST_RATIO, LEAST, NEIGHBOURS, capped, first_weights, weighted
from .local import Place
from .members import FadingRidge, Known, Level, Member
from .rows import beside, host, rows_of
from .said import Answered, Said, told

# Learning rates: of squared errors over a typical one, and of log densities. Small ones average members that are about
# as good as each other, whose errors partly cancel.
ETA, TEMPER = 0.02, 0.1
# The age in rows at which the weight of a squared error is 1/e, in what is typical of a member.
MEMORY = 500.0
# The variance of a member counts as known from so many rows at first.
PRIOR_ROWS = 10.0
# Rows that are left out in turn tell less than rows that come next, which are not between them: they count as so many.
LEFT_OUT_ROWS = 100.0
# Squared errors count as at most so many typical ones (η e²/s² ≤ 1).
LARGEST = 1.0 / ETA
# Errors may be suddenly large if one is beyond so many deviations.
SURPRISING = 3.0
# Errors below this, in deviations of the targets, are rounding.
NOTHING = 1e-9
# Neighbours that lower squared errors by less than this share, and log densities by less than this, are asked rarely:
# for LOOK of PERIOD rows. A tenth of what would be noticed.
EARNS = 1e-3
LOOK, PERIOD = 64, 512
# The age in rows that were asked at which the weight of such a gain is 1/e.
GAIN_MEMORY = 200.0
# The memory of a ridge regression that fades, in rows.
RECENT_ROWS = 1000.0


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
    store : Store or None
        The rows of the member 'neighbours', which is the second where it is one.
    gain : (2, q)
        Decayed mean of what neighbours gain: a share of squared errors, and log density.
    seen : int
        Rows scored.
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
    store: Store | None = None
    gain: np.ndarray = field(default_factory=lambda: np.ones((2, 1)))
    seen: int = 0
    calm: Mixture | None = None

    @classmethod
    def begun(
        cls,
        names: tuple[str, ...],
        X: np.ndarray,
        z: np.ndarray,
        scores: Scores,
        store: Store | None = None,
        weights: np.ndarray | None = None,
    ) -> Self:
        """Return a mixture of members that have learned the first rows, X (n, d), z (n, q) and weights (n,).

        `store` is an empty one, for the member 'neighbours'.
        """
        store, q = store and store.update(*beside(X, z, weights)), z.shape[1]
        X, z, weights = host(X), host(z), None if weights is None else host(weights)
        made: dict[str, Member] = {
            "ridge": FadingRidge.of(X, q, 1.0),
            "ridge_recent": FadingRidge.of(X, q, float(np.exp(-1.0 / RECENT_ROWS))),
            "level": Level.of(q),
        }
        members = tuple(made[name].update(X, z, weights) for name in names if name in made)
        prior = first_weights(names, q)
        ones, count, gain = np.ones_like(prior), np.full(q, PRIOR_ROWS), np.ones((2, q))
        return cls(names, members, prior, prior, ones, ones, count, scores, store, gain)

    @property
    def weights(self) -> np.ndarray:
        """The weights of the members in the mean, (K, q)."""
        return np.asarray(np.exp(self.by_error))

    # Predicting

    @property
    def n_gaussian(self) -> int:
        """The number of members that know their variance: the Gaussian process, alone and with its neighbours."""
        return 1 + (NEIGHBOURS in self.names)

    @property
    def spreads(self) -> np.ndarray:
        """What the variances of the members are multiplied by, (K, q).

        A Gaussian process that is alone with its neighbours keeps the variance that it states. With them it is scaled
        as far as it is less honest than alone, and made larger only where its own errors are.
        """
        if self.members:
            return self.ratios
        relative = self.ratios / np.maximum(self.ratios[0], 1e-300)
        return np.asarray(np.minimum(relative, np.maximum(self.ratios, 1.0)))

    def predict(self, X: Array, found: Prediction, state: State, doubt: np.ndarray | None = None) -> Said:
        """Return what the members say of the rows X (m, d); `found` is what the state of the Gaussian process says.

        `doubt` (m, q) is the variance by features that are missing, of each member and of the mixture.
        """
        # Any thread may put its own there.
        last: Answered | None = self.__dict__.get("_last")
        if last is not None and found.variance is not None and last.is_of(state, X, doubt):
            return last.said
        near: tuple[Prediction, ...] = ()
        if self.store is not None:
            alone = Prediction(found.mean, found.variance)
            near = (state.corrected(X, found, self.store) if self.asks else alone,)
        means, variances = told((found, *near), [m.predict(rows_of(X)) for m in self.members], state.noise)
        if doubt is not None:  # spreads multiply it away again
            variances = variances + doubt[:, None, :] / np.maximum(self.spreads, NOTHING**2)
        said = self._mixed(means, variances)
        if found.variance is not None and X.shape[0] <= MOST_ROWS:
            # A stream learns the rows that it has just predicted. A copy: the caller may write its next rows there.
            self.__dict__["_last"] = Answered(state, copied(X), doubt, said)
        return said

    @property
    def asks(self) -> bool:
        """Whether neighbours are asked for the next rows; otherwise they add nothing."""
        return bool((self.gain > EARNS).any()) or self.seen % PERIOD < LOOK

    def _mixed(self, means: np.ndarray, variances: np.ndarray) -> Said:
        """Return the mixture of means and variances (m, K, q)."""
        mean = np.einsum("kq,mkq->mq", np.exp(self.by_error), means)
        spread = self.spreads * variances + (means - mean[:, None, :]) ** 2
        variance = np.einsum("kq,mkq->mq", np.exp(self.by_density), spread)
        return Said(means, variances, mean, np.maximum(variance, NOTHING**2))

    # Following what was predicted

    def scored(
        self,
        state: State,
        X: Array,
        z: Array,
        fresh: Array | None,
        late: Late | None,
        weights: Array | None = None,
        *,
        doubt: np.ndarray | None = None,
    ) -> Self:
        """Return the mixture after it saw the targets z (b, q) of rows X (b, d) that are not learned yet.

        Rows that earlier models answered are scored by what was answered. Only rows with the numbers `fresh` count.
        Squared errors count by the weights (b,) of their rows. `doubt` (b, q) is the variance by missing features.
        """
        known = None if weights is None else host(weights)
        newest = max(0, X.shape[0] - SCORED)
        X, z, lags = X[newest:, :], host(z)[newest:], np.zeros(X.shape[0] - newest)
        doubt = None if doubt is None else doubt[newest:]
        said, X = self.predict(X, predict_in_chunks(state, X), state, doubt), host(X)
        if late is not None and late.members.shape[2] == len(self.names) + 1:
            answered = late.members[newest:]
            # An answer without a spread has the spread of now.
            there = to_host(late.known)[newest:, None, None, None] & np.isfinite(answered)
            said = Said.of_table(np.where(there, answered, said.table()))
            lags = np.where(there[:, 0, 0, 0], to_host(late.lag)[newest:], 0)
        own = part_of(known, slice(newest, None))
        if fresh is not None:
            at = to_host(fresh)
            at = at[at >= newest] - newest
            X, z, lags, said = X[at], z[at], lags[at], Said.of_table(said.table()[at])
            own = taken(own, at)
        if not z.shape[0]:
            return self
        place = Place(X, said.mean, lags, state.kernel)
        if own is not None:
            z, of_noise = whitened(z, own), said.whitened(own, state.noise, self.n_gaussian)
            said = replace(of_noise, variance=self._mixed(of_noise.means, of_noise.variances).variance)
        error, none = z - said.mean, np.zeros_like(said.variance)
        gain = _gained(self, z, said)
        scores = self.scores.add(error, said.variance, none[0], (error, said.variance, none, lags), at=place)
        after = self._judged(z[:, None, :] - said.means, said.variances)
        # Scores are in units of the spread: where all spreads are scaled anew, so are they.
        units = np.einsum(
            "kq,kq->q", np.exp(after.by_density), after.spreads / np.maximum(self.spreads, 1e-300)
        )
        scores = replace(scores, variances=scores.variances * units)
        after = replace(after, scores=scores, gain=gain, seen=self.seen + z.shape[0], calm=None)
        if not (np.abs(error) > SURPRISING * np.sqrt(said.variance)).any() and self.calm is None:
            return after
        return replace(after, calm=self.calm or replace(self, store=None)) if scores.suddenly_large else after

    def unscored(self) -> Self:
        """Return the mixture without scores to calibrate on."""
        return replace(self, scores=self.scores.emptied())

    def scored_left_out(
        self, state: State, X: Array, z: Array, at: Array, weights: Array | None = None
    ) -> Self:
        """Return the mixture that is judged by rows just learned alone, each left out in turn.

        These are the rows `at`, at most SCORED of them, of X (n, d), z (n, q), the last that were learned.
        """
        at, n, xp = at[max(0, at.shape[0] - SCORED) :], X.shape[0], namespace(X)
        X, z, weights = xp.take(X, at, axis=0), xp.take(z, at, axis=0), taken(weights, at)
        found = state.left_out(X, z, at + (round(state.count) - n), weights)
        if found is None or found.error.shape[0] != z.shape[0]:
            return self
        X, z, own = host(X), host(z), None if weights is None else host(weights)
        others = [whitened(member.left_out(X, z, own), own) for member in self.members]
        z = whitened(z, own)
        # Neighbours are not asked: what they leave of a row depends on whether it was learned.
        without = Prediction(z - to_host(found.error), found.variance)
        means, variances = told((without,) * self.n_gaussian, others, state.noise)
        errors = z[:, None, :] - means
        prior = first_weights(self.names, z.shape[1])
        first = replace(self, by_error=prior, by_density=prior, count=np.full(z.shape[1], PRIOR_ROWS))
        known = ~np.isnan(errors).any(axis=(1, 2)) & (np.abs(errors) > NOTHING).any(axis=(1, 2))
        if not known.any():
            return self
        ratios = capped(errors[known], variances[known]).mean(axis=0)
        first = replace(first, squares=(errors[known] ** 2).mean(axis=0), ratios=ratios)
        after = first._judged(errors, variances, min(1.0, LEFT_OUT_ROWS / errors.shape[0]))
        said, none = after._mixed(means, variances), np.zeros(z.shape[1])
        centre = said.mean if own is None else said.mean / np.sqrt(own)[:, None]
        place = Place(X, np.nan_to_num(centre), np.zeros(z.shape[0]), state.kernel)
        scores = self.scores.emptied().add(z - said.mean, said.variance, none, at=place)
        return replace(after, scores=larger(self.scores, scores, none))

    def _judged(self, errors: np.ndarray, variances: np.ndarray, share: float = 1.0) -> Self:
        """Return the mixture after errors (b, K, q) of predictions with these variances; rows count as a `share`."""
        # Targets that never varied were predicted without an error by all, which says nothing about the next.
        known = ~np.isnan(errors).any(axis=1) & (np.abs(errors) > NOTHING).any(axis=1)  # (b, q)
        errors = np.where(known[:, None, :], errors, 0.0)
        n, prior = share * known.sum(axis=0), np.exp(first_weights(self.names, errors.shape[2]))
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
        ratio = np.where(known[:, None, :], capped(errors, variances, self.ratios), 0.0)
        return replace(
            self,
            by_error=weighted(self.by_error, loss, n, prior),
            by_density=weighted(self.by_density, -density, n, prior),
            squares=(fading * self.count * self.squares + share * own.sum(axis=0)) / count,
            ratios=(fading * self.count * self.ratios + share * ratio.sum(axis=0)) / count,
            count=count,
        )

    # Learning

    def update(self, X: Array, z: Array, weights: Array | None = None) -> Self:
        """Return the mixture whose members have learned the rows X (b, d), z (b, q) of weights (b,)."""
        store = self.store and self.store.update(*beside(X, z, weights))
        X, z, own = rows_of(X), host(z), None if weights is None else host(weights)
        gaps = np.isnan(z)
        if not gaps.any():
            members = tuple(member.update(X, z, own) for member in self.members)
            return replace(self, members=members, store=store)
        # Where a label is missing, what a member expects tells it nothing new.
        filled = (np.where(gaps, member.predict(X), z) for member in self.members)
        members = tuple(m.update(X, rows, own) for m, rows in zip(self.members, filled, strict=True))
        return replace(self, members=members, store=store)

    def blank(self) -> Self:
        """Return the mixture with the same weights, whose members have learned nothing."""
        members = tuple(member.blank() for member in self.members)
        return replace(self, members=members, store=self.store and self.store.blank())

    def without(self, gone: Known, state: State, others: Known) -> Self:
        """Return the mixture whose members have not learned some rows, as the `state` has not.

        They are judged again, by some other rows that they have learned.
        """
        lost, kept = gone.on_host(), others.on_host()
        members = tuple(member.without(lost, kept) for member in self.members)
        store = self.store and self.store.without(lost.X, lost.z, lost.weights)
        after = replace(self, members=members, scores=self.scores.emptied(), store=store)
        at = index(range(others.X.shape[0]), others.X)
        return after.scored_left_out(state, others.X, others.z, at, others.weights)

    def forgotten(self, rate: float) -> Self:
        """Return the mixture whose members have forgotten all but a share of the past."""
        members = tuple(member.forgotten(rate) for member in self.members)
        return replace(self, members=members, store=self.store and self.store.forgotten(rate))

    def merge(self, other: Self) -> Self:
        """Return the mixture of members that have learned the rows of both."""
        members = tuple(mine.merge(theirs) for mine, theirs in zip(self.members, other.members, strict=True))
        store = self.store and other.store and self.store.merge(other.store)
        return replace(self, members=members, scores=self.scores.merge(other.scores), store=store)

    def rescaled(self, factors: np.ndarray) -> Self:
        """Return the mixture for targets that are multiplied by `factors` (q,)."""
        ratios = self.ratios * factors**2
        ratios[: self.n_gaussian] = self.ratios[
            : self.n_gaussian
        ]  # their variance is rescaled with the state
        return replace(
            self,
            calm=self.calm and self.calm.rescaled(factors),
            members=tuple(member.rescaled(factors) for member in self.members),
            squares=self.squares * factors**2,
            ratios=ratios,
            scores=self.scores.retuned(factors, factors**2, factors**2),
            store=self.store and self.store.with_targets(0.0 * factors, factors),
        )

    def jumped(self, shift: np.ndarray, last: Known) -> Mixture:
        """Return the mixture of a stream that is followed to a level higher by `shift` (q,).

        Its `last` rows were learned before this was known.
        """
        rows, n = last.on_host(), last.X.shape[0]
        members = tuple(member.jumped(shift, rows) for member in self.members)
        store = self.store and self.store.with_targets(shift, last=n)
        if self.calm is not None:
            return replace(self.calm, members=members, store=store)
        return replace(self, members=members, scores=self.scores.without_last(n), store=store)

    def moved(self, shift: np.ndarray) -> Self:
        """Return the mixture for targets that are smaller by `shift` (q,)."""
        scores = replace(self.scores, local=self.scores.local.moved(shift))
        calm = self.calm and self.calm.moved(shift)
        members = tuple(member.moved(shift) for member in self.members)
        store = self.store and self.store.with_targets(shift)
        return replace(self, members=members, scores=scores, calm=calm, store=store)


def _gained(mixture: Mixture, z: np.ndarray, said: Said) -> np.ndarray:
    """Return `gain` after what was said of targets z (b, q), if neighbours were asked."""
    if mixture.store is None:
        return mixture.gain
    squares = (z[:, None, :] - said.means[:, :2]) ** 2
    variances = np.maximum(mixture.spreads[:2] * said.variances[:, :2], NOTHING**2)
    asked = (said.means[:, 0] != said.means[:, 1]) & ~np.isnan(z)  # (b, q)
    less = (squares[:, 0] - squares[:, 1]) / np.maximum(mixture.squares[0], NOTHING**2)
    density = 0.5 * (np.diff(-np.log(variances), axis=1) + -np.diff(squares / variances, axis=1))[:, 0]
    gains = np.clip(np.stack([less, density]), -LARGEST_RATIO, LARGEST_RATIO)
    n = asked.sum(axis=0)
    new = np.where(asked, gains, 0.0).sum(axis=1) / np.maximum(n, 1)
    fading = np.exp(-n / GAIN_MEMORY)
    return np.asarray(fading * mixture.gain + (1.0 - fading) * new)
