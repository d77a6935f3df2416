"""`rgp`, Huber's recursive Gaussian process: fixed inducing points, each batch whitened; O(b r² + b³ + r³).

Reference: Huber, Recursive Gaussian process: on-line regression and learning, Pattern Recognition Letters 45 (2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from .._arrays import Array, asarray_like, clip_below, double, eps, namespace, slices
from ..errors import InputError
from ..gp.features import Pivots, whiten
from ..gp.normal_equations import NormalEquations
from ..gp.outputs import per_output
from ..gp.posterior import LeftOut, Posterior
from ..kernels import Kernel
from ..lowrank import Complement
from ..row_weights import part_of, summed, times
from .base import MergeableState, Prediction, Summary, checked_or_repaired
from .recent import Recent

# Rows that are whitened together, which is O(b³): in an update, and where rows are summed up for others.
WHITENED_ROWS = 2000
SUMMARY_ROWS = 500


@dataclass(frozen=True)
class RecursiveState(MergeableState):
    """A GP known through its values at fixed inducing points; the rest of it is correlated noise within a batch.

    Outputs share statistics of rows that are whitened with the least of their noises, exactly for the most precise
    output. For another, what the inducing points do not explain counts for more than it should. (With the greatest
    noise the precise output beside noise had 1.8 times the error, and the other output gained nothing.)

    Attributes
    ----------
    features : Pivots
    statistics : NormalEquations
        Of whitened rows.
    unexplained : float
        Σ k(x, x) − φ(x)ᵀφ(x) over the rows learned, which whitened statistics do not contain.
    was_retuned, faded : bool
        Whether rows were whitened with another kernel, and whether anything was forgotten: unlearning is refused then.
    """

    features: Pivots
    noise: np.ndarray
    statistics: NormalEquations
    unexplained: float = 0.0
    was_retuned: bool = False
    faded: bool = False
    recent: Recent = field(default_factory=Recent, compare=False)

    @classmethod
    def empty(
        cls,
        kernel: Kernel,
        noise: float | np.ndarray,
        rank: int,
        basis: Array,
        y: Array,
        *,
        seed: Sequence[int] | None,
    ) -> Self:
        """Return the state that has learned nothing, with at most `rank` rows of `basis` (m, d) as inducing points.

        Drawn in proportion to residual variance, or, for seed None, the largest first, as many as are independent.
        """
        features, noise = Pivots.choose(kernel, basis, rank, seed), per_output(noise, y.shape[1])
        return cls(features, noise, NormalEquations.empty(features.size, y.shape[1], basis))

    @cached_property
    def posterior(self) -> Posterior:
        """See StatisticsState."""
        return Posterior(self.statistics, self.noise)

    @property
    def trace_error(self) -> float:
        """See State."""
        return self.unexplained

    def predict(self, X: Array, *, variance: bool = True, covariance: bool = False) -> Prediction:
        """See State. m·r kernel entries; O(m r²)."""
        if not covariance:
            return self.recent.predict(X, self._predict, variance=variance)
        F = self.features.transform(X)
        return Prediction.by(self.posterior, F, self.kernel, X, variance=variance, covariance=True)

    def _predict(self, X: Array, features: Array | None, variance: bool) -> Prediction:
        F = self.features.transform(X) if features is None else features
        return Prediction.by(self.posterior, F, self.kernel, X, variance=variance)

    def update(self, X: Array, y: Array, weights: Array | None = None) -> Self:
        """See State. b·r + b² kernel entries."""
        state = self
        for rows in slices(X.shape[0], WHITENED_ROWS):
            F = state.recent.features(X[rows, :], state.features.transform)
            state = state._add(X[rows, :], y[rows, :], F, part_of(weights, rows), sign=1)
        return state

    def _add(self, X: Array, y: Array, F: Array, weights: Array | None, *, sign: int) -> Self:
        """Add (sign 1) or subtract (sign −1) a whitened batch with features F (b, r)."""
        F, diagonal = double(F), double(self.kernel.diag(X))
        trace, explained = summed(diagonal, weights), float(namespace(F).sum(times(F, weights) * F))
        unexplained = self.unexplained + sign * (trace - explained)
        prior, noise = double(self.kernel.block(X)), float(self.noise.min())
        F, y, log_whitening = whiten(F, double(y), prior, noise, weights)
        statistics = self.statistics.add(F, y, trace, log_whitening, sign=sign)
        return replace(self, statistics=statistics, unexplained=unexplained, recent=Recent())

    def unlearn(self, X: Array, y: Array, weights: Array | None = None, *, known: bool = False) -> Self:
        """See MergeableState; a batch as it was learned. O(b r² + b³ + r³)."""
        if self.was_retuned:
            raise InputError(
                "rgp cannot unlearn after a tuning: rows were whitened with another kernel; use tune='none'"
            )
        if self.faded:
            raise InputError(
                "rgp cannot unlearn after forgetting: the present weight of a row is not known; use 'pivoted'"
            )
        after = self._add(X, y, self.features.transform(X), weights, sign=-1)
        # Rows known one by one need not have been learned as this batch: whether they were is judged all the same.
        statistics = checked_or_repaired(after.statistics, self.statistics, after.unexplained, X)
        return replace(after, statistics=statistics, unexplained=max(after.unexplained, 0.0))

    def merge(self, other: Self) -> Self:
        """See MergeableState; both must have the same inducing points. O(r²)."""
        Z, theirs = self.features.Z, other.features.Z
        if Z.shape != theirs.shape or not bool(namespace(Z).all(theirs == Z)):
            raise InputError(
                "rgp merges on one basis only; give both the same `basis`, or use method='pivoted'"
            )
        statistics = self.statistics.merge(other.statistics)
        unexplained = self.unexplained + other.unexplained
        return replace(self, statistics=statistics, unexplained=unexplained, recent=Recent())

    def summary(self, X: Array, y: Array, weights: Array | None = None) -> Summary:
        """See MergeableState; rows are whitened in batches of SUMMARY_ROWS."""
        state = self.emptied()
        for rows in slices(X.shape[0], SUMMARY_ROWS):
            state = state.update(X[rows, :], y[rows, :], part_of(weights, rows))
        return state.total()

    def with_summary(self, summary: Summary, X: Array, y: Array, weights: Array | None = None) -> Self:
        """See MergeableState; the rows are of no use to it."""
        return replace(self, statistics=summary.statistics, unexplained=summary.trace_error, recent=Recent())

    def left_out(
        self, X: Array, y: Array, numbers: Array | None = None, weights: Array | None = None
    ) -> LeftOut:
        """See State."""
        F, prior, xp = double(self.features.transform(X)), double(self.kernel.diag(X)), namespace(X)
        # What the inducing points do not explain is noise of the row's own: it counts for so much less.
        unexplained = clip_below(prior - xp.vecdot(F, F), 0.0)
        noise = float(self.noise.min())
        own = noise if weights is None else noise / weights
        return self.posterior.left_out(F, y, prior, noise / (own + unexplained), weights)

    def forget(self, rate: float) -> Self:
        """See MergeableState; O(r²)."""
        statistics, unexplained = self.statistics.forget(rate), rate * self.unexplained
        return replace(self, statistics=statistics, unexplained=unexplained, faded=True, recent=Recent())

    def rescaled(self, factors: np.ndarray) -> Self:
        """See State; O(r q)."""
        here = asarray_like(factors, self.statistics.moment)
        return replace(self, statistics=self.statistics.rescaled(here), recent=Recent())

    def retuned(self, kernel: Kernel, noise: float | np.ndarray) -> Self:
        """See State; what was learned of the values at the inducing points stays. O(r³)."""
        features, statistics, xp = self.features, self.statistics, namespace(self.features.Z)
        gone = features.superfluous(kernel, 10 * features.size * eps(features.Z))
        if gone:
            features, complement = features.drop(gone)
            statistics = statistics.drop(Complement(double(complement.Y), double(complement.T)))
        features, T = features.retuned(kernel)
        after, before = (float(xp.sum(double(k.diag(features.Z)))) for k in (kernel, self.kernel))
        ratio = after / max(before, 1e-300)
        statistics = replace(statistics.transform(T), prior_trace=ratio * statistics.prior_trace)
        return replace(
            self,
            features=features,
            noise=per_output(noise, statistics.moment.shape[1]),
            statistics=statistics,
            unexplained=ratio * self.unexplained,
            was_retuned=True,
            recent=Recent(),
        )
