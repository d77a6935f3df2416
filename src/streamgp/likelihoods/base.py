"""Likelihood: the density of an observation given the latent function, and what expectation propagation asks of it.

References: Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), chapter 3; Minka, Expectation
Propagation for approximate Bayesian inference (2001).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

# Nodes of Gauss-Hermite quadrature. About the mode of the product with a normal density, 32 give 1e-10 of a moment.
NODES, _LOG_WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_LOG_WEIGHTS = np.log(_LOG_WEIGHTS / np.sqrt(2 * np.pi))
NODE_WEIGHTS = np.exp(_LOG_WEIGHTS)
# Newton's steps to the mode, and its precision in units of the standard deviation there.
STEPS, PRECISION = 60, 1e-6
# No step is longer than this many deviations of the cavity: exp(f) leaves the range of numbers before it is corrected.
LONGEST = 3.0


class Tilted(NamedTuple):
    """Log normaliser, mean and variance of q(f) p(y | f), (n,) each, for a normal q: the moments that EP matches."""

    log_z: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


class Observed(NamedTuple):
    """Mean and variance of a new observation, (n,) each."""

    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class Likelihood(ABC):
    """The density p(y | f) of an observation y given the value f of the latent function, row by row.

    A subclass is a frozen dataclass whose fields are its parameters. `variational`: its `site` asks for f given all
    rows, not for the cavity.
    """

    variational: ClassVar[bool] = False

    @abstractmethod
    def check(self, y: np.ndarray) -> None:
        """Raise InputError where y (n,) holds a value that cannot be observed."""

    @abstractmethod
    def begun(self, y: np.ndarray, weights: np.ndarray) -> tuple[Self, float, float]:
        """Return the likelihood with parameters as the first y of weights (n,) tell; and level and variance of f."""

    @abstractmethod
    def tilted(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Tilted:
        """Return the moments of N(f | mean, variance) p(y | f); all (n,)."""

    @abstractmethod
    def observed(self, mean: np.ndarray, variance: np.ndarray) -> Observed:
        """Return mean and variance of a new observation where f has this mean and variance; all (n,)."""

    @abstractmethod
    def quantile(self, probability: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the quantile of a new observation where f has this mean and variance; all (n,)."""

    @abstractmethod
    def draw(self, f: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        """Return one observation for each value of f, any shape."""

    @property
    def parameters(self) -> np.ndarray:
        """The logarithms of the parameters that are learned, (p,)."""
        return np.empty(0)

    @property
    def ranges(self) -> list[tuple[float, float]]:
        """Between which logarithms each parameter lies."""
        return []

    def with_parameters(self, values: np.ndarray) -> Self:
        """Return the likelihood with other parameters, given as `parameters` are, within their range."""
        return self

    def site(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return weight w and weighted target wz, (n,) each, of the normal factor in f that stands for p(y | f).

        `mean` and `variance` are those of the cavity, the density of f without this row. Expectation propagation: the
        factor with which the cavity has the moments of the tilted density.
        """
        _, center, spread = self.tilted(y, mean, variance)
        weight = 1.0 / spread - 1.0 / variance
        return weight, center / spread - mean / variance


class LogConcave(Likelihood):
    """A likelihood whose log density in f is concave: moments by quadrature about the mode of the tilted density."""

    @abstractmethod
    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return log p(y | f), y and f of shapes that broadcast."""

    @abstractmethod
    def slopes(self, y: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first derivative of the log density by f, and minus the second, which is not negative."""

    def tilted(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Tilted:
        """See Likelihood."""
        mode, longest = mean.copy(), LONGEST * np.sqrt(variance)
        for _ in range(STEPS):
            slope, curvature = self.slopes(y, mode)
            precision = curvature + 1.0 / variance
            step = (slope - (mode - mean) / variance) / precision
            mode = mode + np.clip(step, -longest, longest)
            if (np.abs(step) * np.sqrt(precision)).max(initial=0.0) < PRECISION:
                break
        deviation = (self.slopes(y, mode)[1] + 1.0 / variance) ** -0.5
        f = mode[:, None] + deviation[:, None] * NODES
        away = (f - mean[:, None]) / np.sqrt(variance)[:, None]
        logs = self.log_density(y[:, None], f) + 0.5 * (NODES**2 - away**2) + _LOG_WEIGHTS
        top = logs.max(axis=1, keepdims=True)
        shares = np.exp(logs - top)
        total = shares.sum(axis=1)
        shares /= total[:, None]
        center = (shares * f).sum(axis=1)
        spread = (shares * (f - center[:, None]) ** 2).sum(axis=1)
        log_z = np.log(total * deviation / np.sqrt(variance)) + top[:, 0]
        # Of a concave log density it is smaller, but for rounding.
        return Tilted(log_z, center, np.minimum(spread, variance))


def nodes_of(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the nodes (n, k) of N(mean, variance), which have the weights NODE_WEIGHTS (k,)."""
    return np.asarray(mean[:, None] + np.sqrt(variance)[:, None] * NODES)
