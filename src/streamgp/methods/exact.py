"""`nrmf`: the exact Gaussian process, by a Cholesky factor that grows by blocks; O(n² b) a batch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np

from .._arrays import Array, asarray_like, double, index, namespace, slices
from ..gp.outputs import Groups, per_output
from ..gp.posterior import LeftOut, log_density
from ..kernels import Kernel
from ..row_weights import joined_weights, part_of, summed, times, whitened
from .base import Prediction, State, last_left_out
from .draws import Draw, Joined, prior_draw
from .gradients import Gradient
from .panels import PANEL_ROWS, Chain, cross
from .recent import Recent


@dataclass(frozen=True)
class ExactState(State):
    """The posterior given every row, with no approximation; in double precision whatever X comes in.

    Outputs of similar noise share a factor (`gp.outputs.Groups`).

    Attributes
    ----------
    X : (n, d), y : (n, q)
        Every row learned.
    weights : (n,) or None
        Of these rows; None for ones. The chains are of K + σ²W⁻¹.
    chains : the factor of each group of outputs
    refactor : bool
        Factor from scratch at each batch, O(n³), as the paper times it.
    """

    kernel: Kernel
    noise: np.ndarray
    refactor: bool
    X: Array
    y: Array
    chains: tuple[Chain, ...]
    weights: Array | None = None
    recent: Recent = field(default_factory=Recent, compare=False)

    @classmethod
    def empty(cls, kernel: Kernel, noise: float | np.ndarray, refactor: bool, X: Array, y: Array) -> Self:
        """Return the state that has learned nothing, on the device of X (·, d); y (·, q) has its outputs."""
        X, y, noise = double(X[:0, :]), double(y[:0, :]), per_output(noise, y.shape[1])
        groups = Groups.of(noise)
        chains = tuple(Chain(ρ, (), groups.columns(y, g)) for g, ρ in enumerate(groups.noises))
        return cls(kernel, noise, refactor, X, y, chains)

    @property
    def groups(self) -> Groups:
        """Which outputs share a factor."""
        return Groups.of(self.noise)

    @property
    def count(self) -> float:
        """The number of rows learned."""
        return int(self.X.shape[0])

    @property
    def rank(self) -> int:
        """The number of rows: the factor has full rank."""
        return int(self.X.shape[0])

    @property
    def trace_error(self) -> float:
        """Zero: nothing is approximated."""
        return 0.0

    @property
    def prior_trace(self) -> float:
        """See State."""
        return summed(self.kernel.diag(self.X), self.weights)

    def retuned(self, kernel: Kernel, noise: float | np.ndarray) -> ExactState:
        """See State; O(n³)."""
        empty = ExactState.empty(kernel, noise, self.refactor, self.X, self.y)
        return empty.update(self.X, self.y, self.weights)

    def rescaled(self, factors: np.ndarray) -> Self:
        """See State; O(n q)."""
        here, groups = asarray_like(factors, self.y)[None, :], self.groups
        chains = tuple(
            replace(chain, whitened=chain.whitened * groups.columns(here, g))
            for g, chain in enumerate(self.chains)
        )
        return replace(self, y=self.y * here, chains=chains, recent=Recent())

    def update(self, X: Array, y: Array, weights: Array | None = None) -> ExactState:
        """See State. n·b + b² kernel entries, or all (n + b)²/2 of them with `refactor`."""
        xp, X, y = namespace(X), double(X), double(y)
        if self.refactor:
            weights = joined_weights([(self.weights, self.X), (weights, X)])
            X, y = xp.concat([self.X, X], axis=0), xp.concat([self.y, y], axis=0)
            out = ExactState.empty(self.kernel, self.noise, True, X, y)
        else:
            out = self
        for rows in slices(X.shape[0], PANEL_ROWS):
            out = out._append(X[rows, :], y[rows, :], part_of(weights, rows))
        return out

    def _append(self, X: Array, y: Array, given: Array | None) -> ExactState:
        """Learn at most PANEL_ROWS rows of the weights `given` (b,)."""
        xp, groups = namespace(X), self.groups
        weights = joined_weights([(self.weights, self.X), (given, X)])
        solved, own = (
            self.recent.features(X, partial(cross, self.chains, self.kernel, self.X)),
            self.kernel.block(X),
        )
        X, y = xp.concat([self.X, X], axis=0), xp.concat([self.y, y], axis=0)
        chains = tuple(
            chain.append(self.kernel, X, groups.columns(y, g), weights, solved=solved[g], own=own)
            for g, chain in enumerate(self.chains)
        )
        return replace(self, X=X, y=y, weights=weights, chains=chains, recent=Recent())

    def predict(self, X: Array, *, variance: bool = True, covariance: bool = False) -> Prediction:
        """See State; eq. (1). n·m kernel entries, O(n² m)."""
        X = double(X)
        if not covariance:
            return self.recent.predict(X, self._predict, variance=variance)
        means, left, prior = [], [], self.kernel.block(X)
        for chain, solved in zip(self.chains, cross(self.chains, self.kernel, self.X, X), strict=True):
            signed = namespace(X).matrix_transpose(solved * chain.signs()[:, None])
            means.append(signed @ chain.whitened)
            left.append(prior - signed @ solved)
        return Prediction(self.groups.joined(means), covariance=tuple(left[g] for g in self.groups.members))

    def _predict(self, X: Array, features: list[Array] | None, variance: bool) -> Prediction:
        """Predict; the `features` of rows are L⁻¹k(rows, X), shape (n, m), of each group."""
        xp, groups = namespace(X), self.groups
        every = cross(self.chains, self.kernel, self.X, X) if features is None else features
        signed = [s * chain.signs()[:, None] for s, chain in zip(every, self.chains, strict=True)]
        mean = groups.joined(
            [xp.matrix_transpose(s) @ chain.whitened for s, chain in zip(signed, self.chains, strict=True)]
        )
        if not variance:
            return Prediction(mean, features=every)
        prior = self.kernel.diag(X)
        left = [prior - xp.sum(s * solved, axis=0) for s, solved in zip(signed, every, strict=True)]
        return Prediction(mean, groups.each(left), features=every)

    def draw(self, rng: np.random.Generator) -> Draw | Joined:
        """See State; the prior draw conditioned on the targets, each less its own noise. O(n² q)."""
        q, groups, xp = int(self.y.shape[1]), self.groups, namespace(self.y)
        prior, amplitudes = prior_draw(self.kernel, self.X, q, rng)
        noise = asarray_like(rng.standard_normal((int(self.X.shape[0]), q)), self.y)
        noise = noise if self.weights is None else noise / xp.sqrt(self.weights)[:, None]
        noise = noise * xp.sqrt(asarray_like(groups.noise, self.y))[None, :]
        left, found = self.y - prior(self.X) @ amplitudes - noise, []
        for g, chain in enumerate(self.chains):
            solved = chain.solve(groups.columns(left, g)) * chain.signs()[:, None]
            found.append(chain.solve_transposed(solved))
        return Draw(self.kernel, self.X, groups.joined(found), prior, amplitudes, of_values=True)

    def gradient(self, X: Array, *, variance: bool = True) -> Gradient:
        """See State; O(n² m + n m d)."""
        X, groups, means, spreads = double(X), self.groups, [], []
        xp, prior = namespace(X), double(self.kernel.diag_input_gradient(X))

        def chain(at_rows: Array) -> Array:
            return double(self.kernel.input_gradient(X, self.X, at_rows))

        solved = cross(self.chains, self.kernel, self.X, X) if variance else [None] * len(self.chains)
        for alone, own in zip(self.chains, solved, strict=True):
            alpha = alone.solve_transposed(alone.whitened * alone.signs()[:, None])  # (K + ρW⁻¹)⁻¹y
            rows = [xp.zeros_like(X[:, :1]) + alpha[:, j][None, :] for j in range(alpha.shape[1])]
            means.append([chain(c) for c in rows])
            if own is not None:
                back = alone.solve_transposed(own * alone.signs()[:, None])
                spreads.append(prior - 2.0 * chain(xp.matrix_transpose(back)))
        ordered = [iter(each) for each in means]
        mean = xp.stack([next(ordered[g]) for g in groups.members], axis=2)
        return Gradient(mean, xp.stack([spreads[g] for g in groups.members], axis=2) if variance else None)

    def left_out(self, X: Array, y: Array, numbers: Array, weights: Array | None = None) -> LeftOut | None:
        """See State; O(n² b) for b rows, less where they are the last ones. None for an indefinite kernel.

        Rasmussen & Williams (2006), eqs. (5.10) to (5.12): with the column e = L⁻¹eᵢ, K⁻¹ᵢᵢ = eᵀe and αᵢ = eᵀL⁻¹y.
        """
        if not self.kernel.positive_semidefinite:
            return None
        xp, n, groups = namespace(X), self.X.shape[0], self.groups
        # Above its own panel a column of L⁻¹ is zero.
        start = self.chains[0].panel_start(int(xp.min(numbers)))
        places = index(range(start, n), self.y)
        rest = xp.astype(places[:, None] == numbers[None, :], self.y.dtype)
        errors, variances = [], []
        for chain in self.chains:
            columns = chain.solve(rest, start)
            diagonal = xp.sum(columns * columns, axis=0)
            errors.append((xp.matrix_transpose(columns) @ chain.whitened[start:, :]) / diagonal[:, None])
            variance = 1.0 / diagonal - (chain.noise if weights is None else chain.noise / weights)
            variances.append(xp.where(variance > 0, variance, xp.zeros_like(variance)))
        error, variance = groups.joined(errors), groups.each(variances)
        return LeftOut(whitened(error, weights), times(variance, weights), self.noise)

    def recent_left_out(self, X: Array, y: Array, weights: Array | None = None) -> LeftOut | None:
        """See State."""
        return last_left_out(self, self.X, self.y, self.weights)

    def log_evidence(self) -> float:
        """See State; −inf where K + σ²I is not positive definite. Each output with its own noise, O(n³) for each."""
        apart = Groups.apart(self.noise)
        if apart.noises != self.groups.noises:
            outputs = [apart.outputs(g) for g in range(len(apart.noises))]
            ys = [apart.columns(self.y, g) for g in range(len(outputs))]
            alone = [
                ExactState.empty(self.kernel, ρ, False, self.X, y)
                for ρ, y in zip(apart.noises, ys, strict=True)
            ]
            learned = (s.update(self.X, y, self.weights) for s, y in zip(alone, ys, strict=True))
            return sum(s.log_evidence() for s in learned)
        xp, total = namespace(self.y), 0.0
        for chain in self.chains:
            signs = chain.signs()
            if bool(xp.any(signs < 0)):
                return -math.inf
            quadratic = float(xp.sum(chain.whitened * chain.whitened * signs[:, None]))
            log_det = sum(p.log_det for p in chain.panels)
            total += log_density(quadratic, log_det, self.X.shape[0], chain.whitened.shape[1])
        return total
