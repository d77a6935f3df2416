"""`srmf` and `brmf`: the paper's randomized eigendecompositions of the kernel matrix (Algorithms 2 to 4)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from .._arrays import Array, cast, double, eps, gram, in_parallel, namespace, row_parts, slices, zeros
from ..gp.features import Spectral
from ..gp.statistics import LeftOut, Posterior, diagonal_statistics
from ..kernels import Kernel
from ..lowrank import Factor, projected_core, randomized_eigh, sequential_eigh
from .base import Prediction, Recent, last_left_out


@dataclass(frozen=True)
class KernelMatrix:
    """k(X, X) as an operator, evaluated row block by row block and never held."""

    kernel: Any
    X: Array

    @property
    def shape(self) -> tuple[int, int]:
        """N by n."""
        return self.X.shape[0], self.X.shape[0]

    def __matmul__(self, other: Array) -> Array:
        def part(rows: slice) -> Array:
            return self.kernel.block(self.X[rows, :], self.X) @ other

        n = self.X.shape[0]
        # Narrow parts: each holds a block of the kernel matrix as wide as there are rows.
        parts = slices(n, 256) if len(row_parts(n, self.X)) > 1 else [slice(0, n)]
        return namespace(other).concat(in_parallel(part, parts, self.X), axis=0)


def misses(U: Array, part: Any, kernel: Kernel, X: Array, x: Array) -> bool:
    """Tell whether k(X, x) (n, b) leaves the span of U (n, k), all that is kept of k(X, X); k is `part` of a kernel.

    Never for a positive semi-definite kernel whose factor was not cut by the rank: k(X, X)v = 0 implies vᵀk(X, x) = 0.
    For an indefinite one it happens: of a single row, k(x, x) = 0 keeps nothing of the distance to the next.
    """
    if kernel.positive_semidefinite:
        return False
    B, U = double(part.block(X, x)), double(U)
    xp = namespace(B)
    left = B - U @ (xp.matrix_transpose(U) @ B)
    return bool(xp.max(xp.abs(left)) > eps(B) ** 0.5 * xp.max(xp.abs(B)))


@dataclass(frozen=True)
class SpectralModel:
    """A GP whose kernel matrix over all rows is U diag(S) Uᵀ.

    Attributes
    ----------
    sequential : bool
        Update the last factor (`srmf`, Algorithm 3, O(n (b + k) k)), or factor anew (`brmf`, Algorithm 2,
        O(n² k)).
    exact_cross : bool
        Predict with the exact cross-covariance, eq. (1) as printed, in place of its projection.
    literal : bool
        For `srmf`: Algorithm 3 on K̄ as printed, in place of the projection of K.
    X : (n, d), y : (n, q), factor : Factor
    projected_y : (r, q)
        Uᵀy.
    """

    kernel: Kernel
    noise: float
    max_rank: int
    oversampling: int
    seed: int
    sequential: bool
    exact_cross: bool
    literal: bool
    X: Array
    y: Array
    factor: Factor
    projected_y: Array
    prior_trace: float
    step: int
    recent: Recent = field(default_factory=Recent, compare=False)

    @classmethod
    def empty(
        cls,
        kernel: Kernel,
        noise: float,
        max_rank: int,
        oversampling: int,
        seed: int,
        X: Array,
        y: Array,
        *,
        sequential: bool,
        literal: bool,
    ) -> Self:
        """Give the model that has learned nothing, beside X (·, d) and y (·, q)."""
        X, y = X[:0, :], double(y[:0, :])
        factor = Factor(X[:, :0], X[:0, 0])
        return cls(
            kernel, noise, max_rank, oversampling, seed, sequential, literal, literal and sequential,
            X, y, factor, y, 0.0, 0,
        )  # fmt: skip

    @property
    def count(self) -> float:
        """The number of rows learned."""
        return int(self.X.shape[0])

    @property
    def rank(self) -> int:
        """The number of eigenpairs kept."""
        return self.factor.rank

    @property
    def trace_error(self) -> float:
        """See Model; tr K − Σ S."""
        return self._posterior.statistics.trace_error

    @property
    def largest_batch(self) -> int | None:
        """Two thousand for `srmf`, whose first step holds a b×b matrix."""
        return 2000 if self.sequential else None

    def retuned(self, kernel: Kernel, noise: float) -> Self:
        """See Model; the rows are learned again, 2,000 at a time."""
        model = replace(
            self,
            kernel=kernel,
            noise=noise,
            X=self.X[:0, :],
            y=self.y[:0, :],
            factor=Factor(self.X[:0, :0], self.X[:0, 0]),
            projected_y=self.y[:0, :],
            prior_trace=0.0,
            recent=Recent(),
        )
        n = self.X.shape[0]
        for rows in slices(n, self.largest_batch or max(n, 1)):
            model = model.observe(self.X[rows, :], self.y[rows, :])
        return model

    def observe(self, X: Array, y: Array) -> Self:
        """See Model. `srmf`: n·b + b² kernel entries; `brmf`: twice (n + b)²."""
        xp, y = namespace(X), double(y)
        rows, targets = xp.concat([self.X, X], axis=0), xp.concat([self.y, y], axis=0)
        seed = (self.seed, self.step)
        if not self.sequential or self._misses(X):
            operator = KernelMatrix(self.kernel, rows)
            definite = self.kernel.positive_semidefinite
            factor = randomized_eigh(
                operator, self.max_rank, self.oversampling, seed, like=rows, definite=definite
            )
        elif self.literal and self.count:
            B, C = double(self.kernel.block(self.X, X)), double(self.kernel.block(X))
            past = Factor(double(self.factor.U), double(self.factor.S))
            factor = sequential_eigh(past, B, C, self.max_rank, self.oversampling, seed)
        else:
            return self._advance(X, y, rows, targets, seed)
        projected_y = xp.matrix_transpose(double(factor.U)) @ targets
        return self._replace(rows, targets, factor, projected_y, X)

    def _misses(self, X: Array) -> bool:
        """Tell whether new rows X (b, d) see a direction that was dropped although there was room for it."""
        n = int(self.count)
        many = self.rank > 0 and n > self.max_rank + self.oversampling
        if self.literal or self.rank == min(n, self.max_rank) or many:
            return False
        return misses(self.factor.U, self.kernel, self.kernel, self.X, X)

    def _advance(self, X: Array, y: Array, rows: Array, targets: Array, seed: tuple[int, int]) -> Self:
        """Take the projected step of Algorithm 3; for the first batch it is Algorithm 2."""
        xp, k = namespace(X), self.rank
        first = self.count == 0
        UtB = zeros((0, X.shape[0]), X) if first else xp.matrix_transpose(self._project(X))
        # The core is small; in double precision it keeps single-precision rows from drifting apart.
        core = projected_core(
            double(self.factor.S),
            double(UtB),
            double(self.kernel.block(X)),
            self.max_rank,
            self.oversampling,
            seed,
            definite=self.kernel.positive_semidefinite,
        )
        projected_y = xp.matrix_transpose(core.U) @ xp.concat([self.projected_y, y], axis=0)
        turn = cast(core.U, X.dtype)
        rows_before = row_parts(self.X.shape[0], self.X)
        top = in_parallel(lambda r: self.factor.U[r, :] @ turn[:k, :], rows_before, self.X)
        U = xp.concat([*top, turn[k:, :]], axis=0)
        return self._replace(rows, targets, Factor(U, core.S), projected_y, X)

    def _replace(self, rows: Array, targets: Array, factor: Factor, projected_y: Array, X: Array) -> Self:
        added = float(namespace(X).sum(double(self.kernel.diag(X))))
        return replace(
            self,
            X=rows,
            y=targets,
            factor=factor,
            projected_y=projected_y,
            prior_trace=self.prior_trace + added,
            step=self.step + 1,
            recent=Recent(),
        )

    def left_out(self, X: Array, y: Array, numbers: Array) -> LeftOut | None:
        """See Model; None where predictions are not those of the features."""
        if self.exact_cross:
            return None
        F = namespace(X).take(self._features.basis(), numbers, axis=0)
        return self._posterior.left_out(F, y, self.kernel.diag(X), self.noise)

    def recent_left_out(self) -> LeftOut | None:
        """See Model."""
        return last_left_out(self, self.X, self.y)

    @cached_property
    def _features(self) -> Spectral:
        return Spectral(self.kernel, self.X, self.factor)

    def _project(self, X: Array) -> Array:
        """Give k(X, rows)·U, at no cost for the rows that were projected last."""
        return self.recent.of(X, self._features.project)

    @cached_property
    def _posterior(self) -> Posterior:
        xp, S = namespace(self.y), double(self.factor.S)
        moment = xp.sqrt(xp.abs(S))[:, None] * self.projected_y
        definite = bool(xp.all(S > 0))
        statistics = diagonal_statistics(S, moment, gram(self.y), self.count, self.prior_trace, not definite)
        return statistics.solve(self.noise)

    def predict(self, X: Array, *, variance: bool, covariance: bool) -> Prediction:
        """See Model. n·m kernel entries; O(n m r)."""
        if self.exact_cross:
            return self._predict_exact_cross(X, variance, covariance)
        F, posterior = self._features.scale(self._project(X)), self._posterior
        return Prediction.by(posterior, F, self.kernel, X, variance=variance, covariance=covariance)

    @cached_property
    def _alpha(self) -> Array:
        """(K̂ + σ²I)⁻¹y = (y − Φw)/σ², shape (n, q)."""
        return (self.y - double(self._features.basis()) @ self._posterior.weights) / self.noise

    def _predict_exact_cross(self, X: Array, variance: bool, covariance: bool) -> Prediction:
        """Eq. (1) with I⁻¹ of eq. (2): σ⁻²(I − U diag(S/(S + σ²)) Uᵀ)."""
        xp = namespace(X)
        cross = double(self.kernel.block(X, self.X))
        mean = cross @ self._alpha
        if not (variance or covariance):
            return Prediction(mean)
        S = double(self.factor.S)
        projection = cross @ double(self.factor.U)
        damped = projection * (S / (S + self.noise))[None, :]
        if covariance:
            explained = cross @ xp.matrix_transpose(cross) - damped @ xp.matrix_transpose(projection)
            return Prediction(mean, covariance=double(self.kernel.block(X)) - explained / self.noise)
        explained = xp.sum(cross * cross, axis=1) - xp.sum(damped * projection, axis=1)
        return Prediction(mean, double(self.kernel.diag(X)) - explained / self.noise)

    def log_evidence(self) -> float:
        """See Model; of the factor U diag(S) Uᵀ, not of the kernel matrix."""
        return self._posterior.log_evidence
