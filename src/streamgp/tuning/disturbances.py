"""Disturbances: noise that is alike for some rows, so that it is not taken for a function of the inputs.

What a plant's inputs do not explain lasts for hours. Under independent noise a sample of such a stream is explained
best by a function that bends wherever a disturbance came, with next to no noise. With the covariance K + σ²R,
R = (1 − w)I + w exp(−|i − j|/ℓ) of rows i and j of the stream, the evidence decides what is function and what lasts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from .families import natural_kernel
from .objectives import SampleObjective
from .several import SeveralOutputs

# Shares w of the noise that last, and lengths ℓ in rows: as close as evidence tells apart.
SHARES = (0.5, 0.9)
LENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0)
# A sample has to show so many lengths one after another.
SEEN = 10.0
# Correlations beyond so many lengths are left out.
FARTHEST = 5.0
# Noises to look at, as shares of the variance of the targets.
NOISES = (0.03, 0.1, 0.3, 1.0)


@dataclass(frozen=True)
class Disturbance:
    """The correlation (m, m) of the noise between the rows of a sample; w and ℓ."""

    correlation: np.ndarray
    share: float
    length: float

    @property
    def at_lags(self) -> tuple[float, ...]:
        """The autocorrelation at the lags 1, 2, …, as far as it matters."""
        lags = np.arange(1, math.ceil(FARTHEST * self.length) + 1)
        return tuple(float(v) for v in self.share * np.exp(-lags / self.length))


def likely_disturbance(
    objective: SampleObjective | SeveralOutputs, numbers: np.ndarray
) -> Disturbance | None:
    """Return the disturbance of most evidence under a natural kernel; None where independent noise has more.

    `numbers` (m,) are the places of the rows in the stream; the noise of each row stays as large as the objective has
    it. O(m³) for each that is looked at.
    """
    own = None if objective.disturbance is None else np.sqrt(objective.disturbance.diagonal())
    kernel = natural_kernel("matern32", objective.X, objective.noise_size)
    apart = np.abs(numbers[:, None] - numbers[None, :])
    found, most = None, objective.most_evidence(kernel, NOISES)
    for length in LENGTHS:
        if SEEN * length > apart.max():
            break
        fading = np.exp(-apart / length)
        for share in SHARES:
            correlation = share * fading
            np.fill_diagonal(correlation, 1.0)
            correlation = correlation if own is None else correlation * own[:, None] * own
            value = replace(objective, disturbance=correlation).most_evidence(kernel, NOISES)
            if value > most:
                found, most = Disturbance(correlation, share, length), value
    return found
