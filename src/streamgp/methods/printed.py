"""Algorithm 5 as printed (`variant="literal"`): D̄ for each part, the inverse by eqs. (6) and (7), the exact k_x.

Steps 4 to 10 factor D̄ = [[U S Uᵀ, B], [Bᵀ, C]] of each part by Algorithm 3 (`srmf`), or the part's whole matrix by
Algorithm 2 (`brmf`); the squared distance is factored like every other power. Steps 11 and 15 apply K⁻¹ by eqs. (6) and
(7), and step 16 predicts by eq. (1). Steps 12 to 14, which minimise the training error, are left to `tuning`: it
evaluates that error on the statistics of the same factors, where M = A + σ²J gives what eqs. (6) and (7) give, to
rounding, without touching a row. The weight a₀ of the identity is part of the noise, as everywhere in streamgp, and a
part whose weight is zero is left out: eqs. (6) and (7) divide by the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from .._arrays import Array, diagonal_matrix, double, eye, namespace
from ..errors import NumericalError
from ..gp.outputs import per_output
from ..gp.posterior import LeftOut
from ..kernels import Affine
from ..lowrank import Factor, Step, bordered_eigh
from ..row_weights import joined_weights, whitened
from .base import Prediction
from .parts import Part, PartwiseState, no_products, steps_from_scratch
from .spectral import SpectralConfig, whitened_block


@dataclass(frozen=True)
class NestedInverse:
    """(σ²I + Σᵢ aᵢ Uᵢ diag(Sᵢ) Uᵢᵀ)⁻¹: the Woodbury identity nested once for each part, eqs. (6) and (7).

    With Pᵢ the matrix of the first i parts, Wᵢ = Pᵢ₋₁⁻¹Uᵢ and Cᵢ = Sᵢ⁻¹/aᵢ + UᵢᵀWᵢ it is σ⁻²I − Σᵢ Wᵢ Cᵢ⁻¹ Wᵢᵀ. It is
    applied to vectors and never formed: an n×n matrix alone would cost more than the O(nk²) that the paper counts.

    Attributes
    ----------
    noise : float
        σ², which includes a₀.
    terms : (Wᵢ (n, k), Cᵢ (k, k)) of each part
    """

    noise: float
    terms: tuple[tuple[Array, Array], ...] = ()

    @classmethod
    def of(cls, factors: Sequence[Factor], amounts: Sequence[float], noise: float) -> Self:
        """Return the inverse for these factors, their weights and a noise variance; O(n r²) for r columns in all."""
        inverse = cls(noise)
        for factor, amount in zip(factors, amounts, strict=True):
            if factor.rank:
                inverse = inverse.with_part(factor, amount)
        return inverse

    def with_part(self, factor: Factor, amount: float) -> Self:
        """Return the inverse of the matrix with another part, amount · U diag(S) Uᵀ, added."""
        U, S = double(factor.U), double(factor.S)
        W = self @ U
        # Eq. (7); for the first part eq. (6), where UᵀP⁻¹U = σ⁻²UᵀU = σ⁻²I.
        inner = namespace(U).matrix_transpose(U) @ W if self.terms else eye(factor.rank, U) / self.noise
        return type(self)(self.noise, (*self.terms, (W, diagonal_matrix(1.0 / (amount * S)) + inner)))

    def __matmul__(self, V: Array) -> Array:
        """Apply to V (n, m); O(n r m)."""
        out, xp = V / self.noise, namespace(V)
        for W, core in self.terms:
            try:
                out = out - W @ xp.linalg.solve(core, xp.matrix_transpose(W) @ V)
            except (np.linalg.LinAlgError, RuntimeError) as error:
                raise NumericalError(
                    f"noise={self.noise:g} cancels an eigenvalue of the kernel matrix, so that eqs. (6) and (7) cannot "
                    "invert it; use another noise, or variant='projected'"
                ) from error
        return out


@dataclass(frozen=True)
class PrintedWeightedState(PartwiseState):
    """A state that learns and predicts by Algorithm 5 as printed; its error grows like 1/σ² where the rank is short."""

    @classmethod
    def empty(
        cls, config: SpectralConfig, kernel: Affine, noise: float | np.ndarray, X: Array, y: Array
    ) -> Self:
        """Return the state that has learned nothing, on the device of X (·, d); y (·, q) has its outputs."""
        parts, no_y = tuple(Part.empty(X, y) for _ in kernel.amounts), double(y[:0, :])
        noise = per_output(noise, y.shape[1])
        return cls(config, kernel, noise, X[:0, :], no_y, parts=parts, products=no_products(parts))

    def steps(self, X: Array, weights: Array | None) -> tuple[Self, list[Step]]:
        """See PartwiseState. A factor of D̄, too, is one of all rows: the step is one from no rows."""
        xp, config, past = namespace(X), self.config, self.without_rows()
        if not config.sequential:
            rows = xp.concat([self.X, X], axis=0)
            return past, steps_from_scratch(
                past, rows, joined_weights([(self.weights, self.X), (weights, X)])
            )
        every = range(len(self.parts))
        B, C = self.kernel.part_blocks(self.X, X, every), self.kernel.part_blocks(X, None, every)  # step 4
        steps = []
        for i, factor in enumerate(self.factors):  # steps 5 to 10; without rows, D̄ = C: steps 1 and 2
            size, seed = (config.rank, config.oversampling), (config.seed, self.step, i)
            border = whitened_block(B[i], self.weights, weights), whitened_block(C[i], weights, weights)
            steps.append(Step.from_scratch(bordered_eigh(factor, *border, *size, seed)))
        return past, steps

    @property
    def factors(self) -> list[Factor]:
        """Uᵢ (n, k) and Sᵢ (k,) of each part, in double precision."""
        return [Factor(double(part.basis), double(part.S)) for part in self.parts]

    @cached_property
    def inverse(self) -> NestedInverse:
        """K⁻¹ of the factored kernel matrix plus noise (steps 11 and 15)."""
        # One noise for all outputs: weights are tuned with it.
        return NestedInverse.of(self.factors, self.kernel.amounts.tolist(), float(self.noise[0]))

    @cached_property
    def _alpha(self) -> Array:
        """K⁻¹y, shape (n, q); with weights (W^½KW^½ + σ²I)⁻¹W^½y."""
        return self.inverse @ whitened(self.y, self.weights)

    def training_predictions(self) -> Array:
        """Predict the rows learned (step 12); shape (n, q), O(n r q).

        With K in its factored form, as the paper's count of O(nk²) operations supposes. What step 13 minimises is the
        squared error of these; `weight_statistics` give the same without a row.
        """
        xp, fitted = namespace(self.y), 0.0 * self.y
        for amount, factor in zip(self.kernel.amounts.tolist(), self.factors, strict=True):
            inner = factor.S[:, None] * (xp.matrix_transpose(factor.U) @ self._alpha)
            fitted = fitted + amount * (factor.U @ inner)
        return fitted if self.weights is None else fitted / xp.sqrt(self.weights)[:, None]

    def predict(self, X: Array, *, variance: bool = True, covariance: bool = False) -> Prediction:
        """See State. Eq. (1) with the exact cross-covariance (step 16): n·m kernel entries, O(n m r)."""
        if not covariance:
            return self.recent.predict(X, self._predict, variance=variance)
        cross, explained = self._explained(X)
        covariance = double(self.kernel.block(X)) - cross @ explained
        return Prediction(cross @ self._alpha, covariance=(covariance,) * self.y.shape[1])

    def _predict(self, X: Array, features: None, variance: bool) -> Prediction:
        """Predict; nothing is kept for the next step, which needs the blocks of the parts."""
        if not variance:
            return Prediction(self._cross(X) @ self._alpha)
        cross, explained = self._explained(X)
        xp = namespace(cross)
        reduction = xp.vecdot(cross, xp.matrix_transpose(explained))
        variance = double(self.kernel.diag(X)) - reduction
        return Prediction(cross @ self._alpha, xp.stack([variance] * self.y.shape[1], axis=1))

    def _cross(self, X: Array) -> Array:
        """Return k(X, rows)·W^½, shape (m, n)."""
        return whitened_block(self.kernel.block(X, self.X), None, self.weights)

    def _explained(self, X: Array) -> tuple[Array, Array]:
        """Return k_xᵀ = k(X, rows)·W^½, shape (m, n), and K⁻¹k_x, shape (n, m)."""
        cross = self._cross(X)
        return cross, self.inverse @ namespace(cross).matrix_transpose(cross)

    def left_out(self, X: Array, y: Array, numbers: Array, weights: Array | None = None) -> LeftOut | None:
        """See State; None, because predictions are not those of features."""
        return None
