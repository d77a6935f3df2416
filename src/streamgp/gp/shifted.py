"""Shifted: M = A + ρJ of some statistics for one noise variance ρ, factored once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._arrays import (
    Array,
    asarray_like,
    cholesky,
    diagonal_matrix,
    double,
    eigh,
    eps,
    namespace,
    solve_lower,
)
from ..errors import NumericalError
from .normal_equations import NormalEquations

# Steps towards the means of outputs whose noise is not quite that of M. Each costs a tenth of a factorisation; after
# three, means of noises that differ tenfold from it are off by a tenth of their own error at most, mostly a hundredth.
REFINEMENTS = 3


@dataclass(frozen=True)
class Shifted:
    """M = A + ρJ, applied as M⁻¹ = W D Wᵀ with D = diag(±1): W = L⁻ᵀ where M = LLᵀ, eigenvectors otherwise.

    Attributes
    ----------
    statistics : NormalEquations
    noise : float
        ρ.
    """

    statistics: NormalEquations
    noise: float

    @cached_property
    def _cholesky(self) -> Array | None:
        """L with LLᵀ = M; None where the signature or rounding forbids it."""
        statistics, noise = self.statistics, self.noise
        if statistics.signature is not None:
            return None
        # Where σ² is below the rounding of A a factor may exist all the same, made of that rounding.
        xp, diagonal = namespace(statistics.gram), namespace(statistics.gram).linalg.diagonal(statistics.gram)
        if statistics.rank and noise < eps(diagonal) * statistics.rank**0.5 * float(xp.max(diagonal)):
            return None
        try:
            return cholesky(statistics.gram, "A + σ²I", noise)
        except NumericalError:
            return None

    @cached_property
    def _spectrum(self) -> tuple[Array, Array, Array]:
        """Eigenvectors V (r, r), eigenvalues m (r,) of M, and 1 where the data has a component, else 0 (r,)."""
        statistics, xp = self.statistics, namespace(self.statistics.gram)
        if statistics.signature is None:
            # A is positive semi-definite; what rounding left below this floor is a direction never seen.
            values, V = eigh(statistics.gram, "the gram matrix")
            seen = xp.astype(values > _floor(values), values.dtype)
            return V, values * seen + self.noise, seen
        shifted = statistics.gram + diagonal_matrix(self.noise * statistics.signature)
        m, V = eigh(shifted, "the gram matrix")
        if bool(xp.any(xp.abs(m) <= _floor(m))):
            raise NumericalError(
                f"noise={self.noise:g} cancels an eigenvalue of the indefinite kernel matrix, so that it "
                "cannot be inverted; use another noise, or a positive semi-definite kernel"
            )
        return V, m, xp.ones_like(m)

    def whiten(self, F: Array) -> tuple[Array, Array | None]:
        """Return G = F·W (b, r) and the signs D (r,), so that φᵀM⁻¹φ = Σ D G²."""
        F, xp = double(F), namespace(F)
        if self._cholesky is not None:
            return solve_lower(self._cholesky, F, rows=True), None
        V, m, _ = self._spectrum
        signs = None if self.statistics.signature is None else xp.sign(m)
        return (F @ V) / xp.sqrt(xp.abs(m))[None, :], signs

    def unwhiten(self, g: Array) -> Array:
        """Return W·g for g (r, q), the transpose of `whiten`; positive signatures only."""
        if self._cholesky is not None:
            return solve_lower(self._cholesky, g, transpose=True)
        V, m, _ = self._spectrum
        return V @ (g / namespace(g).sqrt(m)[:, None])

    def solve(self, c: Array) -> Array:
        """Return M⁻¹c for c (r, q): the inverse of eq. (2) by the Woodbury identity."""
        xp = namespace(self.statistics.gram)
        if self._cholesky is not None:
            inner = solve_lower(self._cholesky, xp.matrix_transpose(c), rows=True)
            return solve_lower(self._cholesky, xp.matrix_transpose(inner), transpose=True)
        V, m, seen = self._spectrum
        return V @ ((xp.matrix_transpose(V) @ c) * (seen / m)[:, None])

    def solve_near(self, c: Array, noises: np.ndarray) -> Array:
        """Return (A + ρⱼI)⁻¹cⱼ for columns c (r, q) with noises (q,) near that of M.

        By conjugate gradients preconditioned with M, all columns at once, O(r² q) a step. Without signature only.
        """
        xp, A, w = namespace(c), self.statistics.gram, self.solve(c)
        if self.statistics.signature is not None or (noises == self.noise).all():
            return w
        shift = asarray_like(noises, c)[None, :]
        left = c - (A @ w + shift * w)
        direction = solved = self.solve(left)
        size = xp.sum(left * solved, axis=0)
        for _ in range(REFINEMENTS):
            image = A @ direction + shift * direction
            curve = xp.sum(direction * image, axis=0)
            step = xp.where(curve > 0, size / xp.where(curve > 0, curve, xp.ones_like(curve)), 0.0 * size)
            w, left = w + step[None, :] * direction, left - step[None, :] * image
            solved = self.solve(left)
            before, size = size, xp.sum(left * solved, axis=0)
            ratio = xp.where(
                before > 0, size / xp.where(before > 0, before, xp.ones_like(before)), 0.0 * size
            )
            direction = solved + ratio[None, :] * direction
        return w

    def solve_rows(self, F: Array) -> Array:
        """Return M⁻¹φ for each row of F (b, r); shape (b, r)."""
        xp = namespace(F)
        if self.statistics.signature is not None:
            return xp.matrix_transpose(self.solve(xp.matrix_transpose(double(F))))
        return xp.matrix_transpose(self.unwhiten(xp.matrix_transpose(self.whiten(F)[0])))

    def leverage(self, F: Array) -> Array:
        """Return φᵀM⁻¹φ for each row of F (b, r); shape (b,)."""
        G, signs = self.whiten(F)
        return namespace(G).vecdot(G, G if signs is None else G * signs[None, :])

    def between(self, F: Array) -> Array:
        """Return φᵀM⁻¹φ' between the rows of F (b, r); shape (b, b)."""
        G, signs = self.whiten(F)
        return G @ namespace(G).matrix_transpose(G if signs is None else G * signs[None, :])

    @cached_property
    def log_det(self) -> float:
        """Logarithm of |det M|; NaN where ΦJΦᵀ + ρI is not positive definite."""
        xp = namespace(self.statistics.gram)
        if self._cholesky is not None:
            return 2.0 * float(xp.sum(xp.log(xp.linalg.diagonal(self._cholesky))))
        m, signature = self._spectrum[1], self.statistics.signature
        J = xp.ones_like(m) if signature is None else signature
        # C is positive definite where M has as many positive eigenvalues as J (Haynsworth's inertia formula).
        if int(xp.sum(xp.astype(m > 0, xp.int64))) != int(xp.sum(xp.astype(J > 0, xp.int64))):
            return math.nan
        return float(xp.sum(xp.log(xp.abs(m))))


def _floor(values: Array) -> float:
    """Return the size below which an eigenvalue among `values` (r,) is rounding."""
    xp = namespace(values)
    return eps(values) * values.shape[0] * float(xp.max(xp.abs(values))) if values.shape[0] else 0.0
