"""Mixture: the statistics of Σᵢ aᵢKᵢ for all weights a at once, and what weights are worth, with gradients.

With unit features Φ = [Φ₁, Φ₂, …], Kᵢ ≈ ΦᵢJᵢΦᵢᵀ, D² = diag(a) spread over the features, and C = ΦD²JΦᵀ + σ²I
the covariance of the targets, everything follows from M = DAD + σ²J, N = M⁻¹, w = NDc and v = NJw, O(r³):

====================  =====================================================================
α = C⁻¹y              DΦᵀα = Jw, DΦᵀC⁻¹α = Jv, ‖α‖² = (s − 2cᵀDw + wᵀDADw)/σ⁴
tr C⁻¹                (n − r + σ² tr NJ)/σ²
tr C⁻²                (n − r + σ⁴ tr NJNJ)/σ⁴
aᵢ ∂(yᵀα)/∂aᵢ         −Σ Jw² over the features of part i
aᵢ ∂ log det C/∂aᵢ    Σ (1 − σ²JN) over the diagonal entries of part i
====================  =====================================================================

No row is touched, so an evaluation costs the same whatever n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ..errors import NumericalError


@dataclass(frozen=True)
class Worth:
    """What weights and noise are worth, an observation and an output: `value` is to be made large.

    Attributes
    ----------
    value : float
    gradient : (p + 1,)
        By the logarithms of the weights and of the noise.
    held_back : float
        −½ log of the leave-one-out error, every row's leverage replaced by their mean (generalised
        cross-validation): unlike the leverages themselves, it is known from the statistics.
    """

    value: float
    gradient: np.ndarray
    held_back: float


@dataclass(frozen=True)
class Mixture:
    """On the host, in double precision.

    Attributes
    ----------
    gram : (r, r), moment : (r, q), energy : float
        ΦᵀΦ, Φᵀy, and Σy² over rows and outputs, for weights of one.
    signs : (r,)
        The diagonal of J.
    parts : (r,)
        The number of the part that each feature belongs to.
    """

    gram: np.ndarray
    moment: np.ndarray
    energy: float
    count: float
    signs: np.ndarray
    parts: np.ndarray

    def worth(self, amounts: np.ndarray, noise: float, objective: str) -> Worth:
        """Evaluate "evidence", "loo" or "training_error" and its gradient; O(r³)."""
        n, q, J = self.count, self.moment.shape[1], self.signs
        root = np.sqrt(amounts)[self.parts]
        inner = root[:, None] * self.gram * root[None, :]
        M = inner + np.diag(noise * J)
        N, sign, log_det = _inverse(M)
        c = root[:, None] * self.moment
        w = N @ c
        v = N @ (J[:, None] * w)
        alpha2 = (self.energy - 2.0 * float((c * w).sum()) + float((w * (inner @ w)).sum())) / noise**2
        alpha2 = max(alpha2, 0.0)
        trace_nj = float((N.diagonal() * J).sum())
        trace = (n - J.size + noise * trace_nj) / noise
        if not trace > 0:
            raise NumericalError("the indefinite kernel leaves no degree of freedom")
        gcv = n * alpha2 / q / trace**2
        held_back = -0.5 * math.log(max(gcv, 1e-300))
        if objective == "evidence":
            # C is positive definite where M has as many positive eigenvalues as J (Haynsworth's inertia formula).
            positive = int((J > 0).sum())
            if sign * np.prod(J) <= 0 or (
                positive < J.size and int((np.linalg.eigvalsh(M) > 0).sum()) != positive
            ):
                raise NumericalError("the kernel matrix plus noise is not positive definite")
            fitted = float((c * w).sum())
            value = -0.5 * ((self.energy - fitted) / noise + q * ((n - J.size) * math.log(noise) + log_det))
            value -= 0.5 * q * n * math.log(2 * math.pi)
            each = 0.5 * (J * (w**2).sum(axis=1) - q * (1.0 - noise * J * N.diagonal()))
            by_noise = 0.5 * noise * (alpha2 - q * trace)
            scale = n * q
        elif objective == "loo":
            value, scale = held_back, 1.0
            E = np.diag(J) - noise * (J[:, None] * N * J[None, :])
            # −½ log(n‖α‖²/tr²): by ‖α‖² and by the trace.
            by_alpha2 = -2.0 * J * (v * w).sum(axis=1)
            by_trace = -((J[:, None] * N) * E.T).sum(axis=1) * J
            each = -0.5 * by_alpha2 / max(alpha2, 1e-300) + by_trace / trace
            NJ = N * J[None, :]
            trace2 = (n - J.size + noise**2 * float((NJ * NJ.T).sum())) / noise**2
            by_noise = (alpha2 - float((w * (J[:, None] * v)).sum())) / max(
                alpha2, 1e-300
            ) - noise * trace2 / trace
        else:
            value, scale = -0.5 * noise**2 * alpha2, n * q
            each = noise**2 * J * (v * w).sum(axis=1)
            by_noise = 0.0  # it would always ask for less noise
        by_amount = np.bincount(self.parts, weights=each, minlength=amounts.size)
        return Worth(value / scale, np.append(by_amount, by_noise) / scale, held_back)


def _inverse(M: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Give M⁻¹ and the sign and logarithm of det M, by one LU factorisation."""
    lu, swaps, info = scipy.linalg.lapack.dgetrf(M)
    if info == 0:
        inverse, info = scipy.linalg.lapack.dgetri(lu, swaps)
    if info != 0 or not np.isfinite(inverse).all():
        raise NumericalError("the weights make the kernel matrix singular")
    pivots = lu.diagonal()
    odd = int((swaps != np.arange(swaps.size)).sum()) % 2
    sign = float(np.prod(np.sign(pivots))) * (-1.0 if odd else 1.0)
    return inverse, sign, float(np.log(np.abs(pivots)).sum())
