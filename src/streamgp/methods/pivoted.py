"""`pivoted`: a streaming Nyström approximation whose inducing points are rows of the stream and change with it.

The paper's future work, 'a combination of the proposed approach and RGP': features as Huber's, on pivots chosen by
randomly pivoted Cholesky. The state is of size O(rank²) however many rows have passed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from .._arrays import Array, asarray_like, clip_below, double, is_foreign, namespace, slices, to_host, zeros
from ..gp.features import Pivots, without_trend
from ..gp.normal_equations import NormalEquations
from ..gp.outputs import per_output
from ..gp.posterior import Conditioned, Posterior
from ..kernels import Kernel
from ..row_weights import part_of
from .adaptation import faded, lasting_rows
from .base import Prediction
from .idle import IdlePivots
from .neighbours import Conditional, Correction, correction
from .pivot_changes import fill, replace_weak, take_novel, threshold
from .pivot_selection import losses
from .pivot_state import PivotedConfig, PivotState
from .recent import Recent
from .rows import Rows, stand_still
from .stored import Store

# Rows that are learned together: a review looks at all pairs of them.
BLOCK = 500
# The same on a device, where each block has a fixed launch cost and reviews are rare.
DEVICE_BLOCK = 16_384


@dataclass(frozen=True)
class PivotedState(PivotState):
    """How `pivoted` predicts and learns; what it holds is in PivotState."""

    @classmethod
    def empty(
        cls,
        config: PivotedConfig,
        kernel: Kernel,
        noise: float | np.ndarray,
        X: Array,
        y: Array,
        *,
        noise_floor: np.ndarray | None = None,
    ) -> Self:
        """Return the state that has learned nothing, on the device of X (·, d); y (·, q) has its outputs."""
        noise, features = per_output(noise, y.shape[1]), Pivots.none(kernel, X)
        none = Rows(X[:0, :], double(y[:0, :]), zeros((0, features.size), X), double(y[:0, 0]))
        fit = Posterior(NormalEquations.empty(features.size, y.shape[1], X), noise)
        return cls(
            config=config,
            features=features,
            noise=noise,
            fit=fit,
            window=none,
            pending=none,
            conditioned=None,
            losses=none.weights,
            noise_floor=noise_floor,
        )

    def predict(self, X: Array, *, variance: bool = True, covariance: bool = False) -> Prediction:
        """See State. m·r kernel entries; O(m r²)."""
        if covariance:
            F = self.features.transform(X)
            return Prediction.by(self._predicting, F, self.kernel, X, variance=variance, covariance=True)
        return self.recent.predict(X, self._predict, variance=variance)

    def _predict(self, X: Array, features: Array | None, variance: bool) -> Prediction:
        F = self.features.transform(X) if features is None else features
        given = self.fit if self.conditioned is None else self.conditioned
        if not variance and self.conditioned is None:
            return Prediction(self.fit.mean(F), features=F)
        mean, of_weights = given.predict(F)
        if not variance:
            return Prediction(mean, features=F)
        left = self.features.unexplained(X, F)
        return Prediction(mean, left[:, None] + of_weights, features=F, left=left)

    @property
    def _predicting(self) -> Posterior:
        """See MergeableState; with the noise of the posterior that `_predict` conditions."""
        return Posterior(self.posterior.statistics, self.fit.effective_noise)

    def corrected(self, X: Array, found: Prediction, store: Store) -> Prediction:
        """See State; O(m k (r + k²) + m n d) for k neighbours among n rows, positive semi-definite kernels only."""
        if not store.count or not self.kernel.positive_semidefinite:
            return found

        F = self.features.transform(X) if found.features is None else found.features
        # A copy, which is written into.
        left = double(self.features.unexplained(X, F) if found.left is None else found.left) + 0.0
        left, xp = clip_below(left, 0.0)[:, None], namespace(left)

        def compute() -> Correction:
            weights = (self.fit if self.conditioned is None else self.conditioned).weights
            Z, V = double(self.features.Z), double(self.features.V)
            noise, known = self.adaptation.dependence * self.noise, self.fit.statistics
            unexplained = max(known.trace_error, 0.0) / max(known.count, 1.0)
            gp = Conditional(self.kernel, Z, xp.matrix_transpose(V) @ weights, noise, unexplained)
            return correction(store, gp, X)

        given = self.recent.correction(X, store, compute)
        mean = found.mean + given.mean
        if found.variance is None:
            return Prediction(mean)
        # Both bound what is left of the function: inducing points far away know something, too.
        of_weights = clip_below(found.variance - left, 0.0)
        return Prediction(mean, xp.minimum(given.left, left) + given.unsure * of_weights)

    def update(self, X: Array, y: Array, weights: Array | None = None) -> Self:
        """See State. b·r + b² kernel entries, and WINDOW for each new pivot; O(b r² + r³)."""
        full = self.features.rank == self.config.max_rank
        state = self
        for rows in slices(X.shape[0], DEVICE_BLOCK if full and is_foreign(X) else BLOCK):
            state = state._take(X[rows, :], y[rows, :], part_of(weights, rows))
        return state

    def rescaled(self, factors: np.ndarray) -> Self:
        """See State; O(r q + W q)."""
        here, given = asarray_like(factors, self.fit.statistics.moment), self.conditioned
        fit = replace(self.fit, statistics=self.fit.statistics.rescaled(here))
        if given is not None:
            given = replace(given, base=fit, residual=given.residual * here[None, :])
        return replace(
            self,
            fit=fit,
            window=self.window.rescaled(here),
            pending=self.pending.rescaled(here),
            conditioned=given,
            recent=Recent(),
        )

    def moved(self, shift: np.ndarray) -> Self | None:
        """See State; where the kernel has a trend. O(r²)."""
        state, constant = self.folded, self.features.constant()
        if constant is None:
            return None
        here = asarray_like(shift, state.window.y)
        window = replace(state.window, y=state.window.y - here[None, :])
        return state.refitted(state.fit.statistics.moved(constant, here), window=window)

    # Following the stream

    def adapted(
        self, horizon: int, rows: int, *, forget: bool, surprised: bool, lasting: Callable[[], float]
    ) -> Self:
        """See State; rows that are pending wait for a look, unless errors have suddenly grown."""
        now = self.adaptation
        if not now.is_due(rows, surprised=surprised) or stand_still(self.window.X):
            return self
        if self.pending.count and not surprised:
            return self
        state, alike = self.folded, lasting()
        looked = now.looked(
            state.fit, state.window, horizon, rows, forget=forget, surprised=surprised, lasting=alike
        )
        if looked.dependence == now.dependence and looked.kept == 1.0:
            return replace(state, adaptation=looked)
        window, n = state.window, looked.n_recent
        statistics = faded(state.fit.statistics, window.last(n), looked.kept)
        weights = to_host(window.weights).copy()
        weights[: max(window.count - n, 0)] *= looked.kept
        window = replace(window, weights=asarray_like(weights, window.weights))
        after = state.refitted(statistics, window=window, adaptation=looked)
        if looked.kept == 1.0:
            return after
        # Pivots of a past that was given up explain nothing that is still there.
        return replace(after, faded=True, losses=losses(statistics, self.features), idle=IdlePivots())

    @property
    def kept_share(self) -> tuple[float, int]:
        """See State."""
        return self.adaptation.kept, self.adaptation.n_recent

    def with_noise_correlation(self, correlation: Sequence[float]) -> Self:
        """See State; O(W²)."""
        if not len(correlation) and self.adaptation.lasting == 1:
            return self
        state, lasting = self.folded, 1.0
        if len(correlation):
            lasting = lasting_rows(without_trend(state.kernel), to_host(state.window.X), correlation)
        return state.refitted(state.fit.statistics, adaptation=replace(state.adaptation, lasting=lasting))

    # Learning a block

    def _take(self, X: Array, y: Array, weights: Array | None = None) -> Self:
        """Learn one block: fold it into the statistics and review the pivots, or keep a few rows pending in O(b r²)."""
        policy, F, left = self.config.policy, *self.recent.explained(X, self.features)
        # A copy, since the caller may write its next rows into the same memory.
        rows = Rows.of(namespace(X).asarray(X, copy=True), y, F, weights)
        block = self.pending.join(rows) if self.pending.count else rows
        full = self.features.rank >= self.config.max_rank
        novel = self._is_urgent(left) if full else self._is_novel(X, left)
        due = self.unreviewed + block.count >= policy.calm_review_every
        if block.count < policy.review_every and not novel and not due and self.features.rank:
            given, known = self.conditioned, rows.whitened()
            given = Conditioned.on(self.fit, *known) if given is None else given.add(*known)
            return replace(self, pending=block, conditioned=given, recent=Recent())
        folded = self.fold(block)
        if not full:
            # Free places are filled at every block; reviews are counted from full rank on.
            return replace(fill(folded, folded.window.last(block.count)) if novel else folded, unreviewed=0)
        if novel:
            folded = take_novel(folded, folded.window.last(min(block.count, BLOCK)))
        return folded.reviewed(block.count, self.fit)

    def reviewed(self, n_new: int, before: Posterior) -> Self:
        """Exchange weak pivots for rows of the newest block, n_new of them, if it is time to; see SelectionPolicy."""
        policy, statistics = self.config.policy, self.fit.statistics
        review_every, check_every = policy.calm_review_every, 1
        if is_foreign(self.features.Z):
            review_every, check_every = policy.device_intervals(n_new)
        if self.unreviewed // check_every == (self.unreviewed - n_new) // check_every:
            return self  # no multiple of check_every lies within this block
        block = self.window.last(min(max(n_new, policy.review_every), BLOCK))
        left = self.features.unexplained(block.X, block.F)
        mean = float(namespace(left).sum(left)) / block.count
        past = max(statistics.trace_error, 0.0) / statistics.count if statistics.count > 0 else 0.0
        moved = mean / max(past, 1e-6 * mean) if mean > 0 else 1.0
        if self.unreviewed < (policy.review_every if moved > policy.moved else review_every):
            return self
        return replace_weak(self, block, before, min(max(moved, 1.0), policy.most_moved))

    def _is_urgent(self, left: Array) -> bool:
        """Return whether some rows of which `left` (b,) is unexplained are worth a pivot at once, at full rank."""
        policy = self.config.policy
        most = float(namespace(left).max(left))
        if most <= policy.worth_of_noise * self.least_noise:
            return False
        least = 0.0 if self.idle.is_past(most) else self.idle.least
        return most > policy.margin * least * max(self.recent_rows.count, 1)

    def _is_novel(self, X: Array, left: Array) -> bool:
        """Return whether rows X (b, d) of which `left` (b,) is unexplained need another pivot."""
        prior = double(without_trend(self.kernel).diag(X))
        xp, tolerance = namespace(left), self.config.tolerance
        if not bool(xp.any(left > threshold(self) * prior)):
            return False
        if tolerance is None:
            return True
        lost, rows = float(xp.sum(left)), float(left.shape[0])
        if rows < self.config.policy.review_every:
            # A few rows are too few to estimate the mean: judge them with all that came before.
            lost, rows = lost + self.fit.statistics.trace_error, rows + self.fit.statistics.count
        return lost > tolerance * self.least_noise * rows
