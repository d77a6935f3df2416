"""Posterior: predictions, leverages and evidence from NormalEquations and a noise variance for each output.

References: Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), sections 2.3, 5.4 and 8.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._arrays import (
    Array,
    asarray_like,
    cholesky,
    clip_below,
    double,
    eps,
    eye,
    finite,
    index,
    namespace,
    solve_lower,
    to_host,
    zeros,
)
from .normal_equations import NormalEquations
from .outputs import Groups, per_output
from .shifted import Shifted


def log_density(quadratic: float, log_det: float, n: float, n_outputs: int) -> float:
    """Return the log density of n targets of q outputs: −½[Σ yᵀC⁻¹y + q (log det C + n log 2π)].

    The one log evidence of the library: Rasmussen & Williams, eq. (2.30); `quadratic` is summed over outputs.
    """
    return -0.5 * (quadratic + n_outputs * (log_det + n * math.log(2 * math.pi)))


@dataclass(frozen=True)
class Posterior:
    """The distribution of the weights given the statistics and a noise variance for each output.

    Outputs of similar noise share the M = A + ρJ of their geometric mean (`outputs.Groups`).

    Attributes
    ----------
    statistics : NormalEquations
    noise : (q,)
        The variances of the noise on the targets; a number for all outputs.
    residual_as_noise : bool
        Fit with the mean of k(x, x) − φᵀφ over the rows learned added to the noise. The statistics do not contain
        K − K̂, so that without it a model with few inducing points is overconfident (DTC); FITC adds it row by row.
    residual_at_most : float
        An upper bound of that mean: rows far from all inducing points do not count in the features, and their
        unexplained variance must not count as noise of the others.
    dependence : float
        τ: so many rows tell as much as one independent row. The fit has the noise τσ².
    """

    statistics: NormalEquations
    noise: np.ndarray | float
    residual_as_noise: bool = False
    residual_at_most: float = math.inf
    dependence: float = 1.0

    @cached_property
    def effective_noise(self) -> np.ndarray:
        """The noise variances of the fit, (q,); computed late, because it synchronises with a device."""
        statistics = self.statistics
        noise = per_output(self.noise, statistics.moment.shape[1])
        if not self.residual_as_noise or not statistics.count > 0:
            return self.dependence * noise
        residual = min(max(statistics.trace_error, 0.0) / statistics.count, self.residual_at_most)
        # Where rows are of weights below one, noise is known in units of theirs.
        return self.dependence * (noise + min(1.0, statistics.count / statistics.rows) * residual)

    @cached_property
    def groups(self) -> Groups:
        """Which outputs share a factorisation."""
        return Groups.of(self.effective_noise)

    @cached_property
    def factors(self) -> tuple[Shifted, ...]:
        """M of each group."""
        return tuple(Shifted(self.statistics, noise) for noise in self.groups.noises)

    @cached_property
    def weights(self) -> Array:
        """The posterior mean w = M⁻¹c of the weights, shape (r, q)."""
        c = finite(self.statistics.moment, "the sum of features times targets")
        groups, noise = self.groups, self.effective_noise
        return groups.joined(
            [M.solve_near(groups.columns(c, g), noise[groups.outputs(g)]) for g, M in enumerate(self.factors)]
        )

    def mean(self, F: Array) -> Array:
        """Return the mean φᵀw of eq. (1) for each row of F (b, r); shape (b, q)."""
        return double(F) @ self.weights

    def predict(self, F: Array) -> tuple[Array, Array]:
        """Return the mean and σ²φᵀM⁻¹φ, (b, q) each, for features F (b, r); positive signatures only."""
        return self.mean(F), self.groups.each([M.noise * M.leverage(F) for M in self.factors])

    def variance(self, F: Array, prior: Array) -> Array:
        """Return the latent variance of eq. (1), k(x, x) − φᵀJφ + σ²φᵀM⁻¹φ, (b, q); F (b, r), prior k(x, x) (b,)."""
        unexplained = self._unexplained(F, prior)
        return self.groups.each([unexplained + M.noise * M.leverage(F) for M in self.factors])

    def variance_coefficients(self, F: Array) -> tuple[Array, ...]:
        """Return 2(σ²M⁻¹ − J)φ of each output for features F (b, r), the derivative of its variance by φ; (b, r)."""
        F, J = double(F), self.statistics.signature
        signed = F if J is None else F * J[None, :]
        of_group = [2.0 * (M.noise * M.solve_rows(F) - signed) for M in self.factors]
        return tuple(of_group[g] for g in self.groups.members)

    def _unexplained(self, F: Array, prior: Array) -> Array:
        """Return k(x, x) − φᵀJφ for each row; shape (b,)."""
        F, xp, J = double(F), namespace(F), self.statistics.signature
        return double(prior) - xp.vecdot(F, F if J is None else F * J[None, :])

    def covariance(self, F: Array, prior: Array) -> tuple[Array, ...]:
        """Return the latent covariance between rows of each output, (b, b); prior (b, b) is k(x, x')."""
        F, xp, J = double(F), namespace(F), self.statistics.signature
        explained = F @ xp.matrix_transpose(F if J is None else F * J[None, :])
        unexplained = double(prior) - explained
        of_group = [unexplained + M.noise * M.between(F) for M in self.factors]
        return tuple(of_group[g] for g in self.groups.members)

    def left_out(
        self, F: Array, y: Array, prior: Array, weights: Array | None = None, given: Array | None = None
    ) -> LeftOut:
        """Predict learned rows, F (b, r) and y (b, q), each as if it had not been learned; O(b r²).

        `prior` (b,) is k(x, x), `weights` (b,) the present weight of each row, `given` (b,) the one that it was learned
        with, both by default one. Rows of leverage 1 to rounding, about which the model knows nothing but the row
        itself, are not in the result.
        """
        F, xp, groups = double(F), namespace(F), self.groups
        unexplained = clip_below(self._unexplained(F, prior), 0.0)
        least, rests, variances = None, [], []
        for M in self.factors:
            leverage = M.leverage(F)
            kept = 1.0 - (leverage if weights is None else leverage * weights)
            rest = xp.where(kept > 0, kept, xp.ones_like(kept))
            rests.append(rest)
            variances.append(clip_below(unexplained + M.noise * leverage / rest, 0.0))
            least = kept if least is None else xp.minimum(least, kept)
        error, variance = (double(y) - self.mean(F)) / groups.each(rests), groups.each(variances)
        if given is not None:
            error, variance = error * xp.sqrt(given)[:, None], variance * given[:, None]
        at = index(np.flatnonzero(to_host(least) > eps(F) ** 0.5).tolist(), F)
        noise = per_output(self.noise, y.shape[1])
        return LeftOut(xp.take(error, at, axis=0), xp.take(variance, at, axis=0), noise)

    @cached_property
    def log_evidence(self) -> float:
        """Log density of everything learned, summed over outputs; −inf where ΦJΦᵀ + σ²I is not positive definite.

        By the Woodbury identity and the determinant lemma: yᵀC⁻¹y = (s − cᵀw)/σ² and
        log det C = (n − r) log σ² + log |det M|. Each output with its own noise: a factorisation for each.
        """
        statistics, xp = self.statistics, namespace(self.statistics.gram)
        energy, total = xp.linalg.diagonal(statistics.energy)[None, :], 0.0
        apart = Groups.apart(self.effective_noise)
        same = apart.noises == self.groups.noises
        for g, noise in enumerate(apart.noises):
            M = self.factors[g] if same else Shifted(statistics, noise)
            if math.isnan(M.log_det):
                return -math.inf
            c = apart.columns(statistics.moment, g)
            weights = apart.columns(self.weights, g) if same else M.solve(c)
            left = float(xp.sum(apart.columns(energy, g))) - float(xp.sum(c * weights))
            log_det = M.log_det + (
                (statistics.rows - statistics.rank) * math.log(noise) + statistics.log_whitening
            )
            total += log_density(left / noise, log_det, statistics.rows, c.shape[1])
        return total


@dataclass(frozen=True)
class LeftOut:
    """Errors and latent variances (b, q) of learned rows, each predicted from all others; noise variances (q,).

    Of a row of weight w these are √w times the error and w times the variance, whose noise is that of all rows.
    """

    error: Array
    variance: Array
    noise: np.ndarray

    @property
    def typical_error(self) -> np.ndarray:
        """The median size of the errors of each output, never zero; (q,)."""
        return np.asarray(np.maximum(np.median(np.abs(to_host(self.error)), axis=0), 1e-300))

    @property
    def typical_variance(self) -> np.ndarray:
        """The median of the variances of each output, never zero; (q,)."""
        return np.asarray(np.maximum(np.median(to_host(self.variance), axis=0), 1e-300))

    def log_density(self) -> float:
        """Return the mean log density of the targets, up to a constant."""
        xp, total = namespace(self.error), self.variance + asarray_like(self.noise, self.variance)[None, :]
        return -0.5 * float(xp.mean(self.error**2 / total) + xp.mean(xp.log(total)))


@dataclass(frozen=True)
class Conditioned:
    """A posterior given a few more rows, without another factorisation: O(p r²) for p rows, then O(p r).

    In the coordinates in which M is the identity the rows are G (p, r), and by the Woodbury identity
    (I + GᵀG)⁻¹ = I − Gᵀ(I + GGᵀ)⁻¹G. Positive signatures only.

    Attributes
    ----------
    base : Posterior
    G : (p, r) for each group of outputs
    L : (p, p) for each group of outputs
        LLᵀ = I + GGᵀ.
    residual : (p, q)
        y − Fw.
    """

    base: Posterior
    G: tuple[Array, ...]
    L: tuple[Array, ...]
    residual: Array

    @classmethod
    def on(cls, base: Posterior, F: Array, y: Array) -> Conditioned:
        """Condition on rows with features F (p, r) and targets y (p, q)."""
        gram, moment, n = base.statistics.gram, base.statistics.moment, len(base.factors)
        return cls(base, (gram[:0, :],) * n, (eye(0, gram),) * n, moment[:0, :]).add(F, y)

    def add(self, F: Array, y: Array) -> Conditioned:
        """Condition on more rows, F (b, r) and y (b, q); O(b r² + p²)."""
        new_G, new_L = [], []
        for M, G, L in zip(self.base.factors, self.G, self.L, strict=True):
            g, _ = M.whiten(F)
            xp, p, b = namespace(g), G.shape[0], F.shape[0]
            left = solve_lower(L, g @ xp.matrix_transpose(G), rows=True) if p else zeros((b, 0), g)
            own = cholesky(
                g @ xp.matrix_transpose(g) + eye(b, g) - left @ xp.matrix_transpose(left), "I + GGᵀ"
            )
            top = xp.concat([L, zeros((p, b), g)], axis=1)
            new_G.append(xp.concat([G, g], axis=0))
            new_L.append(xp.concat([top, xp.concat([left, own], axis=1)], axis=0))
        residual = namespace(y).concat([self.residual, double(y) - self.base.mean(F)], axis=0)
        return Conditioned(self.base, tuple(new_G), tuple(new_L), residual)

    @cached_property
    def _alpha(self) -> list[Array]:
        """(I + GGᵀ)⁻¹ (y − Fw) of the outputs of each group, shape (p, ·)."""
        columns = self.base.groups.columns
        return [
            solve_lower(L, solve_lower(L, columns(self.residual, g)), transpose=True)
            for g, L in enumerate(self.L)
        ]

    @property
    def weights(self) -> Array:
        """The weights given all rows, shape (r, q)."""
        each = zip(self.base.factors, self.G, self._alpha, strict=True)
        more = [M.unwhiten(namespace(G).matrix_transpose(G) @ alpha) for M, G, alpha in each]
        return self.base.weights + self.base.groups.joined(more)

    def predict(self, F: Array) -> tuple[Array, Array]:
        """Return mean and σ²φᵀM⁻¹φ, (b, q) each, for features F (b, r)."""
        means, spreads = [], []
        for M, G, L, alpha in zip(self.base.factors, self.G, self.L, self._alpha, strict=True):
            g, _ = M.whiten(F)
            xp = namespace(g)
            cross = g @ xp.matrix_transpose(G)
            explained = solve_lower(L, cross, rows=True)
            means.append(cross @ alpha)
            spreads.append(M.noise * (xp.vecdot(g, g) - xp.vecdot(explained, explained)))
        groups = self.base.groups
        return self.base.mean(F) + groups.joined(means), groups.each(spreads)
