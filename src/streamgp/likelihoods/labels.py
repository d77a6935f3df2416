"""Bernoulli: a label of two, of probability 1/(1 + exp(−f)) to be the second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit

from ..errors import InputError
from .base import NODE_WEIGHTS, LogConcave, Observed, nodes_of

# Variance of f before a tuning: probabilities from 2 % to 98 % lie within two deviations.
VARIANCE = 4.0


@dataclass(frozen=True)
class Bernoulli(LogConcave):
    """Labels 0 and 1."""

    def check(self, y: np.ndarray) -> None:
        """See Likelihood."""
        wrong = (y != 0) & (y != 1)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise InputError(f"y of row {at} is {y[at]:g}; labels are 0 and 1. The model is unchanged")

    def begun(self, y: np.ndarray, weights: np.ndarray) -> tuple[Self, float, float]:
        """See Likelihood: the logit of the share of ones, with half a label of each more."""
        ones, total = float(weights @ y), float(weights.sum())
        return self, float(np.log((ones + 0.5) / (total - ones + 0.5))), VARIANCE

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """See LogConcave."""
        return np.asarray(-np.logaddexp(0.0, np.where(y > 0, -f, f)))

    def slopes(self, y: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See LogConcave."""
        share = expit(f)
        return y - share, share * (1.0 - share)

    def observed(self, mean: np.ndarray, variance: np.ndarray) -> Observed:
        """See Likelihood; the mean is the probability of a one."""
        share = expit(nodes_of(mean, variance)) @ NODE_WEIGHTS
        return Observed(share, share * (1.0 - share))

    def quantile(self, probability: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """See Likelihood."""
        return np.asarray((1.0 - self.observed(mean, variance).mean < probability), dtype=np.float64)

    def draw(self, f: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        """See Likelihood."""
        return np.asarray((rng.uniform(size=np.shape(f)) < expit(f)), dtype=np.float64)
