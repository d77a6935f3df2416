"""Objectives of tuning: log evidence, leave-one-out density, training error; each with its gradient.

One protocol, two sources. `SampleObjective` fits the exact GP to a sample of rows. `StatisticsObjective` needs no row:
it is for the weights a of a kernel Σᵢ aᵢkᵢ, from the statistics of unit features Φ = [Φ₁, Φ₂, …], Kᵢ ≈ ΦᵢJᵢΦᵢᵀ. With
D² = diag(a) spread over the features and C = ΦD²JΦᵀ + σ²I the covariance of the targets, everything follows from
M = DAD + σ²J, N = M⁻¹, w = NDc and v = NJw, O(r³):

====================  =====================================================================
α = C⁻¹y              DΦᵀα = Jw, DΦᵀC⁻¹α = Jv, ‖α‖² = (s − 2cᵀDw + wᵀDADw)/σ⁴
tr C⁻¹                (n − r + σ² tr NJ)/σ²
tr C⁻²                (n − r + σ⁴ tr NJNJ)/σ⁴
aᵢ ∂(yᵀα)/∂aᵢ         −Σ Jw² over the features of part i
aᵢ ∂ log det C/∂aᵢ    Σ (1 − σ²JN) over the diagonal entries of part i
====================  =====================================================================

References: Rasmussen & Williams (2006), eqs. (5.9) to (5.13); Golub, Heath &
Wahba, Generalized cross-validation (1979).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, cast

import numpy as np
import scipy.linalg

from .._arrays import cholesky, inverse_from, product, solve_lower, to_host
from ..errors import NumericalError
from ..gp.normal_equations import NormalEquations
from ..gp.posterior import log_density
from ..kernels import Affine, Kernel


@dataclass(frozen=True)
class Value:
    """An objective at some hyperparameters, per observation and output: to be maximised.

    Attributes
    ----------
    value : float
    gradient : (p + 1,) or (p + q,)
        By the kernel's theta and the logarithm of the noise, or of each output's.
    held_out : float
        How well rows are predicted from all others: the mean log density of each, or −½ log of the mean squared error
        where that is not defined (indefinite kernel) or not known (statistics; generalised cross-validation).
    amplitudes : (q,) or None
        The factors of kernel and noise by which each output has most evidence; None where all have one amplitude.
    """

    value: float
    gradient: np.ndarray
    held_out: float
    amplitudes: np.ndarray | None = None


class Objective(Protocol):
    """What `optimise.tune` maximises."""

    @property
    def observations(self) -> float:
        """Rows times outputs."""

    @property
    def noise_size(self) -> float:
        """What the noise is measured in: the mean variance of the targets."""

    def __call__(self, kernel: Kernel, noise: float | np.ndarray) -> Value:
        """Evaluate; raises NumericalError where the objective is not defined."""


# On a sample of rows


@dataclass(frozen=True)
class SampleObjective:
    """The objective `kind` of the exact GP of a sample X (m, d), y (m, q); O(m³) an evaluation.

    `disturbance` (m, m) is the covariance of the noise between rows in units of σ², None for the identity.
    """

    X: np.ndarray
    y: np.ndarray
    kind: str
    disturbance: np.ndarray | None = None

    @property
    def observations(self) -> float:
        """See Objective."""
        return self.y.size

    @property
    def noise_size(self) -> float:
        """See Objective; rows of little noise count for more."""
        own = None if self.disturbance is None else self.disturbance.diagonal()
        if own is None or (own == 1).all():
            return float(self.y.var(axis=0).mean())
        centre = np.average(self.y, axis=0, weights=1.0 / own)
        return float(np.average((self.y - centre) ** 2, axis=0, weights=1.0 / own).mean())

    def __call__(self, kernel: Kernel, noise: float | np.ndarray) -> Value:
        """See Objective."""
        noise = float(np.ravel(noise)[0])
        fit = _Fit(self, kernel, noise)
        held_out = fit.held_out(self.kind)
        value, W = {"evidence": fit.evidence, "loo": fit.loo, "training_error": fit.training_error}[
            self.kind
        ]()
        # The training error decreases monotonically with the noise.
        by_noise = 0.0 if self.kind == "training_error" else noise * self._of_noise(W)
        gradient = np.concatenate([kernel.gradient(W, self.X), [by_noise]])
        return Value(value / self.y.size, gradient / self.y.size, held_out)

    def most_evidence(self, kernel: Kernel, shares: Sequence[float]) -> float:
        """Return the highest log evidence for noises that are these shares of the variance of the targets."""
        K, (m, q) = kernel.block(self.X), self.y.shape
        R = np.eye(m) if self.disturbance is None else self.disturbance
        values = []
        for share in shares:
            L = cholesky(K + share * self.noise_size * R, "the kernel matrix of the sample")
            quadratic = float((solve_lower(L, self.y) ** 2).sum())
            values.append(log_density(quadratic, 2.0 * float(np.log(L.diagonal()).sum()), m, q))
        return max(values)

    def _of_noise(self, W: np.ndarray) -> float:
        """Return the sum of W (m, m) over the correlation of the noise."""
        return float(np.trace(W) if self.disturbance is None else (W * self.disturbance).sum())


class _Fit:
    """The exact GP of a sample; each objective returns its value and W = ∂value/∂K (m, m)."""

    def __init__(self, sample: SampleObjective, kernel: Kernel, noise: float) -> None:
        self.y, self.noise, self.kernel = sample.y, noise, kernel
        self.disturbance = sample.disturbance
        self.inverse, self.log_det = _inverse_of_sample(kernel, noise, sample.X, sample.disturbance)
        self.alpha = self.inverse @ self.y
        self.diagonal = self.inverse.diagonal()

    @cached_property
    def left_out(self) -> np.ndarray:
        """Leave-one-out residuals (m, q), eq. (5.12)."""
        return np.asarray(self.alpha / self.diagonal[:, None])

    @cached_property
    def density(self) -> np.ndarray:
        """Leave-one-out log densities (m, q), eq. (5.10)."""
        d = self.diagonal[:, None]
        return np.asarray(-0.5 * (self.left_out**2 * d - np.log(d) + math.log(2 * math.pi)))

    def held_out(self, kind: str) -> float:
        """Return Value.held_out."""
        if self.kernel.positive_semidefinite:
            return float(self.density.mean())
        if kind == "loo":
            raise NumericalError("objective='loo' needs a positive semi-definite kernel; use 'evidence'")
        return -0.5 * math.log(max(float((self.left_out**2).mean()), 1e-300))

    def evidence(self) -> tuple[float, np.ndarray]:
        """Eqs. (5.8) and (5.9)."""
        if math.isnan(self.log_det):
            raise NumericalError("the kernel matrix of the sample plus noise is not positive definite")
        m, q = self.y.shape
        value = log_density(float((self.y * self.alpha).sum()), self.log_det, m, q)
        return value, 0.5 * (self.alpha @ self.alpha.T - q * self.inverse)

    def loo(self) -> tuple[float, np.ndarray]:
        """Eqs. (5.11) and (5.13): W = −K⁻¹BK⁻¹ symmetrised, B collecting d/dα and d/dK⁻¹_ii."""
        d = self.diagonal[:, None]
        by_diagonal = 0.5 * (self.left_out**2 + 1.0 / d).sum(axis=1)
        cross = (self.inverse @ -self.left_out) @ self.alpha.T
        W = -0.5 * (cross + cross.T) - product(self.inverse * by_diagonal[None, :], self.inverse)
        return float(self.density.sum()), W

    def training_error(self) -> tuple[float, np.ndarray]:
        """−½ of the squared residuals of the fit, y − Kα = σ²Rα, in units of R."""
        left = self.alpha if self.disturbance is None else self.disturbance @ self.alpha
        cross = (self.inverse @ left) @ self.alpha.T
        value = -0.5 * self.noise**2 * float((left * self.alpha).sum())
        return value, 0.5 * self.noise**2 * (cross + cross.T)


def _inverse_of_sample(
    kernel: Kernel, noise: float, X: np.ndarray, disturbance: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """Return (k(X, X) + σ²R)⁻¹ (m, m) and the logarithm of the determinant, NaN where it is indefinite.

    R is the identity, or a `disturbance` (m, m).
    """
    what = "the kernel matrix of the sample"
    if not kernel.positive_semidefinite:
        R = np.eye(X.shape[0]) if disturbance is None else disturbance
        values, V = np.linalg.eigh(kernel.block(X) + noise * R)
        if np.abs(values).min() <= 1e-14 * np.abs(values).max():
            raise NumericalError(f"{what} plus noise={noise:g} is singular")
        return (V / values) @ V.T, float(np.log(values).sum()) if values[0] > 0 else math.nan
    if disturbance is None:
        L = cholesky(kernel.block(X), what, noise)
    else:
        L = cholesky(kernel.block(X) + noise * disturbance, what)
    return inverse_from(L, what), 2.0 * float(np.log(L.diagonal()).sum())


# On statistics


class StatisticsObjective:
    """The objective `kind` of the weights of an affine kernel, from statistics alone; O(r³) an evaluation.

    Parameters
    ----------
    statistics : NormalEquations
        For weights of one, with all signs in `signature`.
    parts : (r,)
        The number of the part of each feature.
    """

    def __init__(self, statistics: NormalEquations, parts: np.ndarray, kind: str) -> None:
        self.gram, self.moment = to_host(statistics.gram), to_host(statistics.moment)
        self.signs, self.parts, self.kind = to_host(statistics.signature), parts, kind
        self.energy = float(np.trace(to_host(statistics.energy)))
        self.count: float = statistics.rows

    @property
    def observations(self) -> float:
        """See Objective."""
        return self.count * int(self.moment.shape[1])

    @property
    def noise_size(self) -> float:
        """See Objective; the mean square."""
        return self.energy / self.observations

    def __call__(self, kernel: Kernel, noise: float | np.ndarray) -> Value:
        """See Objective; for an affine kernel."""
        amounts = cast(Affine, kernel).amounts
        point = _Weights(self, amounts, float(np.ravel(noise)[0]))
        found = {"evidence": point.evidence, "loo": point.loo, "training_error": point.training_error}
        value, by_feature, by_noise = found[self.kind]()
        by_weight = np.bincount(self.parts, weights=by_feature, minlength=amounts.size)
        scale = 1.0 if self.kind == "loo" else self.observations
        return Value(value / scale, np.append(by_weight, by_noise) / scale, point.held_out)


class _Weights:
    """The quantities of the module's table for given weights, M standing for eqs. (6) and (7).

    Each objective returns its value, its derivatives by feature (r,) and by log noise.
    """

    def __init__(self, given: StatisticsObjective, amounts: np.ndarray, noise: float) -> None:
        n, q, J = given.count, given.moment.shape[1], given.signs
        root = np.sqrt(amounts)[given.parts]
        inner = root[:, None] * given.gram * root[None, :]
        self.M = inner + np.diag(noise * J)
        self.N, self.sign, self.log_det = _inverse(self.M)
        self.c = root[:, None] * given.moment
        self.w = self.N @ self.c
        self.v = self.N @ (J[:, None] * self.w)
        fitted = float((self.c * self.w).sum())
        alpha2 = (given.energy - 2.0 * fitted + float((self.w * (inner @ self.w)).sum())) / noise**2
        self.alpha2 = max(alpha2, 0.0)
        self.trace = (n - J.size + noise * float((self.N.diagonal() * J).sum())) / noise
        # Of an indefinite kernel it may have either sign: cross-validation needs its square.
        if not abs(self.trace) > 1e-12 * n / noise:
            raise NumericalError(
                "tr (K + σ²I)⁻¹ is zero for these weights of an indefinite kernel; use another noise"
            )
        self.quadratic = (given.energy - fitted) / noise
        self.n, self.q, self.J, self.noise = n, q, J, noise

    @property
    def held_out(self) -> float:
        """−½ log of the leave-one-out error with every leverage replaced by their mean."""
        return -0.5 * math.log(max(self.n * self.alpha2 / self.q / self.trace**2, 1e-300))

    def evidence(self) -> tuple[float, np.ndarray, float]:
        """Return the log evidence; defined where C is positive definite."""
        J, q, noise = self.J, self.q, self.noise
        # C is positive definite where M has as many positive eigenvalues as J (Haynsworth's inertia formula).
        positive = int((J > 0).sum())
        if self.sign * np.prod(J) <= 0 or (
            positive < J.size and int((np.linalg.eigvalsh(self.M) > 0).sum()) != positive
        ):
            raise NumericalError("the kernel matrix plus noise is not positive definite")
        log_det = (self.n - J.size) * math.log(noise) + self.log_det
        each = 0.5 * (J * (self.w**2).sum(axis=1) - q * (1.0 - noise * J * self.N.diagonal()))
        by_noise = 0.5 * noise * (self.alpha2 - q * self.trace)
        return log_density(self.quadratic, log_det, self.n, q), each, by_noise

    def loo(self) -> tuple[float, np.ndarray, float]:
        """Return the score of generalised cross-validation, −½ log(n‖α‖²/(q tr²))."""
        J, N, noise, alpha2 = self.J, self.N, self.noise, max(self.alpha2, 1e-300)
        E = np.diag(J) - noise * (J[:, None] * N * J[None, :])
        by_alpha2 = -2.0 * J * (self.v * self.w).sum(axis=1)
        by_trace = -((J[:, None] * N) * E.T).sum(axis=1) * J
        each = -0.5 * by_alpha2 / alpha2 + by_trace / self.trace
        NJ = N * J[None, :]
        trace2 = (self.n - J.size + noise**2 * float((NJ * NJ.T).sum())) / noise**2
        moved = self.alpha2 - float((self.w * (J[:, None] * self.v)).sum())
        return self.held_out, each, moved / alpha2 - noise * trace2 / self.trace

    def training_error(self) -> tuple[float, np.ndarray, float]:
        """Return −½ of the squared residuals; by noise zero, because it decreases monotonically with it."""
        each = self.noise**2 * self.J * (self.v * self.w).sum(axis=1)
        return -0.5 * self.noise**2 * self.alpha2, each, 0.0


def _inverse(M: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Return M⁻¹ and the sign and logarithm of det M, by one LU factorisation."""
    lu, swaps, info = scipy.linalg.lapack.dgetrf(M)
    if info == 0:
        inverse, info = scipy.linalg.lapack.dgetri(lu, swaps)
    if info != 0 or not np.isfinite(inverse).all():
        raise NumericalError("the weights make the kernel matrix singular")
    pivots = lu.diagonal()
    odd = int((swaps != np.arange(swaps.size)).sum()) % 2
    sign = float(np.prod(np.sign(pivots))) * (-1.0 if odd else 1.0)
    return inverse, sign, float(np.log(np.abs(pivots)).sum())
