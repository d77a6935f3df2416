"""SeveralOutputs: the log evidence of outputs that share a kernel, each with an amplitude and a noise of its own.

Output j has the covariance vⱼ(K + ρⱼI). With K = VΛVᵀ, one eigendecomposition for all outputs, O(m³):

==============  ==========================================
ŷ = Vᵀy, δ      δᵢⱼ = 1/(λᵢ + ρⱼ)
vⱼ              Σᵢ δᵢⱼŷᵢⱼ²/m, the amplitude of most evidence
log evidence    −½ Σⱼ [m log vⱼ + Σᵢ log(λᵢ + ρⱼ) + m (1 + log 2π)]
by K            W = ½ [Σⱼ αⱼαⱼᵀ/vⱼ − V diag(Σⱼ δⱼ) Vᵀ],  αⱼ = V(δⱼ∘ŷⱼ)
by log ρⱼ       ½ρⱼ [‖αⱼ‖²/vⱼ − Σᵢ δᵢⱼ]
==============  ==========================================

An output's scale does not matter: a loud one does not decide. At 500 rows an evaluation costs 17 ms for the
eigendecomposition and 5 for the products, a Cholesky factor with its inverse 7 for each output (one core).

Reference: Rasmussen & Williams (2006), eqs. (5.8) to (5.12).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .._arrays import eigh, gram
from ..kernels import Kernel
from .objectives import Value

# The noise stays between these shares of an output's amplitude: the least noise under an amplitude a hundred times the
# targets', and an output that is all noise.
NOISE_OVER_AMPLITUDE = (1e-8, 1e4)
# Places where a search of the noise looks first: four a decade, as near as a gradient needs.
GRID = 49
# Eigendecompositions that are kept: those of the places where a search begins.
KEPT = 8


@dataclass(frozen=True)
class SeveralOutputs:
    """The objective "evidence" of the exact GP of a sample X (m, d), y (m, q), q ≥ 2; see the module.

    Outputs that do not vary in the sample say nothing: they have no part in it.

    Attributes
    ----------
    prior : float
        The mean of k(x, x), in which noises are measured.
    """

    X: np.ndarray
    y: np.ndarray
    prior: float
    _known: dict[bytes, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, compare=False)

    def _spectrum(self, kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
        """Return eigenvalues (m,) and eigenvectors (m, m) of the kernel matrix; the last few are kept."""
        key = kernel.theta.tobytes()
        if key not in self._known:
            if len(self._known) >= KEPT:
                self._known.clear()
            values, V = eigh(kernel.block(self.X), "the kernel matrix of the sample")
            self._known[key] = np.maximum(values, 0.0), V  # what is below zero is rounding
        return self._known[key]

    @property
    def observations(self) -> float:
        """See Objective."""
        return self.y.size

    @property
    def noise_size(self) -> float:
        """See Objective; that of the kernel, because every output is scaled to it."""
        return self.prior

    @cached_property
    def varying(self) -> np.ndarray:
        """Which outputs vary, (q,)."""
        return np.asarray(self.y.std(axis=0) > 1e-12 * np.sqrt((self.y**2).mean(axis=0)))

    def best_noises(self, kernel: Kernel, noise: np.ndarray) -> np.ndarray:
        """Return the noise of most evidence for each output (q,) on a grid; outputs that do not vary keep theirs.

        The evidence of an output has two optima where it may be all noise: a gradient finds the nearer one.
        """
        values, V = self._spectrum(kernel)
        turned, best = V.T @ self.y[:, self.varying], noise.copy()
        grid = self.prior * np.geomspace(*NOISE_OVER_AMPLITUDE, GRID)
        shifted = values[:, None] + grid[None, :]
        left = np.log((turned**2).T @ (1.0 / shifted))  # (q, grid)
        best[self.varying] = grid[np.argmin(len(self.X) * left + np.log(shifted).sum(axis=0), axis=1)]
        return best

    def __call__(self, kernel: Kernel, noise: float | np.ndarray) -> Value:
        """See Objective; `noise` (q,) is ρ."""
        m, here, noise = len(self.X), self.varying, np.asarray(noise)
        values, V = self._spectrum(kernel)
        shifted = values[:, None] + noise[None, here]
        turned = V.T @ self.y[:, here]
        delta, solved = 1.0 / shifted, turned / shifted
        amplitudes = (turned * solved).sum(axis=0) / m
        each = m * np.log(amplitudes) + np.log(shifted).sum(axis=0) + m * (1.0 + math.log(2 * math.pi))
        alpha = V @ (solved / np.sqrt(amplitudes))
        # V diag(d) Vᵀ as a product with its own transpose, of which half is computed.
        W = 0.5 * (alpha @ alpha.T - gram((V * np.sqrt(delta.sum(axis=1))).T))
        by_noise = np.zeros(here.size)
        by_noise[here] = 0.5 * noise[here] * ((alpha**2).sum(axis=0) - delta.sum(axis=0))
        gradient = np.concatenate([kernel.gradient(W, self.X), by_noise])
        # Eqs. (5.10) and (5.12), the diagonal of each inverse being that of vⱼ(K + ρⱼI).
        diagonal = (V * V) @ delta
        density = -0.5 * (alpha**2 / diagonal - np.log(diagonal / amplitudes) + math.log(2 * math.pi))
        every = np.ones(here.size)
        every[here] = amplitudes
        return Value(-0.5 * each.sum() / self.y.size, gradient / self.y.size, float(density.mean()), every)
