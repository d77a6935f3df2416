"""Likelihoods of counts, whose expectation is exp f: Poisson, and negative binomial for counts that vary more."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import betainc, expit, gammaln, pdtr, xlogy

from ..errors import InputError
from .base import NODE_WEIGHTS, LogConcave, Observed, nodes_of

# exp of more than this leaves the range of numbers when squared.
HIGHEST = 300.0
# Integers are exact in float64 up to here.
LARGEST = 2.0**53
# The least and the greatest variance of f that is guessed before any tuning.
VARIANCES = (0.1, 4.0)
# Range of the dispersion: below, nearly all counts are zero; above, a Poisson distribution to a tenth of a percent.
DISPERSIONS = (1e-2, 1e3)


class Counts(LogConcave):
    """A distribution of whole numbers from 0, of expectation exp f."""

    def check(self, y: np.ndarray) -> None:
        """See Likelihood."""
        wrong = ~((y >= 0) & (y == np.floor(y)) & (y <= LARGEST))
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"y of row {at} is {y[at]:g}, which is no count; give whole numbers from 0, or use "
                "likelihood='gaussian'. The model is unchanged"
            )

    def begun(self, y: np.ndarray, weights: np.ndarray) -> tuple[Self, float, float]:
        """See Likelihood: by the moments of counts whose rates are log-normal."""
        total = float(weights.sum())
        mean = (float(weights @ y) + 0.5) / (total + 1.0)
        spread = float(weights @ (y - weights @ y / total) ** 2) / total
        more = max(spread - mean, 0.0) / mean**2
        variance = float(np.clip(np.log1p(more), *VARIANCES))
        return self.dispersed(more), float(np.log(mean)), variance

    def dispersed(self, more: float) -> Self:
        """Return the distribution for rows of which the variance exceeds Poisson's by `more` times the mean squared."""
        return self

    def observed(self, mean: np.ndarray, variance: np.ndarray) -> Observed:
        """See Likelihood: the moments of a log-normal rate, and the distribution's own variance."""
        rate = np.exp(np.minimum(mean + 0.5 * variance, HIGHEST))
        square = rate**2 * np.exp(np.minimum(variance, HIGHEST))
        return Observed(rate, rate + square - rate**2 + self.own_variance(square))

    def own_variance(self, square: np.ndarray) -> np.ndarray:
        """Return what the variance exceeds Poisson's by, for the expectation of the squared rate."""
        return np.zeros_like(square)

    @abstractmethod
    def below(self, count: np.ndarray, rate: np.ndarray) -> np.ndarray:
        """Return the probability of at most so many counts, for expectations of the same shape."""

    def quantile(self, probability: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """See Likelihood: the least count that at least this share of the distribution does not exceed.

        Found by bisection over whole numbers.
        """
        rates = np.exp(np.clip(nodes_of(mean, variance), -HIGHEST, HIGHEST))

        def enough(count: np.ndarray) -> np.ndarray:
            shares = self.below(np.broadcast_to(count[:, None], rates.shape), rates)
            return np.asarray(shares @ NODE_WEIGHTS >= probability)

        low, high = np.full(mean.shape, -1.0), np.ceil(rates @ NODE_WEIGHTS) + 1.0
        while (short := ~enough(high)).any() and float(high.max()) < LARGEST:
            low, high = np.where(short, high, low), np.where(short, 2.0 * high, high)
        while (open_ := high - low > 1.0).any():
            middle = np.floor(0.5 * (low + high))
            found = enough(middle)
            high, low = np.where(open_ & found, middle, high), np.where(open_ & ~found, middle, low)
        return np.asarray(high)


@dataclass(frozen=True)
class Poisson(Counts):
    """Counts whose variance is their expectation exp f."""

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """See LogConcave."""
        return np.asarray(y * f - np.exp(np.minimum(f, HIGHEST)) - gammaln(y + 1.0))

    def slopes(self, y: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See LogConcave."""
        rate = np.exp(np.minimum(f, HIGHEST))
        return y - rate, rate

    def below(self, count: np.ndarray, rate: np.ndarray) -> np.ndarray:
        """See Counts."""
        return np.where(count < 0, 0.0, pdtr(np.maximum(count, 0.0), rate))

    def draw(self, f: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        """See Likelihood."""
        return np.asarray(_poisson(np.exp(np.minimum(f, HIGHEST)), rng))


@dataclass(frozen=True)
class NegativeBinomial(Counts):
    """Counts of expectation μ = exp f and variance μ + μ²/dispersion: Poisson with a gamma-distributed rate."""

    dispersion: float = 1.0

    @property
    def parameters(self) -> np.ndarray:
        """See Likelihood."""
        return np.log([self.dispersion])

    @property
    def ranges(self) -> list[tuple[float, float]]:
        """See Likelihood."""
        return [(float(np.log(DISPERSIONS[0])), float(np.log(DISPERSIONS[1])))]

    def with_parameters(self, values: np.ndarray) -> Self:
        """See Likelihood."""
        return replace(self, dispersion=float(np.clip(np.exp(values[0]), *DISPERSIONS)))

    def dispersed(self, more: float) -> Self:
        """See Counts: half of it is taken for that of the rates, half for dispersion."""
        return self.with_parameters(-np.log([max(0.5 * more, 1.0 / DISPERSIONS[1])]))

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """See LogConcave."""
        k = self.dispersion
        constant = gammaln(y + k) - gammaln(k) - gammaln(y + 1.0) + xlogy(k, k)
        return np.asarray(constant + y * f - (y + k) * np.logaddexp(np.log(k), f))

    def slopes(self, y: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See LogConcave."""
        share, total = expit(f - np.log(self.dispersion)), y + self.dispersion
        return y - total * share, total * share * (1.0 - share)

    def own_variance(self, square: np.ndarray) -> np.ndarray:
        """See Counts."""
        return square / self.dispersion

    def below(self, count: np.ndarray, rate: np.ndarray) -> np.ndarray:
        """See Counts."""
        share = self.dispersion / (self.dispersion + rate)
        return np.where(count < 0, 0.0, betainc(self.dispersion, np.maximum(count, 0.0) + 1.0, share))

    def draw(self, f: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        """See Likelihood."""
        k, rate = self.dispersion, np.exp(np.minimum(f, HIGHEST))
        return np.asarray(_poisson(rate * rng.gamma(k, 1.0 / k, size=np.shape(f)), rng))


def _poisson(rate: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Return Poisson counts; of rates whose counts no integer holds, rounded normal ones."""
    large = rate > 1e15
    counts = rng.poisson(np.where(large, 0.0, rate)).astype(np.float64)
    return np.where(large, np.rint(rate + np.sqrt(rate) * rng.standard_normal(np.shape(rate))), counts)
