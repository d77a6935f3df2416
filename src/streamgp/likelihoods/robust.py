"""Student's t: noise with rare large errors, which are doubted instead of believed.

It is a mixture of normal distributions, N(y | f, s²/τ) with τ of the distribution gamma(ν/2, ν/2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from scipy.special import logsumexp, ndtr

from ..errors import InputError
from .base import Likelihood, Observed, Tilted

# Below two degrees of freedom there is no variance; above a hundred it is a normal distribution to 2 % of a density.
FREEDOMS = (2.1, 100.0)
# The scale, in units of the standardised targets.
SCALES = (1e-4, 10.0)
# Nodes of the mixture. They reach where less than 1e-9 of the variance is left out at two degrees of freedom, and where
# an error of 10,000 scales is explained at a hundred; their distance is 0.9 deviations of log τ at most, with which the
# trapezoidal rule has ten digits.
MIXTURE, FAR = 128, 14.0
BISECTIONS = 60


@dataclass(frozen=True)
class StudentT(Likelihood):
    """y = f + scale·t, t of Student's distribution with so many degrees of freedom."""

    freedom: float = 4.0
    scale: float = 0.3

    variational: ClassVar[bool] = True

    @cached_property
    def _mixture(self) -> tuple[np.ndarray, np.ndarray]:
        """Log weights and variances (k,) of the normal distributions."""
        half = 0.5 * self.freedom
        highest = np.log1p(12.0 / np.sqrt(half) + 40.0 / half)
        logs = np.linspace(-max(45.0 / half, FAR), highest, MIXTURE)
        weights = half * (logs - np.exp(logs))
        return weights - logsumexp(weights), self.scale**2 * np.exp(-logs)

    @property
    def parameters(self) -> np.ndarray:
        """See Likelihood."""
        return np.log([self.freedom, self.scale])

    @property
    def ranges(self) -> list[tuple[float, float]]:
        """See Likelihood."""
        return [(float(np.log(low)), float(np.log(high))) for low, high in (FREEDOMS, SCALES)]

    def with_parameters(self, values: np.ndarray) -> Self:
        """See Likelihood."""
        freedom, scale = np.exp(values)
        return replace(self, freedom=float(np.clip(freedom, *FREEDOMS)), scale=float(np.clip(scale, *SCALES)))

    def check(self, y: np.ndarray) -> None:
        """See Likelihood."""
        if not np.isfinite(y).all():
            raise InputError("y contains NaN or infinity; drop or fill these rows. The model is unchanged.")

    def begun(self, y: np.ndarray, weights: np.ndarray) -> tuple[Self, float, float]:
        """See Likelihood; y is standardised, and its variance judged by quantiles, whatever the weights."""
        low, middle, high = np.quantile(y, [0.16, 0.5, 0.84])
        half = 0.5 * float(high - low)
        return self, float(middle), half**2 if half > 0 else 1.0

    def tilted(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Tilted:
        """See Likelihood: the exact moments of a mixture of normal distributions."""
        logs, noises = self._mixture
        total = variance[:, None] + noises
        error = (y - mean)[:, None]
        shares = logs - 0.5 * (np.log(2 * np.pi * total) + error**2 / total)
        log_z = logsumexp(shares, axis=1)
        shares = np.exp(shares - log_z[:, None])
        gain = variance[:, None] / total
        centers = gain * error
        center = (shares * centers).sum(axis=1)
        spread = (shares * (gain * noises + (centers - center[:, None]) ** 2)).sum(axis=1)
        return Tilted(log_z, mean + center, spread)

    def site(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See Likelihood; not by moments, of which an outlier has a greater variance than its cavity.

        The expected precision given the error and its variance, that of the variational mixture: never negative.
        `mean` and `variance` are those of f given all rows.
        """
        squared = (y - mean) ** 2 + variance
        weight = (self.freedom + 1.0) / (self.freedom * self.scale**2 + squared)
        return weight, weight * y

    def observed(self, mean: np.ndarray, variance: np.ndarray) -> Observed:
        """See Likelihood."""
        return Observed(mean, variance + self.scale**2 * self.freedom / (self.freedom - 2.0))

    def quantile(self, probability: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """See Likelihood: by bisection, in standard deviations."""
        logs, noises = self._mixture
        weights, deviations = np.exp(logs), np.sqrt(variance[:, None] + noises)
        reach = np.sqrt(self.observed(mean, variance).variance / min(probability, 1.0 - probability))
        low, high = -reach, reach.copy()  # Chebyshev's inequality
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            below = ndtr(middle[:, None] / deviations) @ weights < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return mean + 0.5 * (low + high)

    def draw(self, f: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        """See Likelihood."""
        return np.asarray(f + self.scale * rng.standard_t(self.freedom, size=np.shape(f)))
