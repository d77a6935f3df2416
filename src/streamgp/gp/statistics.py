"""NormalEquations: all that the data has to say to a model with features, in a size free of n.

With features Φ (n, r), signature J = diag(±1) and K ≈ ΦJΦᵀ:

==========  ===========================  ======
letter      what                         shape
==========  ===========================  ======
A           gram, ΦᵀΦ                    (r, r)
c           moment, Φᵀy                  (r, q)
s           energy, yᵀy                  (q, q)
n           count                        ()
κ           prior trace, Σ k(xᵢ, xᵢ)     ()
==========  ===========================  ======

Kept in float64 whatever the features are computed in: A + σ²J then stays positive definite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

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
    gram,
    index,
    namespace,
    product,
    solve_lower,
    solve_lower_rows,
    to_host,
    zeros,
)
from ..errors import NumericalError
from ..lowrank import Complement


@dataclass(frozen=True)
class NormalEquations:
    """The sufficient statistics of the rows learned so far; every operation returns new ones.

    `log_whitening` is Σ log det R over batches that were whitened by R before they came here.
    """

    gram: Array
    moment: Array
    energy: Array
    count: float
    prior_trace: float
    signature: Array | None = None
    log_whitening: float = 0.0

    @classmethod
    def empty(cls, rank: int, n_outputs: int, like: Array) -> Self:
        """Give the statistics of no rows, beside `like`."""
        seed = double(like[:0, :])
        return cls(
            zeros((rank, rank), seed),
            zeros((rank, n_outputs), seed),
            zeros((n_outputs, n_outputs), seed),
            0,
            0.0,
        )

    @property
    def rank(self) -> int:
        """The number of features."""
        return int(self.gram.shape[0])

    def learn(
        self, F: Array, y: Array, prior_trace: float, log_whitening: float = 0.0, *, mixed: bool = False
    ) -> Self:
        """Add a batch: features F (b, r), targets y (b, q); O(b r²). `mixed`: FᵀF in the precision of F."""
        return self._add(F, y, prior_trace, log_whitening, 1, mixed)

    def unlearn(self, F: Array, y: Array, prior_trace: float, log_whitening: float = 0.0) -> Self:
        """Take a batch away; the exact inverse of `learn`. O(b r²)."""
        return self._add(F, y, prior_trace, log_whitening, -1)

    def _add(
        self, F: Array, y: Array, prior_trace: float, log_whitening: float, sign: int, mixed: bool = False
    ) -> Self:
        own = double(gram(F if mixed else double(F)))
        F, y = double(F), double(y)
        transposed = namespace(F).matrix_transpose(F)
        own *= sign
        own += self.gram
        return replace(
            self,
            gram=own,
            moment=self.moment + sign * (transposed @ y),
            energy=self.energy + sign * gram(y),
            count=self.count + sign * F.shape[0],
            prior_trace=self.prior_trace + sign * prior_trace,
            log_whitening=self.log_whitening + sign * log_whitening,
        )

    def merge(self, other: Self) -> Self:
        """Add the statistics of another machine that uses the same features; O(r²)."""
        return replace(
            self,
            gram=self.gram + other.gram,
            moment=self.moment + other.moment,
            energy=self.energy + other.energy,
            count=self.count + other.count,
            prior_trace=self.prior_trace + other.prior_trace,
            log_whitening=self.log_whitening + other.log_whitening,
        )

    def forget(self, rate: float) -> Self:
        """Weigh every row learned so far by `rate`; O(r²)."""
        return replace(
            self,
            gram=rate * self.gram,
            moment=rate * self.moment,
            energy=rate * self.energy,
            count=rate * self.count,
            prior_trace=rate * self.prior_trace,
            log_whitening=rate * self.log_whitening,
        )

    def extend(self, F: Array, G: Array, y: Array, weights: Array) -> Self:
        """Make room for m new features that, of all rows learned, only some recent ones have; O(W r m + r²).

        F (W, r) are the old features of these rows, G (W, m) the new ones, y (W, q) their targets and
        weights (W,) what they count for by now. To all other rows the new features are zero.
        """
        xp = namespace(self.gram)
        F, G, y = double(F), double(G), double(y)
        weighed = xp.matrix_transpose(G * weights[:, None])
        cross = weighed @ F
        bottom = xp.concat([cross, weighed @ G], axis=1)
        right = xp.concat([self.gram, xp.matrix_transpose(cross)], axis=1)
        return replace(
            self,
            gram=xp.concat([right, bottom], axis=0),
            moment=xp.concat([self.moment, weighed @ y], axis=0),
        )

    def transform(self, T: Array, prior_trace: float | None = None) -> Self:
        """Rewrite for the features Tφ, T (r', r): change hyperparameters, reweight, rotate; O(r³). Exact.

        `prior_trace` replaces κ where the kernel's diagonal changes too.
        """
        T, xp = double(T), namespace(self.gram)
        new = product(product(T, self.gram), xp.matrix_transpose(T))
        return replace(
            self,
            gram=0.5 * (new + xp.matrix_transpose(new)),
            moment=product(T, self.moment),
            prior_trace=self.prior_trace if prior_trace is None else prior_trace,
        )

    def drop(self, complement: Complement) -> Self:
        """Rewrite for the features that are left when some directions are dropped; O(r² m). Exact."""
        xp, m = namespace(self.gram), complement.T.shape[0]
        moment = xp.matrix_transpose(complement.rows(xp.matrix_transpose(self.moment)))
        return replace(self, gram=complement.both(self.gram)[m:, m:], moment=moment)

    def exchange(self, complement: Complement, F: Array, y: Array, weights: Array) -> Self:
        """Drop the first m of the new axes and put new features in their place; O(r² m + W r m).

        F (W, r) are the rows that have the new features, these first; y (W, q) and weights (W,) as in `extend`.
        """
        xp, m = namespace(self.gram), complement.T.shape[0]
        F = double(F)
        weighed = xp.matrix_transpose(F[:, :m] * weights[:, None])
        gram, cross = complement.both(self.gram), product(weighed, F)
        moment = xp.matrix_transpose(complement.turn(xp.matrix_transpose(self.moment)))
        gram[:m, :], gram[:, :m] = cross, xp.matrix_transpose(cross)
        moment[:m, :] = weighed @ y
        return replace(self, gram=gram, moment=moment)

    def repaired(self, before: Self) -> tuple[Self, float]:
        """Return the nearest statistics that some rows have, and how far off these are; O(r³).

        Of any rows, [[A, c], [cᵀ, s]] is a gram matrix and so positive semi-definite; its eigenvalues below zero are
        raised to it. How far off: minus the lowest of them, 0 if there is none. In units of the diagonal that
        the matrix had `before` rows were unlearned.
        """
        xp, r = namespace(self.gram), self.rank
        size = xp.sqrt(clip_below(xp.linalg.diagonal(before._joint) + 0.0, 0.0))
        size = xp.where(size > 0, size, xp.ones_like(size))
        values, V = eigh(self._joint / (size[:, None] * size[None, :]), "the gram matrix")
        off = max(0.0, -float(xp.min(values)))
        if not off:
            return self, off
        raised = (V * xp.where(values > 0, values, xp.zeros_like(values))[None, :]) @ xp.matrix_transpose(V)
        raised = 0.5 * (raised + xp.matrix_transpose(raised)) * (size[:, None] * size[None, :])
        return replace(self, gram=raised[:r, :r], moment=raised[:r, r:], energy=raised[r:, r:]), off

    @property
    def _joint(self) -> Array:
        """The gram matrix of features and targets together, shape (r + q, r + q)."""
        xp = namespace(self.gram)
        top = xp.concat([self.gram, self.moment], axis=1)
        return xp.concat([top, xp.concat([xp.matrix_transpose(self.moment), self.energy], axis=1)], axis=0)

    @property
    def trace_error(self) -> float:
        """tr(K − ΦJΦᵀ), exactly, in O(r)."""
        diagonal = namespace(self.gram).linalg.diagonal(self.gram)
        signed = diagonal if self.signature is None else diagonal * self.signature
        return float(self.prior_trace) - float(namespace(signed).sum(signed))

    def solve(self, noise: float, *, unseen: bool = False) -> Posterior:
        """Condition on everything learned, with noise variance σ²; O(r³), when it is first asked.

        `unseen`: what the features leave of a row's prior variance, on average, counts as noise too.
        """
        return Posterior(self, noise, unseen)


@dataclass(frozen=True)
class Posterior:
    """The distribution over weights given the statistics and a noise variance.

    M = A + σ²J is held as M⁻¹ = W D Wᵀ with D = diag(±1): W = L⁻ᵀ where M = LLᵀ, eigenvectors otherwise.
    """

    statistics: NormalEquations
    own_noise: float
    unseen: bool = False

    @cached_property
    def noise(self) -> float:
        """The noise variance σ² of the fit; asked for late, since a device has to be waited for."""
        statistics = self.statistics
        if not self.unseen or not statistics.count > 0:
            return self.own_noise
        return self.own_noise + max(statistics.trace_error, 0.0) / statistics.count

    @cached_property
    def _cholesky(self) -> Array | None:
        """L with LLᵀ = M; None where the signature or rounding forbids it."""
        statistics = self.statistics
        if statistics.signature is not None:
            return None
        # Where σ² is below the rounding of A a factor may exist all the same, made of that rounding.
        diagonal, xp = namespace(statistics.gram).linalg.diagonal(statistics.gram), namespace(statistics.gram)
        if statistics.rank and self.noise < eps(diagonal) * statistics.rank**0.5 * float(xp.max(diagonal)):
            return None
        try:
            return cholesky(statistics.gram, "A + σ²I", self.noise)
        except NumericalError:
            return None

    @cached_property
    def _spectrum(self) -> tuple[Array, Array, Array]:
        """Eigenvectors V (r, r), eigenvalues m (r,) of M, and 1 where the data has spoken, else 0 (r,)."""
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
        """Give G = F·W (b, r) and the signs D (r,), so that φᵀM⁻¹φ = Σ D G²."""
        F, xp = double(F), namespace(F)
        if self._cholesky is not None:
            return solve_lower_rows(self._cholesky, F), None
        V, m, _ = self._spectrum
        signs = None if self.statistics.signature is None else xp.sign(m)
        return (F @ V) / xp.sqrt(xp.abs(m))[None, :], signs

    def unwhiten(self, g: Array) -> Array:
        """Give W·g for g (r, q), the transpose of what `whiten` does to rows; positive signatures only."""
        if self._cholesky is not None:
            return solve_lower(self._cholesky, g, transpose=True)
        V, m, _ = self._spectrum
        return V @ (g / namespace(g).sqrt(m)[:, None])

    @cached_property
    def weights(self) -> Array:
        """W = M⁻¹c, shape (r, q)."""
        c, xp = (
            finite(self.statistics.moment, "the sum of features times targets"),
            namespace(self.statistics.gram),
        )
        if self._cholesky is not None:
            inner = solve_lower_rows(self._cholesky, xp.matrix_transpose(c))
            return solve_lower(self._cholesky, xp.matrix_transpose(inner), transpose=True)
        V, m, seen = self._spectrum
        return V @ ((xp.matrix_transpose(V) @ c) * (seen / m)[:, None])

    def mean(self, F: Array) -> Array:
        """Give φᵀw for each row of F (b, r); shape (b, q)."""
        return double(F) @ self.weights

    def leverage(self, F: Array) -> Array:
        """Give φᵀM⁻¹φ for each row of F (b, r); shape (b,)."""
        G, signs = self.whiten(F)
        return namespace(G).vecdot(G, G if signs is None else G * signs[None, :])

    def variance(self, F: Array, prior: Array) -> Array:
        """Give the latent variance k(x, x) − φᵀJφ + σ²φᵀM⁻¹φ; F (b, r), prior (b,); shape (b,)."""
        F, xp, J = double(F), namespace(F), self.statistics.signature
        seen = xp.vecdot(F, F if J is None else F * J[None, :])
        return double(prior) - seen + self.noise * self.leverage(F)

    def covariance(self, F: Array, prior: Array) -> Array:
        """Give the latent covariance between rows, shape (b, b); prior (b, b) is k(x, x')."""
        F, xp, J = double(F), namespace(F), self.statistics.signature
        G, signs = self.whiten(F)
        seen = F @ xp.matrix_transpose(F if J is None else F * J[None, :])
        left = G @ xp.matrix_transpose(G if signs is None else G * signs[None, :])
        return double(prior) - seen + self.noise * left

    def left_out(
        self, F: Array, y: Array, prior: Array, noise: float, weights: Array | None = None
    ) -> LeftOut:
        """Predict learned rows, F (b, r) and y (b, q), each as if it had not been learned; O(b r²).

        `noise` is that of the targets; what the features leave of `prior` (b,) is variance of the function.
        `weights` (b,) is what each row counts for by now. Rows that the model owes all its knowledge of their place
        to, as far as rounding can tell, cannot be left out and are not among the answers.
        """
        F, xp, J = double(F), namespace(F), self.statistics.signature
        leverage = self.leverage(F)
        kept = 1.0 - (leverage if weights is None else leverage * weights)
        unseen = double(prior) - xp.vecdot(F, F if J is None else F * J[None, :])
        rest = xp.where(kept > 0, kept, xp.ones_like(kept))
        variance = clip_below(clip_below(unseen, 0.0) + self.noise * leverage / rest, 0.0)
        error = (double(y) - self.mean(F)) / rest[:, None]
        at = index(np.flatnonzero(to_host(kept) > eps(kept) ** 0.5).tolist(), F)
        return LeftOut(xp.take(error, at, axis=0), xp.take(variance, at, axis=0), noise)

    def leave_one_out(self, F: Array, y: Array) -> Array:
        """Give the residual of each learned row, F (b, r) and y (b, q), had it not been learned; (b, q)."""
        return (double(y) - self.mean(F)) / (1.0 - self.leverage(F))[:, None]

    @cached_property
    def log_evidence(self) -> float:
        """Log density of everything learned, summed over outputs; −inf where ΦJΦᵀ + σ²I is not positive definite."""
        statistics, xp = self.statistics, namespace(self.statistics.gram)
        n, r, q = statistics.count, statistics.rank, statistics.moment.shape[1]
        if self._cholesky is not None:
            log_det = 2.0 * float(xp.sum(xp.log(xp.linalg.diagonal(self._cholesky))))
        else:
            m = self._spectrum[1]
            J = xp.ones_like(m) if statistics.signature is None else statistics.signature
            # The covariance is positive definite where M has as many positive eigenvalues as J.
            if int(xp.sum(xp.astype(m > 0, xp.int64))) != int(xp.sum(xp.astype(J > 0, xp.int64))):
                return -math.inf
            log_det = float(xp.sum(xp.log(xp.abs(m))))
        fitted = float(xp.sum(statistics.moment * self.weights))
        total = float(xp.sum(xp.linalg.diagonal(statistics.energy)))
        per_output = (n - r) * math.log(self.noise) + log_det + n * math.log(2 * math.pi)
        per_output += statistics.log_whitening
        return float(-0.5 * ((total - fitted) / self.noise + q * per_output))


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
        """Return the mean log density of the targets, but for a constant."""
        xp, total = namespace(self.error), self.variance + self.noise
        return -0.5 * float(xp.mean(self.error**2 / total[:, None]) + xp.mean(xp.log(total)))


@dataclass(frozen=True)
class Conditioned:
    """A posterior given a few more rows, without another factorisation: O(p r²) for p rows, then O(p r).

    In the coordinates in which M is the identity the rows are G (p, r), and
    (I + GᵀG)⁻¹ = I − Gᵀ(I + GGᵀ)⁻¹G. Positive signatures only.

    Attributes
    ----------
    base : Posterior
    G : (p, r)
    L : (p, p)
        LLᵀ = I + GGᵀ.
    missed : (p, q)
        y − Fw.
    """

    base: Posterior
    G: Array
    L: Array
    missed: Array

    @classmethod
    def on(cls, base: Posterior, F: Array, y: Array) -> Conditioned:
        """Condition on rows with features F (p, r) and targets y (p, q)."""
        none = cls(
            base, base.statistics.gram[:0, :], eye(0, base.statistics.gram), base.statistics.moment[:0, :]
        )
        return none.add(F, y)

    def add(self, F: Array, y: Array) -> Conditioned:
        """Condition on more rows, F (b, r) and y (b, q); O(b r² + p²)."""
        g, _ = self.base.whiten(F)
        xp, p, b = namespace(g), self.G.shape[0], F.shape[0]
        left = solve_lower_rows(self.L, g @ xp.matrix_transpose(self.G)) if p else zeros((b, 0), g)
        own = cholesky(g @ xp.matrix_transpose(g) + eye(b, g) - left @ xp.matrix_transpose(left), "I + GGᵀ")
        top = xp.concat([self.L, zeros((p, b), g)], axis=1)
        L = xp.concat([top, xp.concat([left, own], axis=1)], axis=0)
        missed = xp.concat([self.missed, double(y) - self.base.mean(F)], axis=0)
        return Conditioned(self.base, xp.concat([self.G, g], axis=0), L, missed)

    @cached_property
    def _alpha(self) -> Array:
        """(I + GGᵀ)⁻¹ (y − Fw), shape (p, q)."""
        return solve_lower(self.L, solve_lower(self.L, self.missed), transpose=True)

    @property
    def weights(self) -> Array:
        """The weights given all rows, shape (r, q)."""
        return self.base.weights + self.base.unwhiten(
            namespace(self.G).matrix_transpose(self.G) @ self._alpha
        )

    def predict(self, F: Array) -> tuple[Array, Array]:
        """Give mean (b, q) and φᵀM⁻¹φ (b,) for features F (b, r)."""
        g, _ = self.base.whiten(F)
        xp = namespace(g)
        cross = g @ xp.matrix_transpose(self.G)
        seen = solve_lower_rows(self.L, cross)
        leverage = xp.vecdot(g, g) - xp.vecdot(seen, seen)
        return self.base.mean(F) + cross @ self._alpha, leverage


def _floor(values: Array) -> float:
    """Below this an eigenvalue among `values` (r,) is rounding."""
    xp = namespace(values)
    return eps(values) * values.shape[0] * float(xp.max(xp.abs(values))) if values.shape[0] else 0.0


def diagonal_statistics(
    values: Array, moment: Array, energy: Array, count: float, prior_trace: float, indefinite: bool
) -> NormalEquations:
    """Give the statistics of spectral features: A = diag(|S|) for eigenvalues S (r,), moment |S|^½Uᵀy."""
    xp = namespace(values)
    values = double(values)
    signature = xp.sign(values) if indefinite else None
    return NormalEquations(
        diagonal_matrix(xp.abs(values)), double(moment), double(energy), count, prior_trace, signature
    )
