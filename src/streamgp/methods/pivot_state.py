"""PivotState: statistics on inducing points that change, and all that can be done with them but predict and update."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from .._arrays import Array, double, namespace, slices, to_host
from ..errors import InputError
from ..gp.features import Pivots
from ..gp.normal_equations import NormalEquations
from ..gp.posterior import Conditioned, LeftOut, Posterior
from ..kernels import Kernel
from ..row_weights import part_of, summed
from . import pivot_changes
from .adaptation import Adaptation
from .base import MergeableState, Summary, checked_or_repaired
from .idle import IdlePivots
from .pivot_selection import POLICY, SelectionPolicy, losses
from .recent import Recent
from .rows import Removal, Rows, moving

# Rows that are kept for new pivots to learn from. Bounds the state; as many as the default rank.
WINDOW = 500
# Rows that are summed up together.
SUMMARY_BLOCK = 8192


@dataclass(frozen=True)
class PivotedConfig:
    """The fixed configuration of the method.

    Attributes
    ----------
    max_rank : int
    window_size : int or None
        Rows kept for new pivots; None for all of them (`memory="rows"`).
    tolerance : float or None
        Take no more pivots than leave this share of the noise variance unexplained, on average (`rank="auto"`).
    seed : int
    mixed : bool
        Sum the products of float32 features in float32 before they are added in float64.
    policy : SelectionPolicy
    """

    max_rank: int
    window_size: int | None
    tolerance: float | None
    seed: int
    mixed: bool = False
    policy: SelectionPolicy = POLICY


@dataclass(frozen=True)
class PivotState(MergeableState):
    """A GP known through its values at pivots that are taken from the stream.

    Attributes
    ----------
    least_novelty : float
        Unexplained share of its prior variance that a row needs to become a pivot, for features to keep their digits.
    noise_floor : (q,) or None
        Lower bound on the re-estimated noise: the last tuned value; None where the noise was given.
    fit : Posterior
        The posterior given the rows that were folded into the statistics.
    window : Rows
        The last rows that were folded in.
    pending : Rows
        Rows that were not folded in yet, fewer than `review_every`.
    conditioned : Conditioned or None
        The posterior given the pending rows too.
    losses : (r,)
        Variance that each pivot explains of another row, when last computed.
    adaptation : Adaptation
        How many rows tell as much as one independent row, and how much of the past still holds.
    idle : IdlePivots
        Pivots that a novel row may replace at once.
    faded : bool
        Whether anything was ever forgotten.
    reviews, unreviewed, changes : int
        Reviews so far, rows since the last one, pivots changed since V was last computed from scratch.
    """

    config: PivotedConfig
    features: Pivots
    noise: np.ndarray
    fit: Posterior
    window: Rows
    pending: Rows
    conditioned: Conditioned | None
    losses: Array
    idle: IdlePivots = field(default_factory=IdlePivots)
    adaptation: Adaptation = field(default_factory=Adaptation)
    least_novelty: float = 0.0
    noise_floor: np.ndarray | None = None
    faded: bool = False
    reviews: int = 0
    unreviewed: int = 0
    changes: int = 0
    recent: Recent = field(default_factory=Recent, compare=False)

    @property
    def count(self) -> float:
        """See State."""
        return self.fit.statistics.rows + self.pending.count

    @property
    def prior_trace(self) -> float:
        """See State."""
        return self.fit.statistics.prior_trace + self._trace_of(self.pending)

    def _trace_of(self, rows: Rows) -> float:
        """Return Σ wᵢ k(xᵢ, xᵢ) for the weights that rows were given."""
        if rows.given is None:
            return self.kernel.trace(rows.X)
        return summed(double(self.kernel.diag(rows.X)), rows.given)

    @property
    def least_noise(self) -> float:
        """The noise of a typical row, of the most precise output: what is far below it does not matter."""
        known = self.fit.statistics
        share = known.rows / known.count if known.count > 0 < known.rows else 1.0
        return float(self.noise.min()) * share

    @property
    def posterior(self) -> Posterior:
        """See StatisticsState."""
        return self.folded.fit

    @property
    def recent_rows(self) -> Rows:
        """The rows that a pivot must explain to be in use: of the window, the last `max_rank`."""
        return self.window.last(self.config.max_rank)

    @property
    def last_rows(self) -> Rows | None:
        """See MergeableState; without rows that were unlearned."""
        window = self.folded.window
        rows = window.at(np.flatnonzero(to_host(window.weights) > 0).tolist())
        return rows if rows.count else None

    @cached_property
    def folded(self) -> Self:
        """The state without pending rows."""
        # A copy, not self: a state that refers to itself is freed late, and its memory with it.
        return self.fold(self.pending) if self.pending.count else replace(self)

    def fold(self, block: Rows) -> Self:
        """Add rows to the statistics, A += FᵀWF, and to the window; no row is pending then."""
        trace, mixed = self._trace_of(block), self.config.mixed
        statistics = self.fit.statistics.add(block.F, block.y, trace, mixed=mixed, weights=block.given)
        size, window, newest = self.config.window_size, self.window, block
        # Until half of the recent rows are other ones, a look at what pivots explain of them would find the same.
        look_every = max(self.config.policy.review_every, self.config.max_rank // 2)
        if size is not None:
            window, newest = window.last(max(size - block.count, 0)), block.last(size)
        return self.refitted(
            statistics,
            window=window.join(newest) if window.count else newest.copied(),
            pending=block.last(0),
            conditioned=None,
            unreviewed=self.unreviewed + block.count,
            idle=self.idle.aged(block.count, look_every),
        )

    def refitted(self, statistics: NormalEquations, **changes: Any) -> Self:
        """Return the state with other statistics: a new posterior, the window cut to its size, an empty cache."""
        window, size = changes.pop("window", self.window), self.config.window_size
        window = window if size is None else window.last(size)
        dependence = changes.get("adaptation", self.adaptation).dependence
        idle = changes.pop("idle", self.idle)
        if "features" in changes:
            idle = idle.with_other_pivots(changes["features"], window.last(self.config.max_rank))
        return replace(
            self,
            fit=Posterior(statistics, self.noise, True, idle.left, dependence),
            window=window,
            idle=idle,
            recent=Recent(),
            **changes,
        )

    def with_noise(self, estimate: np.ndarray, *, at_once: bool = False) -> Self:
        """See State. Not below `noise_floor`; unless `at_once`, at most halved and at most ten times the old value.

        An output whose estimate is NaN keeps its noise. Nothing changes while rows are pending, whose posterior depends
        on the present noise.
        """
        if self.noise_floor is None or self.pending.count:
            return self
        noise = np.maximum(np.where(np.isnan(estimate), self.noise, estimate), self.noise_floor)
        if not at_once:
            noise = np.minimum(np.maximum(noise, 0.5 * self.noise), 10.0 * self.noise)
        return replace(self, noise=noise).refitted(self.fit.statistics)

    def retuned(self, kernel: Kernel, noise: float | np.ndarray) -> Self:
        """See State; O(r³ + W r²), no row needed but those of the window.

        What was learned of the function's values at the pivots stays (`Pivots.retuned`; exact for a change of
        amplitude). Rows of the window are learned again. Pivots that the new kernel makes superfluous are dropped
        first.
        """
        return pivot_changes.retuned(self.folded, kernel, noise)

    def left_out(
        self, X: Array, y: Array, numbers: Array | None = None, weights: Array | None = None
    ) -> LeftOut:
        """See State."""
        F, prior = self.features.transform(X), self.kernel.diag(X)
        return self.posterior.left_out(F, y, prior, weights, weights)

    def recent_left_out(self, X: Array, y: Array, weights: Array | None = None) -> LeftOut:
        """See State; of the window, except rows that were unlearned or are copies sent by a stuck sensor."""
        window, fit = self.folded.window, self.posterior
        kept = to_host(window.weights) > 0
        fresh = moving(window.X)[0] if window.count else None
        if fresh is not None:
            kept &= np.isin(np.arange(kept.size), to_host(fresh))
        rows = window.at(np.flatnonzero(kept).tolist())
        prior = self.kernel.diag(rows.X) if rows.count else namespace(rows.X).zeros_like(rows.X[:, 0])
        return fit.left_out(rows.F, rows.y, prior, rows.weights, rows.given)

    def forget(self, rate: float) -> Self:
        """See MergeableState; O(r³) where rows are pending."""
        state = self.folded
        window = replace(state.window, weights=rate * state.window.weights)
        return state.refitted(state.fit.statistics.forget(rate), window=window, faded=True)

    def unlearn(self, X: Array, y: Array, weights: Array | None = None, *, known: bool = False) -> Self:
        """See MergeableState; O(b r² + r³).

        Exact for rows of the window and for rows learned with the present pivots; where all rows are kept, for all.
        """
        state, y, xp = self.folded, double(y), namespace(X)
        removal = Removal.of(state.window, X, y, weights)
        if not removal.complete and (self.config.window_size is None or self.faded):
            raise InputError(
                "some of these rows were not learned, or were already unlearned; the model is unchanged"
                if self.config.window_size is None
                else f"after forgetting only the last {self.config.window_size} rows can be unlearned, because the "
                "present weight of older rows is not known; the model is unchanged"
            )
        F, root = double(state.features.transform(X)), xp.sqrt(removal.removed)[:, None]
        trace = summed(double(self.kernel.diag(X)), removal.removed)
        before = state.fit.statistics
        after = before.subtract(F * root, y * root, trace)
        after = replace(after, count=before.count - float(xp.sum(removal.removed)))
        if weights is not None:
            # What forgetting has left of each row: its present weight over the one that it was learned with.
            left = removal.removed / weights
            surplus = before.surplus - float(xp.sum(left - removal.removed))
            log_whitening = before.log_whitening + summed(xp.log(weights), left)
            after = replace(after, surplus=surplus, log_whitening=log_whitening)
        after = checked_or_repaired(after, before, after.trace_error, X, known=known)
        explained = after.prior_trace - after.trace_error
        after = replace(after, prior_trace=max(after.prior_trace, explained))
        return state.refitted(after, window=replace(state.window, weights=removal.kept))

    def merge(self, other: Self) -> Self:
        """See MergeableState; O(r³), exact if both have the same pivots.

        Otherwise the pivots of `other` join, its statistics are written in the features of all, and pivots are
        dropped, the weakest first, until there are `max_rank` again.
        """
        return pivot_changes.merge_states(self.folded, other.folded)

    def summary(self, X: Array, y: Array, weights: Array | None = None) -> Summary:
        """See MergeableState; O(b r²)."""
        statistics, mixed = NormalEquations.empty(self.features.size, y.shape[1], X), self.config.mixed
        for part in slices(X.shape[0], SUMMARY_BLOCK):
            rows = Rows.of(
                X[part, :], y[part, :], self.features.transform(X[part, :]), part_of(weights, part)
            )
            trace = self._trace_of(rows)
            statistics = statistics.add(rows.F, y[part, :], trace, mixed=mixed, weights=rows.given)
        return Summary(statistics, statistics.trace_error)

    def with_summary(self, summary: Summary, X: Array, y: Array, weights: Array | None = None) -> Self:
        """See MergeableState; the last WINDOW of the rows X, y are kept for new pivots to learn from."""
        newest = max(0, X.shape[0] - WINDOW)
        X, y, weights = X[newest:, :], y[newest:, :], part_of(weights, slice(newest, None))
        state = self.refitted(
            summary.statistics,
            window=Rows.of(X, y, self.features.transform(X), weights),
            pending=self.pending.last(0),
            conditioned=None,
        )
        return replace(state, losses=losses(summary.statistics, state.features))
