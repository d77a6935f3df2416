"""`srmf` and `brmf`: the paper's randomized eigendecompositions of the kernel matrix (Algorithms 2 to 4)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from .._arrays import Array, asarray_like, double, eps, gram, in_parallel, namespace, row_parts, slices, zeros
from ..gp.features import Spectral
from ..gp.normal_equations import NormalEquations
from ..gp.outputs import per_output
from ..gp.posterior import LeftOut, Posterior
from ..kernels import Kernel
from ..lowrank import Factor, Step, bordered_eigh, randomized_eigh, sequential_step
from ..row_weights import joined_weights, part_of, summed, whitened
from .base import Prediction, StatisticsState, last_left_out
from .draws import Draw, Joined, drawn_weights, prior_draw
from .gradients import Gradient, by_differences, by_features
from .recent import Recent

# Rows of one step of `srmf`, which forms a (b, b) matrix.
STEP_ROWS = 2000


@dataclass(frozen=True)
class SpectralConfig:
    """The fixed configuration of the method.

    Attributes
    ----------
    rank, oversampling : int
        k and p of Algorithms 1 to 3.
    seed : int
    sequential : bool
        Update the last factor (`srmf`, Algorithm 3, O(n (b + k) k)), or factor anew (`brmf`, Algorithm 2, O(n² k)).
    literal : bool
        As printed: Algorithm 3 on K̄ in place of the projection of K (`srmf`), and the exact cross-covariance of
        eq. (1) in predictions in place of its projection.
    """

    rank: int
    oversampling: int
    seed: int
    sequential: bool
    literal: bool = False


@dataclass(frozen=True)
class KernelMatrix:
    """W^½ k(X, X) W^½ as an operator, evaluated row block by row block and never held."""

    kernel: Any
    X: Array
    weights: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.X.shape[0], self.X.shape[0]

    def __matmul__(self, other: Array) -> Array:
        other = whitened(other, self.weights)

        def part(rows: slice) -> Array:
            return self.kernel.block(self.X[rows, :], self.X) @ other

        n = self.X.shape[0]
        # Narrow parts: each holds a block of the kernel matrix as wide as there are rows.
        parts = slices(n, 256) if len(row_parts(n, self.X)) > 1 else [slice(0, n)]
        return whitened(namespace(other).concat(in_parallel(part, parts, self.X), axis=0), self.weights)


def misses(U: Array, part: Any, X: Array, x: Array, weights: Array | None = None) -> bool:
    """Return whether W^½k(X, x) (n, b) leaves the span of U (n, k), all that is kept of W^½k(X, X)W^½; k is `part`.

    Never for a positive semi-definite kernel whose factor was not cut by the rank: k(X, X)v = 0 implies vᵀk(X, x) = 0.
    For an indefinite one it happens: of a single row, k(x, x) = 0 keeps nothing of the distance to the next.
    """
    B, U = whitened(double(part.block(X, x)), weights), double(U)
    xp = namespace(B)
    left = B - U @ (xp.matrix_transpose(U) @ B)
    return bool(xp.max(xp.abs(left)) > eps(B) ** 0.5 * xp.max(xp.abs(B)))


def whitened_block(block: Array, left: Array | None, right: Array | None) -> Array:
    """Return W^½kV^½ in double precision for a kernel block (n, m), the weights W `left` (n,) and V `right` (m,)."""
    block = whitened(double(block), left)
    return block if right is None else block * namespace(right).sqrt(right)[None, :]


class SteppedState(StatisticsState):
    """A state that keeps every row, X (n, d) and y (n, q), and learns by steps of Algorithm 3 (or 2).

    With weights (n,) of the rows, None for ones, it factors W^½k(X, X)W^½, and learns W^½y: the noise of all rows is
    then the same.
    """

    config: SpectralConfig
    X: Array
    y: Array
    weights: Array | None

    def update(self, X: Array, y: Array, weights: Array | None = None) -> Self:
        """See State. Kernel entries of `srmf`: n·b + b²; of `brmf`: twice (n + b)²."""
        state, y = self, double(y)
        for rows in slices(X.shape[0], STEP_ROWS if self.config.sequential else X.shape[0]):
            state = state.advanced(X[rows, :], y[rows, :], part_of(weights, rows))
        return state

    @abstractmethod
    def advanced(self, X: Array, y: Array, weights: Array | None) -> Self:
        """Return the state one step later, with the rows X (b, d), y (b, q) of these weights learned."""

    @property
    def surplus(self) -> tuple[float, float]:
        """The number of rows less the sum of their weights, and the sum of the logarithms of the weights."""
        if self.weights is None:
            return 0.0, 0.0
        xp = namespace(self.weights)
        return self.X.shape[0] - float(xp.sum(self.weights)), float(xp.sum(xp.log(self.weights)))

    def recent_left_out(self, X: Array, y: Array, weights: Array | None = None) -> LeftOut | None:
        """See State."""
        return last_left_out(self, self.X, self.y, self.weights)


@dataclass(frozen=True)
class SpectralState(SteppedState):
    """A GP whose kernel matrix over all rows is U diag(S) Uᵀ.

    Attributes
    ----------
    X : (n, d), y : (n, q), factor : Factor
    projected_y : (r, q)
        Uᵀy.
    trace : float
        tr K.
    step : int
        Steps so far; seeds the next one.
    """

    config: SpectralConfig
    kernel: Kernel
    noise: np.ndarray
    X: Array
    y: Array
    factor: Factor
    projected_y: Array
    trace: float = 0.0
    step: int = 0
    weights: Array | None = None
    recent: Recent = field(default_factory=Recent, compare=False)

    @classmethod
    def empty(
        cls, config: SpectralConfig, kernel: Kernel, noise: float | np.ndarray, X: Array, y: Array
    ) -> Self:
        """Return the state that has learned nothing, on the device of X (·, d); y (·, q) has its outputs."""
        X, y, noise = X[:0, :], double(y[:0, :]), per_output(noise, y.shape[1])
        return cls(config, kernel, noise, X, y, factor=Factor(X[:, :0], X[:0, 0]), projected_y=y)

    @cached_property
    def posterior(self) -> Posterior:
        """See StatisticsState; the features are U|S|^½, so that A = diag(|S|)."""
        xp, S = namespace(self.y), double(self.factor.S)
        moment = xp.sqrt(xp.abs(S))[:, None] * self.projected_y
        energy, (surplus, logs) = gram(whitened(self.y, self.weights)), self.surplus
        count = self.y.shape[0] - surplus if self.weights is not None else self.y.shape[0]
        statistics = NormalEquations.of_eigenpairs(S, moment, energy, count, self.trace)
        return Posterior(replace(statistics, surplus=surplus, log_whitening=-logs), self.noise)

    def advanced(self, X: Array, y: Array, weights: Array | None) -> Self:
        """Take one step: Algorithm 3, or, for `brmf` and after a direction was lost, Algorithm 2 on all rows."""
        config, xp, count = self.config, namespace(X), self.X.shape[0]
        all_X, all_y = xp.concat([self.X, X], axis=0), xp.concat([self.y, y], axis=0)
        all_weights = joined_weights([(self.weights, self.X), (weights, X)])
        size, seed = (config.rank, config.oversampling), (config.seed, self.step)
        definite = self.kernel.positive_semidefinite
        basis, projected, new_y = self.factor.U, self.projected_y, whitened(y, weights)
        if config.sequential and not (config.literal and count) and not self._misses(X):
            UtB = zeros((0, X.shape[0]), X)
            if count:
                UtB = xp.matrix_transpose(whitened(self._project(X), weights))
            C, S = whitened_block(self.kernel.block(X), weights, weights), double(self.factor.S)
            step = sequential_step(S, double(UtB), C, *size, seed, definite=definite)
        else:
            if config.sequential and config.literal:
                factor = self._printed_step(X, weights)
            else:
                matrix = KernelMatrix(self.kernel, all_X, all_weights)
                factor = randomized_eigh(matrix, *size, seed, like=all_X, definite=definite)
            step, basis, projected = Step.from_scratch(factor), basis[:0, :0], projected[:0, :]
            new_y = whitened(all_y, all_weights)
        return replace(
            self,
            X=all_X,
            y=all_y,
            weights=all_weights,
            factor=Factor(step.basis(basis), step.S),
            projected_y=step.project(projected, new_y),
            trace=self.trace + summed(double(self.kernel.diag(X)), weights),
            step=self.step + 1,
            recent=Recent(),
        )

    def _printed_step(self, X: Array, weights: Array | None) -> Factor:
        """Algorithm 3 as printed, on K̄."""
        config, past = self.config, Factor(double(self.factor.U), double(self.factor.S))
        B = whitened_block(self.kernel.block(self.X, X), self.weights, weights)
        C = whitened_block(self.kernel.block(X), weights, weights)
        return bordered_eigh(past, B, C, config.rank, config.oversampling, seed=(config.seed, self.step))

    def _misses(self, X: Array) -> bool:
        """Return whether new rows X (b, d) have a component that was dropped although there was room for it."""
        config, n, k = self.config, self.X.shape[0], self.factor.rank
        many = k > 0 and n > config.rank + config.oversampling
        if self.kernel.positive_semidefinite or config.literal or k == min(n, config.rank) or many:
            return False
        return misses(self.factor.U, self.kernel, self.X, X, self.weights)

    @cached_property
    def _features(self) -> Spectral:
        return Spectral(self.kernel, self.X, self.factor, self.weights)

    def _project(self, X: Array) -> Array:
        """Return k(X, rows)·W^½U, at no cost for the rows that were predicted last."""
        return self.recent.features(X, self._features.project)

    def predict(self, X: Array, *, variance: bool = True, covariance: bool = False) -> Prediction:
        """See State. n·m kernel entries; O(n m r)."""
        if self.config.literal:
            return self._predict_exact_cross(X, variance, covariance)
        if not covariance:
            return self.recent.predict(X, self._predict, variance=variance)
        F = self._features.transform(X)
        return Prediction.by(self.posterior, F, self.kernel, X, variance=variance, covariance=True)

    def _predict(self, X: Array, features: Array | None, variance: bool) -> Prediction:
        """Predict; what is kept of rows is k(X, rows)·U, which both features and the next step need."""
        projection = self._features.project(X) if features is None else features
        F = self._features.scale(projection)
        found = Prediction.by(self.posterior, F, self.kernel, X, variance=variance)
        return replace(found, features=projection)

    def draw(self, rng: np.random.Generator) -> Draw | Joined:
        """See State; the prior draw less its projection on the features."""
        if self.config.literal or not self.kernel.positive_semidefinite:
            return super().draw(rng)
        w, X, xp = drawn_weights(self.posterior, rng), double(self.X), namespace(self.y)
        prior, amplitudes = prior_draw(self.kernel, X, int(w.shape[1]), rng)
        root = xp.sqrt(double(self.factor.S))[:, None]
        U = whitened(double(self.factor.U), self.weights)
        coefficients = U @ ((w - (xp.matrix_transpose(U) @ (prior(X) @ amplitudes)) / root) / root)
        return Draw(self.kernel, X, coefficients, prior, amplitudes, of_values=True)

    def gradient(self, X: Array, *, variance: bool = True) -> Gradient:
        """See State; O(m n (r + d)), by differences where predictions are not those of the features."""
        if self.config.literal:
            return by_differences(self, X, variance=variance)
        F, chain = self._features.transform(X), self._features.input_gradient
        return by_features(self.posterior, F, self.kernel, X, chain, variance=variance)

    def _predict_exact_cross(self, X: Array, variance: bool, covariance: bool) -> Prediction:
        """Algorithm 4, steps 10 and 11: eq. (1) with the inverse of eq. (2), σ⁻²(I − U diag(S/(S + σ²)) Uᵀ).

        This is the projected prediction with σ⁻²k_⊥ᵀy_⊥ added to the mean and σ⁻²‖k_⊥‖² subtracted from the variance,
        where k_⊥ and y_⊥ are what U does not span: an error of order 1/σ² for any factor that is cut short.
        """
        xp, F = namespace(X), double(self._features.basis())
        cross = whitened_block(self.kernel.block(X, self.X), None, self.weights)
        groups = self.posterior.groups
        mean = cross @ (
            (whitened(self.y, self.weights) - F @ self.posterior.weights)
            / asarray_like(groups.noise, self.y)[None, :]
        )
        if not (variance or covariance):
            return Prediction(mean)
        S = double(self.factor.S)
        projection = cross @ double(self.factor.U)
        damped = [projection * (S / (S + noise))[None, :] for noise in groups.noises]
        if covariance:
            prior, every = double(self.kernel.block(X)), cross @ xp.matrix_transpose(cross)
            explained = [every - part @ xp.matrix_transpose(projection) for part in damped]
            left = [prior - part / noise for part, noise in zip(explained, groups.noises, strict=True)]
            return Prediction(mean, covariance=tuple(left[g] for g in groups.members))
        prior, every = double(self.kernel.diag(X)), xp.sum(cross * cross, axis=1)
        explained = [every - xp.sum(part * projection, axis=1) for part in damped]
        left = [prior - part / noise for part, noise in zip(explained, groups.noises, strict=True)]
        return Prediction(mean, groups.each(left))

    def retuned(self, kernel: Kernel, noise: float | np.ndarray) -> Self:
        """See State; all rows are learned again."""
        empty = type(self).empty(self.config, kernel, noise, self.X, self.y)
        return replace(empty, step=self.step).update(self.X, self.y, self.weights)

    def rescaled(self, factors: np.ndarray) -> Self:
        """See State; O(n q)."""
        here = asarray_like(factors, self.y)[None, :]
        return replace(self, y=self.y * here, projected_y=self.projected_y * here, recent=Recent())

    def left_out(self, X: Array, y: Array, numbers: Array, weights: Array | None = None) -> LeftOut | None:
        """See State; None where predictions are not those of the features."""
        if self.config.literal:
            return None
        # Those of learned rows are multiplied by √w already.
        F, prior = namespace(X).take(self._features.basis(), numbers, axis=0), self.kernel.diag(X)
        prior = prior if weights is None else prior * weights
        return self.posterior.left_out(F, whitened(y, weights), prior)
