"""Posterior: predictions, leverages and evidence from NormalEquations and a noise variance.

References: Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), sections 2.3, 5.4 and 8.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._arrays import (
    Array,
    cholesky,
    clip_below,
    diagonal_matrix,
    double,
    eigh,
    eps,
    eye,
    finite,
    index,
    namespace,
    solve_lower,
    to_host,
    zeros,
)
from ..errors import NumericalError
from .normal_equations import NormalEquations


def log_density(quadratic: float, log_det: float, n: float, n_outputs: int) -> float:
    """Return the log density of n targets of q outputs: −½[Σ yᵀC⁻¹y + q (log det C + n log 2π)].

    The one log evidence of the library: Rasmussen & Williams, eq. (2.30); `quadratic` is summed over outputs.
    """
    return -0.5 * (quadratic + n_outputs * (log_det + n * math.log(2 * math.pi)))


@dataclass(frozen=True)
class Posterior:
    """The distribution of the weights given the statistics and a noise variance.

    M = A + σ²J is applied as M⁻¹ = W D Wᵀ with D = diag(±1): W = L⁻ᵀ where M = LLᵀ, eigenvectors otherwise.

    Attributes
    ----------
    statistics : NormalEquations
    noise : float
        The variance of the noise on the targets.
    residual_as_noise : bool
        Fit with the mean of k(x, x) − φᵀφ over the rows learned added to the noise. The statistics do not contain
        K − K̂, so that without it a model with few inducing points is overconfident (DTC); FITC adds it row by row.
    residual_at_most : float
        An upper bound of that mean: rows far from all inducing points do not count in the features, and their
        unexplained variance must not count as noise of the others.
    """

    statistics: NormalEquations
    noise: float
    residual_as_noise: bool = False
    residual_at_most: float = math.inf

    @cached_property
    def effective_noise(self) -> float:
        """The noise variance of the fit; computed late, because it synchronises with a device."""
        statistics = self.statistics
        if not self.residual_as_noise or not statistics.count > 0:
            return self.noise
        residual = max(statistics.trace_error, 0.0) / statistics.count
        return self.noise + min(residual, self.residual_at_most)

    @cached_property
    def _cholesky(self) -> Array | None:
        """L with LLᵀ = M; None where the signature or rounding forbids it."""
        statistics, noise = self.statistics, self.effective_noise
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
            return V, values * seen + self.effective_noise, seen
        shifted = statistics.gram + diagonal_matrix(self.effective_noise * statistics.signature)
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

    @cached_property
    def weights(self) -> Array:
        """The posterior mean w = M⁻¹c of the weights, shape (r, q): the inverse of eq. (2) by the Woodbury identity."""
        xp = namespace(self.statistics.gram)
        c = finite(self.statistics.moment, "the sum of features times targets")
        if self._cholesky is not None:
            inner = solve_lower(self._cholesky, xp.matrix_transpose(c), rows=True)
            return solve_lower(self._cholesky, xp.matrix_transpose(inner), transpose=True)
        V, m, seen = self._spectrum
        return V @ ((xp.matrix_transpose(V) @ c) * (seen / m)[:, None])

    def mean(self, F: Array) -> Array:
        """Return the mean φᵀw of eq. (1) for each row of F (b, r); shape (b, q)."""
        return double(F) @ self.weights

    def leverage(self, F: Array) -> Array:
        """Return φᵀM⁻¹φ for each row of F (b, r); shape (b,)."""
        G, signs = self.whiten(F)
        return namespace(G).vecdot(G, G if signs is None else G * signs[None, :])

    def variance(self, F: Array, prior: Array) -> Array:
        """Return the latent variance of eq. (1), k(x, x) − φᵀJφ + σ²φᵀM⁻¹φ, for F (b, r), prior k(x, x) (b,); (b,)."""
        F, xp, J = double(F), namespace(F), self.statistics.signature
        explained = xp.vecdot(F, F if J is None else F * J[None, :])
        return double(prior) - explained + self.effective_noise * self.leverage(F)

    def covariance(self, F: Array, prior: Array) -> Array:
        """Return the latent covariance between rows, shape (b, b); prior (b, b) is k(x, x')."""
        F, xp, J = double(F), namespace(F), self.statistics.signature
        G, signs = self.whiten(F)
        explained = F @ xp.matrix_transpose(F if J is None else F * J[None, :])
        left = G @ xp.matrix_transpose(G if signs is None else G * signs[None, :])
        return double(prior) - explained + self.effective_noise * left

    def left_out(self, F: Array, y: Array, prior: Array, weights: Array | None = None) -> LeftOut:
        """Predict learned rows, F (b, r) and y (b, q), each as if it had not been learned; O(b r²).

        `prior` (b,) is k(x, x), `weights` (b,) the present weight of each row. Rows of leverage 1 to rounding, about
        which the model knows nothing but the row itself, are not in the result.
        """
        F, xp, J = double(F), namespace(F), self.statistics.signature
        leverage = self.leverage(F)
        kept = 1.0 - (leverage if weights is None else leverage * weights)
        unexplained = double(prior) - xp.vecdot(F, F if J is None else F * J[None, :])
        rest = xp.where(kept > 0, kept, xp.ones_like(kept))
        variance = clip_below(clip_below(unexplained, 0.0) + self.effective_noise * leverage / rest, 0.0)
        error = (double(y) - self.mean(F)) / rest[:, None]
        at = index(np.flatnonzero(to_host(kept) > eps(kept) ** 0.5).tolist(), F)
        return LeftOut(xp.take(error, at, axis=0), xp.take(variance, at, axis=0), self.noise)

    @cached_property
    def log_evidence(self) -> float:
        """Log density of everything learned, summed over outputs; −inf where ΦJΦᵀ + σ²I is not positive definite.

        By the Woodbury identity and the determinant lemma: yᵀC⁻¹y = (s − cᵀw)/σ² and
        log det C = (n − r) log σ² + log |det M|.
        """
        statistics, xp, noise = self.statistics, namespace(self.statistics.gram), self.effective_noise
        if self._cholesky is not None:
            log_det = 2.0 * float(xp.sum(xp.log(xp.linalg.diagonal(self._cholesky))))
        else:
            m = self._spectrum[1]
            J = xp.ones_like(m) if statistics.signature is None else statistics.signature
            # C is positive definite where M has as many positive eigenvalues as J (Haynsworth's inertia formula).
            if int(xp.sum(xp.astype(m > 0, xp.int64))) != int(xp.sum(xp.astype(J > 0, xp.int64))):
                return -math.inf
            log_det = float(xp.sum(xp.log(xp.abs(m))))
        fitted = float(xp.sum(statistics.moment * self.weights))
        total = float(xp.sum(xp.linalg.diagonal(statistics.energy)))
        log_det += (statistics.count - statistics.rank) * math.log(noise) + statistics.log_whitening
        n_outputs = statistics.moment.shape[1]
        return log_density((total - fitted) / noise, log_det, statistics.count, n_outputs)


@dataclass(frozen=True)
class LeftOut:
    """Errors (b, q) and latent variances (b,) of learned rows, each predicted from all others; the noise variance."""

    error: Array
    variance: Array
    noise: float

    @property
    def typical_error(self) -> float:
        """The median size of the errors, never zero."""
        return max(float(np.median(np.abs(to_host(self.error)))), 1e-300)

    @property
    def typical_variance(self) -> float:
        """The median of the variances, never zero."""
        return max(float(np.median(to_host(self.variance))), 1e-300)

    def log_density(self) -> float:
        """Return the mean log density of the targets, up to a constant."""
        xp, total = namespace(self.error), self.variance + self.noise
        return -0.5 * float(xp.mean(self.error**2 / total[:, None]) + xp.mean(xp.log(total)))


@dataclass(frozen=True)
class Conditioned:
    """A posterior given a few more rows, without another factorisation: O(p r²) for p rows, then O(p r).

    In the coordinates in which M is the identity the rows are G (p, r), and by the Woodbury identity
    (I + GᵀG)⁻¹ = I − Gᵀ(I + GGᵀ)⁻¹G. Positive signatures only.

    Attributes
    ----------
    base : Posterior
    G : (p, r)
    L : (p, p)
        LLᵀ = I + GGᵀ.
    residual : (p, q)
        y − Fw.
    """

    base: Posterior
    G: Array
    L: Array
    residual: Array

    @classmethod
    def on(cls, base: Posterior, F: Array, y: Array) -> Conditioned:
        """Condition on rows with features F (p, r) and targets y (p, q)."""
        gram, moment = base.statistics.gram, base.statistics.moment
        return cls(base, gram[:0, :], eye(0, gram), moment[:0, :]).add(F, y)

    def add(self, F: Array, y: Array) -> Conditioned:
        """Condition on more rows, F (b, r) and y (b, q); O(b r² + p²)."""
        g, _ = self.base.whiten(F)
        xp, p, b = namespace(g), self.G.shape[0], F.shape[0]
        left = solve_lower(self.L, g @ xp.matrix_transpose(self.G), rows=True) if p else zeros((b, 0), g)
        own = cholesky(g @ xp.matrix_transpose(g) + eye(b, g) - left @ xp.matrix_transpose(left), "I + GGᵀ")
        top = xp.concat([self.L, zeros((p, b), g)], axis=1)
        L = xp.concat([top, xp.concat([left, own], axis=1)], axis=0)
        residual = xp.concat([self.residual, double(y) - self.base.mean(F)], axis=0)
        return Conditioned(self.base, xp.concat([self.G, g], axis=0), L, residual)

    @cached_property
    def _alpha(self) -> Array:
        """(I + GGᵀ)⁻¹ (y − Fw), shape (p, q)."""
        return solve_lower(self.L, solve_lower(self.L, self.residual), transpose=True)

    @property
    def weights(self) -> Array:
        """The weights given all rows, shape (r, q)."""
        return self.base.weights + self.base.unwhiten(
            namespace(self.G).matrix_transpose(self.G) @ self._alpha
        )

    def predict(self, F: Array) -> tuple[Array, Array]:
        """Return mean (b, q) and φᵀM⁻¹φ (b,) for features F (b, r)."""
        g, _ = self.base.whiten(F)
        xp = namespace(g)
        cross = g @ xp.matrix_transpose(self.G)
        explained = solve_lower(self.L, cross, rows=True)
        leverage = xp.vecdot(g, g) - xp.vecdot(explained, explained)
        return self.base.mean(F) + cross @ self._alpha, leverage


def _floor(values: Array) -> float:
    """Return the size below which an eigenvalue among `values` (r,) is rounding."""
    xp = namespace(values)
    return eps(values) * values.shape[0] * float(xp.max(xp.abs(values))) if values.shape[0] else 0.0
