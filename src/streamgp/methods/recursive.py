"""`rgp`, Huber's recursive Gaussian process: a fixed basis, each batch whitened, O(b r² + b³ + r³).

Reference: Huber, Recursive Gaussian process: on-line regression and learning, Pattern Recognition
Letters 45 (2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

from .._arrays import Array, clip_below, double, eps, namespace, slices
from ..errors import InputError
from ..gp.features import Pivots, whiten
from ..gp.statistics import LeftOut, NormalEquations, Posterior
from ..kernels import Kernel
from ..lowrank import Complement
from .base import Prediction, Recent, Summary, possible

# Rows that are whitened together where they are summed up.
WHITENED = 500


@dataclass(frozen=True)
class RecursiveModel:
    """The function is known through its values at the pivots; the rest of it is noise within a batch.

    `trace_error` is Σ k(x, x) − φ(x)ᵀφ(x) over the rows learned: whitened statistics cannot tell it.
    """

    features: Pivots
    noise: float
    statistics: NormalEquations
    trace_error: float = 0.0
    was_retuned: bool = False
    faded: bool = False
    recent: Recent = field(default_factory=Recent, compare=False)

    @classmethod
    def empty(
        cls,
        kernel: Kernel,
        noise: float,
        rank: int,
        basis: Array,
        y: Array,
        seed: Sequence[int] | None,
    ) -> Self:
        """Give the model that has learned nothing, its basis at most `rank` rows of `basis` (m, d).

        Drawn in proportion to residual variance, or, for seed None, as many as are independent.
        """
        features = Pivots.choose(kernel, basis, rank, seed)
        return cls(features, noise, NormalEquations.empty(features.rank, y.shape[1], basis))

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.features.kernel

    @property
    def count(self) -> float:
        """The number of rows learned, less what was forgotten."""
        return self.statistics.count

    @property
    def rank(self) -> int:
        """The number of basis points."""
        return self.features.rank

    @property
    def prior_trace(self) -> float:
        """See Model."""
        return self.statistics.prior_trace

    @property
    def largest_batch(self) -> int | None:
        """Two thousand: whitening is O(b³)."""
        return 2000

    def observe(self, X: Array, y: Array) -> Self:
        """See Model. b·r + b² kernel entries."""
        F = double(self._features_of(X))
        prior, diagonal = double(self.kernel.block(X)), double(self.kernel.diag(X))
        xp = namespace(F)
        prior_trace = float(xp.sum(diagonal))
        unseen = prior_trace - float(xp.sum(F * F))
        F, y, log_whitening = whiten(F, double(y), prior, self.noise)
        return replace(
            self,
            statistics=self.statistics.learn(F, y, prior_trace, log_whitening),
            trace_error=self.trace_error + unseen,
            recent=Recent(),
        )

    def _features_of(self, X: Array) -> Array:
        return self.recent.of(X, self.features.transform)

    def unlearn(self, X: Array, y: Array, *, known: bool = False) -> Self:
        """Take a batch away as it was learned; O(b r² + b³ + r³). Rows `known` from other batches do not count."""
        if self.was_retuned:
            raise InputError(
                "rgp cannot unlearn after a tuning: rows were whitened with another kernel; use tune='none'"
            )
        if self.faded:
            raise InputError(
                "rgp cannot unlearn after forgetting: it does not know what a row still counts for; use 'pivoted'"
            )
        F = double(self.features.transform(X))
        prior, diagonal = double(self.kernel.block(X)), double(self.kernel.diag(X))
        prior_trace = float(namespace(F).sum(diagonal))
        unseen = prior_trace - float(namespace(F).sum(F * F))
        F, y, log_whitening = whiten(F, double(y), prior, self.noise)
        statistics = self.statistics.unlearn(F, y, prior_trace, log_whitening)
        trace_error = self.trace_error - unseen
        statistics = possible(statistics, self.statistics, trace_error, X)
        return replace(self, statistics=statistics, trace_error=max(trace_error, 0.0), recent=Recent())

    def merge(self, other: Self) -> Self:
        """Add what another machine has learned on the same basis; O(r²)."""
        if not _same(self.features.Z, other.features.Z):
            raise InputError(
                "rgp merges on one basis only; give both the same `basis`, or use method='pivoted'"
            )
        statistics = self.statistics.merge(other.statistics)
        return replace(self, statistics=statistics, trace_error=self.trace_error + other.trace_error)

    def blank(self) -> Self:
        """Give the same basis with nothing learned."""
        like, q = self.features.Z, self.statistics.moment.shape[1]
        return replace(
            self, statistics=NormalEquations.empty(self.rank, q, like), trace_error=0.0, recent=Recent()
        )

    def summary(self, X: Array, y: Array) -> Summary:
        """Sum up rows, whitened in batches of WHITENED, without learning them."""
        model = self.blank()
        for part in slices(X.shape[0], WHITENED):
            model = model.observe(X[part, :], y[part, :])
        return model.summary_of_all()

    def summary_of_all(self) -> Summary:
        """Sum up all rows that were learned."""
        return Summary(self.statistics, self.trace_error)

    def with_summary(self, summary: Summary, X: Array, y: Array) -> Self:
        """Know what a summary says; rows are of no use to it."""
        return replace(self, statistics=summary.statistics, trace_error=summary.trace_error, recent=Recent())

    def left_out(self, X: Array, y: Array, numbers: Array | None = None) -> LeftOut:
        """See Model."""
        F, prior, xp = double(self.features.transform(X)), double(self.kernel.diag(X)), namespace(X)
        # What the basis cannot see is noise of the row's own: it counts for so much less.
        unseen = clip_below(prior - xp.vecdot(F, F), 0.0)
        return self._posterior.left_out(F, y, prior, self.noise, self.noise / (self.noise + unseen))

    def recent_left_out(self) -> LeftOut | None:
        """See Model; None, for no row is kept."""
        return None

    def forget(self, rate: float) -> Self:
        """Weigh all that was learned by `rate`; O(r²)."""
        statistics = self.statistics.forget(rate)
        return replace(self, statistics=statistics, trace_error=rate * self.trace_error, faded=True)

    def retuned(self, kernel: Kernel, noise: float) -> Self:
        """Go on with another kernel; what was learned of the values at the basis stays. O(r³)."""
        features, statistics = self.features, self.statistics
        gone = features.superfluous(kernel, 10 * features.rank * eps(features.Z))
        if gone:
            features, complement = features.drop(gone)
            wide = Complement(double(complement.Y), double(complement.T))
            statistics = statistics.drop(wide)
        features, T = features.retuned(kernel)
        ratio = float(namespace(features.Z).sum(double(kernel.diag(features.Z)))) / max(
            float(namespace(features.Z).sum(double(self.kernel.diag(features.Z)))), 1e-300
        )
        statistics = statistics.transform(T, prior_trace=ratio * statistics.prior_trace)
        return replace(
            self,
            features=features,
            noise=noise,
            statistics=statistics,
            trace_error=ratio * self.trace_error,
            was_retuned=True,
            recent=Recent(),
        )

    @cached_property
    def _posterior(self) -> Posterior:
        return self.statistics.solve(self.noise)

    def predict(self, X: Array, *, variance: bool, covariance: bool) -> Prediction:
        """See Model. m·r kernel entries; O(m r²)."""
        F, posterior = self._features_of(X), self._posterior
        return Prediction.by(posterior, F, self.kernel, X, variance=variance, covariance=covariance)

    def log_evidence(self) -> float:
        """See Model; of the model in which batches are independent given the basis."""
        return self._posterior.log_evidence


def _same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and bool(namespace(a).all(a == b))
