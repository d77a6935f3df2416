"""SiteState: a latent function on inducing points, learned from weighted pseudo-observations of it (sites)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from .._arrays import double, to_host
from ..gp.normal_equations import NormalEquations
from ..gp.posterior import Conditioned
from .pivot_changes import fill, take_novel
from .pivoted import PivotedState
from .recent import Recent
from .rows import Rows

# Rows whose sites are sought together, in O(BATCH³); the fold of so many rows is O(rank³) anyway.
BATCH = 100


@dataclass(frozen=True)
class Prior:
    """What a state knows of the latent function at some rows before it learns their labels.

    Attributes
    ----------
    X, F : (b, d), (b, r)
        The rows and their features.
    left : (b,)
        The prior variance that the features leave.
    mean : (b,), covariance : (b, b)
    alone : bool
        Whether it is a single row that the inducing points explain, which can wait to be folded in.
    urgent : bool
        Whether inducing points are exchanged for these rows as soon as they are learned.
    """

    X: np.ndarray
    F: np.ndarray
    left: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    alone: bool
    urgent: bool


@dataclass(frozen=True)
class SiteState(PivotedState):
    """A `PivotedState` of one latent function whose rows have noise of their own; NumPy arrays only."""

    def refitted(self, statistics: NormalEquations, **changes: Any) -> Self:
        """See PivotState; what inducing points leave is noise of each row (`with_sites`), not of all."""
        state = super().refitted(statistics, **changes)
        return replace(state, fit=replace(state.fit, residual_as_noise=False))

    def before(self, X: np.ndarray) -> tuple[Self, Prior]:
        """Return the state with inducing points for the rows X (b, d), and what it knows of them; O(b r² + b² r)."""
        F, left = self.recent.explained(X, self.features)
        full, policy = self.features.rank >= self.config.max_rank, self.config.policy
        novel = self._is_urgent(left) if full else self._is_novel(X, left)
        due = self.unreviewed + self.pending.count + 1 >= policy.calm_review_every
        few = X.shape[0] == 1 and self.pending.count + 1 < policy.review_every
        if few and not novel and not due and self.features.rank:
            given = self.fit if self.conditioned is None else self.conditioned
            mean, of_weights = (to_host(v) for v in given.predict(F))
            known = np.maximum(left, 0.0)
            return self, Prior(X, F, known, mean[:, 0], of_weights + known, alone=True, urgent=False)
        state = self.folded
        if novel and not full:
            nothing = np.zeros((X.shape[0], 1))
            state = fill(state, Rows.of(X, nothing, F))
            F = state.features.transform(X)
            left = state.features.unexplained(X, F)
        # Of the kernel itself, so that rows that no inducing point explains still tell of each other.
        covariance = np.asarray(state.fit.covariance(F, state.kernel.block(X))[0])
        mean = to_host(state.fit.mean(F))[:, 0]
        known = np.maximum(left, 0.0)
        return state, Prior(X, F, known, mean, covariance, alone=False, urgent=novel and full)

    def with_sites(self, prior: Prior, z: np.ndarray, w: np.ndarray) -> Self:
        """Return the state that has learned pseudo-observations z (b,) of weights w (b,); see `before`.

        What the features leave of a row, they do not see its site through: FITC, the weight 1/(1/w + left). Where
        inducing points are about to be put there, nothing will be left.
        """
        noise = float(self.noise[0])
        weights = noise * (w if prior.urgent else w / (1.0 + w * prior.left))
        rows = Rows.of(prior.X.copy(), z[:, None], prior.F, weights)
        if prior.alone:
            given, known = self.conditioned, rows.whitened()
            given = Conditioned.on(self.fit, *known) if given is None else given.add(*known)
            waiting = self.pending.join(rows) if self.pending.count else rows
            return replace(self, pending=waiting, conditioned=given, recent=Recent())
        before = self.fit
        folded = self.fold(rows)
        if self.features.rank < self.config.max_rank:
            return replace(folded, unreviewed=0)
        if prior.urgent:
            folded = take_novel(folded, folded.window.last(rows.count))
        return folded.reviewed(rows.count, before)

    def latent(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance (m,) of the function at the rows X (m, d)."""
        found = self.predict(X)
        assert found.variance is not None
        variance = to_host(found.variance)[:, 0]
        least = 1e-12 * double(self.kernel.diag(X))
        return to_host(found.mean)[:, 0], np.maximum(variance, least)
